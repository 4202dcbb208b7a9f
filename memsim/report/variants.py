"""Several replays in one table or on one page: variants of a kernel, machines, saved files, or launches one after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup
from rich.table import Table
from rich.text import Text

from memsim.latency import DRAM
from memsim.report import text
from memsim.report.json_contract import SCHEMA, as_text, to_data
from memsim.report.numbers import SiteNumbers, Summary, zero_if_unknown
from memsim.report.pages import Bar, Cell, Section, bar_chart, data_table, page, paragraph
from memsim.report.table import FittingTable, add_numbers, frame

LEGEND = (
    "time: predicted; without a prediction, what limits it is the largest lower bound. Hits include pending sectors. Bytes are those of the whole launch. ± is the 95 % interval over random"
    " orderings, places of pages and places of the launch; no interval covers the model's own error."
)

Variant = tuple[str, Summary]
"""The label of a replay, which no other has, and its numbers."""


def variants_table(variants: Sequence[Variant]) -> Table:
    """A row for each of (n_variant,) replays, n_variant >= 1."""
    first = variants[0][1]
    names, unit = _level_names(variants), _unit(variants)
    kernels = ", ".join(dict.fromkeys(one.kernel for _, one in variants))
    machines = ", ".join(dict.fromkeys(one.machine.title for _, one in variants))
    heading = Text(f"{kernels} on {machines} · seed {first.seed}", style="bold")
    forms = (
        (92 + 13 * len(names), lambda table: _fill_wide(table, variants)),
        (0, lambda table: _fill_narrow(table, variants, names, unit)),
    )
    return FittingTable(forms, frame(heading, Text(LEGEND, style="dim")))


def accesses_table(variants: Sequence[Variant]) -> Table:
    """A row for each access, with a line for each replay that has it, named A, B, C and so on."""
    names = _level_names(variants)
    heading = "\n".join(
        f"{letter(k)}: {label}: {one.kernel} on {one.machine.title}, {one.n_trials} trials"
        for k, (label, one) in enumerate(variants)
    )
    heads, accesses = access_rows(variants)
    rows = [
        (Text(text.shortened(name), style="bold"), letters, cells)
        for name, letters, cells in accesses
    ]

    def wide(table: Table) -> None:
        table.add_column("access", overflow="fold", min_width=12)
        table.add_column("", no_wrap=True)
        add_numbers(table, *heads)
        for name, letters, cells in rows:
            columns = (Text("\n".join(column)) for column in zip(*cells, strict=True))
            table.add_row(name, Text("\n".join(letters), style="dim"), *columns)

    def single(table: Table) -> None:
        table.expand = True
        table.add_column(
            "access: " + "; ".join(head.replace("\n", ", ") for head in heads), overflow="fold"
        )
        for name, letters, cells in rows:
            lines = (f"{one}: {'; '.join(line)}" for one, line in zip(letters, cells, strict=True))
            table.add_row(Text("\n").join([name, *map(Text, lines)]))

    title = frame(Text(heading, style="bold"), Text("", style="dim"))
    return FittingTable(((36 + 13 * len(names), wide), (0, single)), title)


def access_rows(
    variants: Sequence[Variant],
) -> tuple[list[str], list[tuple[str, list[str], list[list[str]]]]]:
    """Heads of the columns, and for each access its name, the letters of the replays that have it, and the
    cells of each of these."""
    names, unit = _level_names(variants), _unit(variants)
    heads = ["share", f"latency\n{unit}", *(f"{name} hit\n%" for name in names)]
    rows = []
    for name, sites in _by_name(variants).items():
        cells = [
            _access_cells(site, names, _scale(variants[k][1], unit)) for k, site in sites.items()
        ]
        rows.append((name, [letter(k) for k in sites], cells))
    return heads, rows


def variant_rows(variants: Sequence[Variant]) -> tuple[list[str], list[list[str]]]:
    """Heads of the columns, and a row for each replay."""
    names, unit = _level_names(variants), _unit(variants)
    heads = ["variant", "time", "limited\nby", *(f"{name}\nhits" for name in names)]
    heads += ["DRAM\nread", "DRAM\nwritten", f"{unit}\nper load"]
    rows = []
    for label, one in variants:
        hits, (time, binds, *others) = _cells(one, names, unit)
        rows.append([label, time, binds, *hits, *others])
    return [*heads, "most latency\n(share)", "trials"], rows


def variants_json(variants: Sequence[Variant], changes: Any = None) -> str:
    """`{"schema", "variants": [{"name", "replay"}]}`, each replay as memsim.report.json_contract has it.

    changes : further content, `changes`, where it is given
    """
    data: dict[str, Any] = {
        "schema": SCHEMA,
        "variants": [{"name": name, "replay": to_data(one)} for name, one in variants],
    }
    if changes is not None:
        data["changes"] = changes
    return as_text(data)


def letter(k: int) -> str:
    """A to Z, then A2 to Z2 and so on."""
    return chr(ord("A") + k % 26) + (str(k // 26 + 1) if k >= 26 else "")


def _level_names(variants: Sequence[Variant]) -> list[str]:
    """The levels that any of the machines has, in order."""
    return list(dict.fromkeys(name for _, one in variants for name in one.level_names))


def _unit(variants: Sequence[Variant]) -> str:
    """The unit of latencies: cycles, or ns where the machines' clocks differ."""
    return "cycles" if len({one.machine.clock_hz for _, one in variants}) == 1 else "ns"


