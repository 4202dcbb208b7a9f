"""Counted features: the operations and accesses of a Loopy kernel as formulas in its sizes."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
