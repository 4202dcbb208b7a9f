"""Feature values of kernels: counted, simulated or timed, gathered into tables."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