def _scale(summary: Summary, unit: str) -> float:
    return 1.0 if unit == "cycles" else 1e9 / summary.machine.clock_hz


def _by_name(variants: Sequence[Variant]) -> dict[str, dict[int, SiteNumbers]]:
    """Access -> number of the replay -> its numbers there; those with the largest share first."""
    found: dict[str, dict[int, SiteNumbers]] = {}
    for k, (_, one) in enumerate(variants):
        for site in one.sites:
            found.setdefault(site.name, {})[k] = site

    def most(name: str) -> float:
        shares = (s.share.mean for s in found[name].values() if s.latency_cycles.is_defined)
        return max(shares, default=-1.0)

    return {name: found[name] for name in sorted(found, key=lambda name: -most(name))}


def _access_cells(site: SiteNumbers, names: Sequence[str], scale: float) -> list[str]:
    waits = site.latency_cycles.is_defined
    levels = [site.level(name) for name in names]
    return [
        text.percent(site.share.mean) if waits else text.UNKNOWN,
        text.plus_minus(site.latency_cycles, 0, scale) if waits else text.UNKNOWN,
        *(
            text.UNKNOWN if one is None else text.plus_minus(one.hit_ratio, 1, 100)
            for one in levels
        ),
    ]


def _cells(summary: Summary, names: Sequence[str], unit: str) -> tuple[list[str], list[str]]:
    """The hits of each level, and what else there is to a replay."""
    hits = [_hits(summary, name) for name in names]
    moved = summary.launch.moved
    slowest = next(iter(summary.loads), None)
    return hits, [
        text.seconds(summary.time.seconds.mean if summary.time.seconds else None),
        summary.time.binds or text.UNKNOWN,
        text.byte_estimate(moved.read_bytes[DRAM]),
        text.byte_estimate(moved.write_bytes[DRAM]),
        text.plus_minus(summary.load_latency_cycles, 0, _scale(summary, unit)),
        f"{slowest.name}, {text.percent(slowest.share.mean)}" if slowest else text.UNKNOWN,
        f"{summary.n_trials}{', INTERRUPTED' if summary.interrupted else ''}",
    ]


def _fill_wide(table: Table, variants: Sequence[Variant]) -> None:
    heads, rows = variant_rows(variants)
    last = len(heads) - 1
    for k, head in enumerate(heads):
        if k in (0, last - 1):
            table.add_column(head, overflow="fold", min_width=12 if k else 8)
        elif k == 2:
            table.add_column(head)
        else:
            table.add_column(head, justify="right", no_wrap=k < last)
    for label, *cells in rows:
        table.add_row(Text(label, style="bold"), *map(Text, cells))


def _fill_narrow(
    table: Table, variants: Sequence[Variant], names: Sequence[str], unit: str
) -> None:
    table.expand = True
    table.add_column("variant", overflow="fold", ratio=1)
    table.add_column("", overflow="fold", ratio=2)
    for label, one in variants:
        hits, (time, binds, read, written, latency, slowest, trials) = _cells(one, names, unit)
        lines = [f"time {time}, limited by {binds}"]
        lines += [f"{name} hits {ratio}" for name, ratio in zip(names, hits, strict=True)]
        lines += [f"DRAM: {read} read, {written} written", f"{latency} {unit} per load"]
        lines += [f"most latency: {slowest}", f"{trials} trials"]
        table.add_row(Text(label, style="bold"), Text("\n".join(lines)))


_LEGEND = (
    "The first level is empty when a launch begins; the levels below keep their contents from launch"
    " to launch. --launch I shows the accesses of one."
)


