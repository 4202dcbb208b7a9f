"""The commands replay, machines, compare and export, and what the commands of all packages share."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
