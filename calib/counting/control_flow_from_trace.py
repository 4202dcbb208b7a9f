"""Complete traces of every launch, and the data-dependent control flow that they show.

By default the tracer leaves out accesses that a compiler would remove (`reduced`: an element read
twice in one statement). Complete traces contain them, because they are in the kernel's text.

A loop bounded by memory is measured through an access that runs once per trip: the number of times
it was traced, divided by the number for a single trip each, is the average number of trips, by
lanes and by sub-groups. A condition is measured in the same manner, through an access under it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import tracegen
from calib.counting.feature_counts import KernelCounts, kernel_counts
from calib.counting.inventory import AccessRecord, DomainRecord
from calib.counting.kernel_arguments import sizes_of, workload_of
from calib.counting.options import SUBGROUP_SIZE, Share, Trips
from memsim.errors import KernelError
from memsim.montecarlo import site_totals
from memsim.trace import AccessSite, Trace

Key = tuple[str, str, str, str]
"""Instruction, array, direction, and the access's tag or text."""


@dataclass(frozen=True)
class Traced:
    """Whole traces of every launch of a kernel.

    lanes, subgroups : accesses of each text, by lanes and by sub-groups, over all launches
    sizes : the integer arguments of the launch
    """

    traces: tuple[Trace, ...]
    lanes: Mapping[Key, int]
    subgroups: Mapping[Key, int]
    sizes: Mapping[str, int]
    subgroup_size: int


def trace_whole(
    kernel: Any, sizes: Mapping[str, int] | None, subgroup_size: int, context: Any
) -> Traced:
    """Traces a kernel at one size; a Workload's arguments determine it."""
    workload = workload_of(kernel, sizes or {})
    traces = tracegen.trace_launches(
        workload, subgroup_size=subgroup_size, reduced=False, context=context
    )
    lanes: dict[Key, int] = defaultdict(int)
    subgroups: dict[Key, int] = defaultdict(int)
    for trace in traces:
        totals = site_totals(trace)
        for k, site in enumerate(trace.sites):
            lanes[site_key(site)] += int(totals["site_lanes"][k])
            subgroups[site_key(site)] += int(totals["site_accesses"][k])
    bound = {**sizes_of(workload), **(sizes or {})}
    return Traced(tuple(traces), lanes, subgroups, bound, subgroup_size)


def access_key(access: AccessRecord) -> Key:
    name = access.tag or access.text
    return (access.instruction, access.array, access.direction, name)


def site_key(site: AccessSite) -> Key:
    """The key of a site's access: its name without direction and without the `#2` that
    distinguishes equal texts."""
    name = site.name
    if site.direction != "load":
        name = name.removeprefix(f"{site.direction} ")
    return (site.instruction, site.array, site.direction, re.sub(r" #\d+$", "", name))


Unknown = tuple[str, bool | None]
"""A loop's iname and None, or a condition's text and whether it holds."""
Pair = tuple[Fraction, Fraction]
"""Numbers by work-items and by sub-groups."""


def measure_control_flow(
    kernel: Any,
    sizes: Mapping[str, int] | None = None,
    *,
    subgroup_size: int = SUBGROUP_SIZE,
    context: Any = None,
) -> dict[str, Any]:
    """Measures the options trip_counts and taken of `calib.count` in a trace of the whole launch.

        count(kernel, feature, **measure_control_flow(kernel))

    Raises KernelError for a loop or a branch without any global access, which leaves nothing in a
    trace.
    """
    traced = trace_whole(kernel, sizes, subgroup_size, context)
    return {**control_flow(kernel_counts(kernel), traced), "subgroup_size": subgroup_size}


def control_flow(counts: KernelCounts, traced: Traced) -> dict[str, Any]:
    """The options trip_counts and taken, from complete traces of every launch."""
    inventory = counts.inventory
    like: dict[Key, list[AccessRecord]] = defaultdict(list)
    for access in inventory.accesses:
        if access.memory == "global":
            like[access_key(access)].append(access)
    known: dict[Unknown, Pair] = {}
    progress = True
    while progress:
        progress = False
        for key, members in like.items():
            measured = _measured(counts, traced, key, members, known)
            if measured is not None:
                known[measured[0]] = measured[1]
                progress = True
    for record in inventory.domains:
        for unknown in _unknowns(record):
            other = (unknown[0], None if unknown[1] is None else not unknown[1])
            if unknown not in known and (unknown[1] is None or other not in known):
                raise KernelError(
                    f"{inventory.name}: no separate global access shows how often {unknown[0]}"
                    f" {'runs' if unknown[1] is None else 'holds'}; specify it with"
                    f" {'trip_counts' if unknown[1] is None else 'taken'}="
                )
    trips = {name: Trips(*pair) for (name, holds), pair in known.items() if holds is None}
    conditions = {name for name, holds in known if holds is not None}
    return {"trip_counts": trips, "taken": {name: _share(name, known) for name in conditions}}


def _share(name: str, known: Mapping[Unknown, Pair]) -> Share:
    holds, fails = known.get((name, True)), known.get((name, False))
    if holds is None:
        assert fails is not None
        # Where it holds only operations are counted, and their lanes may be anywhere.
        return Share(1 - fails[0], 1 - fails[0] if fails[0] in (0, 1) else 1, fails[1])
    return Share(holds[0], holds[1], None if fails is None else fails[1])


def _measured(
    counts: KernelCounts,
    traced: Traced,
    key: Key,
    members: list[AccessRecord],
    known: Mapping[Unknown, Pair],
) -> tuple[Unknown, Pair] | None:
    """The single unknown of the accesses with one text and its value; None unless there is just
    one."""
    rest = [Fraction(traced.lanes[key]), Fraction(traced.subgroups[key])]
    base = [Fraction(0), Fraction(0)]
    unmeasured: Unknown | None = None
    for access in members:
        record = counts.inventory.domains[access.domain]
        open_ = [unknown for unknown in _unknowns(record) if unknown not in known]
        if len(open_) > 1 or (open_ and unmeasured not in (None, open_[0])):
            return None
        for k, unit in enumerate(("work-item", "sub-group")):
            value = counts.points_at(access.domain, unit, traced.subgroup_size, traced.sizes)  # type: ignore[arg-type]
            for unknown in _unknowns(record):
                if unknown in known:
                    value *= known[unknown][k]
            if open_:
                base[k] += value
            else:
                rest[k] -= value
        unmeasured = open_[0] if open_ else unmeasured
    if unmeasured is None:
        return None
    share = [r / b if b else Fraction(0) for r, b in zip(rest, base, strict=True)]
    return unmeasured, (share[0], share[1])


def _unknowns(record: DomainRecord) -> tuple[Unknown, ...]:
    return (*((name, None) for name in record.trips), *record.taken)
