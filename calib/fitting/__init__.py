"""Models of time as expressions of features, and their calibration.

`expression` and `performance_model` define models, `model_file` and `models/` hold them as TOML,
`calibration` measures and fits (`fit`), `saved_model` stores the result, and `breakdown` explains a prediction.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
