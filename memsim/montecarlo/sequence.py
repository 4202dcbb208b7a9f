"""Launches one after another: the contents of the shared levels carry over from each to the next.

The first level begins every launch empty, as GPUs invalidate it. Lines that the host overwrites
completely between two launches are dropped from the caches: later loads fetch them again.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from memsim.errors import ReplayError
from memsim.hierarchy.cache import Cache
from memsim.hierarchy.core_stage import clear, discard
from memsim.hierarchy.requests import CHUNK_GRANULES, DenseTable, common_table
from memsim.machine.model import Machine
from memsim.montecarlo.occupancy import Occupancy
from memsim.montecarlo.options import ReplayOptions
from memsim.montecarlo.plan import Plan, SharedSpace, load_plan, make_plan, save_plan
from memsim.montecarlo.trial import (
    MissCache,
    TrialResult,
    Workspace,
    misses_of,
    run_trial,
    with_miss_cache,
)
from memsim.trace.launches import Event, Launches

CHUNK_BYTES = 32 * CHUNK_GRANULES


@dataclass(frozen=True)
class LaunchSequence:
    """Plans in order, which share addresses and rows of counts.

    written : for each launch (n, 2) int64, the ranges [first, last) of dense chunks that the host
        writes before it
    """

    plans: tuple[Plan, ...]
    written: tuple[npt.NDArray[np.int64], ...]

    def sites(self, launch: int) -> slice:
        """The rows of the counts that belong to a launch."""
        plan = self.plans[launch]
        is_last = launch + 1 == len(self.plans)
        end = plan.n_sites if is_last else self.plans[launch + 1].first_site
        return slice(plan.first_site, end)


@dataclass(frozen=True)
class SequenceResult:
    """The results of all launches in one ordering; the counts of each are of its own sites alone."""

    trial: int
    launches: tuple[TrialResult, ...]

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """(n_level, n_site, N_COUNTS) int64; every site of every launch has a row."""
        return np.concatenate([one.counts for one in self.launches], axis=1)


class SequenceWorkspace:
    """Buffers that trials of one sequence reuse."""

    def __init__(self, sequence: LaunchSequence) -> None:
        self.launches: list[Workspace] = []
        # The queues of the largest launch suffice for the others.
        size = [len(plan.requests.request) + len(plan.requests.partial) for plan in sequence.plans]
        largest = Workspace(sequence.plans[int(np.argmax(size))])
        for plan in sequence.plans:
            self.launches.append(Workspace(plan, largest))


def make_sequence(
    launches: Launches,
    machine: Machine,
    options: ReplayOptions | None = None,
    **changes: Any,
) -> tuple[LaunchSequence, list[Occupancy]]:
    """Fit launches to a machine; see ReplayOptions.

    Raises ReplayError where a launch does not fit, and for warm_l2.
    """
    options = (options or ReplayOptions()).replace(**changes)
    if options.warm_l2:
        raise ReplayError("warm_l2 applies to one launch: here the earlier launches warm the L2")
    if options.weights is not None:
        raise ReplayError(
            "weights apply to one launch: they are given for each sub-group of its trace"
        )
    dense = common_table(launches.launches)
    arrays = tuple(launches.arrays.values())
    n_sites = sum(len(trace.sites) for trace in launches.launches)
    plans, occupancies, first = [], [], 0
    for trace in launches.launches:
        shared = SharedSpace(dense=dense, arrays=arrays, n_sites=n_sites, first_site=first)
        plan, occupancy = make_plan(trace, machine, options, shared=shared)
        plans.append(plan)
        occupancies.append(occupancy)
        first += len(trace.sites)
    written = [np.zeros((0, 2), np.int64)]
    written += [_written(events, launches, dense) for events in launches.between]
    return LaunchSequence(tuple(plans), tuple(written)), occupancies


def _written(
    events: Sequence[Event], launches: Launches, dense: DenseTable
) -> npt.NDArray[np.int64]:
    ranges = []
    for event in events:
        base = launches.arrays[event.array].base_bytes
        # Only chunks that are written completely.
        first, last = -(-base // CHUNK_BYTES), (base + event.size_bytes) // CHUNK_BYTES
        ranges.append(np.searchsorted(dense.chunk, [first, max(first, last)]))
    return np.array(ranges, np.int64).reshape(-1, 2)


def run_sequence(
    sequence: LaunchSequence,
    workspace: SequenceWorkspace | None,
    seed: int,
    trial: int,
    *,
    level: int | None = None,
    miss_cache: MissCache = "unbounded",
) -> SequenceResult:
    """One ordering of every launch, in order; that of launch k depends on (seed, trial, k) alone.

    level : if given, only the levels down to this one are replayed, and it is a miss_cache
    """
    work = workspace or SequenceWorkspace(sequence)
    levels = work.launches[0].levels
    change = None if level is None else with_miss_cache(level, miss_cache)
    kept: list[Cache] = work.launches[0].caches
    if change is not None:
        levels = change(levels)
        kept = [one.empty_cache() for one in levels]
    for one, state in zip(levels[1:], kept[1:], strict=True):
        clear(one.geometry, state)
    results = []
    for k, plan in enumerate(sequence.plans):
        for first, last in sequence.written[k]:
            for one, state in zip(levels[1:], kept[1:], strict=True):
                per_chunk = CHUNK_GRANULES // one.geometry.granules_per_line
                discard(one.geometry, state, first * per_chunk, (last - first) * per_chunk)
        depth = None if level is None else level + 1
        result = run_trial(
            plan,
            seed,
            trial,
            workspace=work.launches[k],
            change=change,
            depth=depth,
            launch=k,
            kept=kept,
        )
        results.append(_of_sites(result, sequence.sites(k)))
    return SequenceResult(trial, tuple(results))


def _of_sites(result: TrialResult, sites: slice) -> TrialResult:
    """The counts of some sites: kept in full, those of n launches would take memory in n squared."""
    missed = result.missed_translations
    return dataclasses.replace(
        result,
        counts=result.counts[:, sites].copy(),
        missed_translations=None if missed is None else missed[sites].copy(),
    )


def sequence_misses(
    sequence: LaunchSequence,
    workspace: SequenceWorkspace,
    seed: int,
    trial: int,
    level: int,
    miss_cache: MissCache,
) -> npt.NDArray[np.int64]:
    """(n_site,) misses of a level if it is unbounded, or a fully associative LRU cache of its size."""
    result = run_sequence(sequence, workspace, seed, trial, level=level, miss_cache=miss_cache)
    return misses_of(result.counts[level])


def save_sequence(sequence: LaunchSequence, folder: Path) -> None:
    """Write a sequence as flat files into an existing folder."""
    for k, plan in enumerate(sequence.plans):
        (folder / str(k)).mkdir()
        save_plan(plan, folder / str(k))
    written = [ranges.tolist() for ranges in sequence.written]
    (folder / "sequence.json").write_text(json.dumps(written), encoding="utf-8")


def load_sequence(folder: Path) -> LaunchSequence:
    """The sequence of a folder that save_sequence has written; its arrays are memory maps."""
    written = json.loads((folder / "sequence.json").read_text(encoding="utf-8"))
    return LaunchSequence(
        tuple(load_plan(folder / str(k)) for k in range(len(written))),
        tuple(np.array(ranges, np.int64).reshape(-1, 2) for ranges in written),
    )
