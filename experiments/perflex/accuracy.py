"""Figures 7, 8 and 9, and the errors over all applications."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from calib.fitting import break_down, draw, geometric_mean
from experiments.perflex import drawing
from experiments.perflex.applications import APPLICATIONS
from experiments.perflex.evaluation import MODELS, Evaluation, evaluate
from experiments.reproduction import Case, Figure

SOURCE = "Stevens and Klöckner, sections 8.3 to 8.5: geometric means over five GPUs"
PAPERS_MODEL = {"matmul": "overlap", "dg": "overlap", "finite_diff": "linear"}
"""The model that the paper settles for (for DG on three GPUs, one variant apart)."""
PAPER_OVERALL = 6.4


def variants(name: str, figure: str, out: Path, quick: bool) -> Figure:
    """One application: measured and predicted times of its variants, by every model."""
    found = evaluate(name, quick)
    application = found.application
    labels = np.array(found.labels)
    cases = []
    for model in MODELS:
        for label in dict.fromkeys(found.labels):
            errors = found.errors(model)[labels == label]
            cases.append(
                _case(figure, f"{model}: {label}", errors, note=f"{errors.mean():+.1%} on average")
            )
        order, fastest, sizes = found.ranked(model)
        paper = application.paper_error if model == PAPERS_MODEL[name] else None
        note = f"order right at {order} of {sizes} sizes, fastest variant at {fastest}"
        cases.append(_case(figure, model, found.errors(model), paper, note))
    return Figure(
        name=figure,
        title=f"{application.title}: {figure.replace('-', ' ').capitalize()}",
        source=SOURCE,
        cases=cases,
        findings=[*_about(found), *_best(found)],
        pictures=[
            drawing.variants(out / f"{figure}.png", found),
            _parts(out / f"{figure}-parts.png", found),
        ],
    )


def overall(out: Path, quick: bool) -> Figure:
    """Every application's error by every model, and that over all of them."""
    found = {name: evaluate(name, quick) for name in APPLICATIONS}
    cases = []
    for model in MODELS:
        for name, each in found.items():
            paper = each.application.paper_error if model == PAPERS_MODEL[name] else None
            cases.append(_case("errors", f"{model}: {name}", each.errors(model), paper))
    as_paper = np.concatenate([each.errors(PAPERS_MODEL[name]) for name, each in found.items()])
    cases.append(_case("errors", "the paper's choice of models", as_paper, PAPER_OVERALL))
    for model in MODELS:
        every = np.concatenate([each.errors(model) for each in found.values()])
        ranked = np.sum([each.ranked(model) for each in found.values()], axis=0)
        note = f"order right at {ranked[0]} of {ranked[2]} sizes, fastest variant at {ranked[1]}"
        cases.append(_case("errors", f"{model}: all", every, note=note))
    heights = {
        each.application.title: {model: 100 * each.mean_error(model) for model in MODELS}
        | {"paper, five GPUs": each.application.paper_error}
        for each in found.values()
    }
    first = next(iter(found.values()))
    return Figure(
        name="errors",
        title="Geometric mean of the relative error, by application and model",
        source=SOURCE,
        cases=cases,
        findings=[
            f"Measured on {first.device}; the paper's numbers are means over five GPUs, which are"
            " not here.",
            *(f"{model}: {text}." for model, text in MODELS.items()),
        ],
        pictures=[
            drawing.bars(
                out / "errors.png", heights, "Geometric mean of the relative error", "percent"
            )
        ],
    )


def _about(found: Evaluation) -> list[str]:
    table = found.table
    tested = table.spread is not None and table.spread[found.part == "test"]
    widest = float(np.max(tested / found.measured))
    return [
        f"Measured on {found.device}: the least of each kernel's trials. The interval of a tested"
        f" kernel's median is up to {widest:.0%} of its time: what the machine's other work does.",
        f"The microbenchmark models are fitted to {np.sum(found.part == 'micro')} kernels, none of"
        f" them a variant; the own ones to {np.sum(found.part == 'own')} runs of the variants at"
        f" other sizes; all predict {len(found.tests)} runs.",
        *(
            f"{name}: geometric mean error of {fit.mean_error:.1%} in calibration"
            + (f"; held at 0: {', '.join(fit.at_bound)}" if fit.at_bound else "")
            + "".join(f"; not told apart: {', '.join(group)}" for group in fit.indistinct)
            for name, fit in found.fits.items()
        ),
    ]


def _best(found: Evaluation) -> list[str]:
    errors = {model: found.mean_error(model) for model in MODELS}
    best = min(errors, key=lambda model: errors[model])
    return [f"Least error: {best}, {errors[best]:.1%}."]


def _parts(path: Path, found: Evaluation) -> str:
    """A stacked bar for each variant at the largest size, by the overlap model."""
    largest = found.sizes == found.sizes.max()
    rows = np.flatnonzero(found.part == "test")[largest]
    labels = [label for label, chosen in zip(found.labels, largest, strict=True) if chosen]
    fit = found.fits["overlap"]
    told = [
        break_down(
            fit, label, {name: found.table.values[name][row] for name in fit.model.input_features}
        )
        for label, row in zip(labels, rows, strict=True)
    ]
    draw(told, path)
    return path.name


def _case(
    figure: str, case: str, errors: drawing.Floats, paper: float | None = None, note: str = ""
) -> Case:
    return Case(
        figure=figure,
        case=case,
        quantity="error",
        unit="%",
        reference=paper,
        ours=100 * geometric_mean(np.abs(errors)),
        note=note,
    )
