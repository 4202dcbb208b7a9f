"""Figures 1 and 2: a product with tiles, modelled by its multiply-adds alone (section 2)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from calib.features import scale_features_by_output
from calib.fitting import Fit, Model, fit_model, geometric_mean
from experiments.perflex import drawing
from experiments.perflex.evaluation import Evaluation, evaluate
from experiments.reproduction import Case, Figure

MADD = "f_op_float32_madd"
SOURCE = (
    "Stevens and Klöckner, section 2.2 (GTX Titan X, n = 2048 to 3584); the text has no numbers"
)


def figures_1_and_2(out: Path, quick: bool) -> Figure:
    """The same expression, fitted to the product itself and to arithmetic at full rate."""
    found = evaluate("matmul", quick)
    own = _fit(found, (found.part == "own") & _named(found, "prefetch:True"))
    peak = _fit(found, _named(found, "flops_madd_pattern"))
    rows = (found.part == "test") & _named(found, "prefetch:True")
    table = found.table.rows(rows)
    sizes = np.array([k.variant["n"] for k in found.tests if k.variant["prefetch"]])
    told, least = own.model.evaluate(own, table.values), peak.model.evaluate(peak, table.values)
    own_error = geometric_mean(np.abs(told / table.outputs - 1))
    share = float(np.mean(least / table.outputs))
    return Figure(
        name="figures-1-2",
        title="Figures 1 and 2: t = p_madd f_madd, fitted to the product itself, then to peak madds",
        source=SOURCE,
        cases=[
            Case(
                figure="figures-1-2",
                case="fitted to other sizes of itself",
                quantity="error",
                unit="%",
                reference=None,
                ours=100 * own_error,
                note="geometric mean; the paper calls its own very accurate",
            ),
            Case(
                figure="figures-1-2",
                case="fitted to flops_madd_pattern",
                quantity="share of time",
                unit="%",
                reference=None,
                ours=100 * share,
                note="what madds at full rate account for",
            ),
        ],
        findings=[
            f"Measured on {found.device}: a madd of a sub-group of 32 costs {own['p_madd']:.3g} s in"
            f" the product and {peak['p_madd']:.3g} s at full rate."
        ],
        pictures=[
            drawing.lines(
                out / "figures-1-2.png",
                sizes,
                {
                    "measured": 1e3 * np.asarray(table.outputs),
                    "fitted to the product itself": 1e3 * told,
                    "fitted to peak madds": 1e3 * least,
                },
                title="Product with tiles, t = p_madd f_madd",
                xlabel="n",
                ylabel="ms",
                logarithmic=True,
            )
        ],
    )


def _fit(found: Evaluation, rows: drawing.Mask) -> Fit:
    model = Model(found.table.output, f"p_madd * {MADD}")
    return fit_model(model, scale_features_by_output(found.table.rows(rows)))


def _named(found: Evaluation, word: str) -> drawing.Mask:
    return np.array([word in name for name in found.table.kernels])
