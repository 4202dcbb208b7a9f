"""The stochastic replay: one plan, many random orderings, and the result with its intervals."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
