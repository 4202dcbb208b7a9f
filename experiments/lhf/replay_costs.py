"""Replays of kernels, and the costs of their accesses, from which times are predicted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calib.prediction import (
    AccessCosts,
    PerLoad,
    Program,
    Residents,
    access_costs,
    blocks_from_trace,
    residents,
)
from experiments.hardware.volumes import Snapshot, Traced
from memsim.machine import Machine
from memsim.montecarlo import replay, resident_groups


@dataclass(frozen=True, kw_only=True)
class ReplayedKernel:
    """Costs of the accesses of one kernel, its resident groups, and the program of its sub-groups."""

    costs: AccessCosts
    resident: Residents
    program: Program


def replay_costs(
    traced: Traced,
    machine: Machine,
    positions: Sequence[float],
    trials: int,
    snapshot: Snapshot,
    *,
    groups_per_core: int | None = None,
    deviation: bool | None = None,
    per_load: PerLoad = lambda _: (),
) -> ReplayedKernel:
    """Replay snapshots at several positions of the launch; trials are shared among the positions.

    trials : at least one is replayed for each position
    deviation : see memsim.ReplayOptions
    per_load : operations that use each loaded value, as calib.prediction.blocks_from_trace takes them
    """
    launch = traced(np.zeros(1, np.int64)).launch
    occupancy = resident_groups(machine, launch, groups_per_core=groups_per_core)
    wave = occupancy.groups_per_core * machine.n_cores
    waves = max(2, min(snapshot.waves, launch.n_groups // wave))
    traces = []
    for position in positions:
        start = int(max(launch.n_groups - waves * wave, 0) * position) // wave * wave
        ids = np.arange(start, min(start + waves * wave, launch.n_groups), dtype=np.int64)
        traces.append(traced(ids))
    result = replay(
        traces,
        machine,
        trials=max(trials, len(traces)),
        deviation=deviation,
        warmup_waves=min(snapshot.warmup, waves - 1),
        groups_per_core=groups_per_core,
        miss_kinds=False,
    )
    return ReplayedKernel(
        costs=access_costs(traces, result, machine),
        resident=residents(machine, launch, occupancy),
        program=blocks_from_trace(traces[0], per_load=per_load),
    )
