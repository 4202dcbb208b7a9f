"""A survey as one HTML page: every number with its interval, every curve with its edges."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from markupsafe import Markup, escape

from calib.probes.outcome import Curve, Finding, Floats
from calib.probes.survey import Survey

WIDTH, HEIGHT = 640, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 16, 48
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em;
  color: #1b1b24; background: #fff }
table { border-collapse: collapse; width: 100% } td, th { text-align: left; padding: .3em .6em;
  border-bottom: 1px solid #d7dade; vertical-align: top } td.n { text-align: right; white-space: nowrap }
svg { max-width: 100%; height: auto } .axis { stroke: #888; fill: none } .tick { font-size: 11px;
  fill: #666 } .curve { stroke: #1f6fb4; fill: none; stroke-width: 1.5 } .dot { fill: #1f6fb4 }
.edge { stroke: #d4621d; stroke-dasharray: 4 3 } .mark { font-size: 12px; fill: #b34e12 }
.soft { color: #666 }
@media (prefers-color-scheme: dark) { body { background: #16181d; color: #e4e6ea }
  td, th { border-color: #3a3f47 } .tick { fill: #aaa } .soft { color: #aaa } }
"""


def page(survey: Survey) -> str:
    """The whole page; it loads nothing from anywhere."""
    book = survey.book
    numbers = [
        (key, f"{_value(f.value)} {f.unit}", f"{_value(f.low)} to {_value(f.high)}", f.how)
        for key, f in sorted({**_latencies(survey), **book.findings}.items())
    ]
    rows = Markup("").join(
        Markup('<tr><td>{}</td><td class="n">{}</td><td class="n">{}</td><td>{}</td></tr>').format(
            *row
        )
        for row in numbers
    )
    rows += Markup("").join(
        Markup("<tr><td>{}</td><td colspan=2>{}</td><td>{}</td></tr>").format(key, value, how)
        for key, (value, how) in book.words.items()
    )
    silent = Markup("").join(
        Markup("<tr><td>{}</td><td>{}</td></tr>").format(probe, why)
        for probe, why in book.silent.items()
    )
    facts = Markup("").join(
        Markup('<tr><td>{}</td><td class="n">{}</td></tr>').format(key, value)
        for key, value in survey.facts.items()
    )
    charts = Markup("").join(
        Markup("<h3>{}</h3>{}").format(curve.title, chart(curve)) for curve in book.curves
    )
    return str(
        Markup(
            "<!DOCTYPE html><html lang=en><meta charset=utf-8><title>{0}, measured</title>"
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
            "<style>{1}</style><h1>{0}</h1>"
            "<p class=soft>Every latency is the least of many repeats of a chain of dependent loads;"
            " intervals are 95 %, from drawing the repeats again, or the grid's cell where that is"
            " wider.</p><h2>Found</h2><table><tr><th>what</th><th>value</th><th>95 %</th><th>how</th></tr>{2}"
            "</table><h2>Not told</h2><table>{3}</table><h2>Curves</h2>{4}"
            "<h2>What the driver says</h2><table>{5}</table></html>"
        ).format(
            survey.device,
            Markup(_STYLE),
            rows,
            silent or Markup("<tr><td>nothing</td></tr>"),
            charts,
            facts,
        )
    )


def _latencies(survey: Survey) -> dict[str, Finding]:
    if survey.hierarchy is None:
        return {}
    found = {
        f"levels.L{k}.latency": level.latency_ns
        for k, level in enumerate(survey.hierarchy.levels, 1)
    }
    return {**found, "memory.latency": survey.hierarchy.memory_ns}


