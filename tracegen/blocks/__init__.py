"""Counts of basic blocks of machine code, by running what decides where lanes go."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
