"""The terminal's table of a comparison: for every access a line for A, for B and for B - A."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from memsim.report import text
from memsim.report.compare import (
    LEGEND,
    Comparison,
    Pair,
    SiteComparison,
    change_text,
    dram_bytes_per_sector,
    signed,
)
from memsim.report.table import FittingTable, add_numbers, frame


def comparison_table(comparison: Comparison) -> Table:
    """A table for any console; a narrow one shows latency and hit ratios only."""
    heading = Text("\n".join([comparison.label_a, comparison.label_b]), style="bold")
    heading.append(f"\n{comparison.headline()}", style="not bold")
    caption = Text("\n".join([*_unmatched(comparison), LEGEND]), style="dim")
    forms = (
        (67 + 15 * len(comparison.level_names), lambda t: _fill(t, comparison, narrow=False)),
        (42 + 15 * len(comparison.level_names), lambda t: _fill(t, comparison, narrow=True)),
        (0, lambda t: _fill_single(t, comparison)),
    )
    return FittingTable(forms, frame(heading, caption))


def _fill(table: Table, comparison: Comparison, *, narrow: bool) -> None:
    """Adds columns and rows; a narrow table has latency and hit ratios only."""
    table.add_column("access", overflow="fold", min_width=12)
    table.add_column("", no_wrap=True)
    hits = (f"{name} hit\n%" for name in comparison.level_names)
    add_numbers(table, f"latency\n{comparison.latency_unit}", *hits)
    if not narrow:
        add_numbers(table, "share\n%", "sectors\nper access", "DRAM bytes\nper sector")
    n_columns = len(table.columns)
    table.add_row(*_total_cells(comparison)[:n_columns])
    for site in comparison.sites:
        table.add_row(*_site_cells(comparison, site)[:n_columns])


def _fill_single(table: Table, comparison: Comparison) -> None:
    """Adds one column, in which every quantity of an access has a line of its own."""
    table.expand = True
    table.add_column("accesses: A; B; change", overflow="fold")
    heads = ["latency", *(f"{name} hits, %" for name in comparison.level_names), "share, %"]
    heads += ["sectors per access", "DRAM bytes per sector"]
    rows = [
        _total_cells(comparison),
        *(_site_cells(comparison, site) for site in comparison.sites),
    ]
    for name, _, *cells in rows:
        for head, cell in zip(heads, cells, strict=True):
            if cell.plain.strip(f"\n{text.UNKNOWN}"):
                name.append(f"\n{head}: ").append(Text("; ").join(cell.split()))
        table.add_row(name)


def _site_cells(comparison: Comparison, site: SiteComparison) -> list[Text]:
    name = Text(text.shortened(site.name), style="bold")
    for line in filter(None, (site.a.direction_label, site.where)):
        name.append(f"\n{line}", style="dim")
    return [
        name,
        Text("A\nB\nchange", style="dim"),
        _cell(comparison, site.latency, 0, sign=-1),
        *(
            _cell(comparison, site.levels[level], 1, 100, sign=1)
            for level in comparison.level_names
        ),
        _cell(comparison, site.share, 1, 100)
        if site.latency.is_defined
        else Text("\n".join([text.UNKNOWN] * 3)),
        _plain_cell(site.a.sectors_per_access, site.b.sectors_per_access),
        _plain_cell(dram_bytes_per_sector(site.a), dram_bytes_per_sector(site.b)),
    ]


def _total_cells(comparison: Comparison) -> list[Text]:
    hits = []
    for k, level in enumerate(comparison.level_names):
        pair = comparison.totals.get((level, "load" if k == 0 else "read"))
        hits.append(_cell(comparison, pair, 1, 100, sign=1) if pair else Text(text.UNKNOWN))
    return [
        Text("all loads", style="bold"),
        Text("A\nB\nchange", style="dim"),
        _cell(comparison, comparison.load_latency, 0, sign=-1),
        *hits,
        *(Text(""), Text(""), Text("")),
    ]


def _cell(
    comparison: Comparison, pair: Pair, decimals: int, factor: float = 1.0, *, sign: int = 0
) -> Text:
    cell = Text(text.plus_minus(pair.a, decimals, factor))
    cell.append("\n" + text.plus_minus(pair.b, decimals, factor))
    colour = {"better": "bold green", "worse": "bold red", "": "bold"}[
        comparison.direction(pair, sign)
    ]
    cell.append("\n" + change_text(comparison, pair, decimals, factor, sign), style=colour)
    return cell


def _plain_cell(a: float, b: float) -> Text:
    cell = Text(f"{text.fixed(a, 1)}\n{text.fixed(b, 1)}")
    cell.append(f"\n{signed(b - a, 1)}", style="bold")
    return cell


def _unmatched(comparison: Comparison) -> list[str]:
    return [
        f"only in {label}: {', '.join(text.shortened(site.name) for site in sites)}"
        for label, sites in (("A", comparison.only_a), ("B", comparison.only_b))
        if sites
    ]
