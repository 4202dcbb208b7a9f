"""Replays launches one after another: the shared levels keep their contents in between."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from memsim.errors import WorkerDied
from memsim.machine.file import load_machine
from memsim.machine.model import Machine
from memsim.montecarlo.one_launch import (
    attributes,
    dataset,
    model_errors,
    options_used,
    warn_if_short,
    workers_for,
)
from memsim.montecarlo.options import ReplayOptions
from memsim.montecarlo.result import Replay
from memsim.montecarlo.sequence import (
    SequenceResult,
    SequenceWorkspace,
    load_sequence,
    make_sequence,
    run_sequence,
    save_sequence,
    sequence_misses,
)
from memsim.montecarlo.trial import miss_kinds, misses_of
from memsim.montecarlo.workers import Handling, Progress, Workers, trials_on
from memsim.trace.launches import Launches

SEQUENCES = Handling(save_sequence, load_sequence, SequenceWorkspace)


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
    when a launch begins. The write-back of a dirty line that an earlier launch left is counted in
    `dram_write_bytes` of the launch that evicts it, and in none of its sites.

    Ctrl-C returns the trials completed so far, marked `interrupted`. Raises ReplayError where
    launches, machine and options do not fit.
    """
    options = (options or ReplayOptions()).replace(**changes)
    machine = load_machine(machine) if isinstance(machine, str) else machine
    sequence, occupancies = make_sequence(launches, machine, options)
    for trace, plan in zip(launches.launches, sequence.plans, strict=True):
        warn_if_short(trace, plan)
    kinds: npt.NDArray[np.int64] | None = None
    n_requests = sum(trace.n_granule for trace in launches.launches)
    with workers_for([sequence], options, n_requests, SEQUENCES) as workers:
        results, interrupted = trials_on(
            workers,
            seed=options.seed,
            trials=options.most_trials(n_requests),
            ci=options.half_width,
            model_error=model_errors(machine) if options.is_open_ended else None,
            progress=progress,
            task=run_sequence,
        )
        try:
            if not interrupted:
                kinds = _miss_kinds(workers, options.seed, results[0])
        except (KeyboardInterrupt, WorkerDied):  # the trials are complete: they are kept
            interrupted = True
    if kinds is None:
        kinds = np.zeros((3, *results[0].counts.shape[:2]), np.int64)
    replays, first_site = [], sequence.first_site
    for k, (trace, plan) in enumerate(zip(launches.launches, sequence.plans, strict=True)):
        about = attributes(
            [trace],
            plan,
            {**occupancies[k].to_json(), "over_feasible": [], "over_groups": []},
            orders={},
            options={
                **options_used(options, plan),
                "trials": options.most_trials(n_requests),
                "snapshots": 1,
                "launches_before": k,
            },
            interrupted=interrupted,
        )
        of_launch = [result.launches[k] for result in results]
        kinds_of_launch = kinds[:, :, first_site[k] : first_site[k + 1]]
        replays.append(Replay(dataset([trace], plan, of_launch, kinds_of_launch, about)))
    return tuple(replays)


def _miss_kinds(workers: Workers, seed: int, actual: SequenceResult) -> npt.NDArray[np.int64]:
    """(3, n_level, n_site): cold, capacity and conflict misses of the first trial's ordering.

    A miss is cold if even an unbounded level that keeps its contents between launches would miss.
    """
    n_level, n_site = actual.counts.shape[:2]
    if not n_level:  # a machine without caches
        return np.zeros((3, 0, n_site), np.int64)
    tasks = [
        (0, (seed, actual.trial, k, kind))
        for k in range(n_level)
        for kind in ("unbounded", "associative")
    ]
    with workers.run(sequence_misses, tasks) as counted:
        misses = np.array(list(counted), np.int64).reshape(n_level, 2, -1)
    return miss_kinds(misses_of(actual.counts), misses[:, 0], misses[:, 1])
