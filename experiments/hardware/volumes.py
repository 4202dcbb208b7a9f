"""Bytes that a snapshot of a kernel moves at each level, per update, as a machine is modelled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from experiments.hardware.affine import AffineKernel, affine_trace
from memsim.hierarchy import ACCESSES, HITS, PENDING, READ_GRANULES, WRITE_GRANULES
from memsim.machine import Machine
from memsim.montecarlo import make_plan, resident_groups, run_trial
from memsim.trace import GRANULE_BYTES


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Consecutive groups of a launch: waves of what the machine holds at once.

    waves : of which the first `warmup` are not counted
    position : 0 is the launch's beginning, 1 its end
    """

    waves: int = 24
    warmup: int = 16
    position: float = 0.5


@dataclass(frozen=True, kw_only=True)
class Volumes:
    """Bytes per update, between L1 and L2 and between L2 and memory; load hit ratios by level.

    l2_store : sectors written in the L2: what cores store, and what is read to complete sectors that they
        wrote in part (V100's counter has about as many more than the cores sent as memory has)
    """

    l2_load: float
    dram_load: float
    l2_store: float
    dram_store: float
    load_hit_ratio: dict[str, float]


def volumes(
    kernel: AffineKernel,
    machine: Machine,
    snapshot: Snapshot,
    *,
    seed: int = 0,
    groups_per_core: int | None = None,
    staggered: bool = False,
) -> Volumes:
    """Replay one ordering of a snapshot; an update is a store of one work-item.

    staggered : starts are random, as every snapshot's. Where a core holds one group, as of the V100
        stencil, groups are then as far apart as on hardware, where each core begins its next one at a
        moment of its own. Where it holds several, one start for them all puts groups that run side by
        side up to a wave apart (on the MI250X fetched volume of kernel 5 is 105 % too high so); staggered
        they follow one another, as they came
    """
    n_groups = kernel.n_groups
    probe = affine_trace(kernel, np.zeros(1, np.int64), machine.subgroup_size)
    occupancy = resident_groups(machine, probe.launch, groups_per_core=groups_per_core)
    wave = occupancy.groups_per_core * machine.n_cores
    waves = min(snapshot.waves, n_groups // wave)
    start = int((n_groups - waves * wave) * snapshot.position) // wave * wave
    warmup = min(snapshot.warmup, waves - 1)
    trace = affine_trace(
        kernel, np.arange(start, start + waves * wave, dtype=np.int64), machine.subgroup_size
    )
    plan, _ = make_plan(
        trace,
        machine,
        warmup_waves=warmup,
        groups_per_core=groups_per_core,
        staggered=staggered,
    )
    result = run_trial(plan, seed, 0)
    is_store = np.array([access.direction == "store" for access in kernel.accesses])
    first = int(plan.requests.first_subgroup[warmup * wave])
    counted = slice(int(trace.subgroup_offset[first]), None)
    updates = int(trace.lanes[counted][is_store[trace.site[counted]]].sum(dtype=np.int64))
    first_level, last_level = result.counts[0], result.counts[-1]
    per_update = GRANULE_BYTES / updates
    completed = result.counts[1][is_store, READ_GRANULES].sum()
    ratios = {}
    for level, counts in zip(machine.levels, result.counts, strict=True):
        loads = counts[~is_store].sum(axis=0)
        ratios[level.name] = float((loads[HITS] + loads[PENDING]) / max(loads[ACCESSES], 1))
    return Volumes(
        l2_load=float(first_level[:, READ_GRANULES].sum() * per_update),
        dram_load=float(last_level[:, READ_GRANULES].sum() * per_update),
        l2_store=float((first_level[:, WRITE_GRANULES].sum() + completed) * per_update),
        dram_store=float(last_level[:, WRITE_GRANULES].sum() * per_update),
        load_hit_ratio=ratios,
    )
