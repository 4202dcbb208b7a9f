"""Replays launches one after another: the shared levels keep their contents in between.

The first level begins every launch empty, as GPUs invalidate it. Lines that the host overwrites
completely between two launches are dropped from the caches: later loads fetch them again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from memsim.errors import ReplayError
from memsim.hierarchy.cache import Memory
from memsim.hierarchy.core_stage import discard
from memsim.hierarchy.requests import CHUNK_GRANULES, DenseTable, common_table
from memsim.hierarchy.rng import trial_sequence
from memsim.machine.file import load_machine
from memsim.machine.model import Machine
from memsim.machine.parts import Level
from memsim.montecarlo.besides import miss_calls, miss_kinds_of
from memsim.montecarlo.occupancy import Occupancy
from memsim.montecarlo.one_launch import (
    attributes,
    dataset,
    stopping_for,
    warn_if_short,
    workers_for,
)
from memsim.montecarlo.options import ReplayOptions
from memsim.montecarlo.plan import Plan, make_plan, shared_space
from memsim.montecarlo.result import Replay
from memsim.montecarlo.trial import (
    MissCache,
    Prepared,
    TrialResult,
    Workspace,
    misses_of,
    prepare,
    run_launch,
    with_miss_cache,
)
from memsim.montecarlo.workers import (
    Progress,
    counted,
    enough_trials,
)
from memsim.statistics import ONE_PLACE, PHASES
from memsim.trace.launches import Event, Launches
from memsim.trace.model import ArrayExtent


def replay_launches(
    launches: Launches,
    machine: Machine | str,
    options: ReplayOptions | None = None,
    *,
    progress: Progress | None = None,
    **changes: Any,
) -> tuple[Replay, ...]:
    """A Replay of each launch, in order; the arguments are those of memsim.replay.

    L2 and the levels below it keep their contents from launch to launch; the first level is empty
    when a launch begins. Where launches of several waves are whole, their groups are in step in every other
    trial, and soon evenly spread in the others. The write-back of a dirty line that an earlier launch left is counted in
    `dram_write_bytes` of the launch that evicts it, and in none of its sites.

    Ctrl-C returns the trials completed so far, marked `interrupted`. Raises ReplayError where
    launches, machine and options do not fit.
    """
    options = (options or ReplayOptions()).replace(**changes)
    machine = load_machine(machine)
    sequence, occupancies = make_sequence(launches, machine, options)
    for trace, plan in zip(launches.launches, sequence.plans, strict=True):
        warn_if_short(trace, plan)
    n_requests = sum(trace.n_granule for trace in launches.launches)
    most = options.most_trials(n_requests)
    others = miss_calls(sequence_misses, options.seed, len(machine.levels))
    phased = [
        options.deviation is None and trace.whole and plan.n_waves > 1
        for trace, plan in zip(launches.launches, sequence.plans, strict=True)
    ]
    sequences = [sequence, _spread(sequence, phased)] if any(phased) else [sequence]
    places = PHASES if any(phased) else ONE_PLACE
    stopping = stopping_for(options, machine, places, n_requests)
    with workers_for(sequences, options, n_requests, SequenceWorkspace) as workers:
        watch = counted(progress)
        made = enough_trials(workers, options.seed, most, stopping, watch, run_sequence, others)
    kinds = miss_kinds_of(made)
    replays, first_site = [], sequence.first_site
    for k, (trace, plan) in enumerate(zip(launches.launches, sequence.plans, strict=True)):
        about = attributes(
            [trace],
            plan,
            {**occupancies[k].to_json(), "over_feasible": [], "over_groups": []},
            orders={},
            options=options,
            used={
                "trials": most,
                "snapshots": 2 if phased[k] else 1,
                "phases": phased[k],
                "launches_before": k,
            },
            interrupted=made.interrupted,
        )
        of_launch = [result.launches[k] for result in made.trials]
        kinds_of_launch = kinds[:, :, first_site[k] : first_site[k + 1]]
        replays.append(Replay(dataset([trace], [plan], of_launch, kinds_of_launch, about)))
    return tuple(replays)


def _spread(sequence: LaunchSequence, phased: Sequence[bool]) -> LaunchSequence:
    """The sequence with the groups of some launches soon evenly spread, instead of in step."""
    plans = [
        plan.spread() if is_phased else plan
        for plan, is_phased in zip(sequence.plans, phased, strict=True)
    ]
    return dataclasses.replace(sequence, plans=tuple(plans))


CHUNK_BYTES = 32 * CHUNK_GRANULES


@dataclass(frozen=True)
class LaunchSequence:
    """Plans in order, which share addresses, and machines where their first levels are equal.

    written : for each launch (n, 2) int64, the ranges [first, last) of dense chunks that the host
        writes before it
    """

    plans: tuple[Plan, ...]
    written: tuple[npt.NDArray[np.int64], ...]

    @property
    def first_site(self) -> npt.NDArray[np.int64]:
        """(n_launches + 1,) where the sites of each launch begin among those of all."""
        return np.cumsum([0, *(plan.n_sites for plan in self.plans)])


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
    """Buffers that trials of one sequence reuse.

    of : the workspace of the launches with a first level, by `_first_level`; all share the rest
    """

    def __init__(self, sequence: LaunchSequence, memory: Memory | None = None) -> None:
        first, *others = sequence.plans
        shared = Workspace(first, memory, others=others)
        self.of = {_first_level(first): shared}
        for plan in others:
            if _first_level(plan) not in self.of:
                self.of[_first_level(plan)] = Workspace(plan, shared=shared)


def _first_level(plan: Plan) -> tuple[Level, ...]:
    """The first level of a plan's machine, the only one that launches can differ in; () without caches."""
    return plan.machine.levels[:1]


