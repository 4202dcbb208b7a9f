"""Helpers that several test modules share: kernels, traces, machines and child processes."""
