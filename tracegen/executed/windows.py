"""Traces in windows of the run of a launch's groups; see tracegen.recording.windows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from memsim.machine import Machine
from memsim.montecarlo import enough_bytes
from memsim.progress import report
from memsim.statistics import MIN_TRIALS, student_t
from memsim.trace import Trace
from tracegen.executed.sites import Sites
from tracegen.executed.touched import touched
from tracegen.executed.work import executions_of, instruction_counts, segment_counts
from tracegen.execution import operations as o
from tracegen.execution.code import INSTRUCTION_BITS, Code
from tracegen.execution.recorded import Recorded
from tracegen.execution.run import EVERYTHING, Execution
from tracegen.machine_code.bound import BoundKernel
from tracegen.machine_code.sass_memory import COPIES
from tracegen.options import TraceOptions
from tracegen.recording import earlier, snapshot, windows
from tracegen.recording.earlier import Moved, Touched, TouchedGranules

REST = o.OPERATIONS["REST"].number
"""Stands where sub-groups wait at barriers in memory."""


class Runs(Protocol):
    """A launch whose groups can be run; see tracegen.executed.run."""

    bound: BoundKernel
    code: Code
    launch: Any
    options: TraceOptions
    machine: Machine | None
    sites: Sites
    n_subgroup: int

    @property
    def execution(self) -> Execution: ...

    def counted(self, groups: snapshot.Groups, *, by_barriers: bool) -> Recorded: ...

    def recorded(
        self, groups: snapshot.Groups, steps: npt.NDArray[np.int64], by_barriers: bool
    ) -> Recorded: ...

    def touched(
        self, groups: snapshot.Groups, steps: npt.NDArray[np.int64], by_barriers: bool
    ) -> Recorded: ...

    def places(self, n_groups: int) -> npt.NDArray[np.int64]: ...

    def trace_of(self, ids: snapshot.Groups, recorded: Recorded) -> Trace: ...


CHEAP_STEPS = 4096
"""Accesses of a launch's groups below which these are short: they are traced whole."""
IDLE = 0.01
"""Part of the longest run below which a group counts as idle."""
ENOUGH_ACCESSES = 20_000_000
"""Of the first sampled group, beyond which no others are run."""


