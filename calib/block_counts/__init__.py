"""How often each basic block of a kernel runs: by closed form where control flow is static, else learned.

`closed_form` and `static_control` determine exact counts; `sampling`, `network`, `regressions` and
`learned` learn the rest. `costs`, `hit_ratio_trend` and `followed_time` derive requests, busy cycles and
times from them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
