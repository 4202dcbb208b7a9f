"""A replay beside the counters that a vendor's profiler measured."""
