"""Models of kernel time, which predict how long a replayed launch takes.

memsim contains none. A package that has one registers it as an entry point of the group GROUP: a function of
(traces, replay, machine) that returns the JSON object that memsim.report.launch_time describes, and raises MemsimError
where the machine or the kernel does not allow a prediction.
"""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Callable, Sequence
from typing import Any

from memsim.errors import MemsimError
from memsim.machine import Machine
from memsim.montecarlo import Replay
from memsim.report import keep_time
from memsim.trace import Trace

GROUP = "memsim.time"


@functools.cache
def models() -> tuple[Callable[..., Any], ...]:
    """The functions that are registered; the first call imports them."""
    return tuple(entry.load() for entry in importlib.metadata.entry_points(group=GROUP))


def with_time(replay: Replay, traces: Sequence[Trace], machine: Machine) -> Replay:
    """The replay with its predicted time, where a model is installed and applies to it.

    traces, machine : those of the replay; the machine of the result lacks what its L1 shares with local
        memory
    """
    if replay.attrs["interrupted"]:
        return replay
    for model in models():
        try:
            time = model(traces, replay, machine)
        except MemsimError:  # the machine lacks a throughput, or the program cannot be followed
            continue
        return Replay(keep_time(replay.dataset, time))
    return replay
