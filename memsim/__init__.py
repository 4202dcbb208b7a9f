"""Replay GPU memory traces through modelled caches, under random but valid orderings.

trace = memsim.read_trace("k.trace")
replay = memsim.replay(trace, "v100", trials=64, seed=1)
replay.table(); replay.to_html("k.html")
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
