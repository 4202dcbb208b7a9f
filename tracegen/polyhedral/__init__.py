"""The polyhedral tracer: addresses that follow from Loopy's schedule, without a run.

The schedule determines every loop bound, every predicate and every index. Where these depend only on
loop counters, group and work-item ids and integer arguments, nothing needs to run: `lower.py` turns
the generated code into a short program of integers (`code.py`), and `walk.py` walks it
once for each sub-group, all lanes together. No OpenCL platform is needed. The same tables as in the
instrumented tracer decide which accesses are redundant and where bulk sequences begin, and the traces
of both are equal, array for array.
"""
