"""Where other orders within a core give other hit ratios, the report says so."""

from __future__ import annotations

import math

import pytest

from memsim.montecarlo import Replay
from memsim.report.finding import headline
from memsim.report.html import replay_page
from memsim.report.json_contract import to_data
from memsim.report.order_sensitivity import in_headline, order_ranges, orders_text
from memsim.report.summary import summarise
from memsim.report.verdict import judge
from tests.support.fake_replay import fake_dataset
from tests.support.outline import in_one_kind_of_space, printed


def sensitive(orders: object) -> Replay:
    return Replay(fake_dataset(orders=orders))


def test_the_range_stands_wherever_the_result_is_shown() -> None:
    replay = sensitive({"gty": {"L1": 0.97, "L2": None}, "lrr": {"L1": 0.5}})
    own = 100 * float(replay.load_hit_ratio("L1").mean())
    assert 55 < own < 90
    summary = summarise(replay.dataset)
    words = "order-sensitive: L1 hits 50 % to 97 %"
    assert in_headline(summary) == words
    assert headline(summary).endswith(words)
    page = in_one_kind_of_space(replay_page(replay.dataset)).lower()
    assert page.count("order-sensitive: l1") == 1
    shown = printed(replay.table(), 300)
    assert shown.lower().count("order-sensitive: l1") == 1
    assert orders_text(summary) in shown
    assert f"L1 {own:.1f} %" in orders_text(summary)
    assert "gty L1 97.0 %, L2 –; lrr L1 50.0 %" in " ".join(judge(summary).caveats)  # noqa: RUF001
    data = to_data(summary)
    assert data["orders"] == {"gty": {"L1": 0.97, "L2": None}, "lrr": {"L1": 0.5}}
    assert data["order_sensitive"] == {"L1": [0.5, 0.97]}


@pytest.mark.parametrize(("spread", "n_trials"), [(0.0, 30), (0.06, 30)])
def test_a_difference_counts_beyond_two_points_and_what_one_ordering_varies(
    spread: float, n_trials: int
) -> None:
    """Both sides of the boundary, which is 2 points, or the interval of a single further ordering."""
    plain = fake_dataset(n_trials=n_trials, spread=spread)
    estimate = summarise(plain).totals["L1", "load"].hit_ratio
    boundary = max(0.02, estimate.half_width * math.sqrt(n_trials + 1))
    assert (boundary == 0.02) == (spread == 0)
    for sign in (-1, 1):
        for factor, found in ((0.99, 0), (1.01, 1)):
            orders = {"gto": {"L1": estimate.mean + sign * factor * boundary}}
            summary = summarise(plain.assign_attrs(orders=orders))
            assert len(order_ranges(summary)) == found
            assert bool(in_headline(summary)) == bool(orders_text(summary)) == bool(found)


@pytest.mark.parametrize(
    "orders",
    [{}, [], {"gty": 3}, {"gty": {"L1": "0.1", "L2": None, "L9": 0.1}}, {"gty": {"L1": 10**400}}],
)
def test_nothing_is_said_of_what_is_no_hit_ratio(orders: object) -> None:
    summary = summarise(sensitive(orders).dataset)
    assert order_ranges(summary) == []
    assert not in_headline(summary)
    assert to_data(summary)["order_sensitive"] == {}
