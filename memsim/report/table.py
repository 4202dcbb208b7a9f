"""The terminal's table: one row per access, largest share first, as wide as the terminal allows; and one access in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from memsim.errors import MemsimError
from memsim.latency import DRAM
from memsim.report import text
from memsim.report.finding import headline
from memsim.report.launch_time import LaunchTime
from memsim.report.launch_totals import LaunchTotals, Moved
from memsim.report.numbers import LevelNumbers, SiteNumbers, Summary
from memsim.report.order_sensitivity import orders_text
from memsim.report.residency import occupancy_text, resident_text
from memsim.report.semantics import LEGENDS
from memsim.report.verdict import Finding, findings_on, first_advice
from memsim.visible import shown, visible

BAR_CELLS = 8
LONGEST_NAME = 120
"""Characters of an access's name; of longer ones the middle is left out."""
Fill = Callable[[Table], None]

_LEGEND = (
    "± is the 95 % interval over random orderings, over where the driver may place pages and, of a snapshot, over"
    " places in the launch and what earlier groups may have left in the caches; it does not cover the validated error of the model. Hits include pending sectors. ! marks an"
    " order-sensitive access: sigma of a hit ratio above 2 points."
)


class FittingTable(Table):
    """A table that prints itself in the first of its forms for which a console has enough columns.

    forms : (columns, what adds columns and rows), the widest first; the last one always fits
    """

    def __init__(self, forms: Sequence[tuple[int, Fill]], frame: Mapping[str, Any]) -> None:
        super().__init__(**frame)
        forms[0][1](self)
        self._forms, self._frame = forms, frame

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        fitting = [fill for columns, fill in self._forms if options.max_width >= columns]
        if options.max_width >= self._forms[0][0]:
            yield from super().__rich_console__(console, options)
        else:
            table = Table(**self._frame)
            (fitting or [self._forms[-1][1]])[0](table)
            yield table


class AccessTable(FittingTable):
    """The accesses of a replay; on a wide console every quantity has a column. A terminal shows the first of
    many, so that the finding does not scroll far away."""

    def __init__(self, summary: Summary) -> None:
        forms = (
            (wide_columns(summary), lambda table: _fill_wide(table, summary)),
            (NARROW_COLUMNS, lambda table: _fill_narrow(table, summary)),
            (0, lambda table: _fill_single(table, summary)),
        )
        super().__init__(forms, frame(title(summary), _caption(summary)))
        self._summary = summary

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        sites = self._summary.sites
        if not console.is_terminal or len(sites) <= MOST_ON_TERMINAL:
            yield from super().__rich_console__(console, options)
            return
        yield AccessTable(replace(self._summary, sites=sites[:MOST_ON_TERMINAL]))
        rest = [site for site in sites[MOST_ON_TERMINAL:] if site.latency_cycles.is_defined]
        share = text.percent(sum(site.share.mean for site in rest))
        yield Text(
            f"and {len(sites) - MOST_ON_TERMINAL} more accesses with {share} of the load latency, which --html and"
            " --json list"
        )


MOST_ON_TERMINAL = 30
"""Accesses that a terminal shows of many."""


def lines_of_access(summary: Summary, columns: int) -> int:
    """About how many lines one access takes on a console."""
    if columns >= wide_columns(summary):
        return 4
    return 8 if columns >= NARROW_COLUMNS else 10


NARROW_COLUMNS = 72
"""The console width from which on a name stands beside its numbers; otherwise it stands above them."""


def wide_columns(summary: Summary) -> int:
    """The console width from which on every quantity has a column."""
    return 98 + 15 * len(summary.level_names)


def add_numbers(table: Table, *heads: str) -> None:
    """Adds columns of numbers, which are not wrapped."""
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)


def frame(title: Text, caption: Text) -> dict[str, Any]:
    """The style that all tables of this package share."""
    return {
        "title": title,
        "caption": caption,
        "title_justify": "left",
        "caption_justify": "left",
        "box": box.HORIZONTALS,
        "show_lines": True,
        "padding": (0, 1, 0, 0),
    }


def title(summary: Summary) -> Text:
    """What stands in for the machine's own code; the finding and what to try first; then kernel, machine, trials and
    snapshot in one line."""
    parts = [
        f"{text.shortened(summary.kernel)} on {summary.machine.title}",
        f"{summary.n_trials} trials, seed {summary.seed}",
        text.groups(summary.traced_groups, summary.of_groups),
    ]
    if summary.counters != "sector":
        parts.append(f"counted as {summary.counters}")
    if summary.interrupted:
        parts.append("INTERRUPTED")
    lines = Text("".join(f"{line}\n" for line in summary.compiled.first_lines))
    lines.append(headline(summary), style="bold")
    for line in filter(None, (first_advice(summary), " · ".join(parts))):
        lines.append(f"\n{line}", style="not bold")
    return lines


