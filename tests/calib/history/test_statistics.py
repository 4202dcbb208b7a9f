"""Welford, the outlier rule and the test for two modes, against closed forms and samples."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calib.history.errors import HistoryError
from calib.history.records import FLOOR, cut, outliers
from calib.history.statistics import LONGEST_S, Running, running, two_modes

times = st.lists(st.floats(1e-9, 1e8), min_size=2, max_size=50)


@given(times)
def test_welford_is_what_numpy_says(values):
    state = Running()
    for value in values:
        state = state.add(value)
    assert state.n == len(values)
    assert state.mean == pytest.approx(np.mean(values), rel=1e-12)
    # Rounding of the mean shows in the deviation where all values are nearly one.
    assert state.deviation == pytest.approx(
        np.std(values, ddof=1), rel=1e-9, abs=1e-12 * max(values)
    )
    assert (state.low, state.high) == (min(values), max(values))
    assert state.sum_ln == pytest.approx(np.log(values).sum(), rel=1e-9, abs=1e-9)


@given(times)
def test_all_at_once_is_one_after_the_other(values):
    state, whole = Running(), running(values)
    for value in values:
        state = state.add(value)
    assert (state.n, state.low, state.high) == (whole.n, whole.low, whole.high)
    for name in ("mean", "sum_ln", "sum_ln2"):
        assert getattr(state, name) == pytest.approx(getattr(whole, name), rel=1e-9, abs=1e-9)
    assert state.m2 == pytest.approx(whole.m2, rel=1e-9, abs=1e-12 * whole.mean**2)


@given(times, times)
def test_merged_is_all_together(first, second):
    merged, whole = running(first).merged(running(second)), running(first + second)
    assert merged.n == whole.n
    assert merged.mean == pytest.approx(whole.mean, rel=1e-12)
    assert merged.m2 == pytest.approx(whole.m2, rel=1e-9, abs=1e-20 + 1e-12 * whole.mean**2)


def test_small_deviations_of_large_times_survive():
    """Times of 10^8 s that differ by microseconds: a sum of squares would lose the differences."""
    values = 1e8 + np.arange(5) * 1e-6
    state = Running()
    for value in values:
        state = state.add(value)
    want = np.std(np.arange(5) * 1e-6, ddof=1)
    # A float at 10^8 has steps of 1.5e-8.
    assert state.deviation == pytest.approx(want, rel=0.02)
    assert running(values).deviation == pytest.approx(want, rel=0.02)
    naive = math.sqrt(max(np.mean(values**2) - np.mean(values) ** 2, 0.0))
    assert naive == 0.0 or naive > 0.1


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


def test_a_first_launch_a_thousand_times_too_long_is_rejected():
    rng = np.random.default_rng(0)
    good = 1e-3 * (1 + 0.02 * rng.standard_normal(9))
    assert outliers([1.0, *good]).tolist() == [True] + [False] * 9
    assert outliers([1.0, *good[:3]]).tolist() == [True, False, False, False]
    assert not outliers([1.0, *good[:2]]).any()  # of three, nobody can tell


def test_both_sides_of_the_cut():
    quiet = np.full(20, 1.0)
    limit = 1 + cut(21) * FLOOR
    assert not outliers([*quiet, limit - 1e-9]).any()
    assert outliers([*quiet, limit + 1e-9]).sum() == 1


def test_a_second_mode_is_not_rejected():
    lower, upper = np.full(14, 1.0), np.full(6, 1.8)
    assert not outliers([*lower, *upper]).any()
    assert outliers([*lower, 1.8]).sum() == 1


@pytest.mark.parametrize("n", [4, 7, 10, 20, 64])
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
    for n in (64, 500):
        for shape, draw in shapes.items():
            false = sum(two_modes(draw(n)) is not None for _ in range(200))
            # At p < 0.01 two are expected of 200 where the density is flat; five deviations more.
            assert false <= 2 + 5 * math.sqrt(2), shape
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
