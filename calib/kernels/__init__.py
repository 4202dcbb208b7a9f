"""UIPiCK: a collection of Loopy measurement kernels, selected by tags (Stevens and Klöckner 2020).

KernelCollection(ALL_GENERATORS).generate_kernels(["matmul_sq", "prefetch:True", "n:256,512"])
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
