"""How much a trace executes, and how much its launch requests beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from memsim.trace.model import Trace

INSTRUCTIONS_AN_ACCESS = 8
NO_INSTRUCTIONS = re.compile(
    "conflict|wide|stalled|operands|passes|copies|integer_fma|tensor_.+|wgmma_.+"
)
"""Kinds of work that count passes of local memory's banks, cycles, copies beside their accesses, and what matrix instructions compute."""


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
