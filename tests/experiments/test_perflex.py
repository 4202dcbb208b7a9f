"""The Perflex reproduction: formulas on synthetic data, and tables compared with the paper's closed
forms."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from calib.features.table import FeatureTable
from calib.fitting.fit import fit_model
from calib.fitting.performance_model import Model
from experiments.perflex import overlap, tables
from experiments.perflex.applications import APPLICATIONS, LINEAR, OVERLAP
from experiments.perflex.evaluation import Evaluation

pytestmark = pytest.mark.filterwarnings("ignore::loopy.diagnostic.LoopyWarning")

COSTS = {"c_gmem": "p_g * f_mem", "c_onchip": "p_o * f_op", "c_overhead": "p_l * f_launch"}


def made_up() -> Evaluation:
    """The matrix products with 1 s per unit of f_mem and of f_op."""
    application = APPLICATIONS["matmul"]
    tests = application.kernels("test")
    size = np.array([kernel.variant["n"] for kernel in tests], np.float64)
    plain = np.array([not kernel.variant["prefetch"] for kernel in tests])
    # Calibration: global memory, on-chip work and a launch, each by itself.
    memory = np.concatenate([[100.0, 0.0, 0.0], size])
    onchip = np.concatenate([[0.0, 100.0, 0.0], np.where(plain, size / 2, size)])
    seconds = memory + onchip + 1.0
    part = np.array(["micro"] * 3 + ["test"] * len(tests))
    model = Model("f_time", LINEAR, costs=COSTS)
    table = FeatureTable(
        output="f_time",
        kernels=tuple(f"k{row}" for row in range(len(part))),
        values={"f_time": seconds, "f_mem": memory, "f_op": onchip, "f_launch": 0 * memory + 1},
    )
    fit = fit_model(model, table.rows(part == "micro"), nonnegative=True)
    predicted = model.evaluate(fit, table.rows(part == "test").values)
    return Evaluation(
        application=application,
        device="none",
        table=table,
        part=part,
        tests=tuple(tests),
        fits={"linear": fit},
        predicted={"linear": predicted, "overlap": predicted},
    )


def test_variants_are_ranked_size_by_size() -> None:
    right = made_up()
    assert right.ranked("linear") == (3, 3, 3)
    assert right.mean_error("linear") < 1e-9
    predicted = right.predicted["linear"].copy()
    at = right.sizes == 112
    predicted[at] = predicted[at][::-1]
    wrong = dataclasses.replace(right, predicted={"linear": predicted})
    assert wrong.ranked("linear") == (2, 2, 3)


def test_moves_that_a_load_hides() -> None:
    moves = np.arange(0, 22, 2)
    hidden, slope = overlap._hidden(moves, np.maximum(8.0, 2.0 * moves))
    assert (hidden, slope) == (pytest.approx(4), pytest.approx(2))
    hidden, _ = overlap._hidden(moves, 8.0 + 2.0 * moves)
    assert hidden == pytest.approx(0)


def test_the_step_by_its_closed_form(tmp_path: Path) -> None:
    """max - model = |x| (1 - tanh(p |x|)) of costs 1 + x and 1 - x."""
    figure = overlap.figure_4(tmp_path, True)
    x = np.linspace(0, 1, 201)
    for case, edge in zip(figure.cases, overlap.EDGES, strict=True):
        exact = np.max(x * (1 - np.tanh(edge * x)) / (1 + x))
        assert case.ours == pytest.approx(100 * exact, rel=1e-6)
    assert (tmp_path / "figure-4.png").stat().st_size > 1000
    assert "overlap" in OVERLAP


def test_table_1_and_the_number_of_access_patterns_are_the_papers(tmp_path: Path) -> None:
    table = tables.table_1(tmp_path, True).cases
    assert len(table) == 12
    for case in (*table, *tables.figure_6(tmp_path, True).cases):
        assert case.ours == case.reference, case


@pytest.mark.parametrize("on_gpu", [False, True])
def test_sizes_for_either_device_are_apart(on_gpu: bool) -> None:
    """No model is tested at a size that it was fitted to."""
    for application in APPLICATIONS.values():
        own, tests = (application.kernels(part, on_gpu=on_gpu) for part in ("own", "test"))
        assert not {kernel.name for kernel in own} & {kernel.name for kernel in tests}
        assert len(tests) == 3 * len(application.labels)
