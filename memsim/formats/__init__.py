"""Files of other tools: traces, configurations, counters. One file or folder a format."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
