"""What would make a kernel faster: remedies that are tried in simulation, and ranked by predicted gain.

`remedies` is the table of what is tried for Loopy kernels, a file for each family; `variants` applies a
remedy and prints it; `trial` runs, compares and predicts; `search` spends a budget of time; `report` shows
the outcome. `transformations` are lines that users copy with the advice.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
