"""Counts operations, memory accesses and barriers of a Loopy kernel, as formulas in its sizes.

`language` parses features, `scheduled` orders a kernel, `instruction_reader` reads its
instructions, `inventory` lists what can be counted, and `feature_counts` counts it. `trace_check`
compares counts with traces; `work_removal` strips kernels down to chosen accesses.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
