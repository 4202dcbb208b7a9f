"""The coverage of 95 % intervals: many short replays against a long one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from memsim.montecarlo import workers as montecarlo
from memsim.montecarlo.plan import Plan, make_plan
from memsim.montecarlo.workers import hit_ratio
from memsim.statistics import describe
from tests.support.small_machines import level, machine
from tests.support.traces import make_trace
from tests.support.trials import run_trials

REPETITIONS = 400
TRUTH_TRIALS = 10_000
SITE = 0  # a load whose L1 hits depend on who comes first


@pytest.fixture(scope="module")
def plan() -> Plan:
    """Groups that share lines: a few of them fit."""
    rng = np.random.default_rng(7)
    groups = [
        [[(int(rng.integers(0, 2)), [int(rng.integers(0, 24))]) for _ in range(8)] for _ in "ab"]
        for _ in range(8)
    ]
    first, second = level(ways=-1, sets=6), level("L2", ways=4, sets=2, cores_per_instance=2)
    on = machine(first, second, cores=2, max_groups=4, miss_turns=3)
    return make_plan(make_trace(groups, ("load", "load"), whole=False), on, warmup_waves=0)[0]


def ratios(plan: Plan, seed: int, trials: int, ci: float | None = None) -> npt.NDArray[np.float64]:
    """(n_level, n_trial) of one site."""
    results, _ = run_trials([plan], seed=seed, trials=trials, ci=ci)
    return np.array([hit_ratio(result.counts)[:, SITE] for result in results]).T


@pytest.fixture(scope="module")
def truth(plan: Plan) -> npt.NDArray[np.float64]:
    return np.nanmean(ratios(plan, 10**6, TRUTH_TRIALS), axis=1)


def coverage(
    plan: Plan, truth: npt.NDArray[np.float64], trials: int, ci: float | None = None
) -> npt.NDArray[np.float64]:
    """(n_level,) share of the repetitions whose interval contains the true mean."""
    inside = np.zeros(len(truth))
    for seed in range(REPETITIONS):
        for k, values in enumerate(ratios(plan, seed, trials, ci)):
            found = describe(values)
            inside[k] += found.low <= truth[k] <= found.high
    return inside / REPETITIONS


@pytest.mark.slow
@pytest.mark.parametrize(("trials", "ci"), [(16, None), (64, None), (400, 0.05)])
def test_intervals_of_so_many_trials_or_of_a_half_width_cover_95_percent(
    plan: Plan, truth: npt.NDArray[np.float64], trials: int, ci: float | None
) -> None:
    covered = coverage(plan, truth, trials, ci)
    assert (covered >= 0.90).all(), covered
    assert (covered <= 0.99).all(), covered


@pytest.mark.slow
def test_stopping_from_the_second_trial_on_would_not_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason for a minimum: for a single ratio, two trials that happen to agree would stop the replay."""
    groups = [[[(0, [(5 * g + i * i) % 24]) for i in range(8)]] for g in range(8)]
    on = machine(level(ways=-1, sets=6), max_groups=8)
    alone = make_plan(make_trace(groups), on, sampler="uniform")[0]
    truth = ratios(alone, 10**6, TRUTH_TRIALS).mean(axis=1)
    assert coverage(alone, truth, 400, ci=0.02)[0] >= 0.90
    monkeypatch.setattr(montecarlo, "MIN_TRIALS_TO_STOP", 2)
    assert coverage(alone, truth, 400, ci=0.02)[0] < 0.90