def _caption(summary: Summary) -> Text:
    lines = [
        f"{level} {kind} hits {text.percent_estimate(numbers.hit_ratio)}"
        f"{_in_brackets(text.hit_ratio_parts(numbers.hit_ratio, numbers.model_error))}"
        for (level, kind), numbers in summary.totals.items()
        if numbers.hit_ratio.is_defined
    ]
    unknown = [name for name, error in summary.model_error.items() if error is None]
    if unknown:
        lines.append(f"the model's own error is {text.NOT_VALIDATED} for {', '.join(unknown)}")
    lines.append(f"DRAM latency {text.plus_minus(summary.dram.latency_cycles, 0)} cycles")
    lines += filter(None, [bounds_line(summary.time), orders_text(summary)])
    lines += launch_lines(summary.launch)
    part = summary.options.get("traced_part", 1.0)
    if isinstance(part, float) and 0 < part < 1:
        lines.append(
            f"groups run long: each snapshot is a window of {text.percent(part)} of their run, in step"
        )
    legends = (
        resident_text(summary),
        occupancy_text(summary),
        LEGENDS.get(summary.counters, ""),
        _LEGEND,
    )
    lines += [line for line in legends if line]
    return Text("\n".join(lines), style="dim")


def _in_brackets(words: str) -> str:
    return f" ({words})" if words else ""


def bounds_line(time: LaunchTime) -> str:
    """The predicted time with its interval, and the lower bounds, in one line; empty without either."""
    if not time.floors_s:
        return ""
    floors = ", ".join(
        f"{name} {text.seconds(floor)}"
        for name, floor in sorted(time.floors_s.items(), key=lambda item: -item[1])
        if floor >= NOTABLE_FLOOR * time.floor_s
    )
    known = ""
    if time.seconds is not None:
        interval = _in_brackets(text.how_certain(time.seconds, time.model_error))
        known = f"predicted time {text.seconds(time.seconds.mean)}{interval}; "
    return f"{known}at least, by resource: {floors}"


NOTABLE_FLOOR = 0.01
"""Lower bounds below this part of the largest are not listed."""
NOT_VALIDATED: Mapping[str, float] = {}
LEAST_TIMES = 0.05
"""Reads of an array, in times its size; nothing is said of fewer."""


def launch_lines(launch: LaunchTotals) -> list[str]:
    """What the whole launch moves, and each array of it, a line each."""
    scaled = (
        f", {text.times(launch.factor)} x what was counted of the snapshot"
        if launch.is_scaled
        else ""
    )
    lines = [f"whole launch{scaled}: {_moved(launch.moved, launch.model_error_bytes)}"]
    for one in launch.arrays:
        times = ""
        if one.times_read >= LEAST_TIMES:
            times = f", read {text.fixed(one.times_read, 1)} times"
        lines.append(
            f"  {text.shortened(one.name)}: {text.byte_size(one.size_bytes)}{times}; {_moved(one.moved)}"
        )
    return lines


def _moved(moved: Moved, model_error_bytes: Mapping[str, float] = NOT_VALIDATED) -> str:
    parts = []
    for name, read in moved.read_bytes.items():
        written, error = moved.write_bytes[name], model_error_bytes.get(name)
        model = "" if error is None else f" (model ± {text.byte_size(error)})"
        both = [
            f"{text.byte_estimate(estimate)} {word}"
            for estimate, word in ((read, f"read{model}"), (written, "written"))
            if estimate.mean > 0
        ]
        if both:
            parts.append(f"{name} {', '.join(both)}")
    return "; ".join(parts) or "nothing beyond the first level"


def _fill_wide(table: Table, summary: Summary) -> None:
    table.add_column("access", overflow="fold", min_width=14)
    hits = (f"{name} hit %\n(pending)" for name in summary.level_names)
    add_numbers(table, "share", "latency\ncycles", *hits, "sectors\nper access\n(ideal)")
    add_numbers(table, "read from", "misses, %\ncold cap. conf.", "coalescing\nwould save")
    for site in summary.sites:
        table.add_row(
            _name(site),
            _share(site),
            _latency(site),
            *(_hits(level) for level in site.levels),
            _sectors(site),
            Text("\n".join(_read_from(site))),
            Text("\n".join(_misses(site)) or text.UNKNOWN),
            _saving(site),
        )


def _fill_narrow(table: Table, summary: Summary) -> None:
    table.expand = True
    table.add_column("access", overflow="fold", ratio=1)
    table.add_column("share", justify="right", no_wrap=True, min_width=BAR_CELLS)
    table.add_column("cost and cause", ratio=3)
    for site in summary.sites:
        table.add_row(_name(site), _share(site), _paragraph(site))


def _fill_single(table: Table, summary: Summary) -> None:
    table.expand = True
    table.add_column("accesses", overflow="fold")
    for site in summary.sites:
        cell = _name(site)
        if site.latency_cycles.is_defined:
            cell.append(f"\n{text.percent(site.share.mean)} of the latency", style="bold")
        table.add_row(cell.append("\n").append(_paragraph(site)))


