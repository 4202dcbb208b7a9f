"""The same trace in other orders: how much a result depends on the scheduler of a core, and on whether groups
that begin together stay in step."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from memsim.hierarchy.cache import ACCESSES, HITS, LIKELY
from memsim.machine.model import Machine
from memsim.montecarlo.options import ReplayOptions
from memsim.montecarlo.plan import Plan
from memsim.montecarlo.trial import Workspace, run_trial
from memsim.montecarlo.workers import hit_ratio
from memsim.statistics import ONE_PLACE, Places
from memsim.trace.model import Trace

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
