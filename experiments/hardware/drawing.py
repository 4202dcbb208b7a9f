"""Pictures that compare ours with measured values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FormatStrFormatter, LogLocator, NullLocator

from experiments.reproduction import Case
from memsim.files import write_picture

NAMED = 4
"""Number of points with a label: those with the largest errors."""


def scatter(path: Path, cases: Sequence[Case], title: str) -> str:
    """Ours against measured on logarithmic axes, with lines of equality and of 20 % error."""
    measured = np.array([case.reference for case in cases], np.float64)
    ours = np.array([case.ours for case in cases])
    figure = Figure(figsize=(5, 5), layout="constrained")
    axes = figure.add_subplot()
    low, high = 0.9 * min(measured.min(), ours.min()), 1.1 * max(measured.max(), ours.max())
    ends = np.array([low, high])
    axes.loglog(ends, ends, color="gray", linewidth=1, label="equal")
    for factor, label in ((0.8, "20 % error"), (1.2, None)):
        line = {"color": "silver", "linewidth": 0.8, "linestyle": "--"}
        axes.loglog(ends, factor * ends, label=label, **line)
    axes.loglog(measured, ours, "o", markersize=4)
    off = np.abs(ours / measured - 1)
    for k in np.argsort(-off)[:NAMED]:
        text = f"{cases[k].case} {100 * (ours[k] / measured[k] - 1):+.0f} %"
        left = measured[k] < np.sqrt(low * high)
        axes.annotate(
            text,
            (measured[k], ours[k]),
            fontsize=6,
            xytext=(5, -2) if left else (-5, -2),
            textcoords="offset points",
            ha="left" if left else "right",
        )
    ticks = (1, 3) if high > 30 * low else (1, 1.5, 2, 3, 5, 7)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=ticks))
        axis.set_major_formatter(FormatStrFormatter("%g"))
        axis.set_minor_locator(NullLocator())
    unit = cases[0].unit
    axes.set(title=title, xlabel=f"measured, {unit}", ylabel=f"ours, {unit}", xlim=ends, ylim=ends)
    axes.legend(fontsize=7, loc="upper left")
    axes.title.set_fontsize(9)
    return write_picture(path, figure, 150).name


def curve(path: Path, cases: Sequence[Case], title: str, unit: str) -> str:
    """Measured and ours against the size of the buffer, the first word of a case's name."""
    size = [float(case.case.split()[0]) for case in cases]
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.add_subplot()
    axes.semilogx(size, [case.reference or 0.0 for case in cases], "o-", markersize=3)
    axes.semilogx(size, [case.ours for case in cases], "s--", markersize=3)
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
    axes.xaxis.set_major_formatter(FormatStrFormatter("%g"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.legend(["measured", "ours"], loc="upper left")
    axes.set(title=title, xlabel="buffer, kB", ylabel=unit)
    return write_picture(path, figure, 150).name
