"""A machine: its parameters, the rules they keep, and the TOML files that hold them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
