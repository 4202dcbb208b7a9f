"""How often basic blocks run: counted in executions, by polynomials that these determine, or learned from them.

`executions` runs sizes, and `exact` finds polynomials through their counts; `sampling` and `learned` learn what has
none; `costs` and `hit_ratio_trend` turn counts into costs, and `report` is what
`memsim blocks` shows.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
