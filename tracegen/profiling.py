"""A workload in, its replay out; apart from the functions that only trace, which need not import a replay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import memsim
from memsim import Replay, ReplayOptions
from memsim.machine import Machine
from memsim.montecarlo import Grows
from memsim.trace import Trace
from tracegen.growing import replay_grown
from tracegen.options import TraceOptions
from tracegen.tracer import traces_of
from tracegen.workloads.load import AnyWorkload


def profile(
    workload: AnyWorkload,
    machine: Machine | str,
    replaying: ReplayOptions | None = None,
    *,
    options: TraceOptions | None = None,
    context: Any = None,
    progress: Callable[[int, int], None] | None = None,
    **changes: Any,
) -> Replay:
    """Trace one launch of a workload and replay the trace, as `memsim profile` does.

    machine : or its name
    replaying, changes : a ReplayOptions, and keywords of it that differ
    Snapshots are traced at three places, and at more places, or longer ones, while their hit ratios differ
    and the budget of the replay lasts. With options.groups, there is one snapshot of these groups.
    """
    tracing, replaying = (
        options or TraceOptions(),
        (replaying or ReplayOptions()).replace(**changes),
    )

    def trace_at(chosen: TraceOptions, places: int) -> list[Trace]:
        return traces_of(workload, machine, chosen, context, places)[0]

    def replay_all(traces: list[Trace], grows: Grows | None = None) -> Replay:
        return memsim.replay(traces, machine, replaying, progress=progress, grows=grows)

    if tracing.groups is not None:
        return replay_all(trace_at(tracing, 1))
    budget_s = 0.0 if replaying.quick else replaying.budget
    return replay_grown(trace_at, replay_all, tracing, budget_s)
