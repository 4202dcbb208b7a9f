"""Counted features, calibrated and uncalibrated models of time, block counts, and their history.

`import calib` is cheap: what is heavy is imported when first needed.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
