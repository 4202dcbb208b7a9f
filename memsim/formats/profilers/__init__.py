"""Counters that Nsight Compute or rocprof measured, read from their CSV files."""
