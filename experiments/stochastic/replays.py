"""Hit ratios over all launches of an application, counted as in Baghsorkhi et al. 2012."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import memsim
import tracegen
from memsim.errors import SnapshotWarning
from memsim.latency import hit_ratios
from memsim.machine import Machine
from memsim.montecarlo import Replay
from memsim.trace import Trace

Ratios = npt.NDArray[np.float64]

QUANTITIES: Mapping[str, tuple[str, str]] = {
    "L1 load": ("L1", "load"),
    "L2 load": ("L2", "load"),
    "L2 write": ("L2", "store"),
}
"""The three hit ratios of figures 5 and 6: level and direction."""

SEED = 2012


def traces_of(workloads: Sequence[Any], machine: Machine) -> list[Trace]:
    """A snapshot of every launch of every workload."""
    return [trace for workload in workloads for trace in tracegen.trace_launches(workload, machine)]


def replays_of(
    traces: Sequence[Trace], machine: Machine, trials: int, *, seed: int = SEED, **options: Any
) -> list[Replay]:
    """A replay of each launch, with empty caches at its beginning and independent orderings."""
    with warnings.catch_warnings():
        # Short snapshots are replayed here on purpose.
        warnings.simplefilter("ignore", SnapshotWarning)
        return [
            memsim.replay(
                trace,
                machine,
                trials=trials,
                seed=seed + k,
                **options,
            )
            for k, trace in enumerate(traces)
        ]


def ratios(replays: Sequence[Replay], level: str, direction: str) -> Ratios:
    """(n_trial,) hit ratio of one direction at one level, over all launches together.

    NaN if a trial has no such access.
    """
    sums: Any = 0
    for replay in replays:
        chosen = replay.dataset["direction"].values.astype(str) == direction
        sums = replay.dataset[["accesses", "hits", "pending"]].isel(site=chosen).sum("site") + sums
    return np.asarray(hit_ratios(sums).sel(level=level).values, np.float64)
