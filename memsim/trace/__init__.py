"""The trace of a launch: its data model, its file, and how addresses become granules."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
