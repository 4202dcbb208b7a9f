"""Replay GPU memory traces through modelled caches, under random but valid orderings.

trace = memsim.read_trace("k.trace")
replay = memsim.replay(trace, "v100", trials=64, seed=1)
replay.table(); replay.to_html("k.html")
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memsim.errors import MemsimError
    from memsim.machine.file import load_machine, machine_names
    from memsim.machine.model import Machine
    from memsim.montecarlo.launch_by_launch import replay_launches
    from memsim.montecarlo.one_launch import replay
    from memsim.montecarlo.result import Replay
    from memsim.trace.file import read_launches, read_trace, write_trace
    from memsim.trace.launches import Launches
    from memsim.trace.model import Trace

__version__ = "0.1.0"

_HOMES = {
    "MemsimError": "memsim.errors",
    "Machine": "memsim.machine.model",
    "load_machine": "memsim.machine.file",
    "machine_names": "memsim.machine.file",
    "replay": "memsim.montecarlo.one_launch",
    "replay_launches": "memsim.montecarlo.launch_by_launch",
    "Launches": "memsim.trace.launches",
    "read_launches": "memsim.trace.file",
    "Replay": "memsim.montecarlo.result",
    "Trace": "memsim.trace.model",
    "read_trace": "memsim.trace.file",
    "write_trace": "memsim.trace.file",
}

__all__ = [
    "Launches",
    "Machine",
    "MemsimError",
    "Replay",
    "Trace",
    "__version__",
    "load_machine",
    "machine_names",
    "read_launches",
    "read_trace",
    "replay",
    "replay_launches",
    "write_trace",
]


def __getattr__(name: str) -> Any:
    # Loaded when asked for: numba and xarray take longer to import than help takes to print.
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'memsim' has no attribute '{name}'")
