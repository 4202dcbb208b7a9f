"""Feature values of kernels: counted, simulated or timed, gathered into tables.

`context` has the options, `gather` evaluates features and fills a `table` for many kernels, and
`simulated` derives features from replays.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
