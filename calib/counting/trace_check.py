"""Compares the counts of a kernel with complete traces of the same launches.

For each static access it compares the lanes (counted per work-item) and the sub-groups (counted per
sub-group) that execute it, then groups, launches and barriers (see `control_flow_from_trace.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from calib.counting.control_flow_from_trace import (
    Key,
    Traced,
    access_key,
    control_flow,
    trace_whole,
)
from calib.counting.feature_counts import KernelCounts, kernel_counts
from calib.counting.options import CountOptions
from memsim.errors import KernelError
from memsim.trace import BARRIER_SITE, Trace


@dataclass(frozen=True)
class Compared:
    """One static access: how often it was counted and traced, by lanes and by sub-groups."""

    access: str
    counted_lanes: Fraction
    traced_lanes: int
    counted_subgroups: Fraction
    traced_subgroups: int

    @property
    def equal(self) -> bool:
        lanes = self.counted_lanes == self.traced_lanes
        return lanes and self.counted_subgroups == self.traced_subgroups


class CountingError(KernelError):
    """The counts of a kernel differ from its trace."""


def counting_check(
    kernel: Any,
    sizes: Mapping[str, int] | None = None,
    *,
    context: Any = None,
    **options: Any,
) -> list[Compared]:
    """Compares counts with a trace of every launch; a difference raises CountingError.

    kernel : loopy.TranslationUnit, tracegen.Workload or measurement kernel
    sizes : integer parameters; by default the arguments of a Workload
    context : the pyopencl.Context to trace on
    options : see counting.CountOptions; trip counts and shares that are not given are measured
        in the same trace
    """
    chosen = CountOptions().replace(**options)
    counts = kernel_counts(kernel)
    traced = trace_whole(kernel, sizes, chosen.subgroup_size, context)
    if "trip_counts" not in options and "taken" not in options:
        chosen = chosen.replace(**control_flow(counts, traced))
    comparisons = compared(counts, traced, chosen)
    wrong = [each for each in comparisons if not each.equal]
    if wrong:
        lines = "; ".join(
            f"{each.access}: counted {each.counted_lanes} by lanes and {each.counted_subgroups} by"
            f" sub-groups, traced {each.traced_lanes} and {each.traced_subgroups}"
            for each in wrong[:4]
        )
        raise CountingError(
            f"kernel {counts.inventory.name}: {len(wrong)} of {len(comparisons)} counts differ from"
            f" the trace: {lines}"
        )
    return comparisons


def compared(counts: KernelCounts, traced: Traced, options: CountOptions) -> list[Compared]:
    """Counts and traces of one kernel by access, followed by groups, launches and barriers."""
    by_lanes: dict[Key, Fraction] = defaultdict(Fraction)
    by_subgroups: dict[Key, Fraction] = defaultdict(Fraction)
    for access in counts.inventory.accesses:
        if access.memory == "global":
            key = access_key(access)
            by_lanes[key] += counts.domain_count(access.domain, "work-item", options, traced.sizes)
            by_subgroups[key] += counts.domain_count(
                access.domain, "sub-group", options, traced.sizes
            )
    comparisons = [
        Compared(
            f"{key[2]} {key[3]} in {key[0]}",
            by_lanes[key],
            traced.lanes.get(key, 0),
            by_subgroups[key],
            traced.subgroups.get(key, 0),
        )
        for key in sorted(traced.lanes.keys() | by_lanes.keys())
    ]
    return [*comparisons, *_others(counts, traced, options)]


def _others(counts: KernelCounts, traced: Traced, options: CountOptions) -> list[Compared]:
    def beside(name: str, feature: str, seen: int) -> Compared:
        value = counts.count(feature, options).value(traced.sizes)
        return Compared(name, value, seen, value, seen)

    groups = sum(trace.launch.n_groups for trace in traced.traces)
    comparisons = [
        beside("work-groups", "f_thread_groups", groups),
        beside("launches", "f_sync_kernel_launch", len(traced.traces)),
    ]
    met = [barriers_met(trace) for trace in traced.traces]
    if all(
        len(each) <= 1 for each in met
    ):  # otherwise some groups execute more barriers than others
        number = sum(next(iter(each), 0) for each in met)
        comparisons.append(beside("barriers", "f_sync_barrier_local", number))
    return comparisons


def barriers_met(trace: Trace) -> set[int]:
    """Numbers of barriers that sub-groups execute; a single one if all execute equally many."""
    before = np.concatenate([[0], np.cumsum(trace.site == BARRIER_SITE)])
    return set(np.diff(before[trace.subgroup_offset]).tolist())
