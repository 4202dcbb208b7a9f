"""Pictures of the figures of Baghsorkhi et al. (PPoPP 2012), and of the studies beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from scipy.stats import chi2

from experiments.stochastic.replays import Ratios as Floats
from memsim.files import write_picture
from memsim.report import LINE_COLOUR, PART_COLOURS
from memsim.statistics import describe

LEAST_SPAN = 2.0
"""Smallest range of an axis, in points of hit ratio."""


def histograms(path: Path, rows: Sequence[tuple[str, Mapping[str, Floats]]], title: str) -> str:
    """Histograms over orderings: one row for each application, one column for each hit ratio."""
    quantities = list(rows[0][1])
    figure = Figure(figsize=(3.3 * len(quantities), 1.5 * len(rows) + 0.5), layout="constrained")
    grid = figure.subplots(len(rows), len(quantities), squeeze=False)
    for (name, ratios), line in zip(rows, grid, strict=True):
        for quantity, axes in zip(quantities, line, strict=True):
            values = 100 * ratios[quantity]
            values = values[np.isfinite(values)]
            axes.tick_params(labelsize=7)
            if not len(values):
                axes.text(0.5, 0.5, "none", transform=axes.transAxes, ha="center", fontsize=8)
                axes.set(xticks=[], yticks=[])
                continue
            estimate = describe(values)
            # At least LEAST_SPAN wide, so that a ratio that does not vary looks constant.
            width = max(1.15 * float(np.ptp(values)), LEAST_SPAN)
            low = max(float(values.min() + values.max() - width) / 2, -0.02 * LEAST_SPAN)
            edges = np.linspace(low, low + width, 25)
            around = 2 * estimate.sigma
            axes.axvspan(estimate.mean - around, estimate.mean + around, color="#dddddd", lw=0)
            axes.hist(
                values, edges, weights=np.full(len(values), 1 / len(values)), color=LINE_COLOUR
            )
            axes.set_xlim(low, low + width)
            axes.set_ylim(0, 1.0 if estimate.sigma == 0 else None)
            axes.ticklabel_format(useOffset=False)
            axes.set_title(
                f"mean {estimate.mean:.2f} %, sigma {estimate.sigma:.2f} points", fontsize=7
            )
        line[0].set_ylabel(name, fontsize=8)
    for quantity, axes in zip(quantities, grid[-1], strict=True):
        axes.set_xlabel(f"{quantity} hit ratio, %", fontsize=8)
    figure.suptitle(title, fontsize=10)
    return write_picture(path, figure, 130).name


def convergence(path: Path, sigma: Floats, settled: int, barely: int) -> str:
    """Running sigma, and the band that holds 95 % of its values if the last one is the true
    sigma."""
    trials = np.arange(1, len(sigma) + 1)
    freedom = np.maximum(trials - 1, 1)
    low, high = (np.sqrt(chi2.ppf(p, freedom) / freedom) * sigma[-1] for p in (0.025, 0.975))
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.fill_between(
        trials[1:], low[1:], high[1:], color="lightgray", lw=0, label="chance alone (95 %)"
    )
    axes.plot(trials, sigma, color=LINE_COLOUR, label="sigma of the trials so far")
    axes.axhline(sigma[-1], color="black", lw=0.8, label=f"all: {sigma[-1]:.2f} points")
    for n, text in ((settled, "paper: converging"), (barely, "paper: barely better")):
        if n < len(sigma):
            axes.axvline(n, color="gray", lw=0.8, ls="--")
            axes.annotate(
                text, (n, 0.02), xycoords=("data", "axes fraction"), fontsize=7, rotation=90
            )
    axes.set(xlabel="trials", ylabel="sigma of the L2 load hit ratio, points", ylim=(0, None))
    figure.legend(frameon=False, fontsize=8, loc="outside upper center", ncols=3)
    return write_picture(path, figure, 150).name


def coverage(path: Path, shares: Mapping[str, Mapping[str, float]]) -> str:
    """Coverage of the 95 % intervals of each hit ratio, with the band from 93 to 97 %."""
    names = list(next(iter(shares.values())))
    figure = Figure(figsize=(7, 1.2 + 0.35 * len(names)), layout="constrained")
    axes = figure.subplots()
    axes.axvspan(93, 97, color="lightgray", lw=0)
    axes.axvline(95, color="black", lw=0.8)
    for k, (stopping, covered) in enumerate(shares.items()):
        at = np.arange(len(names)) + 0.2 * (k - (len(shares) - 1) / 2)
        axes.plot([100 * covered[name] for name in names], at, "os^D"[k], ms=5, label=stopping)
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.invert_yaxis()
    axes.set(xlabel="intervals that contain the mean of 1024 trials, %", xlim=(85, 100))
    axes.legend(frameon=False, fontsize=8, loc="lower left")
    return write_picture(path, figure, 150).name


@dataclass(frozen=True, kw_only=True)
class Segment:
    """A part of a stacked bar: one static load.

    once : latency of one execution, relative to the slowest load of the scalar kernel
    per_row : latency of all executions for a row, relative to all loads of the scalar kernel
    is_edge : True in the prologue or epilogue
    """

    array: str
    once: float
    per_row: float
    is_edge: bool


ARRAY_COLOURS = {"row_start": "#999999", "indices": "#E69F00", "values": "#0072B2", "x": "#009E73"}


def stacked_latencies(path: Path, bars: Mapping[str, Sequence[Segment]]) -> str:
    """One bar for each kernel and matrix, one segment for each static load, coloured by its array.

    The upper axes count each load once, as the paper does; the lower ones count every execution.
    """
    figure = Figure(figsize=(8.5, 7.4), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True)
    for k, segments in enumerate(bars.values()):
        at = k + 0.15 * (1 if k % 2 == 0 else -1)
        once = per_row = 0.0
        for segment in segments:
            look = {
                "color": ARRAY_COLOURS[segment.array],
                "edgecolor": "white",
                "hatch": "///" if segment.is_edge else "",
                "lw": 0.8,
            }
            top.bar(at, segment.once, 0.66, once, **look)
            bottom.bar(at, segment.per_row, 0.66, per_row, **look)
            once += segment.once
            per_row += segment.per_row
        bottom.annotate(f"{per_row:.2f}", (at, per_row), ha="center", va="bottom", fontsize=8)
    bottom.set_xticks(range(len(bars)), list(bars), fontsize=8)
    bottom.set_ylim(0, 1.12)
    top.set_ylabel(
        "latency of one execution of each load,\nover the slowest scalar load's", fontsize=8
    )
    bottom.set_ylabel("latency of all loads of a row,\nover the scalar kernel's", fontsize=8)
    handles = [
        Patch(color=colour, label=f"loads of {name}") for name, colour in ARRAY_COLOURS.items()
    ]
    handles.append(Patch(facecolor="lightgray", hatch="///", label="prologue, epilogue"))
    top.legend(
        handles=handles,
        frameon=False,
        fontsize=8,
        ncols=5,
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
    )
    return write_picture(path, figure, 150).name


def gains(path: Path, gain_of: Mapping[str, Mapping[str, tuple[float, float]]]) -> str:
    """Gain of the vectorised kernel for each matrix: the paper's speed-up, and several of ours.

    gain_of : matrix -> kind -> gain, and the half-width of its interval or NaN
    """
    kinds = list(next(iter(gain_of.values())))
    figure = Figure(figsize=(7, 3.8), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / len(kinds)
    for k, (kind, colour) in enumerate(zip(kinds, ("black", *PART_COLOURS), strict=False)):
        at = np.arange(len(gain_of)) + width * (k - (len(kinds) - 1) / 2)
        values, half_widths = np.array([gain_of[name][kind] for name in gain_of]).T
        axes.bar(at, values, 0.9 * width, color=colour, label=kind)
        axes.errorbar(at, values, half_widths, fmt="none", ecolor="black", lw=0.8, capsize=2)
        for x, value in zip(at, values, strict=True):
            axes.annotate(f"{value:.3g}", (x, value), ha="center", va="bottom", fontsize=7)
    axes.axhline(1, color="gray", lw=0.8)
    axes.set_xticks(range(len(gain_of)), [f"matrix {name}" for name in gain_of])
    axes.set(yscale="log", ylabel="scalar over vectorised")
    ticks = [0.5, 1, 2, 4, 8, 16]
    axes.set_yticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    low = min(value for of in gain_of.values() for value, _ in of.values())
    axes.set_ylim(min(0.5, 0.8 * low), 26)
    axes.legend(frameon=False, fontsize=8, ncols=2, loc="upper left")
    return write_picture(path, figure, 150).name


def latency_densities(path: Path, samples: Mapping[str, Mapping[str, Floats]]) -> str:
    """Distribution of main-memory latency: one panel for each machine, one histogram for each
    kernel."""
    figure = Figure(figsize=(4.6 * len(samples), 3.4), layout="constrained")
    for axes, (machine, kernels) in zip(
        figure.subplots(1, len(samples), squeeze=False)[0], samples.items(), strict=True
    ):
        every = np.concatenate(list(kernels.values()))
        edges = np.linspace(every.min(), np.quantile(every, 0.998), 60)
        for (kernel, values), colour in zip(
            kernels.items(), (LINE_COLOUR, PART_COLOURS[1]), strict=False
        ):
            axes.hist(
                values,
                edges,
                weights=np.full(len(values), 1 / len(values)),
                color=colour,
                alpha=0.65,
                label=f"{kernel}, mean {values.mean():.0f} ns",
            )
            axes.axvline(values.mean(), color=colour, lw=1)
        axes.set(xlabel="main-memory latency, ns", ylabel="share of the requests")
        axes.set_title(machine, fontsize=9)
        axes.legend(frameon=False, fontsize=8, loc="upper right")
    return write_picture(path, figure, 150).name
