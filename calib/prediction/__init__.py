"""The time of a kernel on a machine, without calibration: basic blocks, a replay and a time model.

`basic_blocks` (from the kernel or from a trace) are a sub-group's program; `costs` of the accesses in a replay and
`throughputs` of a machine give their cycles; `time_model` combines them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
