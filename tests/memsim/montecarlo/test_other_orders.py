"""The other orders within a core that a replay is compared with."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

import memsim
from memsim.montecarlo.options import ReplayOptions
from memsim.montecarlo.other_orders import other_orders
from memsim.report.order_sensitivity import in_headline
from memsim.report.summary import summarise
from tests.support.small_machines import level, machine
from tests.support.traces import make_trace


@pytest.mark.parametrize(
    ("options", "n_trials", "expected"),
    [
        ({"trials": 15}, 15, ()),
        ({"trials": 16}, 16, ("gty",)),
        ({}, 32, ("gty", "gto")),
        ({"ci": 0.1}, 47, ("gty", "gto")),
        ({}, 48, ("gty", "gto", "lrr")),
        ({}, 1000, ("gty", "gto", "lrr")),
        ({"sampler": "lrr"}, 1000, ()),
        ({"sampler": "gty"}, 1000, ()),
        ({"weights": [1]}, 1000, ()),
    ],
)
def test_they_cost_less_than_15_percent(
    options: dict[str, Any], n_trials: int, expected: tuple[str, ...]
) -> None:
    """A greedy order takes up to 2.3 times as long as another (tests/bench/test_replay_speed.py)."""
    orders = other_orders(ReplayOptions(**options), n_trials)
    assert orders == expected
    assert sum(1.0 if order == "lrr" else 2.3 for order in orders) <= 0.15 * n_trials


def test_one_is_replayed_where_the_number_of_trials_is_ours() -> None:
    assert other_orders(ReplayOptions(), 8) == ("gty",)
    assert other_orders(ReplayOptions(ci=0.1), 8) == ()


@pytest.mark.parametrize("jobs", [1, 2])
def test_round_robin_evicts_what_a_greedy_order_keeps(jobs: int) -> None:
    """Four sub-groups sweep eight lines each three times; the cache holds those of one. Round robin never
    hits. A greedy scheduler that need not wait hits in all but the first sweep."""
    swept = [[(0, [100 * s + i % 8]) for i in range(24)] for s in range(4)]
    trace = make_trace([swept])
    on = machine(level(ways=-1, sets=8), cycles_per_turn=2.0, n_schedulers=1)
    replay = memsim.replay(trace, on, trials=48, jobs=jobs, seed=3)
    assert replay.load_hit_ratio("L1").values.max() == 0
    expected = {"gty": {"L1": 2 / 3}, "gto": {"L1": 2 / 3}, "lrr": {"L1": 0.0}}
    assert json.loads(replay.dataset.attrs["orders_json"]) == expected
    assert "L1 hits 0 % to 67 %" in in_headline(summarise(replay.dataset))


def test_they_are_the_first_trial_of_that_sampler() -> None:
    groups = [
        [[(0, [7 * g + i % 5 + 20 * s]) for i in range(20)] for s in range(3)] for g in range(9)
    ]
    trace = make_trace(groups, whole=False)
    on = machine(level(ways=-1, sets=16), level("L2", ways=4, sets=8), cores=2, max_groups=2)
    replay = memsim.replay(trace, on, trials=48, seed=5)
    for sampler, ratios in json.loads(replay.dataset.attrs["orders_json"]).items():
        alone = memsim.replay(trace, on, trials=1, seed=5, sampler=sampler)
        for name, ratio in ratios.items():
            assert ratio == float(alone.load_hit_ratio(name)[0])


def test_a_level_that_no_load_reaches_has_no_ratio() -> None:
    trace = make_trace([[[(0, [0])]]], ("store",))
    replay = memsim.replay(trace, machine(level()), trials=16)
    assert json.loads(replay.dataset.attrs["orders_json"]) == {"gty": {"L1": None}}


@pytest.mark.filterwarnings("ignore::memsim.errors.SnapshotWarning")
def test_they_are_replayed_at_all_places() -> None:
    """The sweeps of the first place never hit in turn, and the second place's never hit at all."""
    swept = [[(0, [100 * s + i % 8]) for i in range(24)] for s in range(4)]
    stream = [[(0, [1000 + 100 * s + i]) for i in range(24)] for s in range(4)]
    traces = [make_trace([one], whole=False, earlier_groups=0) for one in (swept, stream)]
    launch = dataclasses.replace(traces[0].launch, n_groups=9)
    on = machine(level(ways=-1, sets=8), cycles_per_turn=2.0, n_schedulers=1)
    replay = memsim.replay(
        [trace.replace(launch=launch) for trace in traces], on, trials=32, deviation=False
    )
    assert json.loads(replay.dataset.attrs["orders_json"]) == {"gty": {"L1": pytest.approx(1 / 3)}}