def launch_table(summaries: Sequence[Summary]) -> Table:
    """Per launch: load hit ratios of each level, DRAM traffic, and the latency of its loads.

    summaries : (n_launches,) of one machine, in order, n_launches >= 1
    """
    first = summaries[0]
    parts = [
        f"{len(summaries)} launches on {first.machine.title}",
        f"{first.n_trials} trials, seed {first.seed}",
    ]
    if first.interrupted:
        parts.append("INTERRUPTED")
    table = Table(
        **frame(Text(" · ".join(parts), style="bold"), Text(_LEGEND, style="dim")),
    )
    table.add_column("launch", justify="right")
    table.add_column("kernel", overflow="fold")
    hits = (f"{name} load hits" for name in first.level_names)
    moved = ("DRAM read", "DRAM written", "cycles per load", "share of load cycles")
    for head in ("groups", *hits, *moved):
        table.add_column(head, justify="right")
    everything = sum(zero_if_unknown(one.total_load_cycles.mean) for one in summaries)
    for k, one in enumerate(summaries):
        share = zero_if_unknown(one.total_load_cycles.mean) / everything if everything else 0.0
        table.add_row(
            str(k),
            Text(one.kernel),
            f"{one.traced_groups} of {one.of_groups}",
            *(_hits(one, name) for name in one.level_names),
            text.byte_size(one.dram.read_bytes.mean),
            text.byte_size(one.dram.write_bytes.mean),
            text.plus_minus(one.load_latency_cycles, 0),
            text.percent(share),
        )
    return table


def launches_json(summaries: Sequence[Summary]) -> str:
    """`{"schema", "launches": [...]}`: each in the form of memsim.report.json_contract, in order."""
    data = {"schema": SCHEMA, "launches": [to_data(one) for one in summaries]}
    return as_text(data)


def _hits(summary: Summary, level: str) -> str:
    loads = summary.loads_at(level)
    return text.UNKNOWN if loads is None else text.percent_estimate(loads.hit_ratio)


def variants_page(variants: Sequence[Variant]) -> str:
    """The page of (n_variant,) replays, n_variant >= 2, which are named A, B, C and so on."""
    lettered = [(letter(k), one) for k, (_, one) in enumerate(variants)]
    subtitle = Markup("<br>").join(
        f"{name}: {label}: {one.kernel} on {one.machine.title}, {one.n_trials} trials"
        for (name, one), (label, _) in zip(lettered, variants, strict=True)
    )
    head, rows = variant_rows(lettered)
    table = data_table(head, rows, left=(0, 2, len(head) - 2))
    sections = [Section("The replays", _times(lettered) + table + paragraph(LEGEND, "soft small"))]
    sections.append(Section("Access by access", _accesses(variants)))
    return page(
        f"{len(variants)} replays compared", headline(lettered), sections, subtitle=subtitle
    )


def headline(variants: Sequence[Variant]) -> str:
    """Which is predicted to be fastest, and by how much; the number of replays without predictions."""
    times = sorted(
        (one.time.seconds.mean, name) for name, one in variants if one.time.seconds is not None
    )
    if len(times) < 2:
        return f"{len(variants)} replays"
    (best, fastest), (second, other), (worst, slowest) = times[0], times[1], times[-1]
    words = f"{fastest} is predicted to be fastest, {text.seconds(best)}"
    words += f"; {other} takes {second / best:.3g} times as long"
    return words if len(times) == 2 else f"{words}, {slowest} {worst / best:.3g} times"


def _times(variants: Sequence[tuple[str, Summary]]) -> Markup:
    bars = [
        Bar(
            name,
            one.time.seconds.mean,
            f"{text.seconds(one.time.seconds.mean)}, limited by {one.time.binds}",
            mark=one.time.floor_s,
        )
        for name, one in variants
        if one.time.seconds is not None
    ]
    if not bars:
        return Markup("")
    note = "Predicted times; the line is the largest lower bound."
    return paragraph(note, "soft small") + bar_chart(bars)


def _accesses(variants: Sequence[Variant]) -> Markup:
    """A row for each access, with a line for each replay that has it."""
    heads, accesses = access_rows(variants)
    rows: list[list[Cell | Markup]] = [
        [
            Cell(Markup("<strong><code>{}</code></strong>").format(text.shortened(name))),
            *(Markup("<br>").join(column) for column in (letters, *zip(*cells, strict=True))),
        ]
        for name, letters, cells in accesses
    ]
    head = ["access", "", *(one.replace("\n", ", ") for one in heads)]
    return data_table(head, rows, left=(0, 1), sortable=False)
