"""A measured curve as SVG: points, axes with round numbers, detected edges."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from markupsafe import Markup, escape

from calib.probes.outcome import Curve, Floats
from memsim.machine import size_text as size_text_of

WIDTH, HEIGHT = 640, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 32, 48, 48


def chart(curve: Curve) -> Markup:
    """One curve with its edges."""
    keep = np.isfinite(curve.x) & np.isfinite(curve.y)
    x, y = curve.x[keep], curve.y[keep]
    if not len(x):
        return Markup("<p class=soft>no points</p>")
    log_x = curve.log_x and bool((x > 0).all())
    log_y = curve.log_y and bool((y > 0).all())
    in_bytes = curve.x_label.endswith("bytes")
    across = _scale(x, log_x, _LEFT, WIDTH - _RIGHT)
    up = _scale(y if log_y else np.append(y, 0.0), log_y, HEIGHT - _BOTTOM, _TOP)
    across_at = _powers_of_two(x) if log_x else _steps(x, _binary_unit(x) if in_bytes else 1.0)
    up_at = _decades(y) if log_y else _steps(np.append(y, 0.0), 1.0)
    parts = [_across_tick(across(v), size_text(v) if in_bytes else plain(v)) for v in across_at]
    parts += [_up_tick(up(v), plain(v)) for v in up_at]
    points = [(across(a), up(b)) for a, b in zip(x, y, strict=True)]
    if curve.joined:
        line = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        parts.append(Markup('<polyline class="curve" points="{}"/>').format(line))
    parts += [
        Markup(
            '<circle class="bar" cx="{:.1f}" cy="{:.1f}" r="{}"><title>{}: {}</title></circle>'
        ).format(a, b, 2.2 if curve.joined else 4, size_text(u) if in_bytes else plain(u), plain(v))
        for (a, b), u, v in zip(points, x, y, strict=True)
    ]
    for k, (at, what) in enumerate(curve.edges):
        parts.append(_edge(across(at), k, f"{what}: {size_text(at) if in_bytes else plain(at)}"))
    frame = Markup('<path class="axis" d="M{0} {1} V{2} H{3}"/>').format(
        _LEFT, _TOP, HEIGHT - _BOTTOM, WIDTH - _RIGHT
    )
    labels = Markup(
        '<text class="small" x="{}" y="{}" text-anchor="middle">{}</text>'
        '<text class="small" x="14" y="{}" transform="rotate(-90 14 {})" text-anchor="middle">{}</text>'
    ).format(WIDTH // 2, HEIGHT - 8, curve.x_label, HEIGHT // 2, HEIGHT // 2, curve.y_label)
    return Markup(
        '<svg class="chart wide" viewBox="0 0 {} {}" role="img" aria-label="{}">{}{}{}</svg>'
    ).format(WIDTH, HEIGHT, escape(curve.title), frame, Markup("").join(parts), labels)


def plain(value: float) -> str:
    """A number as a short text: 4.13, 120, 65,536."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def size_text(value: float) -> str:
    """Bytes in the largest binary unit: 32 KiB, 1.5 MiB."""
    return size_text_of(round(value))


def _across_tick(at: float, text: str) -> Markup:
    return Markup('<text class="small" x="{:.1f}" y="{}" text-anchor="middle">{}</text>').format(
        at, HEIGHT - _BOTTOM + 16, text
    )


def _up_tick(at: float, text: str) -> Markup:
    return Markup(
        '<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>'
        '<text class="small" x="{}" y="{:.1f}" text-anchor="end">{}</text>'
    ).format(_LEFT, WIDTH - _RIGHT, at, at, _LEFT - 6, at + 4, text)


def _edge(left: float, number: int, text: str) -> Markup:
    """A vertical line with a label; labels of neighbours are in three rows, so that they do not overlap."""
    late = left > 0.7 * WIDTH
    return Markup(
        '<line class="edge" x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}"/>'
        '<text class="mark" x="{3:.1f}" y="{4}" text-anchor="{5}">{6}</text>'
    ).format(
        left,
        _TOP - 34,
        HEIGHT - _BOTTOM,
        left + (-4 if late else 4),
        _TOP - 32 + 14 * (number % 3),
        "end" if late else "start",
        text,
    )


def _scale(values: Floats, log: bool, low: float, high: float) -> Callable[[float], float]:
    ends = (np.log(values.min()), np.log(values.max())) if log else (values.min(), values.max())
    wide = ends[1] - ends[0] or 1.0

    def place(value: float) -> float:
        plain_value = math.log(max(value, 1e-300)) if log else value
        return float(low + (plain_value - ends[0]) / wide * (high - low))

    return place


def _steps(values: Floats, unit: float) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten (of units) within the values, about six."""
    low, high = float(values.min()) / unit, float(values.max()) / unit
    if high <= low:
        return [low * unit]
    rough = (high - low) / 6
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough)
    return [k * step * unit for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _binary_unit(values: Floats) -> float:
    return 1024.0 ** max(math.floor(math.log(float(values.max()), 1024)), 0)


def _decades(values: Floats) -> list[float]:
    """1, 2 and 5 times powers of ten within the values, at most eight."""
    low, high = float(values.min()), float(values.max())
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for among in ((1, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
        ticks = [m * 10.0**k for k in powers for m in among if low <= m * 10.0**k <= high]
        if len(ticks) <= 8:
            return ticks or [low, high]
    return ticks


def _powers_of_two(values: Floats) -> list[float]:
    """Powers of two within the values, eight at most."""
    low, high = float(values.min()), float(values.max())
    first, last = math.ceil(math.log2(low)), math.floor(math.log2(high))
    step = max(-(-(last - first + 1) // 8), 1)
    return [2.0**k for k in range(first, last + 1, step)] or [low]
