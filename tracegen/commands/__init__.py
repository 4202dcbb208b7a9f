"""The commands trace, profile, compile and doctor, and what commands that trace kernels share."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
