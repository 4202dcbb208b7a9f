"""What is replayed besides the trials, in the first trial's ordering: misses of other caches, which tell the
kinds of misses apart; other numbers of resident groups; other orders; and a few trials with other orderings of
the same pages."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from memsim.errors import WorkerDied
from memsim.machine.model import Machine
from memsim.montecarlo.occupancy import Occupancy
from memsim.montecarlo.options import ReplayOptions
from memsim.montecarlo.other_orders import (
    Order,
    counts_in_order,
    load_hit_ratios,
    other_orders,
)
from memsim.montecarlo.pages import page_calls, page_shares
from memsim.montecarlo.plan import Plan, changes_for_occupancy
from memsim.montecarlo.trial import MissCache, miss_kinds, misses_of, misses_with, run_trial
from memsim.montecarlo.workers import Call, Results, Task, Workers
from memsim.statistics import ONE_PLACE, Places
from memsim.trace.model import Trace

MAX_OCCUPANCIES = 4
TRIALS_PER_POINT, LEAST_TRIALS = 4, 8
"""From LEAST_TRIALS trials on, other occupancies than the known one are replayed too, using at most a quarter of
the time."""
MISS_CACHES: tuple[MissCache, ...] = ("unbounded", "associative")


def other_groups(
    occupancy: Occupancy, n_trials: int, available: int | None = None
) -> dict[str, list[int]]:
    """The numbers of groups per core that are replayed once besides the actual one.

    available : the groups that the launch has for each core; None for many

    over_feasible : some feasible ones, where unknown registers leave several
    over_groups : smaller ones, where the number is known and is a result of the resources, not of a launch
        with few groups
    """
    actual, feasible = occupancy.groups_per_core, occupancy.feasible
    if len(feasible) > 1:
        picks = np.linspace(0, len(feasible) - 1, MAX_OCCUPANCIES).round().astype(int)
        return {"over_feasible": sorted({feasible[i] for i in picks} - {actual})}
    n_points = min(MAX_OCCUPANCIES - 1, n_trials // TRIALS_PER_POINT)
    is_full = available is None or available >= actual
    if occupancy.limited_by == "given" or n_trials < LEAST_TRIALS or not is_full:
        return {}
    points = np.geomspace(1, actual, n_points + 1)[:-1].round().astype(int)
    return {"over_groups": sorted({int(point) for point in points} - {actual})}


def miss_calls(task: Task, seed: int, n_level: int) -> dict[Hashable, Call]:
    """Replays of the first trial in which one level is a cache that tells kinds of misses apart."""
    return {
        ("misses", k, kind): Call(task, 0, (seed, 0, k, kind))
        for k in range(n_level)
        for kind in MISS_CACHES
    }


def miss_kinds_of(made: Results) -> npt.NDArray[np.int64]:
    """(3, n_level, n_site) cold, capacity and conflict misses; 0 where an interrupt or an option left them out."""
    first = made.trials[0].counts
    keys = list(miss_calls(misses_with, 0, len(first)))
    if not keys or not all(key in made.others for key in keys):
        return np.zeros((3, *first.shape[:2]), np.int64)
    misses = np.array([made.others[key] for key in keys]).reshape(len(first), 2, -1)
    return miss_kinds(misses_of(first), misses[:, 0], misses[:, 1])


def _counts_with(
    plan: Plan, workspace: object, changes: dict[str, Any], seed: int
) -> npt.NDArray[np.int64]:
    return run_trial(dataclasses.replace(plan, **changes), seed, 0).counts


@dataclass(frozen=True)
class Besides:
    """The calls for a replay, and what their results say.

    machine : before any carve-out;  plan, trace : those of the first trial
    places : those that the trials replay in turn; other orders are replayed at each
    """

    trace: Trace
    machine: Machine
    plan: Plan
    occupancy: Occupancy
    options: ReplayOptions
    places: Places = ONE_PLACE

    def _other_groups(self, n_trials: int) -> dict[str, list[int]]:
        available = -(-self.trace.launch.n_groups // self.machine.n_cores)
        return other_groups(self.occupancy, n_trials, available)

    def _other_orders(self, n_trials: int) -> dict[str, Order]:
        is_inside = self.plan.ordering.deviation and not self.trace.whole
        is_inside = is_inside and self.trace.warming is None
        return other_orders(self.options, n_trials, self.places.n, is_inside=is_inside)

    def calls(self, n_trials: int) -> dict[Hashable, Call]:
        """The replays besides n_trials trials."""
        seed = self.options.seed
        n_level = len(self.machine.levels) if self.options.miss_kinds else 0
        calls = miss_calls(misses_with, seed, n_level)
        for groups in self._other_groups(n_trials).values():
            for n in groups:
                changes = changes_for_occupancy(self.plan, self.trace, self.machine, n)
                calls["groups", n] = Call(_counts_with, 0, (changes, seed))
        for name, order in self._other_orders(n_trials).items():
            for k in range(self.places.n):
                calls["order", name, k] = Call(counts_in_order, k, (order, seed, k))
        return calls | page_calls(self.machine, seed, n_trials, self.places.n)

    def complete(self, workers: Workers, made: Results) -> None:
        """Run what the number of trials calls for and is not done yet; an interrupt ends it."""
        if made.interrupted:
            return
        wanted = self.calls(len(made.trials))
        rest = {key: call for key, call in wanted.items() if key not in made.others}
        try:
            with workers.run_calls(rest.values()) as results:
                made.others.update(zip(rest, results, strict=True))
        except (KeyboardInterrupt, WorkerDied):  # the trials are complete: they are kept
            made.interrupted = True

    def at_other_groups(self, made: Results) -> dict[str, list[dict[str, Any]]]:
        """Load hit ratios at the actual and at other numbers of groups per core; none without others."""
        over: dict[str, list[dict[str, Any]]] = {"over_feasible": [], "over_groups": []}
        for name, groups in self._other_groups(len(made.trials)).items():
            counts = {n: made.others[key] for n in groups if (key := ("groups", n)) in made.others}
            if counts and len(counts) == len(groups):
                counts[self.plan.resident] = made.trials[0].counts
                over[name] = [
                    {
                        "groups_per_core": int(n),
                        "load_hit_ratio": load_hit_ratios([counts[n]], self.trace, self.machine),
                    }
                    for n in sorted(counts)
                ]
        return over

    def in_other_orders(self, made: Results) -> dict[str, dict[str, float | None]]:
        """Order -> level -> load hit ratio, None for a level that no load reaches."""
        found = {}
        for name in self._other_orders(len(made.trials)):
            keys = [("order", name, k) for k in range(self.places.n)]
            if all(key in made.others for key in keys):
                counts = [made.others[key] for key in keys]
                found[name] = load_hit_ratios(counts, self.trace, self.machine, self.places)
        return found

    def shares_of_pages(self, made: Results) -> dict[str, float]:
        """Level -> the part of the variance of its load hit ratio that is due to where pages lie, if any."""
        loads = np.array([site.direction == "load" for site in self.trace.sites], np.bool_)
        counts = [result.counts for result in made.trials]
        shares = page_shares(counts, made.others, loads, self.places.n)
        names = (level.name for level in self.machine.levels)
        return {name: share for name, share in zip(names, shares, strict=False) if share}
