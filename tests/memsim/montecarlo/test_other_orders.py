"""The other orders that a replay is compared with."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import memsim
from memsim.montecarlo.besides import other_orders
from memsim.montecarlo.options import ReplayOptions
from memsim.report.order_sensitivity import in_headline
from memsim.report.summary import summarise
from memsim.trace.model import Trace
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
    assert tuple(orders) == expected
    assert sum(1.0 if order == "lrr" else 2.3 for order in orders) <= 0.15 * n_trials


def test_one_is_replayed_where_the_number_of_trials_is_ours() -> None:
    assert list(other_orders(ReplayOptions(), 8)) == ["gty"]
    assert not other_orders(ReplayOptions(ci=0.1), 8)


@pytest.mark.parametrize(
    ("options", "n_trials", "expected"),
    [
        ({}, 8, ["gty", "groups in step"]),
        ({"trials": 15}, 15, []),
        ({"trials": 16}, 16, ["gty", "groups in step"]),
        ({"sampler": "lrr"}, 16, ["groups in step"]),
        ({"deviation": True}, 16, ["gty"]),
        ({"deviation": False}, 16, ["gty"]),
    ],
)
def test_groups_inside_a_launch_may_stay_in_step(
    options: dict[str, Any], n_trials: int, expected: list[str]
) -> None:
    """They take as long as a trial, so all together add a fifth."""
    orders = other_orders(ReplayOptions(**options), n_trials, is_inside=True)
    assert list(orders) == expected
    if "trials" in options:
        assert sum(2.3 if order == "gty" else 1.0 for order in orders) <= 0.21 * n_trials


def inside(groups: list[Any], before: int = 100) -> Trace:
    """Groups amid a launch of which nothing was loaded before."""
    trace = make_trace(groups, whole=False)
    launch = dataclasses.replace(trace.launch, n_groups=len(groups) + 2 * before)
    return trace.replace(
        workgroup=trace.workgroup + before,
        launch=launch,
        earlier=np.zeros((0, 2), np.int64),
        earlier_groups=before,
    )


@pytest.mark.filterwarnings("ignore::memsim.errors.SnapshotWarning")
def test_what_neighbours_share_is_there_if_they_are_in_step() -> None:
    """Cores of one group each; all eight groups of a wave sweep the same 512 lines, of which L2 holds 48. In step
    one of them misses; where a million waves have left them, they are tens of lines apart, which the others have replaced."""
    groups = [[[(0, [1000 * (g // 8) + i]) for i in range(512)]] for g in range(48)]
    on = machine(
        level(), level("L2", ways=-1, sets=48, cores_per_instance=8), cores=8, max_groups=1
    )
    replay = memsim.replay(inside(groups, before=8_000_000), on, trials=16, seed=2)
    orders = replay.dataset.attrs["orders"]
    assert set(orders) == {"gty", "groups in step"}
    assert orders["groups in step"]["L2"] == pytest.approx(7 / 8, abs=0.01)
    assert replay.load_hit_ratio("L2").mean() < 0.5
    assert "order-sensitive: L2 hits" in in_headline(summarise(replay.dataset))


def test_groups_of_a_whole_launch_are_replayed_both_ways_anyway() -> None:
    groups = [[[(0, [g])]] for g in range(9)]
    replay = memsim.replay(make_trace(groups), machine(level(), cores=2, max_groups=1), trials=16)
    assert "groups in step" not in replay.dataset.attrs["orders"]


def test_round_robin_evicts_what_a_greedy_order_keeps() -> None:
    """Four sub-groups sweep eight lines each three times; the cache holds those of one. Round robin never
    hits. A greedy scheduler that need not wait hits in all but the first sweep."""
    swept = [[(0, [100 * s + i % 8]) for i in range(24)] for s in range(4)]
    trace = make_trace([swept])
    on = machine(level(ways=-1, sets=8), cycles_per_turn=2.0, n_schedulers=1)
    replay = memsim.replay(trace, on, trials=48, jobs=2, seed=3)
    assert replay.load_hit_ratio("L1").values.max() == 0
    expected = {"gty": {"L1": 2 / 3}, "gto": {"L1": 2 / 3}, "lrr": {"L1": 0.0}}
    assert replay.dataset.attrs["orders"] == expected
    assert "L1 hits 0 % to 67 %" in in_headline(summarise(replay.dataset))


def test_they_are_the_first_trial_of_that_sampler() -> None:
    groups = [
        [[(0, [7 * g + i % 5 + 20 * s]) for i in range(20)] for s in range(3)] for g in range(9)
    ]
    trace = make_trace(groups, whole=False)
    on = machine(level(ways=-1, sets=16), level("L2", ways=4, sets=8), cores=2, max_groups=2)
    replay = memsim.replay(trace, on, trials=48, seed=5)
    orders = replay.dataset.attrs["orders"]
    assert list(orders) == ["gty", "gto", "lrr", "groups in step"]
    for order, ratios in orders.items():
        changes: Any = {"deviation": False} if order == "groups in step" else {"sampler": order}
        alone = memsim.replay(trace, on, trials=1, seed=5, **changes)
        for name, ratio in ratios.items():
            assert ratio == float(alone.load_hit_ratio(name)[0])


def test_a_level_that_no_load_reaches_has_no_ratio() -> None:
    replay = memsim.replay(make_trace([[[(0, [0])]]], ("store",)), machine(level()), trials=16)
    assert replay.dataset.attrs["orders"] == {"gty": {"L1": None}}


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
    assert replay.dataset.attrs["orders"] == {"gty": {"L1": pytest.approx(1 / 3)}}
