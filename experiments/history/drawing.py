"""Pictures of speed and prediction error by iteration."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from calib.history import plain_ticks
from memsim.files import write_picture

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")


def iterations(path: Path, title: str, greedy: Sequence[float], by_history: Sequence[float]) -> str:
    """GFlop/s of each run, and the mean of the greedy runs as a line."""
    figure = Figure(figsize=(6, 4.4), layout="constrained")
    axes = figure.add_subplot()
    number = range(1, len(greedy) + 1)
    axes.axhline(statistics.mean(greedy), color=COLOURS[1], linewidth=0.8, linestyle="--")
    axes.plot(number, greedy, "s", color=COLOURS[1], label="greedy (dashed: its mean)")
    axes.plot(number, by_history, "o-", color=COLOURS[0], label="earliest finish by history")
    axes.set(xlabel="iteration", ylabel="GFlop/s", title=f"Tiled LU, {title}")
    axes.set_ylim(0, 1.08 * max(*greedy, *by_history))
    axes.set_xticks(list(number))
    axes.grid(alpha=0.2)
    figure.legend(loc="outside lower center", ncols=2)
    return write_picture(path, figure, 130).name


def errors(
    path: Path,
    title: str,
    curves: Mapping[str, Sequence[float]],
    by_samples: Mapping[str, Mapping[tuple[int, int], float]],
) -> str:
    """Prediction error in percent by iteration and by the number of samples; one curve for each
    worker."""
    figure = Figure(figsize=(10, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for colour, (worker, values) in zip(COLOURS, curves.items(), strict=False):
        number = range(1, len(values) + 1)
        left.semilogy(number, [100 * v for v in values], "o-", color=colour, label=worker)
        left.set_xticks(list(number))
        bins = by_samples[worker]
        right.loglog(
            [low for low, _ in bins],
            [100 * v for v in bins.values()],
            "o-",
            color=colour,
            label=worker,
        )
    for axes in (left, right):
        for value, name in ((1.0, "the paper, CPUs"), (0.1, "the paper, GPU")):
            axes.axhline(value, color="gray", linewidth=0.8, linestyle=":")
            axes.annotate(
                name,
                (0.99, value),
                xycoords=axes.get_yaxis_transform(),
                fontsize=8,
                color="gray",
                ha="right",
                xytext=(0, 2),
                textcoords="offset points",
            )
        axes.grid(alpha=0.2, which="both")
        plain_ticks(axes.yaxis)
    plain_ticks(right.xaxis)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    left.set(xlabel="iteration", ylabel="error (%)", title=f"Prediction error, {title}")
    right.set(xlabel="samples per prediction (lower end of the range)", title="over all iterations")
    return write_picture(path, figure, 130).name
