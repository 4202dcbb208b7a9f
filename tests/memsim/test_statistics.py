"""memsim.statistics against scipy, and the coverage of its intervals."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from memsim.statistics import (
    PLACE,
    Estimate,
    describe,
    factor,
    running,
    sample_skewness,
    student_t,
    welch,
)

floats = st.floats(-1e6, 1e6, allow_nan=False)


def skewed_term(n_trials: int, skewness: float) -> float:
    """Hall's second-order term of skewness over a standard error, from scipy's normal quantile."""
    z = stats.norm.ppf(0.975)
    return float(z * skewness**2 * (z**4 + 2 * z**2 - 3) / 18 / n_trials)


@given(st.lists(floats, min_size=2, max_size=40))
def test_interval_is_scipys_and_a_term_of_scipys_skewness(values: list[float]) -> None:
    estimates = describe(values)
    n = len(values)
    assert estimates.mean == pytest.approx(np.mean(values), rel=1e-12, abs=1e-9)
    error = np.std(values, ddof=1) / math.sqrt(n)
    if len(set(values)) == 1:
        assert (estimates.half_width, estimates.sigma) == (0.0, 0.0)
        assert estimates.mean == values[0]
    elif error > 1e-6 * max(abs(np.max(values)), abs(np.min(values)), 1e-3):
        skewness = stats.skew(values, bias=False) if n > 2 else 0.0
        half = (stats.t.ppf(0.975, n - 1) + skewed_term(n, float(skewness))) * error
        assert estimates.half_width == pytest.approx(half, rel=1e-6)


@given(st.integers(3, 40))
def test_no_sample_is_more_skewed_than_one_odd_value(n: int) -> None:
    values = np.array([1.0] + [0.0] * (n - 1))
    off = values - values.mean()
    result = sample_skewness(n, np.sum(off**2), np.sum(off**3))
    assert result == pytest.approx(math.sqrt(n))
    assert sample_skewness(n, 1e-12, 1.0) == math.sqrt(n)  # what is left of cancelled sums


def test_two_trials_and_equal_ones_have_no_skewness() -> None:
    assert sample_skewness(2, 0.5, 0.0) == 0.0
    assert sample_skewness(5, 0.0, 0.0) == 0.0
    assert factor(2, 0.0) == pytest.approx(student_t(2))
    np.testing.assert_allclose(factor([4, 9], [0.0, 0.0]), [student_t(4), student_t(9)])


def test_equal_trials_have_a_point_for_an_interval() -> None:
    estimates = describe([0.1] * 3)  # their mean in floating point is not 0.1
    assert estimates.ci95 == (0.1, 0.1)
    assert estimates.sigma == 0.0


def test_one_trial_has_no_interval() -> None:
    found = describe([0.25])
    assert (found.mean, found.n_trials, found.has_interval) == (0.25, 1, False)
    assert str(found) == "0.25"
    assert str(describe([0.25, 0.35])) == "0.3 ± 0.64"


def test_an_interval_ends_where_the_quantity_does() -> None:
    few = Estimate(mean=2.0, half_width=3.0, sigma=1.0, n_trials=4)
    assert few.ci95 == (-1.0, 5.0)
    assert few.between(0.0).ci95 == (0.0, 5.0)
    assert few.between(0.0, 4.0).ci95 == (0.0, 4.0)
    assert few.between(0.0).shifted(1.0).ci95 == (1.0, 6.0), "what is known is not less"
    assert few.between(0.0, 4.0).scaled(0.5).ci95 == (0.0, 2.0)
    assert few.between(0.0).with_part(PLACE, 1.0).ci95 == (0.0, 6.0)


def test_undefined_trials_are_left_out() -> None:
    estimates = describe([1.0, math.nan, 3.0])
    assert (estimates.mean, estimates.n_trials) == (2.0, 2)
    assert not describe([math.nan]).is_defined


@pytest.mark.parametrize("n_trials", [2, 3, 16, 64])
def test_running_ends_at_the_estimate(n_trials: int) -> None:
    values = 1e6 + np.random.default_rng(3).exponential(size=n_trials)
    mean, half_width = running(values)
    for n in range(2, n_trials + 1):
        so_far = describe(values[:n])
        assert mean[n - 1] == pytest.approx(so_far.mean, rel=1e-12)
        assert half_width[n - 1] == pytest.approx(so_far.half_width, rel=1e-6)
    assert math.isnan(half_width[0])


Draw = Callable[[np.random.Generator, tuple[int, int]], npt.NDArray[np.float64]]
SKEWED: dict[str, tuple[float, Draw]] = {
    "exponential": (1.0, lambda rng, shape: rng.exponential(size=shape)),
    "one in four": (0.25, lambda rng, shape: (rng.random(shape) < 0.25).astype(np.float64)),
    "one in eight": (0.125, lambda rng, shape: (rng.random(shape) < 0.125).astype(np.float64)),
}  # fmt: skip
"""True mean, and how to draw."""


@pytest.mark.parametrize("name", SKEWED)
def test_skewed_quantities_are_covered_where_student_does_not(name: str) -> None:
    """32 trials, the fewest of a default replay: within 93 to 97 %, one in eight above that."""
    true, draw = SKEWED[name]
    n_samples, n = 6000, 32
    values = draw(np.random.default_rng(5), (n_samples, n))
    result = [describe(row) for row in values]
    covered = np.mean([e.low <= true <= e.high for e in result])
    student = np.array([student_t(n) * e.sigma / math.sqrt(n) for e in result])
    plain = np.mean(np.abs(np.array([e.mean for e in result]) - true) <= student)
    noise = 3 * math.sqrt(0.95 * 0.05 / n_samples)
    assert 0.93 < covered < (0.99 if name == "one in eight" else 0.97)
    assert plain < 0.93 + noise  # the negative control
    assert plain < covered - noise


@given(st.lists(floats, min_size=2, max_size=20), st.lists(floats, min_size=2, max_size=20))
def test_welch_is_scipys(a: list[float], b: list[float]) -> None:
    left, right = describe(a), describe(b)
    test = welch(left, right)
    if left.sigma + right.sigma < 1e-3:
        return  # nothing left of the numbers' digits

    def p_value(difference: float) -> float:
        sides = (difference, right.sigma, len(b), 0.0, left.sigma, len(a))
        return float(stats.ttest_ind_from_stats(*sides, equal_var=False).pvalue)

    assert test.p_value == pytest.approx(p_value(right.mean - left.mean), rel=1e-6, abs=1e-12)
    assert p_value(test.half_width) == pytest.approx(0.05, rel=1e-6)


def test_welch_of_constant_samples() -> None:
    same, other = describe([2.0, 2.0]), describe([3.0, 3.0, 3.0])
    assert welch(same, same).p_value == 1.0
    assert welch(same, other).p_value == 0.0
    assert welch(same, other).difference == 1.0
    assert math.isnan(welch(describe([2.0]), other).p_value)


def test_overlap_is_symmetric_and_false_where_unknown() -> None:
    a, b = describe([0.0, 1.0]), describe([0.5, 1.5])
    assert a.overlaps(b)
    assert b.overlaps(a)
    assert not describe([0.0, 0.0]).overlaps(describe([1.0, 1.0]))
    assert not describe([0.0]).overlaps(a)
