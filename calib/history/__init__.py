"""Performance models from recorded launches: every timed launch feeds a store, which predicts later ones.

After StarPU (Augonnet, Thibault and Namyst, HPPC 2009): a task is identified by its kernel, its device
and a hash of its data's layout. The prediction for a task that has run is the mean of its times;
for other layouts it comes from regressions over the sizes.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
