"""UIPiCK: a tag-filtered collection of measurement kernels, all of them Loopy's.

KernelCollection(ALL_GENERATORS).generate_kernels(["matmul_sq", "prefetch:True", "n:256,512"])
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
