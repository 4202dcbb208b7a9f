"""Charts of the page: SVG without scripts, coloured by the page's style for light and dark.

Every mark has a `<title>`, which a browser shows when the pointer is over it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from markupsafe import Markup, escape

from memsim.report.text import fixed
from memsim.statistics import Estimate, bins, describe, running

WIDTH, HEIGHT = 340, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 14, 20, 40
_CHARACTER = 7
"""Width of one, of the style's 11 px."""
_MAX_POINTS = 200  # of a curve: more cannot be distinguished at this width


@dataclass(frozen=True)
class Curve:
    """A line of a line chart. x, y : (n,) values; points that are not finite are left out"""

    name: str
    x: npt.ArrayLike
    y: npt.ArrayLike


class _Frame:
    """Maps data to the plot's rectangle and draws its axes."""

    def __init__(
        self, x: tuple[float, float], y: tuple[float, float], label: str, y_label: str = ""
    ) -> None:
        self.x_range, self.y_range = _wide(*x), _wide(*y)
        self.label, self.y_label = label, y_label
        self.marks: list[Markup] = []

    def x(self, value: float) -> float:
        low, high = self.x_range
        return _LEFT + (value - low) / (high - low) * (WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        low, high = self.y_range
        return HEIGHT - _BOTTOM - (value - low) / (high - low) * (HEIGHT - _TOP - _BOTTOM)

    def rectangle(
        self, x: tuple[float, float], y: tuple[float, float], kind: str, what: str
    ) -> None:
        left, right = self.x(x[0]), self.x(x[1])
        top, bottom = self.y(y[1]), self.y(y[0])
        self.marks.append(
            Markup(
                '<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}">'
                "<title>{}</title></rect>"
            ).format(kind, left, top, max(right - left, 0.5), max(bottom - top, 0), what)
        )

    def vertical(self, x: float, kind: str, what: str) -> None:
        self.marks.append(
            Markup(
                '<line class="{}" x1="{:.1f}" x2="{:.1f}" y1="{}" y2="{}"><title>{}</title></line>'
            ).format(kind, self.x(x), self.x(x), _TOP, HEIGHT - _BOTTOM, what)
        )

    def edge(self, x: float, row: int, label: str) -> None:
        """A dashed line with a label in one of a few rows, so that neighbours' labels do not overlap."""
        at = self.x(x)
        late = at > 0.6 * WIDTH
        self.marks.append(
            Markup(
                '<line class="edge" x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}"/>'
                '<text class="mark" x="{3:.1f}" y="{4}" text-anchor="{5}">{6}</text>'
            ).format(
                at,
                _TOP,
                HEIGHT - _BOTTOM,
                at + (-4 if late else 4),
                _TOP + 10 + 13 * row,
                "end" if late else "start",
                label,
            )
        )

    def point(self, x: float, y: float, what: str, kind: str = "bar") -> None:
        self.marks.append(
            Markup(
                '<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="3"><title>{}</title></circle>'
            ).format(kind, self.x(x), self.y(y), what)
        )

    def path(self, points: list[tuple[float, float]], kind: str, closed: bool = False) -> None:
        steps = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        tag = "polygon" if closed else "polyline"
        self.marks.append(Markup('<{} class="{}" points="{}"/>').format(Markup(tag), kind, steps))

    def draw(
        self,
        x_decimals: int,
        y_decimals: int,
        described: str,
        x_ticks: Mapping[float, str] | None = None,
        y_ticks: Mapping[float, str] | None = None,
    ) -> Markup:
        """The chart. x_ticks, y_ticks : place -> label; by default round numbers"""
        x_ticks = _labelled(self.x_range, x_decimals) if x_ticks is None else x_ticks
        y_ticks = _labelled(self.y_range, y_decimals) if y_ticks is None else y_ticks
        parts = [
            Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">').format(
                WIDTH, HEIGHT, described
            )
        ]
        bottom = HEIGHT - _BOTTOM
        for value, shown in y_ticks.items():
            y = self.y(value)
            parts.append(
                Markup('<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>').format(
                    _LEFT, WIDTH - _RIGHT, y, y
                )
            )
            parts.append(_text(_LEFT - 5, y + 4, "end", shown))
        parts += self.marks
        parts.append(
            Markup('<line class="axis" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(
                _LEFT, WIDTH - _RIGHT, bottom, bottom
            )
        )
        for value, shown in x_ticks.items():
            middle = min(self.x(value), WIDTH - _CHARACTER / 2 * len(shown))
            parts.append(_text(middle, bottom + 15, "middle", shown))
        parts.append(_text((_LEFT + WIDTH - _RIGHT) / 2, HEIGHT - 6, "middle", self.label))
        if self.y_label:
            parts.append(_text(2, 11, "start", self.y_label))
        parts.append(Markup("</svg>"))
        return Markup("").join(parts)