def sampled_run(run: Runs) -> windows.Run | None:
    """What groups spread over the launch do; None where they are short, or may wait for others, or have sub-groups that wait
    for each other otherwise than at barriers of the group."""
    if waits_for_groups(run.execution.code):
        return None
    ids = snapshot.sample(run.launch.n_groups)
    for first in (ids[len(ids) // 2 :][:1], ids[:1], ids[-1:]):
        alone = run.counted(first, by_barriers=False)
        if alone.runs.sum() >= CHEAP_STEPS:
            break
    else:
        return None
    if alone.runs.sum() > ENOUGH_ACCESSES:
        ids = first
    barriers = run.counted(first, by_barriers=True).progress
    by_barriers = bool(barriers.min() >= windows.LEAST_BARRIERS)
    if not by_barriers and (run.execution.code.table[:, 0] == REST).any():
        return None  # where some copy and others compute, equal steps are no equal times
    accesses, longest, instructions = [], [], 0.0
    runs, segments = np.zeros(len(alone.runs)), np.zeros(len(alone.segment_count))
    for group in ids:
        one = run.counted(np.array([group]), by_barriers=by_barriers)
        accesses.append(int(one.runs.sum()))
        longest.append(int(one.progress.max(initial=0)))
        runs += one.runs / len(ids)
        segments += one.segment_count / len(ids)
        instructions += one.micro_operations * run.code.lanes / len(ids)
    # A launch may have more groups than work: those that do nothing have no run of which a window is a part.
    steps = float(np.mean([one for one in longest if one > IDLE * max(longest)]))
    probe = [max(int(steps * (k + 0.5) / len(ids)), 0) for k in range(len(ids))]
    seen = np.array([(at, at + windows.PROBE_STEPS) for at in probe], np.int64)
    recorded = run.recorded(ids, seen, by_barriers)
    n_steps = float((np.minimum(seen[:, 1], longest) - seen[:, 0]).clip(0).sum())
    return windows.Run(
        groups=ids,
        by_barriers=by_barriers,
        steps=steps,
        accesses=np.array(accesses, np.int64),
        runs=runs,
        segments=segments,
        granules=len(recorded.granule) / max(n_steps, 1.0),
        instructions=instructions,
        n_subgroup=run.n_subgroup,
    )


def waits_for_groups(code: Code, met: Set[int] | None = None) -> bool:
    """Whether what code does depends on a load in a loop that goes past the first level, as of a variable that is volatile. A loop
    of an atomic operation that is tried again waits for no other group.

    met : if given, the instructions that have met an array: others load local memory through generic pointers
    """
    op, x, y, z = code.columns("op", "x", "y", "z")
    loads = (op == o.OPERATIONS["LOAD"].number) & (x & o.SKIPPED == 0) & (x & o.BYPASS_L1 != 0)
    copies = z >> INSTRUCTION_BITS & 7 == COPIES
    loads &= ~copies & ~np.isin(x & 7, (o.LOCAL, o.PRIVATE))
    if met is not None:
        loads &= np.isin(z & (1 << INSTRUCTION_BITS) - 1, list(met))
    places = np.flatnonzero(loads)
    n_atomic = np.cumsum(op == o.OPERATIONS["ATOMIC"].number)
    back = np.flatnonzero(op == o.OPERATIONS["BRANCH"].number)
    back = back[(y[back] < back) & (n_atomic[y[back]] == n_atomic[back])]
    return any(((y[back] <= place) & (back > place)).any() for place in places)


def window_traces(run: Runs, wave: int, n_places: int) -> list[Trace] | None:
    """One trace a place; None where two waves of whole groups are within the budget."""
    sampled = sampled_run(run)
    n_groups = run.launch.n_groups
    if sampled is None:
        return None
    least = min(snapshot.FEWEST_WAVES * wave, n_groups)
    effort = (run.options.waves or snapshot.WAVES) / snapshot.WAVES
    part: float = snapshot.MOST_TRACES
    if least == n_groups:
        part = max(part, snapshot.WHOLE_LAUNCH * min(effort, 1.0))
    if len(snapshot.within_budget(np.arange(least), 0, sampled.cost, part)) == least:
        return None
    wanted = windows.GRANULES * effort
    wanted = min(wanted, snapshot.MOST_TRACES * snapshot.BUDGET_GRANULES / (n_places + 1))
    long = windows.length(sampled, min(wave, n_groups), wanted)
    listed = windows.windows(n_groups, wave, sampled.steps, long, n_places, sampled.trip)
    traces, sites, places = [], [], []
    kept: Kept = {}
    for k, chosen in enumerate(listed):
        report("tracing windows", k, len(listed))
        recorded = run.recorded(chosen.groups, chosen.steps, sampled.by_barriers)
        trace = run.trace_of(chosen.groups, recorded)
        if run.options.earlier and (before := touched_before(run, sampled, chosen, wave, kept)):
            trace = trace.replace(earlier=before.ranges, earlier_groups=before.n_groups)
        warming = windows.warming(
            trace.site,  # -1 for a barrier; what accesses nothing is recorded with its barriers
            trace.subgroup_offset,
            chosen.counted_from - chosen.begin,
            sampled.by_barriers,
            run.n_subgroup,
        )
        accesses = recorded.access[recorded.access >= 0]
        part = len(accesses) / (trace.n_groups * max(float(sampled.accesses.mean()), 1.0))
        trace = trace.replace(traced_part=min(max(part, 1e-12), 1.0))
        trace = _with_work(run, recorded, trace, sampled.segments * trace.n_groups)
        traces.append((trace, warming, chosen.share))
        sites.append(trace.site[trace.site >= 0])
        places.append(accesses // (len(run.execution.launch.regions) + 1))
    in_all = sum(trace.n_groups for trace, *_ in traces)
    weight, unseen = windows.weights(sites, places, sampled.runs, in_all, len(run.sites.sites))
    error = _error(sampled) + unseen
    seen_part = sum(trace.traced_part for trace, *_ in traces)
    note = (
        f"The run of a group is long: {len(traces)} windows of it were traced, together {100 * seen_part:.2g} % of it, each of"
        f" {len(listed[0].groups)} groups in step; intervals cover how far the windows differ."
    )
    if unseen:
        note += f" Accesses that no window has are {100 * unseen:.2g} % of all; the bytes of their misses are not known."
    return [
        trace.replace(
            whole=False,
            provenance=_with_note(trace.provenance, note),
            sites=run.sites.sites,
            warming=warming,
            site_weight=weight,
            own_share=share,
            launch_work=1.0,
            launch_work_error=error,
        )
        for trace, warming, share in traces
    ]


CHUNK_GRANULES = 1 << 22
"""Of a part of a run that is looked at, from a window backwards."""
Kept = dict[tuple[int, int, int], tuple[int, list[Moved], int]]
"""Parts of runs that were looked at: first group, groups, last step -> first step, what was touched, granules. Of a window they have
at most as many granules of 8 bytes as `earlier` looks at."""


def touched_before(
    run: Runs, sampled: windows.Run, chosen: windows.Window, wave: int, kept: Kept
) -> Touched | None:
    """What a window's groups touch before it begins, and before them those of earlier waves, from the latest steps backwards until it is
    as much as caches can hold; None where it takes too long to find out.

    kept : of other windows, for each part of a run is executed from the run's beginning; new parts come to it
    """
    assert run.machine is not None
    enough, found = enough_bytes(run.machine), TouchedGranules()
    groups, end, last = run.execution.with_clusters(chosen.groups), chosen.begin, chosen.begin
    first, looked_at, long = int(groups[0]), 0, chosen.end - chosen.begin
    each = sampled.granules * (1 if run.execution.movement is not None else len(groups))
    while True:
        while end > 0 and found.n_bytes < enough:
            whose = int(groups[0]), len(groups)
            if (*whose, last) not in kept:
                begin = end - max(min(long, int(CHUNK_GRANULES / max(each, 1e-9))), 1)
                begin = max(0, begin, *(at for *one, at in kept if (*one,) == whose and at < end))
                steps = np.tile(np.array([begin, last], np.int64), (len(groups), 1))
                recorded = run.touched(groups, steps, sampled.by_barriers)
                parts = touched(run.execution, groups, recorded, run.places(len(groups)))
                kept[*whose, last] = begin, parts, len(recorded.granule)
            begin, parts, granules = kept[*whose, last]
            before = found.n_bytes
            for moved in parts:
                found.add(moved)
            new = max(found.n_bytes - before, 1)
            long = max(int((end - begin) * (enough - found.n_bytes) / new), 1)
            looked_at += granules
            needed = each * min(long, begin) if found.n_bytes < enough else 0
            if looked_at + needed > earlier.BUDGET_GRANULES:
                return None
            end = last = begin
        if found.n_bytes >= enough or groups[0] == 0:
            return Touched(found.ranges, first - int(groups[0]))
        groups = np.arange(max(int(groups[0]) - wave, 0), int(groups[0]), dtype=np.int64)
        groups = run.execution.with_clusters(groups)
        end, last = max(int(sampled.steps), 1), EVERYTHING


def _with_note(provenance: Mapping[str, Any], note: str) -> dict[str, Any]:
    compiler = provenance["compiler"]
    return {**provenance, "compiler": {**compiler, "notes": [note, *compiler["notes"]]}}


def _with_work(
    run: Runs, recorded: Recorded, trace: Trace, segments: npt.NDArray[np.float64]
) -> Trace:
    """A trace whose instructions are its part of all that its groups execute, kind by kind. segments : executions of each, in all"""
    if trace.work is None or trace.work_table is None:
        return trace
    executions = executions_of(run.code, recorded)
    counts = instruction_counts(run.bound.code, recorded.local_counts, executions)
    wanted = segments @ segment_counts(run.code, counts) * trace.traced_part
    rows = np.bincount(trace.work, minlength=len(trace.work_table))
    found = rows @ trace.work_table
    scale = np.where(found > 0, wanted / np.where(found > 0, found, 1), 1.0)
    return trace.replace(work_table=trace.work_table * scale)


def _error(sampled: windows.Run) -> float:
    """Half-width of the 95 % interval of the accesses of a launch's group, as a part of their mean."""
    n = len(sampled.accesses)
    if n < MIN_TRIALS or not sampled.accesses.any():
        return 0.0
    deviation = float(sampled.accesses.std(ddof=1))
    return student_t(n) * deviation / math.sqrt(n) / float(sampled.accesses.mean())


def nothing(n: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Windows of n groups in which nothing is recorded."""
    return np.tile(np.array([EVERYTHING - 1, EVERYTHING], np.int64), (n, 1))
