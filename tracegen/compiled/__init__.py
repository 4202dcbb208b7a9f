"""Kernels compiled for a GPU by its vendor's compilers, with no GPU: their machine code, as data."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
