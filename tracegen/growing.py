"""Snapshots that grow until they say the same: a replay whose interval is as narrow as time allows.

A kernel is traced at a few places of its launch, or as a whole where that is not longer. If places
differ, more places are traced; if it matters what groups before a snapshot have left in the caches,
longer snapshots are. This ends when snapshots agree (memsim.bounds.disagreement), or when the next step
would exceed the budget. What is open then is part of every interval.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from memsim.montecarlo import DEFAULT_BUDGET_S, REQUESTS_PER_S
from tracegen.options import TraceOptions
from tracegen.recording.snapshot import WAVES

if TYPE_CHECKING:
    from memsim import Replay
    from memsim.montecarlo import Grows
    from memsim.trace import Trace

PLACES, MOST_PLACES = 3, 12
GROWTH = 2
TRACED_GRANULES_PER_S = 3_000_000
"""By which a budget counts the time of tracing."""

TraceAt = Callable[[TraceOptions, int], "list[Trace]"]


@dataclass(frozen=True)
class Sampling:
    """Snapshots at `places` of a launch, each `waves` times as long as what the machine holds resident."""

    places: int = PLACES
    waves: int = WAVES

    def grown(self, replay: Replay, *, in_windows: bool) -> Sampling | None:
        """Larger snapshots where those of a replay do not agree; None where they do, or cannot grow.

        in_windows : whether they are windows of the run of groups. Their first half has warmed the caches with what the groups
            themselves read again; what only earlier groups have read stays open in longer ones, too (of products of 1024^2
            numbers 6.2 and 13.3 points, in windows twice as long 6.3 and 13.5)
        """
        # Only here: what reads a replay is imported while another process traces.
        from memsim.bounds import disagreement
        from memsim.statistics import PAST, PLACE

        off = disagreement(replay.dataset)
        if off[PAST] > 1 and off[PAST] >= off[PLACE] and not in_windows:
            return Sampling(self.places, GROWTH * self.waves)
        if off[PLACE] > 1 and self.places < MOST_PLACES:
            return Sampling(GROWTH * self.places, self.waves)
        return None


def replay_grown(
    trace_at: TraceAt,
    replay_all: Callable[[list[Trace], Grows], Replay],
    tracing: TraceOptions,
    budget_s: float | None = None,
) -> Replay:
    """Trace and replay a launch, with more and longer snapshots while they disagree.

    trace_at : (options, number of places) -> a trace of each place, or one of the whole launch
    replay_all : see the argument `grows` of memsim.replay
    budget_s : seconds that all steps together may take, as far as can be told beforehand; by default
        those of a replay
    """
    sampling = Sampling()
    left_s = DEFAULT_BUDGET_S if budget_s is None else budget_s
    traced = 0
    while True:
        traces = trace_at(tracing.replace(waves=sampling.waves, start=True), sampling.places)
        step = _Step(sampling, traces, traced, left_s)
        replay = replay_all(traces, step.grows)
        larger = step.larger(replay)
        if larger is None:
            return replay
        left_s -= step.cost_s(replay)
        sampling, traced = larger, step.granules


class _Step(NamedTuple):
    """sampling, traces : of this step;  traced : granules of the step before;  left_s : of the budget"""

    sampling: Sampling
    traces: list[Trace]
    traced: int
    left_s: float

    @property
    def granules(self) -> int:
        return sum(trace.n_granule for trace in self.traces)

    def cost_s(self, replay: Replay) -> float:
        replayed = replay.n_trials * self.granules / len(self.traces)
        return self.granules / TRACED_GRANULES_PER_S + replayed / REQUESTS_PER_S

    def grows(self, replay: Replay) -> bool:
        return self.larger(replay) is not None

    def larger(self, replay: Replay) -> Sampling | None:
        """The snapshots of the next step; None where there is none."""
        is_last = self.traces[0].whole or replay.attrs["interrupted"]
        is_as_long_as_allowed = self.granules <= self.traced
        cost_s = self.cost_s(replay)
        if is_last or is_as_long_as_allowed or self.left_s - cost_s < GROWTH * cost_s:
            return None
        return self.sampling.grown(replay, in_windows=self.traces[0].warming is not None)