def histogram(
    values: npt.ArrayLike, label: str, unit: str, least_width: float, counted: str = "trials"
) -> Markup | None:
    """Histogram of values in per cent, with their mean and its interval; None without values.

    counted : what the values are of, the label of the vertical axis
    least_width : narrower ranges are drawn as one bar of this width
    """
    array = np.asarray(values, dtype=np.float64).ravel()
    array = array[np.isfinite(array)]
    if not array.size:
        return None
    edges = bins(array, least_width)
    counts, _ = np.histogram(array, bins=edges)
    ratios = 100 * counts / array.size
    margin = 0.5 * (edges[-1] - edges[0]) if len(edges) == 2 else 0.0
    across, up = (edges[0] - margin, edges[-1] + margin), (0.0, float(ratios.max()))
    frame = _Frame(across, up, label, f"{counted}, %")
    decimals = _decimals(frame.x_range)
    for low, high, ratio in zip(edges, edges[1:], ratios, strict=False):
        if ratio:
            span = f"{fixed(low, decimals + 1)} to {fixed(high, decimals + 1)}"
            frame.rectangle((low, high), (0, ratio), "bar", f"{span} {unit}: {ratio:.1f} %")
    _mark_mean(frame, describe(array), decimals, unit)
    return frame.draw(decimals, _decimals(frame.y_range), f"histogram of {label}")


def convergence(values: npt.ArrayLike, label: str, unit: str) -> Markup | None:
    """Running mean and 95 % interval against the number of trials; None below two trials."""
    mean, half_width = running(values)
    if len(mean) < 2:
        return None
    shown = np.unique(np.linspace(1, len(mean) - 1, min(len(mean) - 1, _MAX_POINTS)).astype(int))
    low, high = mean[shown] - half_width[shown], mean[shown] + half_width[shown]
    late = shown >= min(
        3, len(mean) - 1
    )  # the interval of two trials is so wide that it hides the rest
    y_range = (float(low[late].min()), float(high[late].max()))
    frame = _Frame((2, max(len(mean), 3)), y_range, "trials", f"{label}, {unit}")
    clip = np.clip(np.stack([low, high]), *frame.y_range)
    trials = (shown + 1).tolist()
    band = [*zip(trials, clip[1].tolist(), strict=True)]
    band += reversed([*zip(trials, clip[0].tolist(), strict=True)])
    frame.path(band, "band", closed=True)
    line = np.clip(mean[shown], *frame.y_range)
    frame.path([*zip(trials, line.tolist(), strict=True)], "curve")
    decimals = _decimals(frame.y_range)
    return frame.draw(0, decimals, f"running mean of {label}, {unit}")


LEAST_POINTS = 10.0
"""Of a hit ratio that an axis shows at least, so that differences that mean nothing look like nothing."""


def over_groups(ratios: Mapping[int, float], actual: int, level: str) -> Markup | None:
    """A hit ratio, in per cent, over the resident groups of a core, whose actual number is marked; None below two points."""
    finite = [(float(x), y) for x, y in sorted(ratios.items()) if math.isfinite(y)]
    if len(finite) < 2:
        return None
    low, high = min(y for _, y in finite), max(y for _, y in finite)
    height = max(high - low, LEAST_POINTS)
    bottom = max(min((low + high - height) / 2, 100.0 - height), 0.0)
    across, up = (finite[0][0], finite[-1][0]), (bottom, bottom + height)
    frame = _Frame(across, up, "resident groups per core", "hits, %")
    frame.vertical(actual, "mean", f"here: {actual}")
    frame.path(finite, "curve")
    for x, y in finite:
        frame.point(x, y, f"{fixed(x)}: {fixed(y, 1)} %")
    ticks = _ticks_at(frame, [x for x, _ in finite], log=False)
    described = f"{level} hit ratio of loads over groups per core"
    return frame.draw(0, _decimals(frame.y_range), described, ticks)


