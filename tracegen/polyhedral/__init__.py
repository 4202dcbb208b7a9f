"""A tracer that runs nothing: addresses of static accesses, straight from Loopy's schedule.

Loopy's linearised schedule fixes every loop's bounds, every predicate and every index map. Where
these are made of loop counters, group and work-item ids and integer arguments alone, nothing needs
to run: `lower.py` turns the schedule, as the code generator writes it, into a short program of
affine forms (`forms.py`, `code.py`), and `walk.py` walks it once for each sub-group, all lanes at
once. No OpenCL platform is needed. What an access asks for, which accesses are redundant and where
bulk sequences begin is decided by the tables that the instrumented tracer uses too, and the traces
of both are equal, array for array.
"""
