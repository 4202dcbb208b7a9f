"""What a person or another program reads of a replay: table, page, JSON, files, comparison."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
