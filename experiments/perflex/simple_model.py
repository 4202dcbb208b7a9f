"""Figures 1 and 2: a tiled matrix product, modelled by its multiply-adds alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from calib.features import scale_features_by_output
from calib.fitting import Fit, Model, fit_model, geometric_mean
from experiments import drawing
from experiments.perflex.evaluation import Evaluation, evaluate
from experiments.reproduction import Case, Figure

MADD = "f_op_float32_madd"
SOURCE = "Stevens and Klöckner 2020, section 2.2 (GTX Titan X, n = 2048 to 3584); it has no numbers"


def figures_1_and_2(out: Path, quick: bool) -> Figure:
    """The same expression, fitted to the product itself and to multiply-adds at full rate."""
    evaluation = evaluate("matmul", quick)
    own = _fit(evaluation, (evaluation.part == "own") & _named(evaluation, "prefetch:True"))
    peak = _fit(evaluation, _named(evaluation, "flops_madd_pattern"))
    rows = (evaluation.part == "test") & _named(evaluation, "prefetch:True")
    table = evaluation.table.rows(rows)
    sizes = np.array([k.variant["n"] for k in evaluation.tests if k.variant["prefetch"]])
    predicted, least = (
        own.model.evaluate(own, table.values),
        peak.model.evaluate(peak, table.values),
    )
    own_error = geometric_mean(np.abs(predicted / table.outputs - 1))
    share = float(np.mean(least / table.outputs))
    return Figure(
        title="Figures 1 and 2: t = p_madd f_madd, fitted to the product itself and to peak multiply-adds",
        source=SOURCE,
        cases=[
            Case(
                "fitted to other sizes of itself",
                "error",
                "%",
                ours=100 * own_error,
                note="geometric mean; the paper calls its model very accurate, without a number",
            ),
            Case(
                "fitted to flops_madd_pattern",
                "share of time",
                "%",
                ours=100 * share,
                note="share of the time that multiply-adds at full rate account for",
            ),
        ],
        findings=[
            f"Measured on {evaluation.device}: a multiply-add of a sub-group of 32 costs {own['p_madd']:.3g} s"
            f" in the product and {peak['p_madd']:.3g} s at full rate."
        ],
        pictures=[
            drawing.lines(
                out / "figures-1-2.png",
                sizes,
                {
                    "measured": 1e3 * np.asarray(table.outputs),
                    "fitted to the product itself": 1e3 * predicted,
                    "fitted to peak multiply-adds": 1e3 * least,
                },
                drawing.Panel(
                    title="Tiled product, t = p_madd f_madd", xlabel="n", ylabel="ms", log="y"
                ),
            )
        ],
    )


def _fit(evaluation: Evaluation, rows: npt.NDArray[np.bool_]) -> Fit:
    model = Model(evaluation.table.output, f"p_madd * {MADD}")
    return fit_model(model, scale_features_by_output(evaluation.table.rows(rows)))


def _named(evaluation: Evaluation, word: str) -> npt.NDArray[np.bool_]:
    return np.array([word in name for name in evaluation.table.kernels])
