"""Pictures of the figures of BB-ML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from calib.block_counts import FloatArray
from experiments.bbml.evaluation import Scores
from memsim.files import write_picture

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
BINS = 30


def heatmaps(path: Path, words: str, scores: Mapping[str, Scores]) -> str:
    """Predicted against actual counts, one panel for each application."""
    figure = Figure(figsize=(12, 12), layout="constrained")
    panels = figure.subplots(4, 4, sharex=True, sharey=True)
    edges = np.linspace(0, 1.2, BINS + 1)
    for axes, (name, score) in zip(panels.flat, scores.items(), strict=True):
        keep = score.actual.max(axis=0) > 0
        x, y = score.actual[:, keep].ravel(), np.clip(score.predicted[:, keep].ravel(), 0, 1.2)
        axes.hist2d(x, y, bins=(edges, edges), cmap="viridis", norm=LogNorm(), cmin=1)
        axes.plot([0, 1.2], [0, 1.2], color="gray", linewidth=0.8)
        axes.set_title(f"{name}: accuracy {100 * score.accuracy:.1f} %", fontsize=10)
    figure.suptitle(f"High inputs, {words}")
    figure.supxlabel("actual count / largest count of the block")
    figure.supylabel(
        "predicted count / largest count of the block (values above 1.2 are shown at 1.2)"
    )
    return write_picture(path, figure, 90).name


def by_sample_size(
    path: Path,
    curves: Mapping[Any, Mapping[str, Sequence[float]]],
    sizes: Mapping[str, Sequence[int]],
    words: Mapping[Any, str],
) -> str:
    """Error, 1 - accuracy, against the number of samples; one panel for each method of learning."""
    figure = Figure(figsize=(12, 5), layout="constrained")
    panels = figure.subplots(1, len(curves), sharey=True)
    for axes, (how, lines) in zip(panels, curves.items(), strict=True):
        for k, (name, values) in enumerate(lines.items()):
            style = ("-", "--", ":", "-.")[k // 4]
            error = [max(100 * (1 - value), 1e-6) for value in values]
            axes.loglog(
                sizes[name], error, "o" + style, color=COLOURS[k % 4], markersize=3, label=name
            )
        axes.set(title=words[how], xlabel="training samples")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("{x:g}")
        axes.tick_params(axis="x", which="both", labelsize=8)
        axes.grid(alpha=0.2)
    panels[0].set_ylabel("100 % - accuracy on the test samples, %")
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside right center", fontsize=8)
    return write_picture(path, figure, 110).name


def distribution(path: Path, title: str, counts: FloatArray, density: Any, poisson: Any) -> str:
    """Density of the counts, and the Poisson distribution with the same mean."""
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axes = figure.add_subplot()
    x = np.linspace(0, counts.max() * 1.1, 400)
    axes.plot(x, density(x), color=COLOURS[0], label="density of the counts (Gaussian kernels)")
    axes.axvline(counts.mean(), color=COLOURS[1], linewidth=1.2)
    axes.annotate(
        f"Poisson distribution with this mean:\n{counts.mean():.0f} ± {poisson:.0f}, as wide as this line",
        (counts.mean(), 0.93), xycoords=axes.get_xaxis_transform(), xytext=(6, 0),
        textcoords="offset points", va="top", color=COLOURS[1],
    )  # fmt: skip
    axes.plot(counts, np.zeros_like(counts), "|", color="gray", label="samples")
    axes.set(title=title, xlabel="count of the block, sub-groups", ylabel="probability density")
    axes.set_ylim(bottom=0)
    figure.legend(loc="outside lower center", ncols=2)
    return write_picture(path, figure, 110).name


def bars(path: Path, title: str, groups: Mapping[str, Mapping[str, float]], floor: float) -> str:
    """Errors in percent on a logarithmic scale from `floor` on; one group of bars for each
    application."""
    figure = Figure(figsize=(12, 4.6), layout="constrained")
    axes = figure.add_subplot()
    names = list(groups)
    series = list(next(iter(groups.values())))
    width = 0.8 / len(series)
    for k, one in enumerate(series):
        values = [max(groups[name][one], floor) for name in names]
        at = np.arange(len(names)) + (k - (len(series) - 1) / 2) * width
        axes.bar(at, values, width, color=COLOURS[k], label=one)
    axes.set_yscale("log")
    axes.set_ylim(bottom=floor)
    axes.set_xticks(range(len(names)), names, rotation=30, ha="right")
    axes.set(title=title, ylabel="error, %")
    axes.grid(axis="y", alpha=0.3)
    figure.legend(loc="outside lower center", ncols=len(series))
    return write_picture(path, figure, 110).name


def predictions(
    path: Path, panels: Mapping[str, tuple[FloatArray, FloatArray, FloatArray, FloatArray, Any]]
) -> str:
    """Predicted counts with intervals against actual ones; hollow symbols are outside the trained
    range."""
    figure = Figure(figsize=(5 * len(panels), 4.8), layout="constrained")
    for axes, (title, (actual, mean, low, high, outside)) in zip(
        figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True
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
    return write_picture(path, figure, 110).name
