"""How often each basic block of a kernel runs: by closed form where control is static, else learned.

`closed_form` and `static_control` make exact counts; `samples`, `network`, `regressions` and `learned` learn
the rest; `costs` and `beyond` make requests, busy cycles and times of them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
