"""The time of a launch on a page: lower bounds, rates, what-ifs and the timeline."""

from __future__ import annotations

import math

import numpy as np
from markupsafe import Markup

from memsim.report import text
from memsim.report.launch_time import BARRIER, WAIT, LaunchTime, Timeline
from memsim.report.pages import Bar, Section, bar_chart, bullets, paragraph

_CHANGE = 0.005  # a what-if that changes the time by less than half a per cent changes nothing


def time_sections(time: LaunchTime) -> list[Section]:
    """What limits the time, what would change it, and the timeline, as far as each is known."""
    sections = []
    if time.floors_s:
        sections.append(Section("What limits the time", _limits(time), "Time", "time"))
    bars = what_if_bars(time)
    if bars:
        note = paragraph(
            "Predicted times, shortest first; the line is the time as it is.", "small soft"
        )
        sections.append(Section("What if", note + bar_chart(bars)))
    if time.timeline is not None:
        title = "Timeline of a few sub-groups on one core"
        sections.append(Section(title, _timeline(time.timeline), "Timeline"))
    return sections


def _limits(time: LaunchTime) -> Markup:
    """Speed of light: the lower bounds beside the time, and the rates beside their peaks."""
    total = time.seconds.mean if time.seconds is not None else time.floor_s
    bars = [
        Bar(
            name,
            floor,
            f"at least {text.seconds(floor)}"
            + (f", {text.percent(floor / total, 0)}" if time.seconds else ""),
            kind="worse" if name == time.floor_name else "bar",
        )
        for name, floor in sorted(time.floors_s.items(), key=lambda item: -item[1])
    ]
    if time.seconds is None:
        words = (
            "At the machine's rates no order of execution is faster than a lower bound: the bytes that the launch"
            " moves, divided by the bandwidth."
        )
    else:
        certain = text.how_certain(time.seconds, time.model_error)
        interval = f" ({certain})" if certain else ""
        bars.insert(0, Bar("predicted time", total, text.seconds(total), kind="soft"))
        words = (
            f"Predicted: {text.seconds(total)}{interval}. At the machine's rates no order of execution is faster"
            " than a lower bound (“at least”)."
        )
    parts = [paragraph(words), bar_chart(bars)]
    if time.rates:
        parts.append(Markup("<h3>Rates, as parts of the peak</h3>"))
        parts.append(bar_chart(_rate_bars(time), longest=1.0))
        parts.append(paragraph(_RATES, "small soft"))
    if time.notes:
        parts.append(bullets(time.notes, "caveats small"))
    return Markup("").join(parts)


_RATES = (
    "What binds need not reach its peak: a lower bound takes the bandwidth that a stream sustains from DRAM, less"
    " for rows that are opened, and counts the lanes, the look-ups and the bank conflicts of L1 and the look-ups of L2, not"
    " their bytes alone. A kernel that DRAM serves better than that stream can be faster than the bound."
)


def _rate_bars(time: LaunchTime) -> list[Bar]:
    bars = []
    for rate in time.rates:
        part = rate.per_s / rate.peak_per_s
        most = "at most " if rate.at_most else ""
        shown = (
            f"{most}{text.rate(rate.per_s, rate.unit)}, {text.percent(part, 0)} of"
            f" {text.rate(rate.peak_per_s, rate.unit)}"
        )
        bars.append(Bar(rate.name, min(part, 1.0), shown))
    return bars


def what_if_bars(time: LaunchTime) -> list[Bar]:
    """A bar for each change, shortest time first; empty without a prediction."""
    if time.seconds is None:
        return []
    total = time.seconds.mean
    times = [
        (f"without {name}", max(total - saved, 0.0), "") for name, saved in time.saved_s.items()
    ]
    times += [(one.changes, one.seconds, one.binds) for one in time.what_if]
    bars = []
    for name, seconds, binds in sorted(times, key=lambda one: one[1]):
        change = seconds / total - 1
        kind = "better" if change < -_CHANGE else "worse" if change > _CHANGE else "bar"
        difference = "no change" if kind == "bar" else f"{100 * change:+.0f} %"
        limited = f", limited by {binds}" if binds else ""
        shown = f"{text.seconds(seconds)}, {difference}{limited}"
        bars.append(Bar(name, seconds, shown, mark=total, kind=kind))
    return bars


_ROW, _LEFT, _WIDTH = 20, 130, 1000
_COLOURS = 8
_WAITS = {WAIT: "waits for its data", BARRIER: "waits for the rest of its group"}


def _timeline(timeline: Timeline) -> Markup:
    """When each sub-group issues, and what it waits for afterwards; one path for each step of the program."""
    paths: dict[int, list[str]] = {}
    scale = (_WIDTH - _LEFT) / timeline.end_cycles
    for row, one in enumerate(timeline.rows):
        for step, start, end in one.spans:
            x, width = _LEFT + start * scale, max((end - start) * scale, 0.5)
            height = 7 if step < 0 else 14
            y = row * _ROW + (_ROW - height) / 2
            paths.setdefault(step, []).append(f"M{x:.1f} {y:g}h{width:.1f}v{height}h-{width:.1f}z")
    kinds = {step: f"s{step % _COLOURS}" if step >= 0 else f"w{-step}" for step in sorted(paths)}
    drawn = Markup("").join(
        Markup('<path class="{}" d="{}"><title>{}</title></path>').format(
            kinds[step], "".join(paths[step]), _step_name(timeline, step)
        )
        for step in kinds
    )
    names = Markup("").join(
        Markup('<text x="{}" y="{}" text-anchor="end">{}</text>').format(
            _LEFT - 6, row * _ROW + 14, one.name
        )
        for row, one in enumerate(timeline.rows)
    )
    height = len(timeline.rows) * _ROW
    every = _round_step(timeline.end_cycles / 5)
    ticks = Markup("").join(
        Markup('<text x="{:.0f}" y="{}" text-anchor="middle">{}</text>').format(
            _LEFT + cycles * scale, height + 14, f"{cycles:,.0f}" + (" cycles" if cycles else "")
        )
        for cycles in np.arange(0, 0.97 * timeline.end_cycles, every).tolist()
    )
    legend = Markup("").join(
        Markup('<span><i class="{}"></i>{}</span>').format(
            kinds[step], text.shortened(_step_name(timeline, step), 90)
        )
        for step in kinds
    )
    return Markup(
        '<div class="scroll timeline"><svg class="timeline" viewBox="0 0 {} {}" role="img"'
        ' aria-label="timeline">{}{}{}</svg></div><div class="legend">{}</div>'
        '<p class="small soft">A bar lasts from a block\'s first instruction to its last; sub-groups take turns meanwhile.</p>'
    ).format(_WIDTH, height + 20, drawn, names, ticks, legend)


def _round_step(at_least: float) -> float:
    """The smallest of 1, 2 or 5 times a power of ten that is not below."""
    power = 10.0 ** math.floor(math.log10(at_least))
    return next(power * times for times in (1, 2, 5, 10) if power * times >= at_least)


def _step_name(timeline: Timeline, step: int) -> str:
    return timeline.steps[step] if step >= 0 else _WAITS[step]
