"""Plots that show whether a model fits: figures 7 and 8 of Augonnet et al. 2009."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from calib.history.errors import HistoryError
from calib.history.model_kinds import Fitted
from calib.history.neighbours import neighbours
from calib.history.records import Record
from calib.history.regression import Question, power_law, power_law_with_offset
from calib.history.statistics import far_apart, two_modes
from memsim.files import write_picture
from memsim.machine import size_text
from memsim.report import percent

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Colours of devices, which colour-blind readers can distinguish (Okabe and Ito)."""

F64 = npt.NDArray[np.float64]


def _figure() -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 5.0), layout="constrained")
    return figure, figure.add_subplot()


def short(device: str, most: int = 48) -> str:
    """A device's name, shortened in the middle where it is long."""
    if len(device) <= most:
        return device
    return f"{device[: most // 2]}…{device[-(most // 2 - 1) :]}"


def plot_sizes(
    kernel: str, records: Sequence[Record], samples: Mapping[Any, F64], path: Path
) -> list[str]:
    """Draws time against size (figure 7): every kept sample, both regressions, and the interval between
    recorded sizes, one colour per device.

    samples : key -> (n,) seconds

    Returns sentences about regressions that are not drawn. Raises HistoryError where no size is known.
    """
    sized = [r for r in records if r.size_bytes > 0 and r.accepted.n > 0]
    if not sized:
        raise HistoryError(f"no sizes are known of {kernel}: time against size cannot be drawn")
    figure, axes = _figure()
    omitted = []
    devices = sorted({(r.key.device, r.key.driver) for r in sized})
    for number, (device, driver) in enumerate(devices):
        colour = COLOURS[number % len(COLOURS)]
        here = [r for r in sized if (r.key.device, r.key.driver) == (device, driver)]
        for record in here:
            times = samples.get(record.key, np.empty(0))
            axes.plot(
                np.full(len(times), record.size_bytes),
                times * 1e6,
                ".",
                color=colour,
                alpha=0.3,
                markersize=4,
                markeredgewidth=0,
            )
        means = [r.accepted.mean * 1e6 for r in here]
        total = sum(r.accepted.n for r in here)
        axes.plot(
            [r.size_bytes for r in here],
            means,
            "o",
            color=colour,
            markerfacecolor="white",
            label=f"{short(device)}: {total} samples, mean of each layout",
        )
        for fit, style, name in (
            (power_law, "--", "a nᵇ"),
            (power_law_with_offset, "-", "a nᵇ + c"),
        ):
            model = fit(here)
            if model is None:
                omitted.append(f"{short(device)}: {name} is not calibrated")
                continue
            _draw(axes, model, here, style, colour, name)
        _shade(axes, here, colour)
    axes.set_xscale("log", base=2)
    axes.set(
        yscale="log",
        xlabel="size of all data",
        ylabel="time of a launch (µs)",
        title=f"{kernel}: time against size",
    )
    plain_ticks(axes.yaxis)
    _size_ticks(axes.xaxis)
    axes.grid(which="both", alpha=0.2)
    axes.legend(fontsize=8, loc="upper left")
    write_picture(path, figure, 130)
    return omitted


def plain_ticks(axis: Any) -> None:
    """Labels a logarithmic axis with plain numbers, at 1, 2 and 5 of each decade where it is short."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    short_axis = high < 200 * low
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if short_axis else (1.0,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _size_ticks(axis: Any) -> None:
    """Labels a binary logarithmic axis of bytes with sizes such as 64 KiB."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axis.set_major_locator(LogLocator(base=2, numticks=12))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: size_text(round(value))))


def _shade(axes: Any, records: Sequence[Record], colour: str) -> None:
    """The interval of a launch's time between recorded sizes, where there are two."""
    model = neighbours(records)
    if model is None:
        return
    low_bytes, high_bytes = map(float, np.exp(model.x[[0, -1]]))
    sizes = np.unique(np.geomspace(low_bytes, high_bytes, 200).round().astype(np.int64))
    asked = [Question(size_bytes=int(size)) for size in sizes]
    times = [(q.size_bytes, *model.predict(q)[1:]) for q in asked if model.covers(q)]
    drawn, low, high = np.array(times).T
    label = "between recorded sizes, 95 %"
    axes.fill_between(
        drawn, 1e6 * low, 1e6 * high, color=colour, alpha=0.12, linewidth=0, label=label
    )


def _draw(
    axes: Any, model: Fitted, records: Sequence[Record], style: str, colour: str, name: str
) -> None:
    sizes = np.geomspace(
        min(r.size_bytes for r in records), max(r.size_bytes for r in records), 100
    )
    times = [model.predict(Question(size_bytes=int(size)))[0] * 1e6 for size in sizes]
    axes.plot(
        sizes,
        times,
        style,
        color=colour,
        linewidth=1.2,
        label=f"{name}: rms error on the means {percent(model.misfit, 1)}",
    )


def plot_layout(kernel: str, layout: int, times_s: Mapping[str, F64], path: Path) -> dict[str, str]:
    """Draws the distribution of the times of one layout (figure 8), one colour per device.

    times_s : device -> (n,) seconds

    Returns device -> whether its distribution is unimodal or bimodal. Raises HistoryError without samples.
    """
    drawn = {device: times for device, times in times_s.items() if len(times) > 1}
    if not drawn:
        raise HistoryError(f"no samples are kept of {kernel} with layout {layout:08x}")
    figure, axes = _figure()
    shapes = {}
    # One spike would compress everything else into one bin, so the slowest hundredth is not drawn.
    shown = {d: t[t <= np.quantile(t, 0.99)] if len(t) >= 100 else t for d, t in drawn.items()}
    low, high = (float(f([f(t) for t in shown.values()])) * 1e6 for f in (np.min, np.max))
    n_bins = int(np.clip(max(map(len, shown.values())) // 6, 15, 80))
    wide = far_apart(np.concatenate(list(shown.values())))
    edges = (np.geomspace if wide else np.linspace)(0.98 * low, 1.02 * high, n_bins + 1)
    for number, (device, times) in enumerate(sorted(shown.items())):
        colour = COLOURS[number % len(COLOURS)]
        n = len(drawn[device])
        modes = two_modes(drawn[device])
        shapes[device] = "unimodal" if modes is None else str(modes)
        axes.hist(
            times * 1e6,
            bins=edges,
            weights=np.full(len(times), 100 / n),
            color=colour,
            alpha=0.55,
            label=f"{short(device)}: {n} launches, {'unimodal' if modes is None else 'bimodal'}",
        )
        if modes is not None:
            for centre in (modes.low_s, modes.high_s):
                axes.axvline(centre * 1e6, color=colour, linestyle=":", linewidth=1.2)
    axes.set(
        xlabel="time of a launch (µs)",
        ylabel="share of the launches (%)",
        title=f"{kernel}, layout {layout:08x}: distribution of times",
    )
    if wide:
        axes.set_xscale("log")
        plain_ticks(axes.xaxis)
    axes.grid(alpha=0.2)
    figure.legend(fontsize=8, loc="outside lower center")
    write_picture(path, figure, 130)
    return shapes
