"""Figures of a replay for notebooks and papers: `replay.plot.histogram()`, ...

Each method returns a new matplotlib Figure and changes no global state. A notebook shows it; elsewhere,
call `figure.savefig(path)`.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from memsim.latency import DRAM, load_hit_ratio, site_hit_ratio
from memsim.report import text
from memsim.report.summary import summarise
from memsim.statistics import bins, describe, running

# Okabe and Ito's palette, distinguishable with any colour vision, from light (near) to dark (far)
PART_COLOURS = ("#56B4E9", "#E69F00", "#009E73", "#CC79A7")
DRAM_COLOUR = "#D55E00"
LINE_COLOUR = "#0072B2"


LONGEST_LABEL = 40
SETTLED = 4
"""Trials from which on intervals decide the scale of an axis: that of two trials is often ten times wider."""


class Picture(Figure):
    """A Figure that notebooks show even where pyplot, which would register it with them, is not imported."""

    def _repr_png_(self) -> bytes:
        content = io.BytesIO()
        self.savefig(content, format="png")
        return content.getvalue()


def part_colour(part: str, level_names: Sequence[str]) -> str:
    """A level's colour, by its distance from the core."""
    if part == DRAM:
        return DRAM_COLOUR
    return PART_COLOURS[list(level_names).index(part) % len(PART_COLOURS)]


class Plots:
    """The figures of one replay."""

    def __init__(self, dataset: xr.Dataset) -> None:
        self._dataset = dataset
        self._levels = tuple(str(name) for name in dataset["level"].values)

    def histogram(self, site: str | None = None) -> Picture:
        """Hit ratios over trials, level by level: of the kernel's loads, or of one access."""
        levels = self._levels
        figure = Picture(figsize=(4.2 * max(len(levels), 1), 3.0), layout="constrained")
        axes = _row_of_axes(figure, len(levels))
        for axis, level in zip(axes, levels, strict=True):
            ratios = self._hit_ratio(site, level)
            _histogram(axis, 100 * ratios.values)
            axis.set_xlabel(f"{level} hit ratio, %")
            axis.set_ylabel("fraction of trials")
        n_trials = self._dataset.sizes["trial"]
        figure.suptitle(f"{_plain(site or 'all loads')}: {n_trials} random orderings")
        return figure

    def latency(self) -> Picture:
        """Expected latency of each load, split by the level that serves it, with its 95 % interval."""
        summary = summarise(self._dataset)
        loads = summary.loads
        figure = Picture(figsize=(7.0, 1.2 + 0.4 * max(len(loads), 1)), layout="constrained")
        axis = figure.subplots()
        position = np.arange(len(loads))
        left = np.zeros(len(loads))
        for part in (*summary.level_names, DRAM):
            cycles = np.array([site.latency_parts[part] for site in loads])
            colour = part_colour(part, summary.level_names)
            axis.barh(position, cycles, left=left, color=colour, label=part, height=0.65)
            left += cycles
        half_widths = np.nan_to_num([site.latency_cycles.half_width for site in loads])
        axis.errorbar(left, position, xerr=half_widths, fmt="none", ecolor="black", capsize=3)
        axis.set_yticks(
            position,
            [f"{_plain(site.name)}  {text.percent(site.share.mean, 0)}" for site in loads],
        )
        axis.invert_yaxis()
        axis.set_xlabel("expected latency, cycles (label: share of the load latency)")
        if loads:
            figure.legend(
                frameon=False, loc="outside upper center", ncols=len(summary.level_names) + 1
            )
        return figure

    def convergence(self, site: str | None = None) -> Picture:
        """Running mean and 95 % interval against trials: load hit ratios, or one access's."""
        levels = self._levels
        figure = Picture(figsize=(6.5, 2.2 * max(len(levels), 1)), layout="constrained")
        axes = _row_of_axes(figure, len(levels), across=False)
        for axis, level in zip(axes, levels, strict=True):
            ratios = self._hit_ratio(site, level)
            mean, half_width = running(100 * ratios.values)
            trials = np.arange(1, len(mean) + 1)
            axis.plot(trials, mean, color=LINE_COLOUR)
            axis.fill_between(
                trials, mean - half_width, mean + half_width, color=LINE_COLOUR, alpha=0.25, lw=0
            )
            axis.set_ylabel(f"{level} hit ratio, %")
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
            _scale_to(axis, (mean - half_width)[SETTLED - 1 :], (mean + half_width)[SETTLED - 1 :])
        if levels:
            axes[-1].set_xlabel("trials")
        figure.suptitle(f"{_plain(site or 'all loads')}: running mean and 95 % interval")
        return figure

    def dram_latency(self) -> Picture:
        """Distribution of DRAM latency over the sampled requests of all trials."""
        samples = self._dataset["dram_latency_cycles"].values.ravel()
        figure = Picture(figsize=(5.5, 3.0), layout="constrained")
        axis = figure.subplots()
        _histogram(axis, samples[np.isfinite(samples)])
        axis.set_xlabel("DRAM latency, cycles")
        axis.set_ylabel("fraction of requests")
        return figure

    def _hit_ratio(self, site: str | None, level: str) -> xr.DataArray:
        """(trial,) of one access, or of all loads."""
        if site is None:
            return load_hit_ratio(self._dataset, level)
        return site_hit_ratio(self._dataset, site, level)


def _row_of_axes(figure: Picture, n: int, *, across: bool = True) -> npt.NDArray[Any]:
    """(n,) axes beside or below each other; without any, the figure says that there are no caches."""
    if not n:
        figure.text(0.5, 0.4, "the machine has no caches", ha="center")
        return np.empty(0, object)
    shape = (1, n) if across else (n, 1)
    axes: npt.NDArray[Any] = figure.subplots(*shape, squeeze=False, sharex=not across).ravel()
    return axes


def _histogram(axis: Axes, values: npt.ArrayLike) -> None:
    array = np.asarray(values, dtype=np.float64)
    array = array[np.isfinite(array)]
    if not array.size:
        axis.text(0.5, 0.5, "no requests", transform=axis.transAxes, ha="center")
        return
    weights = np.full(array.size, 1 / array.size)
    axis.hist(array, bins=list(bins(array)), weights=weights, color=LINE_COLOUR)
    estimate = describe(array)
    axis.axvline(estimate.mean, color="black", lw=1)
    if estimate.has_interval:
        axis.axvspan(estimate.low, estimate.high, color="black", alpha=0.15, lw=0)


def _scale_to(axis: Axes, low: npt.NDArray[Any], high: npt.NDArray[Any]) -> None:
    """Scales an axis to twice the widest of these intervals, where there is one with a width."""
    if not np.isfinite(high - low).any() or not np.nanmax(high - low) > 0:
        return
    bottom, top = float(np.nanmin(low)), float(np.nanmax(high))
    axis.set_ylim(bottom - (top - bottom) / 2, top + (top - bottom) / 2)


def _plain(name: str) -> str:
    """A name short enough for a label, escaped so that matplotlib does not read it as mathematics."""
    return text.shortened(name, LONGEST_LABEL).replace("$", r"\$")
