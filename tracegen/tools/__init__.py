"""Programs that are run: compilers, how they are found, and what is kept of their output."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
