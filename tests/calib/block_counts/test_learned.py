"""Learned counts: models against known counts, bad input."""

from __future__ import annotations

import numpy as np
import pytest

from calib.block_counts.learned import fit_polynomial, fit_power_law, learn
from calib.block_counts.sampling import SampleError, normalised_error, samples, split


def test_a_power_law_is_fitted_exactly() -> None:
    rng = np.random.default_rng(2)
    x = rng.integers(16, 2048, (50, 3)).astype(float)
    model = fit_power_law(x, 0.5 * x[:, 0] * x[:, 1] ** 2)
    assert model.coefficients == pytest.approx([np.log(0.5), 1, 2, 0], abs=1e-6)


def test_a_poisson_regression_is_the_most_likely_one() -> None:
    """Its score is zero: no other coefficients are more likely."""
    rng = np.random.default_rng(3)
    x = rng.uniform(1, 50, (300, 2))
    y = rng.poisson(2 * x[:, 0] ** 0.7).astype(float)
    model = fit_power_law(x, y)
    design = np.column_stack([np.ones(300), np.log(x)])
    score = design.T @ (y - model.predict(x))
    assert np.abs(score).max() < 1e-6 * y.sum()


def test_a_polynomial_is_fitted_term_by_term() -> None:
    rng = np.random.default_rng(4)
    x = rng.integers(2, 1000, (60, 2)).astype(float)
    truth = x[:, 0] ** 2 * x[:, 1] + 3 * x[:, 1] + 7
    model = fit_polynomial(x, truth)
    at = np.array([[5000.0, 4000.0], [3.0, 1.0]])
    exact = at[:, 0] ** 2 * at[:, 1] + 3 * at[:, 1] + 7
    assert model.predict(at) == pytest.approx(exact, rel=1e-6)
    assert model.text(("n", "m")).startswith("1 n^2 m")


def test_validation_chooses_the_model_that_suits_the_purpose() -> None:
    """A polynomial extrapolates n^3 / 6 - n^2 beyond its samples; a power law does not."""
    n = np.arange(20, 120, 2)
    given = samples({"n": n.tolist()}, {"B": (n**3 + 3 * n).tolist()})
    learned = learn(given, 0, "beyond")
    assert learned.kind == "polynomial"
    assert learned.errors["polynomial"] < learned.errors["power law"]
    assert learned.predict(np.array([[1000.0]])).mean[0] == pytest.approx(1000**3 + 3000, rel=1e-6)


def test_intervals_hold_and_ranges_are_flagged() -> None:
    """Noisy counts of a known mean: about 95 % of new ones lie in their intervals."""
    rng = np.random.default_rng(5)
    n = rng.integers(50, 500, 200)
    given = samples({"n": n.tolist()}, {"B": rng.poisson(3 * n).tolist()})
    learned = learn(given, 0, "within")
    fresh = rng.integers(50, 500, 2000)
    answer = learned.predict(fresh[:, None].astype(float))
    actual = rng.poisson(3 * fresh)
    inside = float(((answer.low <= actual) & (actual <= answer.high)).mean())
    # 200 samples tell the 2.5 % tails to about 1.1 % each.
    assert 0.95 - 4 * 0.016 < inside <= 1 - 0.01
    assert learned.predict(np.array([[100.0]])).warning == ""
    beyond = learned.predict(np.array([[100.0], [4000.0]]))
    assert beyond.outside.tolist() == [[False], [True]]
    low, high = n.min(), n.max()
    assert beyond.warning == f"outside the trained range: n = 4000 (trained on {low}..{high})"


def test_splits() -> None:
    rng = np.random.default_rng(6)
    x = rng.integers(1, 1001, (400, 2))
    x[:2] = [[1, 1], [1000, 1000]]
    given = samples({"a": x[:, 0].tolist(), "b": x[:, 1].tolist()}, {"B": x.sum(axis=1).tolist()})
    trained, tested = split(given, "random")
    assert (len(trained), len(tested)) == (280, 120)
    low, high = split(given, "high-low")
    mixed, same = split(given, "mixed")
    assert low.inputs.max() <= 1 + 0.7 * 999
    assert high.inputs.min() > 1 + 0.7 * 999
    assert len(same) == len(high)
    assert len(mixed) + len(same) == 400
    assert len(low) < len(mixed)


def test_errors_are_relative_to_the_largest_count() -> None:
    predicted = np.array([[10.0, 0.0], [20.0, 0.0]])
    actual = np.array([[12.0, 0.0], [20.0, 0.0]])
    result = normalised_error(predicted, actual, np.array([20.0, 0.0]))
    assert result == pytest.approx([(2 / 20) ** 2 / 2, 0])


@pytest.mark.parametrize(
    ("inputs", "counts", "words"),
    [
        ({"n": [1, 2]}, {"B": [3, -1]}, "count of B must be at least 0, got -1 in sample 1"),
        ({"n": [1, 2]}, {"B": [0.5, 1]}, "count of B must be a whole number, got 0.5 in sample 0"),
        ({"n": [1, 2]}, {"B": [float("nan"), 1]}, "count of B must be at least 0, got nan"),
        ({"n": [7, 7]}, {"B": [1, 2]}, "input n is 7 in all 2 samples"),
        ({"n": [0, 7]}, {"B": [1, 2]}, "n must be a positive number, got 0 in sample 0"),
        ({"n": [1, 2, 3]}, {"B": [1, 2]}, "B has 2 samples where others have 3"),
        ({"n": [1]}, {"B": [1]}, "at least 2 samples"),
        ({}, {"B": [1]}, "at least one input"),
    ],
)
def test_bad_samples_are_named(
    inputs: dict[str, list[float]], counts: dict[str, list[float]], words: str
) -> None:
    with pytest.raises(SampleError, match=words):
        samples(inputs, counts)


def test_too_few_samples_are_named() -> None:
    x, y = np.arange(1.0, 21.0)[:, None], np.arange(1.0, 21.0)
    with pytest.raises(SampleError, match="has 2 parameters, got 1 samples"):
        fit_power_law(x[:1], y[:1])
    with pytest.raises(SampleError, match="a polynomial has 3 parameters, got 2 samples"):
        fit_polynomial(x[:2], y[:2])
    two = samples({"n": [1, 2]}, {"B": [1, 2]})
    with pytest.raises(SampleError, match="B cannot be learned: "):
        learn(two, 0)
    with pytest.raises(SampleError, match="leaves 1 samples to train on"):
        split(two, "mixed")
    learned = learn(samples({"n": list(range(1, 60))}, {"B": list(range(1, 60))}), 0)
    with pytest.raises(SampleError, match="B is predicted from n: 1 inputs, got 2"):
        learned.predict(np.ones((1, 2)))
    with pytest.raises(SampleError, match="inputs of B must be positive"):
        learned.predict(np.zeros((1, 1)))
