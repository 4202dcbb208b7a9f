"""The pictures that several figures share: points against measured values, lines in panels, and bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FormatStrFormatter, LogLocator, NullLocator

from calib.history import plain_ticks
from experiments.reproduction import Case
from memsim.files import write_picture

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Colours that colour-blind readers can distinguish (Okabe and Ito)."""
DPI = 130
LETTERS_AN_INCH = 12
"""Of a legend."""
LABELLED = 20
"""Most bars that have their values written beside them."""
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
    measured = Line(size, [case.reference or 0.0 for case in cases], "o-", "measured")
    ours = Line(size, [case.ours for case in cases], "s--", "ours", 1)
    return panels(path, Panel([measured, ours], title, "buffer, kB", unit, log="x"))


def lines(path: Path, x: Any, curves: Mapping[str, Any], panel: Panel) -> str:
    """Curves over common x in an empty panel; those with a name that begins with `measured` as circles."""
    drawn = [
        Line(x, y, "o" if name.startswith("measured") else "-", name, k)
        for k, (name, y) in enumerate(curves.items())
    ]
    return panels(path, panel._replace(lines=drawn))


class Line(NamedTuple):
    """Points of a panel.

    style : as matplotlib's `fmt`, such as `o--`;  colour : number in COLOURS
    names : a label for each point, empty where it has none
    """

    x: Any
    y: Any
    style: str = "o-"
    label: str = ""
    colour: int = 0
    names: Sequence[str] = ()


class Panel(NamedTuple):
    """Lines on common axes.

    log : `x`, `y` or `xy`, the logarithmic axes
    ticks : of x; by default those of the axis
    levels : name -> y of a dotted line
    """

    lines: Sequence[Line] = ()
    title: str = ""
    xlabel: str = ""
    ylabel: str = ""
    log: str = ""
    ticks: Sequence[float] | None = None
    levels: Mapping[str, float] = {}


def panels(path: Path, *given: Panel, size: tuple[float, float] = (6, 4.4)) -> str:
    """Panels side by side with one scale of y and one legend below.  size : of the picture in inches"""
    figure = Figure(figsize=size, layout="constrained")
    every = figure.subplots(1, len(given), sharey=True, squeeze=False)[0]
    for axes, panel in zip(every, given, strict=True):
        axes.set(title=panel.title, xlabel=panel.xlabel, ylabel=panel.ylabel)
        axes.title.set_fontsize(10)
        for line in panel.lines:
            colour = COLOURS[line.colour % len(COLOURS)]
            label = line.label or None
            axes.plot(line.x, line.y, line.style, label=label, color=colour, markersize=4)
            for x, y, name in zip(line.x, line.y, line.names, strict=False):
                axes.annotate(name, (x, y), fontsize=6, xytext=(5, -2), textcoords="offset points")
        for name, level in panel.levels.items():
            axes.axhline(level, color="gray", linewidth=0.8, linestyle=":")
            axes.annotate(
                name, (0.99, level), xycoords=axes.get_yaxis_transform(), fontsize=8, color="gray",
                ha="right", xytext=(0, 2), textcoords="offset points",
            )  # fmt: skip
        for letter in panel.log:
            if not any(value > 0 for line in panel.lines for value in getattr(line, letter)):
                continue  # matplotlib draws no logarithm of nothing
            axes.set(**{f"{letter}scale": "log"})
            plain_ticks(getattr(axes, f"{letter}axis"))
        if not panel.log.count("y"):
            axes.set_ylim(bottom=min(0, axes.get_ylim()[0]))
        if panel.ticks is not None:
            axes.set_xticks(panel.ticks, [f"{tick:g}" for tick in panel.ticks], fontsize=8)
            axes.set_xticks([], minor=True)
        axes.grid(alpha=0.2)
    handles, labels = every[0].get_legend_handles_labels()
    if handles:
        columns = int(LETTERS_AN_INCH * size[0] / (max(map(len, labels)) + 6))
        figure.legend(
            handles, labels, loc="outside lower center", ncols=max(columns, 1), fontsize=8
        )
    return write_picture(path, figure, DPI).name


Height = float | tuple[float, float]
"""Of a bar, alone or with the half-width of its interval, which may be NaN."""


def bars(
    path: Path,
    groups: Mapping[str, Mapping[str, Height]],
    title: str,
    label: str,
    *,
    floor: float | None = None,
    across: bool = False,
) -> str:
    """A group of bars for each name, with a bar for each entry.

    floor : where the scale begins, which is then logarithmic; 0 below the least bar
    across : bars run from left to right
    """
    entries = list(dict.fromkeys(name for group in groups.values() for name in group))
    long, narrow = 1.5 + (0.2 if across else 0.15) * len(groups) * (len(entries) + 1), 4.4
    figure = Figure(figsize=(7, long) if across else (max(long, 6), narrow), layout="constrained")
    axes = figure.add_subplot()
    width = 0.8 / len(entries)
    for k, entry in enumerate(entries):
        pairs = [group.get(entry, np.nan) for group in groups.values()]
        heights, halves = np.array([p if isinstance(p, tuple) else (p, np.nan) for p in pairs]).T
        heights = np.maximum(heights, floor or -np.inf)
        below = np.minimum(halves, 0.9 * heights) if floor is not None else halves
        at = np.arange(len(groups)) + (k - (len(entries) - 1) / 2) * width
        look: dict[str, Any] = {"color": COLOURS[k % len(COLOURS)], "label": entry, "capsize": 2}
        if across:
            drawn = axes.barh(at, heights, 0.9 * width, xerr=[below, halves], **look)
        else:
            drawn = axes.bar(at, heights, 0.9 * width, yerr=[below, halves], **look)
        if len(groups) * len(entries) <= LABELLED:
            axes.bar_label(drawn, fmt="{:.3g}", fontsize=7)
    scale: Literal["x", "y"] = "x" if across else "y"
    names: Literal["x", "y"] = "y" if across else "x"
    ticks: dict[str, Any] = {
        f"{names}ticks": range(len(groups)),
        f"{names}ticklabels": list(groups),
    }
    axes.set(title=title, **{f"{scale}label": label}, **ticks)
    axes.tick_params(names, labelsize=8, rotation=30 if not across and len(groups) > 8 else 0)
    if across:
        axes.invert_yaxis()
    if floor is not None:
        axes.set(**{f"{scale}scale": "log"})
        axes.set(**{f"{scale}lim": (floor or None, None)})
    axes.title.set_fontsize(10)
    axes.grid(axis=scale, alpha=0.3)
    if len(entries) > 1:
        figure.legend(fontsize=8, loc="outside lower center", ncols=2)
    return write_picture(path, figure, DPI).name
