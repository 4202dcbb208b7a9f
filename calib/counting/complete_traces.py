"""Complete traces of every launch of a kernel, which counts are compared with.

By default the tracer leaves out accesses that a compiler would remove (`reduced`: an element read
twice in one statement). Complete traces contain them, because they are in the kernel's text.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tracegen
from calib.counting.inventory import AccessRecord
from calib.counting.kernel_arguments import sizes_of, workload_of
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
