"""Pictures of comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from experiments.reproduction import Case


def scatter(path: Path, cases: Sequence[Case], title: str) -> str:
    """Ours over measured, both logarithmic, with the lines of equality and of 20 %."""
    measured = np.array([case.reference for case in cases], np.float64)
    ours = np.array([case.ours for case in cases])
    figure = Figure(figsize=(5, 5), layout="constrained")
    axes = figure.add_subplot()
    low, high = 0.9 * min(measured.min(), ours.min()), 1.1 * max(measured.max(), ours.max())
    ends = np.array([low, high])
    axes.loglog(ends, ends, color="gray", linewidth=1)
    for factor in (0.8, 1.2):
        axes.loglog(ends, factor * ends, color="lightgray", linewidth=0.8, linestyle="--")
    axes.loglog(measured, ours, "o", markersize=4)
    for case, x, y in zip(cases, measured, ours, strict=True):
        if abs(y / x - 1) > 0.15:
            axes.annotate(case.case, (x, y), fontsize=6, xytext=(3, 3), textcoords="offset points")
    axes.set(title=title, xlabel="measured", ylabel="ours", xlim=ends, ylim=ends)
    axes.title.set_fontsize(9)
    figure.savefig(path, dpi=150)
    return path.name


def curve(path: Path, cases: Sequence[Case], title: str, unit: str) -> str:
    """Measured and ours over the buffer's size, which the case's name begins with."""
    size = [float(case.case.split()[0]) for case in cases]
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.add_subplot()
    axes.semilogx(size, [case.reference or 0.0 for case in cases], "o-", markersize=3)
    axes.semilogx(size, [case.ours for case in cases], "s--", markersize=3)
    axes.legend(["measured", "ours"])
    axes.set(title=title, xlabel="buffer, kB", ylabel=unit)
    figure.savefig(path, dpi=150)
    return path.name