MAX_COLOURS = 6
"""Curves that are drawn with a colour each; the style sheet has as many."""


def line_chart(
    curves: Sequence[Curve],
    x_label: str,
    y_label: str,
    *,
    log_x: bool = False,
    log_y: bool = False,
    edges: Sequence[tuple[float, str]] = (),
    size_text: Callable[[float], str] | None = None,
    joined: bool = True,
) -> Markup | None:
    """Curves over one axis, with a legend where there are several; None without a finite point.

    log_x, log_y : a logarithmic axis; points that are not positive are left out
    edges : places on the horizontal axis that are marked, each with a label
    size_text : a number of bytes as text, where the horizontal axis has these
    joined : whether a line joins the points of a curve
    """
    x_text = size_text or _plain
    drawn = [(curve.name, _points(curve, log_x, log_y)) for curve in curves]
    xs = [x for _, points in drawn for x, _ in points]
    ys = [y for _, points in drawn for _, y in points]
    if not xs:
        return None
    frame = _Frame(
        (min(xs), max(xs)), (min(ys) if log_y else min(0.0, *ys), max(ys)), x_label, y_label
    )
    for number, (name, points) in enumerate(drawn):
        if joined:
            frame.path(points, f"curve c{number % MAX_COLOURS}")
        for x, y in points if len(points) <= _MAX_POINTS else ():
            shown = f"{name}: {x_text(_back(x, log_x))}, {_plain(_back(y, log_y))}"
            frame.point(x, y, shown, f"bar c{number % MAX_COLOURS}")
    for number, (at, label) in enumerate(edges):
        frame.edge(math.log10(at) if log_x else at, number % 3, f"{label}: {x_text(at)}")
    if size_text is None:
        x_ticks = _ticks_at(frame, xs, log_x) or (_log_ticks(frame.x_range) if log_x else None)
    else:
        x_ticks = _size_ticks(frame.x_range, log_x, size_text)
    image = frame.draw(
        _decimals(frame.x_range),
        _decimals(frame.y_range),
        f"{y_label} over {x_label}",
        x_ticks,
        _log_ticks(frame.y_range) if log_y else None,
    )
    if len(drawn) < 2:
        return image
    keys = Markup("").join(
        Markup('<span><i class="c{}"></i>{}</span>').format(number % MAX_COLOURS, name)
        for number, (name, _) in enumerate(drawn)
    )
    return image + Markup('<div class="legend">{}</div>').format(keys)


