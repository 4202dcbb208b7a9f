"""Replays of affine kernels, and the costs of their accesses, from which times are predicted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import tracegen
from calib.prediction import AccessCosts, Residents, access_costs, residents
from experiments.hardware.affine import AffineKernel, affine_trace
from experiments.hardware.volumes import Snapshot
from memsim.machine import Machine
from memsim.montecarlo import replay, resident_groups
from memsim.trace import Trace
from tracegen.workloads import Workload


@dataclass(frozen=True, kw_only=True)
class ReplayedKernel:
    """Costs of the accesses of one kernel, its resident groups, and the trace of one snapshot."""

    costs: AccessCosts
    resident: Residents
    trace: Trace


def replay_costs(
    kernel: AffineKernel,
    machine: Machine,
    positions: Sequence[float],
    trials: int,
    snapshot: Snapshot,
    *,
    groups_per_core: int | None = None,
    deviation: bool | None = None,
    staggered: bool = False,
) -> ReplayedKernel:
    """Replay snapshots at several positions of the launch; trials are shared among the positions.

    trials : at least one is replayed for each position
    deviation, staggered : random starts; see experiments.hardware.volumes.volumes
    """
    return _replayed(
        lambda ids: affine_trace(kernel, ids, machine.subgroup_size),
        *(kernel.n_groups, machine, positions, trials, snapshot),
        groups_per_core=groups_per_core,
        deviation=deviation,
        staggered=staggered,
    )


def compiled_costs(
    workload: Workload,
    machine: Machine,
    positions: Sequence[float],
    trials: int,
    snapshot: Snapshot,
) -> ReplayedKernel:
    """The same of a kernel in the order of its machine code."""

    def traced(ids: npt.NDArray[np.int64]) -> Trace:
        return tracegen.trace(workload, machine, groups=ids.tolist())

    n_groups = traced(np.zeros(1, np.int64)).launch.n_groups
    return _replayed(traced, n_groups, machine, positions, trials, snapshot)


def _replayed(
    traced: Callable[[npt.NDArray[np.int64]], Trace],
    n_groups: int,
    machine: Machine,
    positions: Sequence[float],
    trials: int,
    snapshot: Snapshot,
    *,
    groups_per_core: int | None = None,
    deviation: bool | None = None,
    staggered: bool = False,
) -> ReplayedKernel:
    probe = traced(np.zeros(1, np.int64))
    occupancy = resident_groups(machine, probe.launch, groups_per_core=groups_per_core)
    wave = occupancy.groups_per_core * machine.n_cores
    waves = max(2, min(snapshot.waves, n_groups // wave))
    traces = []
    for position in positions:
        start = int(max(n_groups - waves * wave, 0) * position) // wave * wave
        ids = np.arange(start, min(start + waves * wave, n_groups), dtype=np.int64)
        traces.append(traced(ids))
    result = replay(
        traces,
        machine,
        trials=max(trials, len(traces)),
        deviation=deviation,
        staggered=staggered,
        warmup_waves=min(snapshot.warmup, waves - 1),
        groups_per_core=groups_per_core,
    )
    return ReplayedKernel(
        costs=access_costs(traces, result, machine),
        resident=residents(machine, probe.launch, occupancy),
        trace=traces[0],
    )
