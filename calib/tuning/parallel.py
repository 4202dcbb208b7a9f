"""Parallel coordinates: an axis for each parameter and one for time, a line for each configuration."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from markupsafe import Markup

from calib.tuning.outcome import Outcome
from calib.tuning.space import TunedParameter, name_of

WIDTH, HEIGHT, TOP, BOTTOM, SIDE = 900, 320, 34, 14, 70
MOST_LINES = 300
MOST_TICKS = 12


def parallel_coordinates(
    parameters: Sequence[TunedParameter], ranked: Sequence[Outcome], shown: Callable[[float], str]
) -> Markup:
    """The chart; the fastest tenth of the configurations is drawn strongly, over the others.

    ranked : fastest first; of many, the fastest half of MOST_LINES and evenly chosen others are drawn
    shown : a time as text
    """
    axes = [parameter for parameter in parameters if len(parameter.values) > 1]
    step = (WIDTH - 2 * SIDE) / max(len(axes), 1)
    fastest, slowest = ranked[0].time_s, ranked[-1].time_s

    def height(share: float) -> float:
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    def line(one: Outcome, strong: bool) -> Markup:
        points = [(SIDE + k * step, height(_place(axis, one))) for k, axis in enumerate(axes)]
        share = (one.time_s - fastest) / ((slowest - fastest) or 1.0)
        points.append((SIDE + len(axes) * step, height(share)))
        text = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        return Markup(
            '<polyline class="curve c{}" style="stroke-opacity:{}" points="{}"><title>{}: {}</title></polyline>'
        ).format(
            0 if strong else 1,
            0.8 if strong else 0.15,
            text,
            name_of(one.configuration),
            shown(one.time_s),
        )

    strong = max(len(ranked) // 10, 1)
    drawn = _some(ranked)
    lines = [line(one, False) for one in drawn if one.time_s > ranked[strong - 1].time_s]
    lines += [line(one, True) for one in reversed(ranked[: min(strong, MOST_LINES)])]
    parts = [
        Markup(
            '<div class="scroll"><svg class="timeline" viewBox="0 0 {} {}" role="img"'
            ' aria-label="parallel coordinates">'
        ).format(WIDTH, HEIGHT),
        *lines,
    ]
    for k, axis in enumerate(axes):
        x = SIDE + k * step
        ticks = [(height(_share(axis, v)), v) for v in _ticks(axis.values)]
        parts += _axis(x, axis.name, ticks)
    times = [(height(0.0), shown(fastest)), (height(1.0), shown(slowest))]
    parts += _axis(SIDE + len(axes) * step, "time", times)
    return Markup("").join([*parts, Markup("</svg></div>")])


def _axis(x: float, name: str, ticks: Sequence[tuple[float, str]]) -> list[Markup]:
    parts = [
        Markup('<line class="axis" x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}"/>').format(
            x, TOP, HEIGHT - BOTTOM
        ),
        Markup('<text x="{:.1f}" y="16" text-anchor="middle">{}</text>').format(x, name[:24]),
    ]
    for y, label in ticks:
        parts.append(
            Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="start">{}</text>').format(
                x + 4, y + 4, label[:16]
            )
        )
    return parts


def _place(axis: TunedParameter, one: Outcome) -> float:
    return _share(axis, one.configuration[axis.name])


def _share(axis: TunedParameter, value: str) -> float:
    """Where a value lies on its axis, from 0 to 1; values are equally far from each other."""
    return axis.values.index(value) / (len(axis.values) - 1)


def _ticks(values: Sequence[str]) -> Sequence[str]:
    """At most MOST_TICKS of the values, with the first and the last."""
    every = -(-(len(values) - 1) // (MOST_TICKS - 1)) or 1
    kept = list(values[::every])
    return kept if kept[-1] == values[-1] else [*kept, values[-1]]


def _some(ranked: Sequence[Outcome]) -> Sequence[Outcome]:
    if len(ranked) <= MOST_LINES:
        return ranked
    half = MOST_LINES // 2
    every = -(-(len(ranked) - half) // half)
    return [*ranked[:half], *ranked[half::every]]
