"""Counts that depend on the data and must be learned from runs, with intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Picture

from calib.block_counts import (
    Executions,
    FloatArray,
    Samples,
    block_report,
    learn,
    normalised_error,
    samples,
    split,
)
from experiments.bbml.network import KINDS
from experiments.drawing import COLOURS
from experiments.kernels import graphs
from experiments.reproduction import Case, Figure
from memsim.files import write_picture

RUNS = 90
QUICK_RUNS = 60
DRAWS: dict[str, tuple[Callable[..., Any], dict[str, tuple[int, int]]]] = {
    "SpMV of a random graph": (graphs.spmv, {"n": (300, 12_000), "degree": (2, 24)}),
    "a level of BFS": (graphs.bfs_level, {"n": (300, 12_000), "degree": (2, 24)}),
    "a merge sort pass": (graphs.merge_pass, {"n": (500, 40_000), "width": (16, 512)}),
}


def data_dependent(out: Path, quick: bool) -> Figure:
    """Train on 70 % of the runs, at random or those with low inputs, and test on the others."""
    cases, panels, findings = [], {}, []
    for title, (make, ranges) in DRAWS.items():
        measured, reason = _runs(make, ranges, QUICK_RUNS if quick else RUNS)
        scale = measured.counts.max(axis=0)
        for how in ("random", "mixed"):
            trained, tested = split(measured, how)
            predicted = np.zeros_like(tested.counts)
            inside = np.zeros(tested.counts.shape, bool)
            kinds: dict[str, int] = {}
            for column in range(tested.counts.shape[1]):
                learned = learn(trained, column, "within" if how == "random" else "beyond", KINDS)
                answer = learned.predict(tested.inputs)
                predicted[:, column] = answer.mean
                actual = tested.counts[:, column]
                inside[:, column] = (answer.low <= actual) & (actual <= answer.high)
                kinds[learned.kind] = kinds.get(learned.kind, 0) + 1
                if how == "mixed" and column == int(np.argmax(measured.counts.mean(axis=0))):
                    panels[f"{title}: {measured.blocks[column]}"] = (
                        actual, answer.mean, answer.low, answer.high, answer.outside.any(axis=1),
                    )  # fmt: skip
            errors = normalised_error(predicted, tested.counts, scale)
            moving = np.ptp(trained.counts, axis=0) > 0
            note = ", ".join(f"{kind} {n}" for kind, n in sorted(kinds.items()))
            case = f"{title}, {how}"
            cases += [
                Case(case, "accuracy", "%", ours=100 * (1 - errors.mean()), note=note),
                Case(
                    case,
                    "inside the interval",
                    "%",
                    reference=95.0,
                    ours=100 * float(inside[:, moving].mean()),
                    note=f"{int(moving.sum())} blocks, {len(tested)} runs; the nominal coverage is 95 %",
                ),
            ]
        findings.append(
            f"{title}: the counts of {len(measured.blocks)} blocks must be learned; of the first, {reason}."
        )
    picture = _draw(out / "data.png", panels)
    return Figure(
        title="Counts that depend on the data",
        source="Not in the paper. The nominal coverage of the intervals is 95 %.",
        cases=cases,
        findings=[
            *findings,
            "Each input has one graph (or one set of keys), so the variation between graphs is part of the error."
            " Outside the trained range an interval cannot account for changes there; such predictions carry"
            " a warning.",
        ],
        pictures=[picture],
    )


def _runs(
    make: Callable[..., Any], ranges: dict[str, tuple[int, int]], n: int
) -> tuple[Samples, str]:
    """Counts by sub-group of the blocks without a polynomial, and the reason for one of them."""
    rng = np.random.default_rng(7)
    kind = rng.random(n)
    executions = Executions(lambda size: make(**{name: int(size[name]) for name in size}))
    rows = []
    for run in range(n):
        place = rng.random(len(ranges))
        if kind[run] < 0.3:
            place *= 0.7
        elif kind[run] > 0.7:
            place = 0.7 + 0.3 * place
        chosen = {
            name: round(least + float(at) * (most - least))
            for at, (name, (least, most)) in zip(place, ranges.items(), strict=True)
        }
        if "width" in chosen:  # the runs of a merge sort have powers of two
            chosen["width"] = 1 << round(np.log2(chosen["width"]))
        rows.append(chosen)
    table = np.array([executions.counts(row).by_subgroups for row in rows], np.float64)
    large = {name: str(most) for name, (_, most) in ranges.items()}
    report = block_report(executions, [large], lambda _: {})
    unknown = [row for row in report.rows if row.method == "unknown"]
    columns = {row.block.name: table[:, row.block.number].tolist() for row in unknown}
    inputs = {name: [float(row[name]) for row in rows] for name in ranges}
    return samples(inputs, columns), unknown[0].reason


def _draw(
    path: Path, panels: Mapping[str, tuple[FloatArray, FloatArray, FloatArray, FloatArray, Any]]
) -> str:
    """Predicted counts with intervals against actual ones; hollow symbols are outside the trained
    range."""
    picture = Picture(figsize=(5 * len(panels), 4.8), layout="constrained")
    for axes, (title, (actual, mean, low, high, outside)) in zip(
        picture.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True
    ):
        keep = actual > 0
        for chosen, face, words in ((~outside, COLOURS[0], "within"), (outside, "white", "beyond")):
            rows = keep & chosen
            axes.errorbar(
                actual[rows], mean[rows], [mean[rows] - low[rows], high[rows] - mean[rows]],
                fmt="o", markersize=4, color=COLOURS[0], markerfacecolor=face, linewidth=0.8,
                label=f"{words} the trained range",
            )  # fmt: skip
        line = [actual[keep].min(), actual[keep].max()]
        axes.plot(line, line, color="gray", linewidth=0.8)
        axes.set(title=title, xlabel="actual count", ylabel="predicted count")
        axes.ticklabel_format(style="sci", scilimits=(0, 4))
        axes.legend(loc="upper left", fontsize=8)
    return write_picture(path, picture, 110).name
