"""Launches: several traces in one address map, and the host's writes to its arrays between them; how much they execute."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from memsim.errors import TraceError
from memsim.trace.model import ArrayExtent, Trace


@dataclass(frozen=True, kw_only=True)
class Copy:
    """The first size_bytes of an array are copied from another array, or from the host's memory if
    source is None."""

    array: str
    size_bytes: int
    source: str | None = None


@dataclass(frozen=True, kw_only=True)
class Fill:
    """The first size_bytes of an array are filled with a constant."""

    array: str
    size_bytes: int


Event = Copy | Fill


@dataclass(frozen=True, kw_only=True)
class Launches:
    """Launches in order; the contents of the shared caches carry over from each to the next.

    launches : traces with the same sub-group size; arrays with the same name have the same extent
    between : (n_launches - 1,) the copies and fills between each launch and the next, in order
    """

    launches: tuple[Trace, ...]
    between: tuple[tuple[Event, ...], ...] = ()

    def __post_init__(self) -> None:
        if not self.launches:
            raise TraceError("launches must not be empty")
        if not self.between:
            object.__setattr__(self, "between", ((),) * (len(self.launches) - 1))
        if len(self.between) != len(self.launches) - 1:
            raise TraceError(
                f"between must have one entry fewer than there are launches"
                f" ({len(self.launches)}), got {len(self.between)}"
            )
        if len({trace.subgroup_size for trace in self.launches}) > 1:
            raise TraceError("subgroup_size must be the same in all launches")
        arrays = self.arrays
        for event in (event for events in self.between for event in events):
            for name in (event.array, event.source if isinstance(event, Copy) else None):
                if name is not None and name not in arrays:
                    raise TraceError(
                        f"a copy or fill must name an array of the launches, got {name}"
                    )
                if name is not None and not 0 <= event.size_bytes <= arrays[name].size_bytes:
                    raise TraceError(
                        f"size_bytes of a copy or fill must be between 0 and the"
                        f" {arrays[name].size_bytes} of array {name}, got {event.size_bytes}"
                    )

    @property
    def arrays(self) -> dict[str, ArrayExtent]:
        """Name -> extent, over all launches; raises TraceError if two launches disagree."""
        extents: dict[str, ArrayExtent] = {}
        for trace in self.launches:
            for extent in trace.arrays:
                known = extents.setdefault(extent.name, extent)
                if known != extent:
                    raise TraceError(
                        f"array {extent.name} must lie in one place in all launches,"
                        f" got {known.base_bytes} and {extent.base_bytes}"
                        f" ({known.size_bytes} and {extent.size_bytes} bytes)"
                    )
        return extents


INSTRUCTIONS_AN_ACCESS = 8
NO_INSTRUCTIONS = re.compile(
    "conflict|wide|stalled|operands|passes|copies|integer_fma|scalar_loads|idle_turns|tensor_.+|wgmma_.+|tcgen05.+"
)
"""Kinds of work that count passes of local memory's banks, cycles, instructions that have another kind, too, and what matrix instructions compute."""


def lane_instructions(trace: Trace) -> float:
    """The instructions of all lanes of a trace, which say how long it takes to record one; where no machine
    code is known, a few for each access."""
    if trace.work is None or trace.work_table is None:
        return float(INSTRUCTIONS_AN_ACCESS * trace.lanes.sum(dtype=np.int64)) + 1
    counted = [NO_INSTRUCTIONS.fullmatch(kind) is None for kind in trace.work_kinds]
    each = trace.work_table[:, counted].sum(axis=1)
    return float(each[trace.work].sum()) * trace.subgroup_size + 1


class LaunchWork(NamedTuple):
    """Requests of the launch's mean group over those of the mean traced one.

    error : half-width of the 95 % interval; None where it is unknown, and the groups are taken to be alike
    """

    of_traced: float
    error: float | None

    @property
    def half_width(self) -> float:
        """Uncertainty from assuming that untraced groups resemble traced ones: the whole difference between what they
        request, for they may be served differently, and its error."""
        return abs(self.of_traced - 1) + (self.error or 0.0)


def launch_work(traces: Sequence[Trace]) -> LaunchWork:
    """What all snapshots of a launch say together."""
    if traces[0].whole:
        return LaunchWork(1.0, 0.0)
    weights = np.array([max(trace.n_granule, 1) for trace in traces], np.float64)
    weights /= weights.sum()
    mean = float(weights @ np.array([trace.launch_work for trace in traces]))
    errors = [trace.launch_work_error for trace in traces]
    if any(error is None for error in errors):
        return LaunchWork(mean, None)
    return LaunchWork(mean, float(weights @ np.array(errors, np.float64)))
