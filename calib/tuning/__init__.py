"""Tuning: the configurations of a kernel, each predicted, the promising ones closely."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
