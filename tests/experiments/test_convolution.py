"""The convolution of the tuning runs: what is recorded of its predicted times."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

from calib.tuning import Outcome
from calib.tuning.search import Found
from experiments.data_files import rows
from experiments.hardware.tuned_kernels import CONVOLUTION
from experiments.hardware.tuning_runs import ranking


def test_a_ranking_is_judged_by_what_was_measured() -> None:
    outcomes = [
        Outcome(configuration={"k": name}, machine="m", effort=2, time_s=time_s)
        for name, time_s in (("a", 1.0), ("b", 2.0), ("c", 3.0), ("d", 4.0))
    ]
    found = Found(outcomes=tuple(outcomes), spread={}, complete=True)
    times_ms = {("a",): 12.0, ("b",): 15.0, ("c",): 10.0, ("d",): 11.0}
    loss = ranking(found, times_ms).loss
    assert loss == {1: pytest.approx(0.2), 3: 0.0, 5: 0.0}


@pytest.mark.parametrize(
    ("table", "column", "count", "correlation", "losses", "error"),
    [
        ("convolution", "a100_ms", 100, 0.934, (0.0, 0.0), 0.091),
        ("convolution", "h200_ms", 87, 0.981, (0.0, 0.0), 0.062),
        ("convolution", "a6000_ms", 97, 0.861, (0.0, 0.0), 0.191),
        ("mi250x-convolution", "mi250x_ms", 100, 0.717, (0.0, 0.0), 0.357),
    ],
)
def test_the_record_ranks_as_the_readme_says(
    table: str,
    column: str,
    count: int,
    correlation: float,
    losses: tuple[float, float],
    error: float,
) -> None:
    """Nearly all configurations have a prediction, and one of the first three is the fastest.

    losses : of the best of the predicted top 3 and top 5, over the fastest measured one
    """
    ours, measured = rows(f"{table}_ours.csv"), rows(CONVOLUTION.table)
    for left, right in zip(ours, measured, strict=True):
        assert all(left[name] == right[name] for name in left if not name.endswith("_ms"))
    pairs = zip(ours, measured, strict=True)
    both = sorted((float(one[column]), float(of[column])) for one, of in pairs if one[column])
    assert len(both) == count
    assert spearmanr(both).statistic == pytest.approx(correlation, abs=0.005)
    best = min(float(row[column]) for row in measured if row[column])
    loss = [min(one for _, one in both[:first]) / best - 1 for first in (3, 5)]
    assert loss == pytest.approx(losses, abs=0.001)
    found = np.exp(np.mean([abs(np.log(ours / one)) for ours, one in both])) - 1
    assert found == pytest.approx(error, abs=0.005)


def test_the_measured_a100_changes_its_clock() -> None:
    """The same launch, repeated, takes up to 1.84 times as long: boost clock over base clock of the card."""
    ratios = [
        float(row["slow_ms"]) / float(row["fast_ms"]) for row in rows("a100_clock_switches.csv")
    ]
    assert len(ratios) == 168
    assert np.quantile(ratios, 0.95) == pytest.approx(1410 / 765, rel=0.005)
