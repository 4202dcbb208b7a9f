"""The pictures of this paper's figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from scipy.stats import chi2

from experiments.stochastic.replays import Ratios as Floats
from memsim.report import DRAM_COLOUR, LINE_COLOUR, PART_COLOURS
from memsim.statistics import describe
from tracegen.recording import WAVES as DEFAULT_WAVES

if TYPE_CHECKING:
    from experiments.stochastic.ordering import Access
    from experiments.stochastic.snapshots import Study

LEAST_SPAN = 2.0
"""Points of hit ratio that an axis shows at least."""


def histograms(path: Path, rows: Sequence[tuple[str, Mapping[str, Floats]]], title: str) -> str:
    """A row an application, a column a hit ratio: how often orderings give which value."""
    quantities = list(rows[0][1])
    figure = Figure(figsize=(3.3 * len(quantities), 1.5 * len(rows) + 0.5), layout="constrained")
    grid = figure.subplots(len(rows), len(quantities), squeeze=False)
    for (name, found), line in zip(rows, grid, strict=True):
        for quantity, axes in zip(quantities, line, strict=True):
            values = 100 * found[quantity]
            values = values[np.isfinite(values)]
            axes.tick_params(labelsize=7)
            if not len(values):
                axes.text(0.5, 0.5, "none", transform=axes.transAxes, ha="center", fontsize=8)
                axes.set(xticks=[], yticks=[])
                continue
            estimate = describe(values)
            # Never narrower than two points, so that what does not vary is seen not to.
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
    figure.savefig(path, dpi=130)
    return path.name


def convergence(path: Path, sigma: Floats, settled: int, barely: int) -> str:
    """Running sigma with the 95 % band that it has if the last one is the true one."""
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
    for n, said in ((settled, "paper: converging"), (barely, "paper: barely better")):
        if n < len(sigma):
            axes.axvline(n, color="gray", lw=0.8, ls="--")
            axes.annotate(
                said, (n, 0.02), xycoords=("data", "axes fraction"), fontsize=7, rotation=90
            )
    axes.set(xlabel="trials", ylabel="sigma of the L2 load hit ratio, points", ylim=(0, None))
    figure.legend(frameon=False, fontsize=8, loc="outside upper center", ncols=3)
    figure.savefig(path, dpi=150)
    return path.name


def coverage(path: Path, shares: Mapping[str, Mapping[str, float]]) -> str:
    """How often each interval held the truth, beside the band from 93 to 97 %."""
    names = list(next(iter(shares.values())))
    figure = Figure(figsize=(7, 1.2 + 0.35 * len(names)), layout="constrained")
    axes = figure.subplots()
    axes.axvspan(93, 97, color="lightgray", lw=0)
    axes.axvline(95, color="black", lw=0.8)
    for k, (ended, found) in enumerate(shares.items()):
        at = np.arange(len(names)) + 0.2 * (k - (len(shares) - 1) / 2)
        axes.plot([100 * found[name] for name in names], at, "os^D"[k], ms=5, label=ended)
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.invert_yaxis()
    axes.set(xlabel="intervals that hold the mean of 1024 trials, %", xlim=(85, 100))
    axes.legend(frameon=False, fontsize=8, loc="lower left")
    figure.savefig(path, dpi=150)
    return path.name


@dataclass(frozen=True, kw_only=True)
class Segment:
    """A part of a stacked bar: a static load of an array; is_edge : of prologue or epilogue.

    once : latency of one execution, over that of the slowest scalar load
    per_row : latency of all executions for a row, over that of all scalar loads
    """

    array: str
    once: float
    per_row: float
    is_edge: bool


ARRAY_COLOURS = {"row_start": "#999999", "indices": "#E69F00", "values": "#0072B2", "x": "#009E73"}


def stacked_latencies(path: Path, bars: Mapping[str, Sequence[Segment]]) -> str:
    """A bar a kernel and matrix, a segment a static load, coloured by the array that it reads.

    On top as in the paper, each load once; below as often as it is executed.
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
    figure.savefig(path, dpi=150)
    return path.name


