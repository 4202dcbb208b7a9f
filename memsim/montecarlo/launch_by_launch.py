"""Replays launches one after another: the shared levels keep their contents in between."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from memsim.machine.file import load_machine
from memsim.machine.model import Machine
from memsim.montecarlo.besides import miss_calls, miss_kinds_of
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
    LaunchSequence,
    SequenceWorkspace,
    load_sequence,
    make_sequence,
    run_sequence,
    save_sequence,
    sequence_misses,
)
from memsim.montecarlo.workers import Handling, Progress, Stopping, counted, trials_and_more
from memsim.statistics import ONE_PLACE, PHASES
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
    when a launch begins. Where launches of several waves are whole, their groups are in step in every other
    trial, and soon evenly spread in the others. The write-back of a dirty line that an earlier launch left is counted in
    `dram_write_bytes` of the launch that evicts it, and in none of its sites.

    Ctrl-C returns the trials completed so far, marked `interrupted`. Raises ReplayError where
    launches, machine and options do not fit.
    """
    options = (options or ReplayOptions()).replace(**changes)
    machine = load_machine(machine) if isinstance(machine, str) else machine
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
    stopping = Stopping(
        options.half_width,
        PHASES if any(phased) else ONE_PLACE,
        model_errors(machine) if options.is_open_ended else None,
    )
    with workers_for(sequences, options, n_requests, SEQUENCES) as workers:
        made = trials_and_more(
            workers, options.seed, most, stopping, others, counted(progress), run_sequence
        )
    kinds = miss_kinds_of(made)
    replays, first_site = [], sequence.first_site
    for k, (trace, plan) in enumerate(zip(launches.launches, sequence.plans, strict=True)):
        about = attributes(
            [trace],
            plan,
            {**occupancies[k].to_json(), "over_feasible": [], "over_groups": []},
            orders={},
            options={
                **options_used(options, plan),
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
