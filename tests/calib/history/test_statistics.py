"""Welford, the outlier rule and the test for two modes, against closed forms and samples."""

import functools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calib.history.errors import HistoryError
from calib.history.records import FLOOR, cut, outliers
from calib.history.statistics import LONGEST_S, Running, running, two_modes

times = st.lists(st.floats(1e-9, 1e8), min_size=2, max_size=50)


def one_by_one(values):
    return functools.reduce(Running.add, values, Running())


@given(times, times)
def test_one_by_one_all_at_once_and_merged_are_what_numpy_says(first, second):
    values = first + second
    logs = np.log(values)
    for state in (one_by_one(values), running(values), running(first).merged(running(second))):
        assert (state.n, state.low, state.high) == (len(values), min(values), max(values))
        assert state.mean == pytest.approx(np.mean(values), rel=1e-12)
        # Rounding of the mean shows in the deviation where all values are nearly one.
        assert state.deviation == pytest.approx(
            np.std(values, ddof=1), rel=1e-9, abs=1e-12 * max(values)
        )
        assert state.sum_ln == pytest.approx(logs.sum(), rel=1e-9, abs=1e-9)
        assert state.sum_ln2 == pytest.approx(np.sum(logs**2), rel=1e-9, abs=1e-9)


def test_small_deviations_of_large_times_survive():
    """Times of 10^8 s that differ by microseconds: a sum of squares would lose the differences."""
    values = 1e8 + np.arange(5) * 1e-6
    want = np.std(np.arange(5) * 1e-6, ddof=1)
    # A float at 10^8 has steps of 1.5e-8.
    assert one_by_one(values).deviation == pytest.approx(want, rel=0.02)
    assert running(values).deviation == pytest.approx(want, rel=0.02)


def test_nothing_overflows_at_the_edges():
    huge = Running(
        n=2**62, mean=LONGEST_S / 2, m2=2**62 * LONGEST_S**2 / 4, low=1.0, high=LONGEST_S
    )
    more = huge.add(LONGEST_S * 0.999)
    assert more.n == 2**62 + 1
    assert all(map(math.isfinite, (more.mean, more.m2, more.deviation)))


@pytest.mark.parametrize("bad", [0.0, -1e-6, math.nan, math.inf, -math.inf, LONGEST_S])
def test_what_is_no_time_is_refused(bad):
    with pytest.raises(HistoryError, match="time must lie between 1e-15"):
        Running().add(bad)


def test_outliers_are_far_from_the_others_and_no_second_mode():
    good = 1e-3 * (1 + 0.02 * np.random.default_rng(0).standard_normal(9))
    limit, quiet = 1 + cut(21) * FLOOR, [1.0] * 20
    for times_s, rejected in (
        ([1.0, *good], 1),  # a first launch a thousand times too long
        ([1.0, *good[:3]], 1),
        ([1.0, *good[:2]], 0),  # of three, nobody can tell
        ([limit + 1e-9, *quiet], 1),
        ([limit - 1e-9, *quiet], 0),
        ([1.8, *[1.0] * 14], 1),
        ([*[1.8] * 6, *[1.0] * 14], 0),
    ):
        assert outliers(times_s).tolist() == [True] * rejected + [False] * (len(times_s) - rejected)


@pytest.mark.parametrize("n", [4, 20])
def test_normal_samples_are_hardly_ever_outliers(n):
    rng = np.random.default_rng(2)
    lost = sum(outliers(1 + 0.1 * rng.standard_normal(n)).any() for _ in range(5000))
    # Of 5000 windows at one in 10,000: 0.5 expected, five deviations more.
    assert lost <= 0.5 + 5 * math.sqrt(0.5)


def test_one_mode_is_one_and_two_are_two():
    rng = np.random.default_rng(3)
    shapes = {
        "normal": lambda n: 1 + 0.05 * rng.standard_normal(n),
        "lognormal": lambda n: np.exp(0.5 * rng.standard_normal(n)),
        "uniform": lambda n: 1 + rng.random(n),
        "exponential": lambda n: 1 + rng.exponential(0.3, n),
        "wide lognormal": lambda n: np.exp(1.2 * rng.standard_normal(n)),
        "wide exponential": lambda n: 0.05 + rng.exponential(1.0, n),
    }
    for n, draws in ((64, 200), (500, 50)):
        for shape, draw in shapes.items():
            false = sum(two_modes(draw(n)) is not None for _ in range(draws))
            # At p < 0.01 where the density is flat; five deviations more.
            assert false <= 0.01 * draws + 5 * math.sqrt(0.01 * draws), shape
    found = [
        two_modes(np.where(rng.random(200) < 0.6, 1.0, 1.4) + 0.05 * rng.standard_normal(200))
        for _ in range(100)
    ]
    assert sum(h is not None for h in found) >= 95
    modes = next(h for h in found if h is not None)
    assert modes.low_s == pytest.approx(1.0, abs=5 * 0.05 / math.sqrt(100))
    assert modes.high_s == pytest.approx(1.4, abs=5 * 0.05 / math.sqrt(60))
    assert modes.low_share == pytest.approx(0.6, abs=5 * math.sqrt(0.24 / 200))


def test_two_modes_of_times_far_apart_are_seen_in_logarithms():
    """Launches take 6 ms alone and 30 ms where others interrupt: only their logarithms have a valley."""
    rng = np.random.default_rng(4)
    found = []
    for _ in range(100):
        alone, noise = rng.random(400) < 0.35, rng.standard_normal(400)
        found.append(two_modes(np.where(alone, 6e-3, 30e-3) * np.exp(0.4 * noise * ~alone)))
    assert sum(h is not None for h in found) >= 95
    modes = next(h for h in found if h is not None)
    assert modes.low_s == pytest.approx(6e-3, rel=0.1)
    assert modes.high_s == pytest.approx(30e-3, rel=5 * 0.4 * 1.26 / math.sqrt(260))