def _paragraph(site: SiteNumbers) -> Text:
    cell = Text()
    if site.latency_cycles.is_defined:
        cell.append(f"{text.plus_minus(site.latency_cycles, 0)} cycles", style="bold")
        if site.latency_model_error_cycles is not None:
            cell.append(f" ({text.model_cycles(site.latency_model_error_cycles)})", style="dim")
        cell.append("\n")
    for level in site.levels:
        if level.hit_ratio.is_defined:
            mark = " !" if level.is_order_sensitive else ""
            cell.append(f"{level.name} hits {text.percent_estimate(level.hit_ratio)}{mark}")
            cell.append(f" ({text.percent(level.pending_ratio.mean)} pending)\n", style="dim")
    cell.append(
        f"{text.fixed(site.sectors_per_access, 1)} sectors per access,"
        f" ideal {text.fixed(site.ideal_sectors_per_access, 1)}"
    )
    if site.saves_by_coalescing:
        cell.append(
            f": coalescing would save {text.percent(site.saved_ratio, 0)},"
            f" {text.byte_size(site.saved_bytes)}"
        )
    cell.append("\n")
    cell.append("read from " + ", ".join(_read_from(site)))
    for level in site.levels:
        if level.n_misses:
            split = ", ".join(
                f"{kind} {100 * n / level.n_misses:.0f}" for kind, n in level.misses.items()
            )
            cell.append(f"\n{level.name} misses, %: {split}")
    return cell


def _name(site: SiteNumbers) -> Text:
    name = Text(text.shortened(site.name, LONGEST_NAME), style="bold")
    where = text.place(site.user_file, site.user_line, site.source_line)
    for line in filter(None, (site.direction_label, where)):
        name.append(f"\n{line}", style="dim")
    return name


def _share(site: SiteNumbers) -> Text:
    if not site.latency_cycles.is_defined:
        return Text(text.UNKNOWN, style="dim")
    cell = Text(f"{text.percent(site.share.mean)}\n")
    filled = min(round(site.share.mean * BAR_CELLS), BAR_CELLS)
    cell.append("█" * filled, style="red")
    cell.append("░" * (BAR_CELLS - filled), style="dim")
    return cell


def _latency(site: SiteNumbers) -> Text:
    if not site.latency_cycles.is_defined:
        return Text(text.without_latency(site.sectors), style="dim")
    cell = Text(text.plus_minus(site.latency_cycles, 0))
    if site.latency_model_error_cycles is not None:
        cell.append("\n" + text.model_cycles(site.latency_model_error_cycles), style="dim")
    return cell


def _hits(level: LevelNumbers) -> Text:
    if not level.hit_ratio.is_defined:
        return Text(text.UNKNOWN, style="dim")
    cell = Text(text.plus_minus(level.hit_ratio, 1, 100))
    if level.is_order_sensitive:
        cell.append(" !", style="yellow")
    cell.append(f"\n({text.fixed(100 * level.pending_ratio.mean, 1)})", style="dim")
    return cell


def _sectors(site: SiteNumbers) -> Text:
    cell = Text(text.fixed(site.sectors_per_access, 1))
    cell.append(f"\n({text.fixed(site.ideal_sectors_per_access, 1)})", style="dim")
    return cell


def _read_from(site: SiteNumbers) -> list[str]:
    below = [*(level.name for level in site.levels[1:]), DRAM]
    return [
        f"{name} {text.byte_size(level.read_bytes)}"
        for name, level in zip(
            below, site.levels, strict=False
        )  # shorter on a machine without caches
    ]


def _misses(site: SiteNumbers) -> list[str]:
    return [
        f"{level.name} "
        + " ".join(f"{100 * n / level.n_misses:3.0f}" for n in level.misses.values())
        for level in site.levels
        if level.n_misses
    ]


def _saving(site: SiteNumbers) -> Text:
    if not site.saves_by_coalescing:
        return Text(text.UNKNOWN, style="dim")
    cell = Text(text.percent(site.saved_ratio, 0))
    cell.append(f"\n{text.byte_size(site.saved_bytes)}", style="dim")
    return cell


def check_name(name: str, sites: Sequence[tuple[str, str]]) -> None:
    """Raises MemsimError, which lists the names, where no access and no array is called so.

    sites : name of an access, and of its array
    """
    names = list(dict.fromkeys(site for site, _ in sites))
    if name not in names and name not in {array for _, array in sites}:
        raise MemsimError(f"no access is called {shown(name)}: choose one of {', '.join(names)}")


def explanations(summary: Summary, name: str) -> Iterator[Group]:
    """A paragraph for each access that is called so, or that is of an array called so."""
    for finding in findings_on(summary, name):
        yield _explained(finding)


def _explained(finding: Finding) -> Group:
    site = finding.site
    where = text.place(site.user_file, site.user_line, site.source_line)
    head = f"{site.name} ({site.direction}{f', {where}' if where else ''}): {finding.headline}"
    lines = list(finding.reasons)
    if finding.certainty:
        lines.append(f"Certainty: {' '.join(finding.certainty)}")
    lines += [f"Try: {one.name}: {one.how} {one.gain}".rstrip() for one in finding.advice]
    inside = (Padding(Text(visible(line)), (0, 0, 0, 2)) for line in lines)
    return Group(Text(visible(head)), *inside)
