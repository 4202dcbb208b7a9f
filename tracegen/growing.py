"""Snapshots that grow until they say the same: a replay whose interval is as narrow as time allows.

A kernel is traced at a few places of its launch, or as a whole where that is not longer. If places
differ, more places are traced; if it matters what groups before a snapshot have left in the caches,
longer snapshots are. This ends when snapshots agree (memsim.bounds.disagreement), or when the next step
would exceed the budget. What is open then is part of every interval.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memsim.montecarlo import DEFAULT_BUDGET_S, REQUESTS_PER_S
from tracegen.options import TraceOptions
from tracegen.recording.snapshot import WAVES

if TYPE_CHECKING:
    from memsim import Replay
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
    replay_all: Callable[[list[Trace]], Replay],
    tracing: TraceOptions,
    budget_s: float | None = None,
) -> Replay:
    """Trace and replay a launch, with more and longer snapshots while they disagree.

    trace_at : (options, number of places) -> a trace of each place, or one of the whole launch
    budget_s : seconds that all steps together may take, as far as can be told beforehand; by default
        those of a replay
    """
    sampling = Sampling()
    left_s = DEFAULT_BUDGET_S if budget_s is None else budget_s
    traced = 0
    while True:
        traces = trace_at(tracing.replace(waves=sampling.waves, start=True), sampling.places)
        replay = replay_all(traces)
        granules = sum(trace.n_granule for trace in traces)
        replayed = replay.n_trials * granules / len(traces)
        cost_s = granules / TRACED_GRANULES_PER_S + replayed / REQUESTS_PER_S
        left_s -= cost_s
        larger = sampling.grown(replay, in_windows=traces[0].warming is not None)
        is_as_long_as_allowed = granules <= traced
        if (
            traces[0].whole
            or larger is None
            or replay.attrs["interrupted"]
            or is_as_long_as_allowed
            or left_s < GROWTH * cost_s
        ):
            return replay
        sampling, traced = larger, granules
