"""What is replayed besides the trials, in the first trial's ordering: misses of other caches, which tell the
kinds of misses apart; other numbers of resident groups; other orders, which say how much a result depends on the
scheduler of a core and on whether groups that begin together stay in step; and a few trials with other orderings of
the same pages.

Every trial places pages at random. A launch averages over many orderings of its groups, but its pages lie where
they lie: where lines nearly fill a cache, one run of a program differs from another. If trials that are replayed again,
with other orderings of the same pages, differ far less than trials do, what is left of the variance is due to the pages
(analysis of variance with one factor; Snedecor's F decides), and the interval covers a single run: +- t sqrt(share) sigma.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from memsim.hierarchy.cache import ACCESSES, HITS, LIKELY
from memsim.hierarchy.rng import trial_sequence
from memsim.machine.model import Machine
from memsim.montecarlo.occupancy import Occupancy
from memsim.montecarlo.options import ReplayOptions
from memsim.montecarlo.plan import Plan, changes_for_occupancy
from memsim.montecarlo.trial import (
    MissCache,
    Workspace,
    miss_kinds,
    misses_of,
    misses_with,
    prepare,
    run_launch,
    run_trial,
)
from memsim.montecarlo.workers import Call, Results, Task, hit_ratio
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


def _counts_with(plan: Plan, workspace: Workspace, changes: dict[str, Any], seed: int) -> Counts:
    changed = dataclasses.replace(plan, **changes)
    return run_trial(changed, seed, 0, workspace=Workspace(changed, workspace.memory)).counts


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

    def kinds_of_misses(self) -> dict[Hashable, Call]:
        """The replays that are needed whatever the number of trials."""
        n_level = len(self.machine.levels) if self.options.miss_kinds else 0
        return miss_calls(misses_with, self.options.seed, n_level)

    def calls(self, n_trials: int) -> dict[Hashable, Call]:
        """The replays besides n_trials trials."""
        seed, calls = self.options.seed, self.kinds_of_misses()
        for groups in self._other_groups(n_trials).values():
            for n in groups:
                changes = changes_for_occupancy(self.plan, self.trace, self.machine, n)
                calls["groups", n] = Call(_counts_with, 0, (changes, seed))
        for name, order in self._other_orders(n_trials).items():
            for k in range(self.places.n):
                calls["order", name, k] = Call(counts_in_order, k, (order, seed, k))
        return calls | page_calls(self.machine, seed, n_trials, self.places.n)

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


Order = Mapping[str, Any]
"""The fields of an Ordering that are other than in the trials."""
OTHER_SAMPLERS: dict[str, Order] = {name: {"sampler": name} for name in ("gty", "gto", "lrr")}
"""Those that a replay with the default one is compared with, the most telling first."""
IN_STEP: dict[str, Order] = {
    "groups in step": {"deviation": False, "counts_start": False, "waves_before": 0.0}
}
"""The first groups of a snapshot from inside a launch begin together, instead of as far apart as the waves before have
left them. Its last wave counts too, for its groups end together as well."""
TRIALS_PER_ORDER = 16
"""One ordering of each sampler, at each place, is replayed for so many trials at each place. A greedy one takes
1.2 to 2.3 times as long as another (tests/bench/test_replay_speed.py), so they add less than 15 %; groups in step
add 6 %. Where the number of trials was not given, one sampler and these are replayed for any number."""


def other_orders(
    options: ReplayOptions, n_trials: int, n_places: int = 1, *, is_inside: bool = False
) -> dict[str, Order]:
    """The orders to compare a replay with; none where trials are few, or the replay's own was chosen.

    is_inside : the first groups are in progress
    """
    n_each = max(n_trials // n_places // TRIALS_PER_ORDER, int(options.is_open_ended))
    found: dict[str, Order] = {}
    if options.sampler == ReplayOptions.sampler and options.weights is None:
        found |= dict(list(OTHER_SAMPLERS.items())[:n_each])
    if is_inside and options.deviation is None and n_each:
        found |= IN_STEP
    return found


def counts_in_order(
    plan: Plan, workspace: Workspace, order: Order, seed: int, trial: int
) -> npt.NDArray[np.int64]:
    """The counts of a trial in another order."""
    ordering = dataclasses.replace(plan.ordering, **order)
    changed = dataclasses.replace(plan, ordering=ordering)
    return run_trial(changed, seed, trial, workspace=workspace).counts


def load_hit_ratios(
    counts: Sequence[npt.NDArray[np.int64]],
    trace: Trace,
    machine: Machine,
    places: Places = ONE_PLACE,
) -> dict[str, float | None]:
    """Level -> load hit ratio of one trial's counts at each place, as trials are weighed; None for a level that
    no load reaches at one of them. Of the open misses, half of the likely ones are hits, as in reports."""
    loads = np.array([site.direction == "load" for site in trace.sites], np.bool_)
    totals = np.stack([one[:, : len(loads)][:, loads].sum(axis=1) for one in counts]).astype(float)
    totals[..., HITS] += totals[..., LIKELY] / 2
    weights = [places.of_ratio(level[:, ACCESSES]).weights for level in totals.swapaxes(0, 1)]
    ratios = (np.array(weights).T * hit_ratio(totals)).sum(axis=0)
    return {
        level.name: None if np.isnan(ratio) else float(ratio)
        for level, ratio in zip(machine.levels, ratios, strict=True)
    }


TRIALS_PER_PAIR, FEWEST_PAIRS, MOST_PAIRS = 4, 2, 4
"""One of so many trials is replayed again, until there are enough."""
SIGNIFICANCE = 0.95
OTHER_ORDERING = 1 << 31
"""Added to the number of a trial, where its ordering is another and its pages are the same."""

Counts = npt.NDArray[np.int64]


def page_calls(machine: Machine, seed: int, n_trials: int, n_places: int) -> dict[Hashable, Call]:
    """Replays of the first trials with other orderings, where pages are placed at random."""
    translation = machine.translation
    n_pairs = min(n_trials // TRIALS_PER_PAIR, MOST_PAIRS)
    if translation is None or translation.placement != "random" or n_pairs < FEWEST_PAIRS:
        return {}
    return {
        ("pages", k): Call(counts_on_same_pages, k % n_places, (seed, k)) for k in range(n_pairs)
    }


def counts_on_same_pages(plan: Plan, workspace: Workspace, seed: int, trial: int) -> Counts:
    """The counts of another ordering with the pages of a trial."""
    prepared = prepare(plan, workspace, seed, trial)
    prepared.clear(None)
    sequence = trial_sequence(seed, trial + OTHER_ORDERING)
    return run_launch(plan, workspace.queues, prepared, sequence, trial).counts


def page_shares(
    trials: Sequence[Counts],
    others: Mapping[Hashable, Any],
    loads: npt.NDArray[np.bool_],
    n_places: int,
) -> list[float]:
    """The share of the pages in the variance of each level's load hit ratio over trials of one place; 0 where it
    is not significant, or pairs are too few.

    trials : (n_level, n_site, n_count) each;  others : results of `page_calls`
    """
    done = itertools.takewhile(others.__contains__, (("pages", k) for k in range(MOST_PAIRS)))
    pairs = [others[key] for key in done]
    if len(pairs) < FEWEST_PAIRS or len(trials) < 2 * n_places:
        return [0.0] * len(trials[0])
    ratios, again = (
        hit_ratio(np.stack([one[:, : len(loads)][:, loads].sum(axis=1) for one in counts]))
        for counts in (trials, pairs)
    )
    within = (again - ratios[: len(pairs)]) ** 2 / 2
    by_place = [ratios[k::n_places] for k in range(n_places)]
    squares = np.sum([((one - one.mean(axis=0)) ** 2).sum(axis=0) for one in by_place], axis=0)
    freedom = len(trials) - n_places
    limit = float(special.fdtri(freedom, len(pairs), SIGNIFICANCE))
    shares = []
    for total, ordering in zip(squares / freedom, within.mean(axis=0), strict=True):
        is_clear = np.isfinite(total) and np.isfinite(ordering) and total > limit * ordering
        shares.append(float(1 - ordering / total) if is_clear else 0.0)
    return shares
