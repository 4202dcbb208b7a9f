"""Models of kernel time that come for free: every timed launch feeds a store, later questions read it.

After StarPU (Augonnet, Thibault and Namyst, HPPC 2009): a task is told by its kernel, its device and
a hash of its data's layout; what was measured for it is its prediction, and regressions over the
sizes serve where that very layout was never run. `import calib.history` is cheap: what is heavy is
imported when first needed.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
