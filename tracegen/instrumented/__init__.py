"""The instrumented tracer: Loopy kernels whose global accesses are probed."""