def make_sequence(
    launches: Launches,
    machine: Machine,
    options: ReplayOptions | None = None,
    **changes: Any,
) -> tuple[LaunchSequence, list[Occupancy]]:
    """Fit launches to a machine; see ReplayOptions.

    Raises ReplayError where a launch does not fit, and for warm.
    """
    options = (options or ReplayOptions()).replace(**changes)
    if options.warm:
        raise ReplayError("warm applies to one launch: here the earlier launches warm the L2")
    if options.weights is not None:
        raise ReplayError(
            "weights apply to one launch: they are given for each sub-group of its trace"
        )
    arrays = launches.arrays
    space = shared_space(common_table(launches.launches), tuple(arrays.values()))
    plans, occupancies, machines = [], [], dict[tuple[Level, ...], Machine]()
    for trace in launches.launches:
        plan, occupancy = make_plan(trace, machine, options, shared=space)
        same = machines.setdefault(_first_level(plan), plan.machine)
        plans.append(dataclasses.replace(plan, machine=same))
        occupancies.append(occupancy)
    written = [np.zeros((0, 2), np.int64)]
    written += [_written(events, arrays, space.dense) for events in launches.between]
    return LaunchSequence(tuple(plans), tuple(written)), occupancies


def _written(
    events: Sequence[Event], arrays: Mapping[str, ArrayExtent], dense: DenseTable
) -> npt.NDArray[np.int64]:
    ranges = []
    for event in events:
        base = arrays[event.array].base_bytes
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
    depth = None if level is None else level + 1
    on = _prepared(sequence, work, seed, trial, level, miss_cache)
    on[_first_level(sequence.plans[0])].clear()
    results = []
    for k, plan in enumerate(sequence.plans):
        prepared = on[_first_level(plan)]
        if k:
            prepared.begin_launch(plan, depth)
        for first, last in sequence.written[k]:
            for one, state in prepared.shared():
                per_chunk = CHUNK_GRANULES // one.geometry.granules_per_line
                discard(one.geometry, state, first * per_chunk, (last - first) * per_chunk)
        queues = work.of[_first_level(plan)].queues
        numbers = trial_sequence(seed, trial, k)
        results.append(run_launch(plan, queues, prepared, numbers, trial, depth))
    return SequenceResult(trial, tuple(results))


def _prepared(
    sequence: LaunchSequence,
    work: SequenceWorkspace,
    seed: int,
    trial: int,
    level: int | None,
    miss_cache: MissCache,
) -> dict[tuple[Level, ...], Prepared]:
    """What the launches with each first level replay on; they share the caches of the other levels."""
    change = None if level is None else with_miss_cache(level, miss_cache)
    plans = {_first_level(plan): plan for plan in sequence.plans}
    on = {key: prepare(plans[key], one, seed, trial, change) for key, one in work.of.items()}
    kept = next(iter(on.values())).caches[1:]
    return {key: one._replace(caches=[one.caches[0], *kept]) for key, one in on.items()}


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
