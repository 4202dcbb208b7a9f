"""Replay launches one after another; what the shared levels hold is carried over."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import numpy.typing as npt

from memsim.machine.file import load_machine
from memsim.machine.model import Machine
from memsim.montecarlo.one_launch import (
    attributes,
    check_numbers,
    dataset,
    options_used,
    warn_if_short,
)
from memsim.montecarlo.plan import Sampler
from memsim.montecarlo.result import Replay
from memsim.montecarlo.schedule import Dispatch
from memsim.montecarlo.sequence import (
    LaunchSequence,
    SequenceResult,
    SequenceWorkspace,
    load_sequence,
    make_sequence,
    run_sequence,
    save_sequence,
    sequence_misses,
)
from memsim.montecarlo.trial import TrialResult, miss_kinds, misses_of
from memsim.montecarlo.workers import Backend, Handling, Progress, Workers, trials_on
from memsim.trace.launches import Launches

SEQUENCES = Handling(save_sequence, load_sequence, SequenceWorkspace)


def replay_launches(
    launches: Launches,
    machine: Machine | str,
    *,
    trials: int = 64,
    seed: int = 0,
    jobs: int = 1,
    ci: float | None = None,
    sampler: Sampler = "wrr",
    dispatch: Dispatch | None = None,
    deviation: bool | None = None,
    random_bases: bool = False,
    groups_per_core: int | None = None,
    backend: Backend = "local",
    scheduler: str | None = None,
    scratch: Path | None = None,
    progress: Progress | None = None,
) -> tuple[Replay, ...]:
    """A Replay of each launch, in order; options as for memsim.replay.

    L2 and beyond keep what they hold from launch to launch; the first level begins each one empty.
    Dirty lines that an earlier launch left are in `dram_write_bytes` of the one that evicts them,
    and in no site of it.

    Ctrl-C returns the trials done so far, marked `interrupted`. Raises ReplayError where launches,
    machine and options do not fit.
    """
    check_numbers(trials=trials, jobs=jobs, seed=seed, ci=ci)
    machine = load_machine(machine) if isinstance(machine, str) else machine
    sequence, occupancies = make_sequence(
        launches,
        machine,
        sampler=sampler,
        dispatch=dispatch,
        deviation=deviation,
        random_bases=random_bases,
        groups_per_core=groups_per_core,
    )
    for trace, plan in zip(launches.launches, sequence.plans, strict=True):
        warn_if_short(trace, plan)
    kinds: npt.NDArray[np.int64] | None = None
    with Workers(
        [sequence],
        jobs=min(jobs, trials),
        backend=backend,
        scheduler=scheduler,
        scratch=scratch,
        handling=SEQUENCES,
    ) as workers:
        results, interrupted = trials_on(
            workers, seed=seed, trials=trials, ci=ci, progress=progress, task=run_sequence
        )
        try:
            if not interrupted:
                kinds = _miss_kinds(workers, seed, results[0])
        except KeyboardInterrupt:
            interrupted = True
    if kinds is None:
        kinds = np.zeros((3, *results[0].counts.shape[:2]), np.int64)
    replays = []
    for k, (trace, plan) in enumerate(zip(launches.launches, sequence.plans, strict=True)):
        about = attributes(
            [trace],
            plan,
            {**occupancies[k].to_json(), "over_feasible": []},
            seed=seed,
            options={**options_used(plan, trials, ci, 1), "launches_before": k},
            interrupted=interrupted,
        )
        own = [_own(sequence, k, result) for result in results]
        of_launch = kinds[:, :, sequence.sites(k)]
        replays.append(Replay(dataset([trace], plan, own, of_launch, about)))
    return tuple(replays)


def _own(sequence: LaunchSequence, launch: int, result: SequenceResult) -> TrialResult:
    one = result.launches[launch]
    sites = sequence.sites(launch)
    missed = one.missed_translations
    return dataclasses.replace(
        one,
        counts=one.counts[:, sites],
        missed_translations=None if missed is None else missed[sites],
    )


def _miss_kinds(workers: Workers, seed: int, actual: SequenceResult) -> npt.NDArray[np.int64]:
    """(3, n_level, n_site): cold, capacity and conflict misses of the first trial's ordering.

    A miss is cold where even a level without bounds, kept from launch to launch, would have it.
    """
    n_level = actual.counts.shape[0]
    tasks = [
        (0, (seed, actual.trial, k, kind))
        for k in range(n_level)
        for kind in ("unbounded", "associative")
    ]
    with workers.run(sequence_misses, tasks) as found:
        misses = np.array(list(found), np.int64).reshape(n_level, 2, -1)
    return miss_kinds(misses_of(actual.counts), misses[:, 0], misses[:, 1])
