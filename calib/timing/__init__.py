"""Measures the time of kernels on an OpenCL device: `trials` repeats launches, `launching` builds
them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
