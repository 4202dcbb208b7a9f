"""Pictures of the figures of Stevens and Klöckner 2020."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from experiments.perflex.evaluation import MODELS, Evaluation
from memsim.files import write_picture

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


def variants(path: Path, evaluation: Evaluation) -> str:
    """Measured and predicted times against size: one panel for each model, one colour for each
    variant."""
    figure = Figure(figsize=(3.1 * len(MODELS), 3.6), layout="constrained")
    panels: Any = figure.subplots(1, len(MODELS), sharey=True)
    labels = list(dict.fromkeys(evaluation.labels))
    rows = np.array(evaluation.labels)
    for panel, model in zip(panels, MODELS, strict=True):
        for index, label in enumerate(labels):
            of_variant = rows == label
            sizes = evaluation.sizes[of_variant]
            panel.plot(
                sizes,
                1e3 * evaluation.measured[of_variant],
                "o-",
                color=f"C{index}",
                label=label,
                markersize=4,
            )
            panel.plot(
                sizes,
                1e3 * evaluation.predicted[model][of_variant],
                "x--",
                color=f"C{index}",
                markersize=6,
            )
        panel.set_yscale("log")
        panel.set_xscale("log")
        ticks = np.unique(evaluation.sizes)
        panel.set_xticks(ticks, [str(tick) for tick in ticks], fontsize=7)
        panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.yaxis.set_major_formatter("{x:g}")
        panel.minorticks_off()
        panel.set_title(f"{model}: {100 * evaluation.mean_error(model):.1f} %", fontsize=9)
        panel.set_xlabel(evaluation.application.size)
    panels[0].set_ylabel("ms; circles measured, crosses predicted")
    panels[0].legend(fontsize=7, loc="upper left")
    return write_picture(path, figure, 130).name


def lines(
    path: Path,
    x: Sequence[float] | Floats,
    curves: Mapping[str, Floats],
    *,
    title: str,
    xlabel: str,
    ylabel: str,
    logarithmic: bool = False,
) -> str:
    """Several curves; those with a name that begins with `measured` are drawn as circles."""
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.add_subplot()
    for name, y in curves.items():
        axes.plot(
            x,
            y,
            "o" if name.startswith("measured") else "-" if len(x) > 20 else ".-",
            label=name,
            markersize=5,
        )
    if logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.minorticks_off()
    axes.set(title=title, xlabel=xlabel, ylabel=ylabel)
    axes.title.set_fontsize(10)
    figure.legend(fontsize=8, loc="outside lower center", ncols=2)
    return write_picture(path, figure, 150).name


def bars(path: Path, groups: Mapping[str, Mapping[str, float]], title: str, ylabel: str) -> str:
    """One group of bars for each name, one bar for each entry."""
    figure = Figure(figsize=(1.5 + 1.3 * len(groups), 4), layout="constrained")
    axes = figure.add_subplot()
    entries = list(dict.fromkeys(name for group in groups.values() for name in group))
    width = 0.8 / len(entries)
    for index, entry in enumerate(entries):
        heights = [group.get(entry, np.nan) for group in groups.values()]
        places = np.arange(len(groups)) + (index - (len(entries) - 1) / 2) * width
        axes.bar(places, heights, width, label=entry)
    axes.set_xticks(np.arange(len(groups)), list(groups), fontsize=8)
    axes.set(title=title, ylabel=ylabel)
    axes.title.set_fontsize(10)
    figure.legend(fontsize=8, loc="outside lower center", ncols=2)
    return write_picture(path, figure, 150).name


def rates(path: Path, values: Mapping[str, float], halves: Mapping[str, float], title: str) -> str:
    """One bar for each parameter on a logarithmic axis, with its 95 % interval."""
    figure = Figure(figsize=(6, 0.8 + 0.3 * len(values)), layout="constrained")
    axes = figure.add_subplot()
    rows = np.arange(len(values))
    lengths = np.array(list(values.values()))
    reach = np.array([halves.get(name, 0.0) for name in values])
    low = np.minimum(reach, 0.9 * lengths)  # an interval that contains 0 has no end on this axis
    axes.barh(rows, lengths, xerr=[low, reach], capsize=2)
    axes.set_yticks(rows, list(values), fontsize=8)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set(title=title, xlabel="seconds per count, with 95 % interval")
    axes.title.set_fontsize(10)
    return write_picture(path, figure, 150).name
