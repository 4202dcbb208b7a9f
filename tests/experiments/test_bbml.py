"""The BB-ML reproduction: reference tables, samples, and scores of small cases computed by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from calib.block_counts.sampling import SampleError, samples, split
from experiments.bbml.applications import APPLICATIONS, draw, execute, least_samples, paper
from experiments.bbml.case_study import SIZES
from experiments.bbml.evaluation import score
from experiments.bbml.network import (
    LEAST_MEAN,
    NetworkOptions,
    _gradient,
    fit_network,
    initial_weights,
)
from experiments.bbml.tables import figure_3


def test_the_papers_tables_have_the_means_that_it_gives(tmp_path: Path) -> None:
    """97.6 % and 93.0 % are the means of the tables; the text of the paper has 97.7 and 93.5 or
    93.6."""
    numbers = paper()
    assert numbers.keys() == APPLICATIONS.keys() == SIZES.keys()
    random = 1 - np.mean([one.random["mse"] for one in numbers.values()])
    high = 1 - np.mean([one.high["mse"] for one in numbers.values()])
    assert (round(100 * random, 1), round(100 * high, 1)) == (97.6, 93.0)
    figure = figure_3(tmp_path, True)
    assert (tmp_path / figure.pictures[0]).stat().st_size > 1000
    assert figure.cases[0].ours is not None
    assert figure.cases[0].ours > 1  # far from Poisson


def test_drawn_inputs_keep_to_their_ranges() -> None:
    for application in APPLICATIONS.values():
        drawn = draw(application, 60)
        for name, (least, most) in application.ranges.items():
            assert (drawn[name][0], drawn[name][1]) == (least, most)
            assert drawn[name].min() >= least
            assert drawn[name].max() <= most
            assert not ((drawn[name] - least) % application.step).any()


def test_samples_are_counts() -> None:
    """Of syrk, by hand: a sub-group is a row of a tile of 8 by 32, and its body multiplies 16 numbers a turn."""
    drawn = {"n": np.array([40, 64, 33]), "m": np.array([16, 48, 32])}
    given = execute("syrk", drawn)
    assert given.names == ("n", "m")
    body = int(np.argmax(given.counts[1]))
    assert given.counts[:, body].tolist() == [
        n * -(-n // 32) * (m // 16) for n, m in zip(drawn["n"], drawn["m"], strict=True)
    ]


def test_there_are_samples_enough_for_the_network() -> None:
    """The low part of a split has at least as many as there are parameters: 10 (inputs + 2) + 1."""
    for n_input in (1, 2, 3, 4):
        low = 0.35 + 0.4 * 0.7**n_input
        assert least_samples(n_input) * low > 10 * (n_input + 2) + 1


def test_scores_by_hand() -> None:
    """A count that is linear in its input is learned exactly, and so is a constant one."""
    n = np.arange(10, 110)
    given = samples({"n": n.tolist()}, {"A": (2 * n).tolist(), "B": [5] * 100})
    trained, tested = split(given, "high-low")
    result = score(trained, tested, given.counts.max(axis=0), "chosen", "beyond")
    assert result.accuracy == pytest.approx(1, abs=1e-12)
    assert result.pearson == pytest.approx(1)
    assert result.kinds["constant"] == 1
    worse = score(trained, tested, given.counts.max(axis=0), "network", "beyond")
    assert 1e-4 < worse.mse < 0.5


def test_the_gradient_is_the_losss_slope() -> None:
    """Against finite differences of the loss, with outputs above and below the least output."""
    rng = np.random.default_rng(0)
    inputs, target = rng.random((40, 3)), rng.poisson(2, 40) / 2.0
    every = np.arange(len(inputs), dtype=np.int32)

    def loss(weights, gradient):
        return _gradient(inputs, target, weights, 10, every, gradient)

    for shift in (0.0, 1.0, -5.0):
        weights = initial_weights(rng, 3, 10)
        weights[-1] += shift
        gradient = np.zeros_like(weights)
        loss(weights, gradient)
        for k in range(0, len(weights), 5):
            step = np.zeros_like(weights)
            step[k] = 1e-6
            above, below = (loss(at, np.zeros_like(at)) for at in (weights + step, weights - step))
            assert gradient[k] == pytest.approx((above - below) / 2e-6, rel=1e-4, abs=1e-7)
    # All outputs below: the loss is a line, steep as far as counts are there.
    assert gradient[-1] == pytest.approx(-target.mean() / LEAST_MEAN)


def test_the_network_learns_a_line_and_depends_on_its_seed() -> None:
    rng = np.random.default_rng(1)
    x = rng.uniform(10, 100, (600, 1))
    y = np.round(3 * x[:, 0] + 40)
    fast = NetworkOptions(learning_rate=1e-2)
    trained = fit_network(x, y, fast)
    error = np.abs(trained.predict(x) - y) / y
    assert error.mean() < 0.01
    again = fit_network(x, y, fast).predict(x)
    assert np.array_equal(again, trained.predict(x))
    other = fit_network(x, y, NetworkOptions(learning_rate=1e-2, seed=1)).predict(x)
    assert not np.array_equal(other, again)
    assert (fit_network(x, np.zeros(600), fast).predict(x) < 0.05).all()
    with pytest.raises(SampleError, match="31 parameters for 1 inputs, got 20 samples"):
        fit_network(x[:20], y[:20])
