"""Successive halving: nothing is left behind whose interval overlaps the best's."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from calib.tuning.outcome import EFFORTS, Outcome
from calib.tuning.search import SAMPLE, Found, Search
from calib.tuning.space import Configuration

LAST = len(EFFORTS) - 1
N = 100
"""Searches of a test, of which the intervals promise to find the best in 95 %."""


class Device:
    """Times by configuration; a look with effort k is off by a random factor, `errors[k]` in logarithm."""

    def __init__(
        self, times_s: Sequence[float], errors: Sequence[float], seed: int = 0, shift: float = 1.0
    ) -> None:
        rng = np.random.default_rng(seed)
        self.times_s = np.array(times_s, float)
        self.factors = [np.exp(error * rng.standard_normal(len(times_s))) for error in errors]
        self.factors[0] *= shift
        self.looks: list[tuple[int, int]] = []

    def searched(self) -> Found:
        return self.search(self.evaluate).run()

    def search(self, evaluate: Any) -> Search:
        return Search([{"k": str(k)} for k in range(len(self.times_s))], evaluate)

    def fastest(self, effort: int) -> int:
        return int(np.argmin(self.times_s * self.factors[effort]))

    def evaluate(self, configurations: Sequence[Configuration], effort: int) -> Iterator[Outcome]:
        for one in configurations:
            k = int(one["k"])
            self.looks.append((k, effort))
            failure = "it does not build" if math.isnan(self.times_s[k]) else ""
            yield Outcome(
                configuration=one,
                machine="m",
                effort=effort,
                failure=failure,
                time_s=float(self.times_s[k] * self.factors[effort][k]),
                binds="DRAM",
            )

    def of_effort(self, effort: int) -> set[int]:
        return {k for k, looked in self.looks if looked == effort}


def names(outcomes: Sequence[Outcome]) -> list[int]:
    return [int(one.configuration["k"]) for one in outcomes]


def test_a_glance_that_is_right_leaves_few_to_look_at() -> None:
    device = Device(np.linspace(1, 2, 100), [0, 0, 0])
    found = device.searched()
    assert names(found.ranked) == list(range(100))
    assert device.of_effort(0) == set(range(100))
    assert len(device.of_effort(1)) <= SAMPLE  # the sample alone
    assert found.complete


def test_a_common_factor_of_the_glances_changes_nothing() -> None:
    """A short snapshot may make all times too long alike; only differences of the error matter."""
    near, far = (Device(np.linspace(1, 2, 60), [0.05, 0, 0], shift=shift) for shift in (1.0, 3.0))
    for device in (near, far):
        device.searched()
        assert len(device.looks) == len(set(device.looks)), "nothing is looked at twice"
    assert near.looks == far.looks


@pytest.mark.parametrize("errors", [(0.3, 0, 0), (0, 0.1, 0), (0.02, 0.1, 0.05)])
def test_the_best_is_found_although_looks_err(errors: tuple[float, ...]) -> None:
    """Of a glance everything is open that may still change, also between the closer looks. Halving by rank alone
    would miss the best: the fastest at a glance with large errors is seldom the fastest."""
    kept, fastest_at_a_glance = 0, 0
    for seed in range(N):
        rng = np.random.default_rng(1000 + seed)
        device = Device(np.exp(0.5 * rng.random(50)), errors, seed)
        found = device.searched()
        assert found.spread[0] >= found.spread[1] == found.spread[2]
        best = device.fastest(LAST)
        kept += names(found.ranked)[0] == best
        fastest_at_a_glance += device.fastest(0) == best
    assert kept >= 0.9 * N
    assert errors[0] < 0.3 or fastest_at_a_glance < 0.5 * N


def test_failures_are_kept_apart_and_not_looked_at_again() -> None:
    """The last one that is left is its own best; where all fail nothing is."""
    device = Device([1.0, math.nan, 1.1, math.nan], [0, 0, 0])
    found = device.searched()
    assert names(found.ranked) == [0, 2]
    assert set(names(found.failed)) == {1, 3}
    assert (1, 1) not in device.looks
    alone = Device([1.0, math.nan], [0, 0, 0]).searched()
    assert [one.effort for one in alone.ranked] == [LAST]
    assert alone.candidates == alone.ranked
    none = Device([math.nan, math.nan], [0, 0, 0]).searched()
    assert none.ranked == none.candidates == ()


def test_an_interrupt_keeps_what_was_found() -> None:
    device = Device(np.linspace(1, 2, 30), [0, 0, 0])

    def evaluate(configurations: Sequence[Configuration], effort: int) -> Iterator[Outcome]:
        for outcome in device.evaluate(configurations, effort):
            if len(device.looks) > 10:
                raise KeyboardInterrupt
            yield outcome

    search = device.search(evaluate)
    with pytest.raises(KeyboardInterrupt):
        search.run()
    assert len(search.found.ranked) == 10
    assert not search.found.complete


def test_what_earlier_groups_left_is_open_in_all_alike() -> None:
    """One that is slower in every state of the caches is not as fast, though the intervals overlap; one that is
    faster with warm caches may be."""

    outcomes = tuple(
        Outcome(configuration={"k": str(k)}, machine="m", effort=LAST, time_s=cold, cold_s=cold, warm_s=warm)
        for k, (cold, warm) in enumerate([(1.0, 0.8), (1.1, 0.9), (1.2, 0.7)])
    )  # fmt: skip
    found = Found(outcomes=outcomes, spread={}, complete=True)
    assert found.interval(outcomes[1]).low_s < found.interval(outcomes[0]).high_s
    assert names(found.candidates) == [0, 2]


def test_intervals_combine_ordering_and_effort() -> None:
    one = Outcome(configuration={}, machine="m", effort=0, time_s=2.0, half_width_s=0.06)
    wide = Found(outcomes=(one,), spread={0: 0.04}, complete=True).interval(one)
    assert math.log(wide.high_s / 2.0) == pytest.approx(0.05)
    assert wide.low_s * wide.high_s == pytest.approx(4.0)
