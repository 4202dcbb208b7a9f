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
    from memsim.launch_replayer import replay_launches
    from memsim.launches import Launches
    from memsim.machine import Machine
    from memsim.machine_file import load_machine, machine_names
    from memsim.replayer import replay
    from memsim.result import Replay
    from memsim.trace import Trace
    from memsim.trace_file import read_launches, read_trace, write_trace

__version__ = "0.1.0"

_HOMES = {
    "MemsimError": "memsim.errors",
    "Machine": "memsim.machine",
    "load_machine": "memsim.machine_file",
    "machine_names": "memsim.machine_file",
    "replay": "memsim.replayer",
    "replay_launches": "memsim.launch_replayer",
    "Launches": "memsim.launches",
    "read_launches": "memsim.trace_file",
    "Replay": "memsim.result",
    "Trace": "memsim.trace",
    "read_trace": "memsim.trace_file",
    "write_trace": "memsim.trace_file",
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
