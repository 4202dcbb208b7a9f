"""Replays whose numbers go into a result: all of their trials, or an interrupt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import memsim
from memsim.machine import Machine
from memsim.montecarlo import Replay
from memsim.trace import Trace


def whole_replay(trace: Trace | Sequence[Trace], machine: Machine, **options: Any) -> Replay:
    """As `memsim.replay`; raises KeyboardInterrupt where that returns the trials before a Ctrl-C."""
    replay = memsim.replay(trace, machine, **options)
    if replay.dataset.attrs["interrupted"]:
        raise KeyboardInterrupt
    return replay