def heat_map(
    rows: Sequence[str],
    columns: Sequence[str],
    values: npt.ArrayLike,
    shown: Sequence[Sequence[str]],
    described: str,
) -> Markup:
    """A table whose cells are shaded by their values, from the least to the largest.

    values : (n_row, n_column), NaN for a cell without a value;  shown : the texts of the cells
    """
    array = np.asarray(values, dtype=np.float64)
    finite = array[np.isfinite(array)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    head = Markup("").join(Markup("<th>{}</th>").format(name) for name in columns)
    body = Markup("")
    for name, line, texts in zip(rows, array, shown, strict=True):
        cells = Markup("").join(
            Markup('<td class="heat" style="--heat-share:{:.3f}">{}</td>').format(
                (value - low) / (high - low or 1.0) if math.isfinite(value) else 0.0, label
            )
            for value, label in zip(line, texts, strict=True)
        )
        body += Markup('<tr><th class="l">{}</th>{}</tr>').format(name, cells)
    return Markup(
        '<div class="scroll"><table class="heat-map" aria-label="{}"><thead><tr><th></th>{}</tr></thead>'
        "<tbody>{}</tbody></table></div>"
    ).format(described, head, body)


def _points(curve: Curve, log_x: bool, log_y: bool) -> list[tuple[float, float]]:
    """The finite points of a curve, in the chart's coordinates."""
    x, y = np.asarray(curve.x, np.float64), np.asarray(curve.y, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        x, y = (np.log10(x) if log_x else x), (np.log10(y) if log_y else y)
    keep = np.isfinite(x) & np.isfinite(y)
    return list(zip(x[keep].tolist(), y[keep].tolist(), strict=True))


def _back(value: float, log: bool) -> float:
    return float(10.0**value) if log else value


MOST_PLACES, LEAST_APART = 6, 36
"""Values of a curve that have a tick each, where these are so many pixels apart."""


def _ticks_at(frame: _Frame, xs: Sequence[float], log: bool) -> dict[float, str] | None:
    """A tick at each value that occurs; None where these are many, or near each other."""
    places = sorted(set(xs))
    apart = [frame.x(b) - frame.x(a) for a, b in itertools.pairwise(places)]
    if not 1 < len(places) <= MOST_PLACES or min(apart) < LEAST_APART:
        return None
    return {place: _short(round(_back(place, log), 9)) for place in places}


def _log_ticks(bounds: tuple[float, float]) -> dict[float, str]:
    """1, 2 and 5 times powers of ten, at most six of them, as place on the axis -> label."""
    powers = range(math.floor(bounds[0]), math.ceil(bounds[1]) + 1)
    for among in ((1, 2, 5), (1, 3), (1,)):
        values = [m * 10.0**power for power in powers for m in among]
        inside = [v for v in values if bounds[0] - 1e-9 <= math.log10(v) <= bounds[1] + 1e-9]
        if len(inside) <= 6:
            break
    step = -(-len(inside) // 6) or 1
    return {math.log10(value): _short(value) for value in inside[::step]}


def _size_ticks(
    bounds: tuple[float, float], log: bool, text: Callable[[float], str]
) -> dict[float, str]:
    """Round numbers of bytes, at most six of them, as place on the axis -> label."""
    if not log:
        unit = 1024.0 ** int(math.log(max(bounds[1], 1.0), 1024))
        return {n * unit: text(n * unit) for n in _ticks(bounds[0] / unit, bounds[1] / unit, 4)}
    powers = range(math.ceil(bounds[0] / math.log10(2)), int(bounds[1] / math.log10(2)) + 1)
    return {k * math.log10(2): text(2.0**k) for k in powers[:: -(-len(powers) // 6) or 1]}


def _short(value: float) -> str:
    """`500 k`, `2 M`: a round number in few letters."""
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= 10 * unit or (value >= unit and unit > 1e3):
            return f"{value / unit:.4g} {letter}"
    return _plain(value)


def _plain(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _labelled(bounds: tuple[float, float], decimals: int) -> dict[float, str]:
    return {value: fixed(value, decimals) for value in _ticks(*bounds, 4)}


def _mark_mean(frame: _Frame, estimate: Estimate, decimals: int, unit: str) -> None:
    if estimate.has_interval and estimate.half_width > 0:
        what = f"95 %: {fixed(estimate.low, decimals + 1)} to {fixed(estimate.high, decimals + 1)}"
        frame.rectangle(estimate.ci95, frame.y_range, "band", f"{what} {unit}")
    frame.vertical(estimate.mean, "mean", f"mean {fixed(estimate.mean, decimals + 1)} {unit}")


def _text(x: float, y: float, anchor: str, content: str) -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(
        x, y, anchor, escape(content)
    )


def _wide(low: float, high: float) -> tuple[float, float]:
    if not (math.isfinite(low) and math.isfinite(high)):
        return 0.0, 1.0
    if high - low > 1e-9 * max(abs(low), abs(high), 1e-9):
        return low, high
    half = 0.01 * abs(low) or 0.5
    return (low - half if low else 0.0), high + half


def _ticks(low: float, high: float, about: int) -> list[float]:
    """About so many round values inside a range."""
    raw = (high - low) / about
    magnitude = 10.0 ** math.floor(math.log10(raw))
    step = next(s * magnitude for s in (1, 2, 2.5, 5, 10) if s * magnitude >= raw)
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


def _decimals(bounds: tuple[float, float]) -> int:
    """The number of decimals that distinguishes the ticks of a range."""
    ticks = _ticks(*bounds, 4)
    for decimals in range(6):
        if all(abs(tick - round(tick, decimals)) < 1e-9 * max(1, abs(tick)) for tick in ticks):
            return decimals
    return 6
