"""The groups that the traces of a launch consist of, and how the launch's other groups differ from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from tracegen.options import TraceOptions
from tracegen.recording import snapshot, typical
from tracegen.recording.snapshot import Groups, Place


class Affordable(Protocol):
    """(groups, wave, part of the budgets) -> the first of the groups, as many as fit into it"""

    def __call__(self, groups: Groups, wave: int, part: float = 1.0) -> Groups: ...


class GroupChoice:
    """Which groups of a launch are traced. `mean_group` is what the choice found out about the others.

    grid : groups along each axis
    requests_of : see typical.RequestsOf
    """

    def __init__(
        self,
        grid: Sequence[int],
        options: TraceOptions,
        affordable: Affordable,
        requests_of: typical.RequestsOf,
    ) -> None:
        self.grid, self.n_groups = grid, math.prod(grid)
        self.options, self.affordable, self.requests_of = options, affordable, requests_of
        self.mean_group: typical.MeanGroup | None = None

    def of_length(self, length: int) -> list[Place]:
        """So many groups that are like the launch, found at a glance."""
        length = min(max(length, 1), self.n_groups)
        return [Place(self._typical(length, typical.SHORT_GLANCE))]

    def given(self, wave: int | None, n_snapshots: int) -> list[Place]:
        """Those that the options name, or all where the machine is not known."""
        groups = self.options.groups
        listed = snapshot.choose(self.grid, wave, groups, n_snapshots)
        if wave is not None and isinstance(groups, (int, np.integer)):
            self._look_at_others(len(listed[0]))
        return [Place(one) for one in listed]

    def within_budget(self, wave: int, n_snapshots: int) -> list[Place]:
        """The whole launch where that is no longer than all snapshots together, else the snapshots.

        Where these would be too short, the start, which stands for its own groups alone, is left out, and
        then all places but two. Where also two would be, there is one. Several are joined by the start of a
        layer of groups, beyond the budget.
        """
        n_groups, waves = self.n_groups, self.options.waves or snapshot.WAVES
        n_traces = n_snapshots + self.options.start
        if n_groups <= n_traces * waves * wave:
            part: float = min(n_traces, snapshot.MOST_TRACES)
            affordable = self.affordable(np.arange(n_groups, dtype=np.int64), wave, part)
            if n_traces == 1 or len(affordable) == n_groups:
                self._look_at_others(len(affordable))
                return [Place(affordable)]
        length = min(snapshot.in_whole_rows(self.grid, wave, waves * wave), n_groups)
        if n_traces > 1:
            self._look_at_others(length)
        choices, least = [(n_snapshots, False)], 0
        if self.options.start:
            choices = [(n_snapshots, True), (n_snapshots, False), (2, False)]
            least = min(snapshot.LEAST_WAVES * wave, length)
        for n_places, has_start in choices if length < n_groups else []:
            if (n := n_places + has_start) == 1:
                break
            firsts = snapshot.starts(self.grid, length, n_places) + [0] * has_start
            groups = [np.arange(first, first + length, dtype=np.int64) for first in firsts]
            part = min(snapshot.MOST_TRACES / n, 1)
            kept = [self._affordable_rows(one, wave, part) for one in groups]
            if (shortest := min(map(len, kept))) >= least:
                places = [Place(one) for one in kept[:n_places]]
                own = [Place(one, 1) for one in kept[n_places:]]
                return places + self._layer_start(shortest, wave, len(own)) + own
        part = min(n_traces, snapshot.MOST_TRACES)
        one = self._affordable_rows(self._typical(length), wave, part)
        return [Place(one if length < n_groups else self._typical(len(one)))]

    def _affordable_rows(self, groups: Groups, wave: int, part: float) -> Groups:
        """As `affordable`; where that is not all, whole rows of the grid are counted."""
        kept = self.affordable(groups, wave, part)
        if len(kept) == len(groups):
            return kept
        return kept[: snapshot.in_whole_rows(self.grid, wave, len(kept), at_most=True)]

    def _layer_start(self, length: int, wave: int, n_other: int) -> list[Place]:
        """A snapshot in which a layer of groups begins, where that matters; for all but `n_other` layers."""
        place = snapshot.layer_start(self.grid, length, wave) if self.options.start else None
        if place is None:
            return []
        return [Place(self.affordable(place.groups, wave), place.occurrences - n_other)]

    def _look_at_others(self, n_snapshot: int, short: int = typical.SHORT) -> None:
        """What the launch's mean group requests, for a snapshot of so many groups."""
        if n_snapshot < self.n_groups:
            self.mean_group = typical.mean_group(self.grid, n_snapshot, self.requests_of, short)

    def _typical(self, length: int, short: int = typical.SHORT) -> Groups:
        """Consecutive groups that are like the launch, from amid it where these are."""
        self._look_at_others(length, short)
        grid, mean = self.grid, self.mean_group
        start = snapshot.amid(grid, length)
        if length >= short and mean is not None:
            starts = [start, *snapshot.starts(grid, length, typical.WINDOWS - 1)]
            start = typical.typical_start(starts, length, mean.requests, self.requests_of)
        return np.arange(start, start + length, dtype=np.int64)

    def launch_work(self, n_requests: int, n_groups: int) -> dict[str, Any]:
        """The launch's mean group beside traced ones, for a Trace."""
        mean, traced = self.mean_group, n_requests / n_groups
        if n_groups == self.n_groups or mean is None or not traced or not mean.requests:
            return {}
        return {
            "launch_work": mean.requests / traced,
            "launch_work_error": mean.half_width / traced,
        }
