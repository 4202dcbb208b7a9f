"""OpenCL devices: which one traces are recorded on, and its buffers."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