def gains(path: Path, found: Mapping[str, Mapping[str, tuple[float, float]]]) -> str:
    """For each matrix, what vectors gain: the paper's speed-up, and ours of several kinds.

    found : matrix -> kind -> gain, and half-width of its interval or NaN
    """
    kinds = list(next(iter(found.values())))
    figure = Figure(figsize=(7, 3.8), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / len(kinds)
    for k, (kind, colour) in enumerate(zip(kinds, ("black", *PART_COLOURS), strict=False)):
        at = np.arange(len(found)) + width * (k - (len(kinds) - 1) / 2)
        values, half_widths = np.array([found[name][kind] for name in found]).T
        axes.bar(at, values, 0.9 * width, color=colour, label=kind)
        axes.errorbar(at, values, half_widths, fmt="none", ecolor="black", lw=0.8, capsize=2)
        for x, value in zip(at, values, strict=True):
            axes.annotate(f"{value:.3g}", (x, value), ha="center", va="bottom", fontsize=7)
    axes.axhline(1, color="gray", lw=0.8)
    axes.set_xticks(range(len(found)), [f"matrix {name}" for name in found])
    axes.set(yscale="log", ylabel="scalar over vectorised")
    ticks = [0.5, 1, 2, 4, 8, 16]
    axes.set_yticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    low = min(value for of in found.values() for value, _ in of.values())
    axes.set_ylim(min(0.5, 0.8 * low), 26)
    axes.legend(frameon=False, fontsize=8, ncols=2, loc="upper left")
    figure.savefig(path, dpi=150)
    return path.name


def latency_densities(path: Path, samples: Mapping[str, Mapping[str, Floats]]) -> str:
    """A panel a machine: how often a request to main memory takes how long, kernel by kernel."""
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
        axes.set(xlabel="main-memory latency, ns", ylabel="part of the requests")
        axes.set_title(machine, fontsize=9)
        axes.legend(frameon=False, fontsize=8, loc="upper right")
    figure.savefig(path, dpi=150)
    return path.name


SAMPLER_MARKS = {"wrr": "o", "lrr": "s", "gto": "^", "uniform": "D"}
SAMPLER_NAMES = {
    "wrr": "weighted round robin",
    "lrr": "loose round robin",
    "gto": "greedy, then oldest",
    "uniform": "uniform",
}


def orderings(path: Path, accesses: Sequence[Access]) -> str:
    """A row an access: its expected latency under each sampler, cores in step or out of step."""
    figure = Figure(figsize=(9, 1.6 + 0.5 * len(accesses)), layout="constrained")
    axes = figure.subplots()
    for row, access in enumerate(accesses):
        every = [e.mean for e in access.latency.values() if e.is_defined]
        axes.plot(
            [min(every), max(every)],
            [row, row],
            color="lightgray",
            lw=9,
            zorder=0,
            solid_capstyle="round",
        )
        for (sampler, deviation), estimate in access.latency.items():
            colour = LINE_COLOUR if deviation else DRAM_COLOUR
            at = row - 0.24 + 0.16 * list(SAMPLER_MARKS).index(sampler)
            axes.errorbar(
                estimate.mean,
                at,
                xerr=2 * estimate.sigma,
                fmt=SAMPLER_MARKS[sampler],
                color=colour,
                markersize=4.5,
                lw=0.9,
                alpha=0.85,
            )
        change = max(every) / min(every) - 1
        axes.annotate(
            f"{100 * change:.0f} %" + ("  order-sensitive" if access.is_marked else ""),
            (1.01, row),
            xycoords=("axes fraction", "data"),
            fontsize=7,
            va="center",
            annotation_clip=False,
        )
    axes.set_yticks(
        range(len(accesses)),
        [f"{a.kernel}: {a.site}  ({100 * a.share:.0f} % of the latency)" for a in accesses],
        fontsize=7,
    )
    axes.invert_yaxis()
    axes.set_xlabel("expected latency, cycles; a bar is 95 % of the orderings (2 sigma)")
    handles = [
        *(
            Line2D([], [], marker=m, ls="", color="black", label=SAMPLER_NAMES[k])
            for k, m in SAMPLER_MARKS.items()
        ),
        Patch(color=LINE_COLOUR, label="cores out of step (deviation on)"),
        Patch(color=DRAM_COLOUR, label="cores in step (deviation off)"),
    ]
    axes.legend(
        handles=handles,
        frameon=False,
        fontsize=7,
        ncols=3,
        loc="lower center",
        bbox_to_anchor=(0.4, 1.0),
    )
    figure.savefig(path, dpi=150)
    return path.name


def snapshot_sizes(path: Path, studies: Sequence[Study]) -> str:
    """A row a kernel, a column a hit ratio: against waves, warmed and cold; the positions beside."""
    quantities = list(studies[0].by_size)
    figure = Figure(figsize=(3.4 * len(quantities), 1.9 * len(studies) + 0.4), layout="constrained")
    grid = figure.subplots(len(studies), len(quantities), squeeze=False)
    for study, line in zip(studies, grid, strict=True):
        for quantity, axes in zip(quantities, line, strict=True):
            warm, in_step = study.by_size[quantity], study.in_step[quantity]
            cold = study.cold[quantity]
            axes.plot(study.sizes, warm, "o-", ms=3, color=LINE_COLOUR, label="default")
            axes.plot(study.sizes, in_step, "^:", ms=3, color="gray", label="cores in step")
            axes.plot(study.sizes, cold, "s--", ms=3, color=DRAM_COLOUR, label="in step, cold")
            places = study.by_position[quantity]
            axes.plot(
                [DEFAULT_WAVES] * len(places),
                places,
                "x",
                ms=5,
                color="black",
                label="other places",
            )
            axes.set_xscale("log", base=2)
            axes.set_xticks(study.sizes, [str(size) for size in study.sizes])
            axes.minorticks_off()
            axes.tick_params(labelsize=7)
            shown = np.array([*warm, *in_step, *cold, *places])
            if np.isfinite(shown).any():
                middle = (np.nanmin(shown) + np.nanmax(shown)) / 2
                half = max(0.6 * (np.nanmax(shown) - np.nanmin(shown)), LEAST_SPAN)
                axes.set_ylim(middle - half, middle + half)
            axes.set_title(f"{quantity} hit ratio, %", fontsize=7)
        line[0].set_ylabel(study.kernel, fontsize=8)
    for axes in grid[-1]:
        axes.set_xlabel("waves of resident groups", fontsize=8)
    drawn = grid[0][0].get_legend_handles_labels()
    figure.legend(*drawn, frameon=False, fontsize=8, loc="outside upper center", ncols=4)
    figure.savefig(path, dpi=130)
    return path.name