def chart(curve: Curve) -> Markup:
    """One curve with its edges, as SVG."""
    keep = np.isfinite(curve.x) & np.isfinite(curve.y)
    x, y = curve.x[keep], curve.y[keep]
    if not len(x):
        return Markup("<p class=soft>no points</p>")
    log_y = curve.log_y and bool((y > 0).all())
    across = _scale(x, curve.log_x, _LEFT, WIDTH - _RIGHT)
    up = _scale(np.append(y, [] if log_y else [0.0]), log_y, HEIGHT - _BOTTOM, _TOP)
    points = [(across(a), up(b)) for a, b in zip(x, y, strict=True)]
    marks = [
        Markup('<polyline class="curve" points="{}"/>').format(
            " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        )
    ]
    marks += [
        Markup(
            '<circle class="dot" cx="{:.1f}" cy="{:.1f}" r="2.2"><title>{}: {}</title></circle>'
        ).format(a, b, _value(u), _value(v))
        for (a, b), u, v in zip(points, x, y, strict=True)
    ]
    for at, what in curve.edges:
        left = across(at)
        late = left > 0.7 * WIDTH
        marks.append(
            Markup(
                '<line class="edge" x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}"/>'
                '<text class="mark" x="{3:.1f}" y="{4}" text-anchor="{5}">{6}: {7}</text>'
            ).format(
                left,
                _TOP,
                HEIGHT - _BOTTOM,
                left + (-4 if late else 4),
                _TOP + 12,
                "end" if late else "start",
                what,
                _value(at),
            )
        )
    in_bytes = curve.log_x and curve.x_label.endswith("bytes")
    for value in _powers(x) if in_bytes else _ticks(x, curve.log_x):
        marks.append(
            Markup('<text class="tick" x="{:.1f}" y="{}" text-anchor="middle">{}</text>').format(
                across(value), HEIGHT - _BOTTOM + 16, _value(value)
            )
        )
    for value in _ticks(y if log_y else np.append(y, 0.0), log_y):
        marks.append(
            Markup('<text class="tick" x="{}" y="{:.1f}" text-anchor="end">{}</text>').format(
                _LEFT - 6, up(value) + 4, _value(value)
            )
        )
    frame = Markup('<path class="axis" d="M{0} {1} V{2} H{3}"/>').format(
        _LEFT, _TOP, HEIGHT - _BOTTOM, WIDTH - _RIGHT
    )
    labels = Markup(
        '<text class="tick" x="{}" y="{}" text-anchor="middle">{}</text>'
        '<text class="tick" x="14" y="{}" transform="rotate(-90 14 {})" text-anchor="middle">{}</text>'
    ).format(WIDTH // 2, HEIGHT - 8, curve.x_label, HEIGHT // 2, HEIGHT // 2, curve.y_label)
    return Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}{}{}</svg>').format(
        WIDTH, HEIGHT, escape(curve.title), frame, Markup("").join(marks), labels
    )


def _scale(values: Floats, log: bool, low: float, high: float) -> Callable[[float], float]:
    ends = (np.log(values.min()), np.log(values.max())) if log else (values.min(), values.max())
    wide = ends[1] - ends[0] or 1.0

    def place(value: float) -> float:
        plain = math.log(max(value, 1e-300)) if log else value
        return float(low + (plain - ends[0]) / wide * (high - low))

    return place


def _ticks(values: Floats, log: bool) -> list[float]:
    low, high = float(values.min()), float(values.max())
    found = np.geomspace(low, high, 6) if log and low > 0 else np.linspace(low, high, 5)
    return [float(value) for value in found]


def _powers(values: Floats) -> list[float]:
    """Powers of two within the values, six at most."""
    first, last = math.ceil(math.log2(values.min())), math.floor(math.log2(values.max()))
    step = max(-(-(last - first + 1) // 6), 1)
    return [2.0**k for k in range(first, last + 1, step)] or _ticks(values, True)


def _value(value: float) -> str:
    """A number as a page has room for: 32 Ki, 1.5 M, 4.13."""
    if not math.isfinite(value):
        return "unknown"
    if value >= 1024 and float(value).is_integer() and value % 1024 == 0:
        for unit, scale in (("Gi", float(1 << 30)), ("Mi", float(1 << 20)), ("Ki", 1024.0)):
            if value >= scale:
                return f"{value / scale:.4g} {unit}"
    for unit, scale in (("G", 1e9), ("M", 1e6), ("k", 1e4)):
        if abs(value) >= scale:
            return f"{value / (1e3 if unit == 'k' else scale):.4g} {unit}"
    return f"{value:.4g}"
