"""Trace the global memory accesses of Loopy kernels by running an instrumented copy on OpenCL.

`import tracegen` is cheap: loopy, pyopencl and numba are imported when first needed.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
