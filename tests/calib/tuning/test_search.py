"""Successive halving: nothing is left behind whose interval overlaps the best's."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from calib.tuning.outcome import EFFORTS, Outcome
from calib.tuning.search import SAMPLE, Found, Search, interval
from calib.tuning.space import Configuration

LAST = len(EFFORTS) - 1


class Device:
    """Times by configuration; a look with effort k is off by a random factor, `errors[k]` in logarithm."""

    def __init__(
        self, times_s: Sequence[float], errors: Sequence[float], seed: int = 0, shift: float = 1.0
    ) -> None:
        rng = np.random.default_rng(seed)
        self.times_s = list(times_s)
        self.factors = [np.exp(error * rng.standard_normal(len(times_s))) for error in errors]
        self.factors[0] *= shift
        self.looks: list[tuple[int, int]] = []

    @property
    def configurations(self) -> list[dict[str, str]]:
        return [{"k": str(k)} for k in range(len(self.times_s))]

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
                time_s=self.times_s[k] * float(self.factors[effort][k]),
                binds="DRAM",
            )

    def of_effort(self, effort: int) -> set[int]:
        return {k for k, looked in self.looks if looked == effort}


def test_a_glance_that_is_right_leaves_few_to_look_at() -> None:
    device = Device(np.linspace(1, 2, 100), [0, 0, 0])
    found = Search(device.configurations, device.evaluate).run()
    assert [one.configuration["k"] for one in found.ranked] == [str(k) for k in range(100)]
    assert device.of_effort(0) == set(range(100))
    assert len(device.of_effort(1)) <= SAMPLE  # the sample alone
    assert found.complete


def test_nothing_is_looked_at_twice() -> None:
    device = Device(np.linspace(1, 1.2, 40), [0.05, 0.01, 0])
    Search(device.configurations, device.evaluate).run()
    assert len(device.looks) == len(set(device.looks))


def test_a_common_factor_of_the_glances_changes_nothing() -> None:
    """A short snapshot may make all times too long alike; only differences of the error matter."""
    near, far = (Device(np.linspace(1, 2, 60), [0, 0, 0], shift=shift) for shift in (1.0, 3.0))
    for device in (near, far):
        Search(device.configurations, device.evaluate).run()
    assert near.looks == far.looks


@pytest.mark.parametrize("error", [0.02, 0.1, 0.3])
def test_the_best_is_found_although_glances_err(error: float) -> None:
    """In 95 % of searches, which the intervals promise of each configuration, and at least in 90 % by the
    binomial distribution of 200 searches (its 0.1 % quantile)."""
    n, kept = 200, 0
    for seed in range(n):
        rng = np.random.default_rng(1000 + seed)
        device = Device(np.exp(0.5 * rng.random(50)), [error, 0.0, 0.0], seed)
        found = Search(device.configurations, device.evaluate).run()
        kept += found.ranked[0].configuration["k"] == str(int(np.argmin(device.times_s)))
    assert kept >= 0.90 * n


@pytest.mark.parametrize("errors", [(0.0, 0.0, 0.05), (0.0, 0.1, 0.0), (0.02, 0.1, 0.05)])
def test_a_shorter_look_leaves_no_less_open(errors: tuple[float, ...]) -> None:
    """Of a glance everything is open that may still change, also between the closer looks."""
    kept = 0
    for seed in range(200):
        rng = np.random.default_rng(3000 + seed)
        device = Device(np.exp(0.5 * rng.random(50)), errors, seed)
        found = Search(device.configurations, device.evaluate).run()
        assert found.spread[0] >= found.spread[1] == found.spread[2]
        final = [t * device.factors[2][k] for k, t in enumerate(device.times_s)]
        kept += found.ranked[0].configuration["k"] == str(int(np.argmin(final)))
    assert kept >= 0.90 * 200


def test_halving_by_rank_alone_would_miss_it() -> None:
    """The negative control of the test above: the fastest at a glance is often not the fastest."""
    missed = 0
    for seed in range(200):
        rng = np.random.default_rng(1000 + seed)
        device = Device(np.exp(0.5 * rng.random(50)), [0.3, 0.0, 0.0], seed)
        glances = [device.times_s[k] * device.factors[0][k] for k in range(50)]
        missed += int(np.argmin(glances)) != int(np.argmin(device.times_s))
    assert missed > 100


def test_failures_are_kept_apart_and_not_looked_at_again() -> None:
    times = [1.0, math.nan, 1.1, math.nan]
    device = Device(times, [0, 0, 0])
    found = Search(device.configurations, device.evaluate).run()
    assert [one.configuration["k"] for one in found.ranked] == ["0", "2"]
    assert {one.configuration["k"] for one in found.failed} == {"1", "3"}
    assert (1, 1) not in device.looks


def test_when_all_fail_nothing_is_the_best() -> None:
    device = Device([math.nan, math.nan], [0, 0, 0])
    found = Search(device.configurations, device.evaluate).run()
    assert found.ranked == found.candidates == ()


def test_one_configuration_is_its_own_best() -> None:
    device = Device([1.0], [0, 0, 0])
    found = Search(device.configurations, device.evaluate).run()
    assert found.ranked[0].effort == LAST
    assert found.candidates == found.ranked


def test_an_interrupt_keeps_what_was_found() -> None:
    device = Device(np.linspace(1, 2, 30), [0, 0, 0])

    def evaluate(configurations: Sequence[Configuration], effort: int) -> Iterator[Outcome]:
        for outcome in device.evaluate(configurations, effort):
            if len(device.looks) > 10:
                raise KeyboardInterrupt
            yield outcome

    search = Search(device.configurations, evaluate)
    with pytest.raises(KeyboardInterrupt):
        search.run()
    assert len(search.found.ranked) == 10
    assert not search.found.complete


def test_intervals_combine_ordering_and_effort() -> None:
    one = Outcome(configuration={}, machine="m", effort=0, time_s=2.0, half_width_s=0.06)
    wide = interval(one, 0.04)
    assert math.log(wide.high_s / 2.0) == pytest.approx(0.05)
    assert wide.low_s * wide.high_s == pytest.approx(4.0)


def test_what_earlier_groups_left_is_open_in_all_alike() -> None:
    """One that is slower in every state of the caches is not as fast, though the intervals overlap; one that is
    faster with warm caches may be."""

    def outcome(name: str, time_s: float, warm_s: float) -> Outcome:
        return Outcome(
            configuration={"k": name},
            machine="m",
            effort=LAST,
            time_s=time_s,
            cold_s=time_s,
            warm_s=warm_s,
        )

    outcomes = (outcome("a", 1.0, 0.8), outcome("b", 1.1, 0.9), outcome("c", 1.2, 0.7))
    found = Found(outcomes=outcomes, spread={}, complete=True)
    assert found.interval(outcomes[1]).low_s < found.interval(outcomes[0]).high_s
    assert [one.configuration["k"] for one in found.candidates] == ["a", "c"]
