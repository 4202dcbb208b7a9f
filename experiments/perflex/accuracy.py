"""Figures 7, 8 and 9: errors of the models on each application, and over all of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from calib.fitting import break_down, draw, geometric_mean
from experiments import drawing
from experiments.perflex.applications import APPLICATIONS
from experiments.perflex.evaluation import MODELS, Evaluation, evaluate
from experiments.reproduction import Case, Figure

SOURCE = "Stevens and Klöckner 2020, sections 8.3 to 8.5: geometric means over five GPUs"
PAPER_MODEL = {"matmul": "overlap", "dg": "overlap", "finite_diff": "linear"}
"""The model that the paper selects (for DG only on three GPUs and without one variant)."""
PAPER_OVERALL = 6.4
"""Geometric mean of the relative error over all applications, in percent."""


def variants(name: str, figure: str, out: Path, quick: bool) -> Figure:
    """Measured and predicted times of the variants of one application, by every model."""
    evaluation = evaluate(name, quick)
    application = evaluation.application
    labels = np.array(evaluation.labels)
    cases = []
    for model in MODELS:
        for label in dict.fromkeys(evaluation.labels):
            errors = evaluation.errors(model)[labels == label]
            cases.append(
                _case(
                    f"{model}: {label}",
                    errors,
                    note=f"{100 * errors.mean():+.1f} % on average",
                )
            )
        order, fastest, sizes = evaluation.ranked(model)
        paper = application.paper_error if model == PAPER_MODEL[name] else None
        note = f"correct order at {order} of {sizes} sizes, correct fastest variant at {fastest}"
        cases.append(_case(model, evaluation.errors(model), paper, note))
    return Figure(
        title=f"{application.title}: {figure.replace('-', ' ').capitalize()}",
        source=SOURCE,
        cases=cases,
        findings=[*_about(evaluation), *_best(evaluation)],
        pictures=[
            _draw_variants(out / f"{figure}.png", evaluation),
            _parts(out / f"{figure}-parts.png", evaluation),
        ],
    )


def overall(out: Path, quick: bool) -> Figure:
    """Error of every model on every application, and over all applications."""
    evaluations = {name: evaluate(name, quick) for name in APPLICATIONS}
    cases = []
    for model in MODELS:
        for name, one in evaluations.items():
            paper = one.application.paper_error if model == PAPER_MODEL[name] else None
            cases.append(_case(f"{model}: {name}", one.errors(model), paper))
    as_paper = np.concatenate([one.errors(PAPER_MODEL[name]) for name, one in evaluations.items()])
    cases.append(_case("the paper's choice of models", as_paper, PAPER_OVERALL))
    for model in MODELS:
        every = np.concatenate([one.errors(model) for one in evaluations.values()])
        ranked = np.sum([one.ranked(model) for one in evaluations.values()], axis=0)
        note = f"correct order at {ranked[0]} of {ranked[2]} sizes, correct fastest variant at {ranked[1]}"
        cases.append(_case(f"{model}: all", every, note=note))
    heights = {
        one.application.title: {model: 100 * one.mean_error(model) for model in MODELS}
        | {"paper, five GPUs": one.application.paper_error}
        for one in evaluations.values()
    }
    first = next(iter(evaluations.values()))
    return Figure(
        title="Geometric mean of the relative error, by application and model",
        source=SOURCE,
        cases=cases,
        findings=[
            f"Measured on {first.device}; the paper's numbers are means over five GPUs.",
            *(f"{model}: {text}." for model, text in MODELS.items()),
        ],
        pictures=[
            drawing.bars(
                out / "errors.png", heights, "Geometric mean of the relative error", "percent"
            )
        ],
    )


def _about(evaluation: Evaluation) -> list[str]:
    table = evaluation.table
    tested = table.spread is not None and table.spread[evaluation.part == "test"]
    widest = float(np.max(tested / evaluation.measured))
    return [
        f"Measured on {evaluation.device}: the fastest trial of each kernel. The interval of a tested kernel's"
        f" median is up to {100 * widest:.0f} % of its time,"
        " because other programs use the machine.",
        f"The microbenchmark models are fitted to {np.sum(evaluation.part == 'micro')} kernels, none of them a"
        f" variant; the `own` models to {np.sum(evaluation.part == 'own')} runs of the variants at other sizes."
        f" All of them predict {len(evaluation.tests)} runs.",
        *(
            f"{name}: geometric mean error of {100 * fit.mean_error:.1f} % in calibration"
            + (f"; at their bound of 0: {', '.join(fit.at_bound)}" if fit.at_bound else "")
            + "".join(f"; indistinguishable: {', '.join(group)}" for group in fit.indistinct)
            for name, fit in evaluation.fits.items()
        ),
    ]


def _best(evaluation: Evaluation) -> list[str]:
    errors = {model: evaluation.mean_error(model) for model in MODELS}
    best = min(errors, key=lambda model: errors[model])
    return [f"Smallest error: {best}, {100 * errors[best]:.1f} %."]


def _draw_variants(path: Path, evaluation: Evaluation) -> str:
    """Measured and predicted times against size: one panel for each model, one colour for each
    variant."""
    rows = np.array(evaluation.labels)
    drawn: list[drawing.Panel] = []
    for model in MODELS:
        lines = []
        for k, label in enumerate(dict.fromkeys(evaluation.labels)):
            sizes, measured, predicted = (
                values[rows == label]
                for values in (
                    evaluation.sizes,
                    evaluation.measured,
                    evaluation.predicted[model],
                )
            )
            lines.append(drawing.Line(sizes, 1e3 * measured, "o-", label, k))
            lines.append(drawing.Line(sizes, 1e3 * predicted, "x--", "", k))
        drawn.append(
            drawing.Panel(
                lines,
                f"{model}: {100 * evaluation.mean_error(model):.1f} %",
                evaluation.application.size,
                "ms; circles measured, crosses predicted" if not drawn else "",
                "xy",
                np.unique(evaluation.sizes).tolist(),
            )
        )
    return drawing.panels(path, *drawn, size=(3.1 * len(MODELS), 3.8))


def _parts(path: Path, evaluation: Evaluation) -> str:
    """Breakdown of the predicted time at the largest size, by the overlap model; one bar for each
    variant."""
    largest = evaluation.sizes == evaluation.sizes.max()
    rows = np.flatnonzero(evaluation.part == "test")[largest]
    labels = [label for label, chosen in zip(evaluation.labels, largest, strict=True) if chosen]
    fit = evaluation.fits["overlap"]
    breakdowns = [
        break_down(
            fit,
            label,
            {name: evaluation.table.values[name][row] for name in fit.model.input_features},
        )
        for label, row in zip(labels, rows, strict=True)
    ]
    draw(breakdowns, path)
    return path.name


def _case(
    case: str,
    errors: npt.NDArray[np.float64],
    paper: float | None = None,
    note: str = "",
) -> Case:
    return Case(
        case, "error", "%", reference=paper, ours=100 * geometric_mean(np.abs(errors)), note=note
    )
