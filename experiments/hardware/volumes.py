"""Bytes per update that a snapshot of a kernel moves at each level of a modelled machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from memsim.hierarchy import ACCESSES, HITS, PENDING, READ_GRANULES, WRITE_GRANULES
from memsim.machine import Machine
from memsim.montecarlo import Dispatch, Replay, make_plan, resident_groups, run_trial
from memsim.trace import GRANULE_BYTES, Trace

Triple = tuple[int, int, int]
Traced = Callable[[npt.NDArray[np.int64]], Trace]
"""Ids of groups, ascending -> their trace."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Consecutive groups of a launch. A wave is as many groups as are resident on the machine.

    waves : number of waves; the first `warmup` of them warm the caches and are not counted
    position : 0 is the beginning of the launch, 1 its end
    """

    waves: int = 24
    warmup: int = 16
    position: float = 0.5


@dataclass(frozen=True, kw_only=True)
class Volumes:
    """Bytes per update, between L1 and L2 and between L2 and memory; load hit ratios by level.

    l2_store : bytes written into the L2: the stores of the cores, and what is read from memory to
        complete partly written sectors. The V100's counter includes both
    partly_stored : bytes of the sectors that stores write in part, each store for itself
    """

    l2_load: float
    dram_load: float
    l2_store: float
    dram_store: float
    partly_stored: float
    load_hit_ratio: dict[str, float]


def volumes(
    traced: Traced,
    machine: Machine,
    snapshot: Snapshot,
    *,
    seeds: Sequence[int] = (0,),
    dispatch: Dispatch = "first_free",
) -> list[Volumes]:
    """Trace a snapshot and replay it in one random ordering for each seed. An update is the store of one
    work-item."""
    launch = traced(np.zeros(1, np.int64)).launch
    n_groups = launch.n_groups
    occupancy = resident_groups(machine, launch)
    wave = occupancy.groups_per_core * machine.n_cores
    waves = min(snapshot.waves, n_groups // wave)
    start = int((n_groups - waves * wave) * snapshot.position) // wave * wave
    warmup = min(snapshot.warmup, waves - 1)
    trace = traced(np.arange(start, start + waves * wave, dtype=np.int64))
    plan, _ = make_plan(trace, machine, warmup_waves=warmup, dispatch=dispatch)
    is_store = np.array([site.direction == "store" for site in trace.sites])
    subgroups = np.repeat(plan.counted(), np.diff(plan.requests.first_subgroup))
    accesses = np.repeat(subgroups, np.diff(trace.subgroup_offset))
    updates = int(trace.lanes[is_store[trace.site] & (accesses > 0)].sum(dtype=np.int64))
    n_partial = np.diff(np.append(plan.requests.first_partial, len(plan.requests.partial)))
    partly_stored = int(n_partial[subgroups > 0].sum())
    return [
        _volumes(run_trial(plan, seed, 0).counts, machine, is_store, updates, partly_stored)
        for seed in seeds
    ]


def _volumes(
    counts: npt.NDArray[np.int64],
    machine: Machine,
    is_store: npt.NDArray[np.bool_],
    updates: int,
    partly_stored: int,
) -> Volumes:
    """Of what a trial counts, (n_level, n_site, n_counter). partly_stored : sectors"""
    first_level, last_level = counts[0], counts[-1]
    per_update = GRANULE_BYTES / updates
    completed = counts[1][is_store, READ_GRANULES].sum()
    ratios = {}
    for level, counted in zip(machine.levels, counts, strict=True):
        loads = counted[~is_store].sum(axis=0)
        ratios[level.name] = float((loads[HITS] + loads[PENDING]) / max(loads[ACCESSES], 1))
    return Volumes(
        l2_load=float(first_level[:, READ_GRANULES].sum() * per_update),
        dram_load=float(last_level[:, READ_GRANULES].sum() * per_update),
        l2_store=float((first_level[:, WRITE_GRANULES].sum() + completed) * per_update),
        dram_store=float(last_level[:, WRITE_GRANULES].sum() * per_update),
        partly_stored=partly_stored * per_update,
        load_hit_ratio=ratios,
    )


def hit_ratio_errors(
    replays: Sequence[Volumes], *, l2_load: float, dram_load: float
) -> dict[str, float]:
    """Level -> error of the load hit ratio in points, for the machine's `model_error_points`.

    l2_load, dram_load : measured bytes per update; those that L1s load from L2, and what is read from memory

    Only volumes were measured. The measured hit ratio is what follows when the loads request as many bytes
    from a level as in our replays, and the level fetches the measured bytes from the next one.
    """
    ours = {
        q: float(np.mean([getattr(run, q) for run in replays])) for q in ("l2_load", "dram_load")
    }
    missed = {
        level: 1 - float(np.mean([r.load_hit_ratio[level] for r in replays]))
        for level in ("L1", "L2")
    }
    of_l2 = (dram_load / l2_load) / (ours["dram_load"] / ours["l2_load"])
    return {
        "L1": 100 * abs(missed["L1"] * (l2_load / ours["l2_load"] - 1)),
        # The misses of L2 are a share of the requests that L1s send.
        "L2": 100 * abs(missed["L2"] * (of_l2 - 1)),
    }


def bytes_per_update(replay: Replay, machine: Machine) -> dict[str, float]:
    """`l2_load`, `dram_load` and `dram_store` of a replay with default options, per stored element.

    Bytes between L1 and L2, and read from and written to memory, over the counted part of a snapshot,
    divided by the store's lanes in that part.
    """
    result = replay.dataset
    stores = result.isel(site=np.flatnonzero(result["direction"].values == "store"))
    first = machine.levels[0]
    granules = stores["accesses"].sel(level=first.name) * (first.sector_bytes / GRANULE_BYTES)
    updates = (granules / stores["site_sectors"] * stores["site_lanes"]).sum("site")
    moved = {
        "l2_load": result["read_bytes"].sel(level=first.name).sum("site"),
        "dram_load": result["dram_read_bytes"],
        "dram_store": result["dram_write_bytes"],
    }
    return {name: float((value / updates).mean()) for name, value in moved.items()}
