"""The page of a tuning run: the fastest configurations, why they are fast, and how times respond."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np
from markupsafe import Markup

from calib.prediction.report import seconds
from calib.tuning import results
from calib.tuning.outcome import EFFORTS, Outcome
from calib.tuning.search import Found
from calib.tuning.space import TunedParameter, name_of, number
from calib.tuning.tune import Tuned
from memsim.report import (
    UNKNOWN,
    Cell,
    Curve,
    Section,
    bullets,
    data_table,
    figure,
    figures,
    file_label,
    fold,
    heat_map,
    line_chart,
    page,
    paragraph,
    percent,
    without_equal,
)

MOST_ROWS = 200
EXPLAINED = 8
MOST_PAIRS = 15
T = TypeVar("T")


def tuning_page(tuned: Tuned) -> str:
    """One page with a part for each machine."""
    kernel, machines = tuned.subject.kernel.spec, list(tuned.found)
    sections = [section for machine in machines for section in _machine_sections(tuned, machine)]
    if len(machines) > 1:
        sections.insert(0, Section("The machines compared", _across(tuned)))
    sections.append(Section("How to read this", _explanation(tuned)))
    return page(
        f"Tuning {file_label(kernel)}",
        "; ".join(results.headline(tuned, machine) for machine in machines[:1]),
        sections,
        subtitle=f"{tuned.n_configurations} configurations of {', '.join(tuned.space.names)}"
        f" on {', '.join(machines)}" + ("; interrupted" if tuned.interrupted else ""),
    )


def _machine_sections(tuned: Tuned, machine: str) -> Iterator[Section]:
    found = tuned.found[machine]
    of = f" on {machine}" if len(tuned.found) > 1 else ""
    if found.ranked:
        yield Section(f"Fastest configurations{of}", _ranking(tuned, machine))
        yield Section(f"Why{of}", _why(found))
        yield Section(f"Response to each parameter{of}", _responses(tuned, found))
        if sum(len(one.values) > 1 for one in tuned.space.parameters) > 1:
            yield Section(f"Two parameters at a time{of}", _pairs(tuned, found))
            yield Section(
                f"All parameters{of}",
                parallel_coordinates(tuned.space.parameters, found.ranked),
            )
        front = _pareto(found)
        if len(front) > 1:
            yield Section(f"Time against registers{of}", _front(front))
    if found.failed:
        yield Section(f"Configurations that failed{of}", _failures(found))


def _ranking(tuned: Tuned, machine: str) -> Markup:
    column = 1 + len(tuned.space.names)
    (head, rows), equal = without_equal(results.ranking(tuned, machine, MOST_ROWS), column + 2)
    ranked = tuned.found[machine].ranked
    cells: list[list[Cell | str]] = []
    for row, one in zip(rows, ranked, strict=False):
        cells.append([*row])
        cells[-1][column] = Cell(row[column], value=one.time_s)
    words = [k for k, name in enumerate(head) if name == results.LIMITED_BY]
    table = data_table(head, cells, left=words)
    more = len(ranked) - len(rows)
    tied = any(row[0] == "=" for row in rows)
    notes = [
        equal,
        "= marks configurations whose interval overlaps the fastest one's." if tied else "",
        f"{more} slower ones are in --json and --csv." if more > 0 else "",
    ]
    return table + paragraph(" ".join(filter(None, notes)), "soft small")


def _why(found: Found) -> Markup:
    """Each resource's least time as a share of the predicted time, for the fastest and some others."""
    ranked = found.ranked
    shown = _spread(ranked, EXPLAINED)
    resources = list(dict.fromkeys(name for one in shown for name in one.floors_s))
    shares = [[one.floors_s.get(name, 0.0) / one.time_s for name in resources] for one in shown]
    best, median = ranked[0], ranked[len(ranked) // 2]
    points = [
        f"{name}: at least {seconds(best.floors_s.get(name, 0.0))}, where the median configuration needs"
        f" {seconds(median.floors_s.get(name, 0.0))}"
        for name in resources
        if _limits(name, best, median)
        and _differs(best.floors_s.get(name, 0.0), median.floors_s.get(name, 0.0), best.time_s)
    ]
    wait, of_median = (
        one.time_s - max(one.floors_s.values(), default=0.0) for one in (best, median)
    )
    if resources and _differs(wait, of_median, best.time_s):
        points.append(
            f"what no resource explains: {seconds(wait)}, where the median configuration has {seconds(of_median)}"
        )
    lead = Markup("")
    if len(ranked) > 1 and points:
        lead = paragraph(f"The fastest, {name_of(best.configuration)}, against the median:")
    image = heat_map(
        [f"{name_of(one.configuration)} ({seconds(one.time_s)})" for one in shown],
        resources,
        shares,
        [[percent(share, 0) for share in row] for row in shares],
        "share of the predicted time that each resource needs at least",
    )
    note = paragraph(
        "Share of the predicted time that each resource needs at least. What no resource explains is"
        " latency that is not hidden, barriers, starts of groups, and on some machines DRAM that waits for L1.",
        "soft small",
    )
    return lead + bullets(points) + image + note


def _limits(name: str, *outcomes: Outcome) -> bool:
    """Whether a resource takes most of the time of one of these configurations."""
    return any(one.floors_s.get(name, 0.0) > 0.6 * one.time_s for one in outcomes)


def _differs(a: float, b: float, time_s: float) -> bool:
    """Whether two floors differ by more than 5 % of each other and 2 % of the time."""
    return abs(a - b) > max(0.05 * max(a, b), 0.02 * time_s)


def _responses(tuned: Tuned, found: Found) -> Markup:
    charts = [
        figure(parameter.name, image)
        for parameter in tuned.space.parameters
        if len(parameter.values) > 1
        for image in [_response(parameter, found)]
        if image is not None
    ]
    note = paragraph(
        "For each value, the fastest and the median of the configurations that have it.",
        "soft small",
    )
    return figures(charts) + note


def _response(parameter: TunedParameter, found: Found) -> Markup | None:
    values = [number(value) for value in parameter.values]
    times = [
        [1e6 * one.time_s for one in found.ranked if one.configuration[parameter.name] == value]
        for value in parameter.values
    ]
    best = [min(one, default=math.nan) for one in times]
    median = [float(np.median(one)) if one else math.nan for one in times]
    if not all(isinstance(value, int | float) for value in values):
        return heat_map(
            parameter.values,
            ["fastest", "median"],
            list(zip(best, median, strict=True)),
            [[seconds(1e-6 * value) for value in row] for row in zip(best, median, strict=True)],
            f"time by {parameter.name}",
        )
    return line_chart(
        [Curve("fastest", values, best), Curve("median", values, median)]
        if best != median
        else [Curve("time", values, best)],
        parameter.name,
        "us",
    )


def _pairs(tuned: Tuned, found: Found) -> Markup:
    """A heat map of each pair: the fastest time over all other parameters."""
    varied = [one for one in tuned.space.parameters if len(one.values) > 1]
    maps: list[Markup] = []
    for rows, columns in itertools.islice(itertools.combinations(varied, 2), MOST_PAIRS):
        best: dict[tuple[str, str], float] = {}
        for one in found.ranked:
            cell = (one.configuration[rows.name], one.configuration[columns.name])
            best[cell] = min(best.get(cell, math.inf), one.time_s)
        values = [[best.get((r, c), math.nan) for c in columns.values] for r in rows.values]
        what = f"{rows.name} (rows) and {columns.name} (columns)"
        shown = [[seconds(value) for value in row] for row in values]
        image = heat_map(rows.values, columns.values, values, shown, f"time by {what}")
        maps.append(fold(what, image) if maps else paragraph(what) + image)
    note = paragraph(
        "Fastest time over all other parameters; the stronger the colour, the slower.", "soft small"
    )
    return Markup("").join(maps) + note


def _pareto(found: Found) -> list[Outcome]:
    """The configurations of which no other has both fewer registers and less time, fastest first."""
    front: list[Outcome] = []
    for one in found.ranked:
        least = min((other.registers or 0 for other in front), default=math.inf)
        if one.registers is not None and one.registers < least:
            front.append(one)
    return front


def _front(front: Sequence[Outcome]) -> Markup:
    rows = [
        [
            name_of(one.configuration),
            str(one.registers),
            seconds(one.time_s),
            percent(one.occupancy, 0),
        ]
        for one in front
    ]
    note = paragraph("No other configuration has both fewer registers and less time.", "soft small")
    return data_table(["configuration", "registers", "time", "occupancy"], rows) + note


def _failures(found: Found) -> Markup:
    rows = [
        [reason, str(len(outcomes)), name_of(outcomes[0].configuration)]
        for reason, outcomes in results.failures(found)[:MOST_ROWS]
    ]
    return data_table(["reason", "configurations", "for example"], rows, left=(0, 2))


def _across(tuned: Tuned) -> Markup:
    """The fastest configuration of each machine, and how much slower it is on the others."""
    machines = [machine for machine, found in tuned.found.items() if found.ranked]
    rows = []
    for machine in machines:
        best = tuned.found[machine].ranked[0].configuration
        row = [machine, name_of(best)]
        for other in machines:
            ranked = tuned.found[other].ranked
            time_s = next((one.time_s for one in ranked if one.configuration == best), math.nan)
            ratio = time_s / ranked[0].time_s
            row.append(f"{seconds(time_s)} ({ratio:.2f}x)" if math.isfinite(ratio) else UNKNOWN)
        rows.append(row)
    head = ["fastest on", "configuration", *(f"time on {machine}" for machine in machines)]
    return data_table(head, rows, left=(0, 1))


def _explanation(tuned: Tuned) -> Markup:
    efforts = ", ".join(
        f"{effort.name} (at most {effort.waves} waves of groups, {effort.trials} orderings)"
        for effort in EFFORTS
    )
    conditions = [condition.text for condition in tuned.space.conditions]
    return bullets(
        [
            "Times are predicted, as by 'memsim predict': no configuration ran on a GPU. The model's own error"
            " is not in the intervals; experiments/README.md has it for measured kernels.",
            f"Every configuration is looked at with ever more effort, {efforts}, as long as its interval"
            " overlaps that of the fastest. An interval covers the ordering of groups and how much times"
            " changed from one effort to the next.",
            *(f"Configurations satisfy {text}" for text in conditions),
            f"Seed {tuned.subject.seed}.",
        ]
    )


def _spread(items: Sequence[T], most: int) -> list[T]:
    """The first half of `most` items, and as many spread over the rest."""
    if len(items) <= most:
        return list(items)
    half = most // 2
    places = np.linspace(half, len(items) - 1, most - half).round().astype(int)
    return [*items[:half], *(items[place] for place in places)]


WIDTH, HEIGHT, TOP, BOTTOM, SIDE = 900, 320, 34, 14, 70
MOST_LINES = 300
MOST_TICKS = 12


def parallel_coordinates(parameters: Sequence[TunedParameter], ranked: Sequence[Outcome]) -> Markup:
    """The chart; the fastest tenth of the configurations is drawn strongly, over the others.

    ranked : fastest first; of many, the fastest half of MOST_LINES and evenly chosen others are drawn
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
            seconds(one.time_s),
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
    times = [(height(0.0), seconds(fastest)), (height(1.0), seconds(slowest))]
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
