"""The convolution of the tuning runs: what it computes, and what is recorded of its predicted times."""

from __future__ import annotations

import math

import pytest
from scipy.stats import spearmanr

from calib.tuning import Outcome
from calib.tuning.search import Found
from experiments.data_files import rows
from experiments.hardware.tuned_convolution import COLUMNS, TABLE, ranking
from experiments.kernels.convolution import convolution
from tests.support.cuda_kernels import needs_clang, run

PARAMETERS = (
    "block_size_x",
    "block_size_y",
    "tile_size_x",
    "tile_size_y",
    "read_only",
    "use_padding",
)


@needs_clang
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"block_size_x": 48, "block_size_y": 2, "tile_size_y": 4, "image_size": 96},
        {"block_size_x": 16, "tile_size_x": 2, "tile_size_y": 3, "read_only": 1, "use_padding": 1}
        | {"image_size": 70},
        {"filter_size": 3, "image_size": 33},
    ],
)
def test_it_computes_the_correlation(parameters: dict[str, int]) -> None:
    workload = convolution(**{"image_size": 64, **parameters})
    written = run(workload)
    assert workload.check is not None
    workload.check(written)
    with pytest.raises(AssertionError):
        workload.check({"result": written["result"] + 1})


def test_a_ranking_is_judged_by_what_was_measured() -> None:
    outcomes = [
        Outcome(configuration={"k": name}, machine="m", effort=2, time_s=time_s)
        for name, time_s in (("a", 1.0), ("b", 2.0), ("c", 3.0), ("d", 4.0))
    ]
    found = Found(outcomes=tuple(outcomes), spread={}, complete=True)
    times_ms = {("a",): 12.0, ("b",): 15.0, ("c",): 10.0, ("d",): 11.0}
    loss = ranking(found, times_ms).loss
    assert loss == {1: pytest.approx(0.2), 3: 0.0, 5: 0.0}


@pytest.mark.parametrize("column", COLUMNS.values())
def test_the_record_ranks_as_the_readme_says(column: str) -> None:
    """Every configuration has a prediction or fits no core, and the ranks are those in the results table."""
    ours = {
        tuple(row[name] for name in PARAMETERS): row[column] for row in rows("convolution_ours.csv")
    }
    measured = {tuple(row[name] for name in PARAMETERS): row[column] for row in rows(TABLE)}
    assert ours.keys() == measured.keys()
    both = [(float(ours[key]), float(measured[key])) for key in ours if ours[key]]
    assert len(both) >= 0.95 * len(measured)
    assert all(math.isfinite(value) and value > 0 for pair in both for value in pair)
    assert spearmanr(both).statistic > 0.8
