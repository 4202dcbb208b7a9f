"""The tables and lines that `memsim blocks` prints.

It imports nothing heavy at module level, because the help of the command group loads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from memsim.commands import console

if TYPE_CHECKING:
    from calib.block_counts.report import BlockReport

SHOWN_SIZES = 4


def show_extrapolated(rows: Sequence[Mapping[str, Any]]) -> None:
    for row in rows:
        ratios = ", ".join(
            f"{level} {100 * r['mean']:.1f} % ({100 * r['low']:.1f} to {100 * r['high']:.1f})"
            for level, r in row["hit_ratios"].items()
        )
        time = row["least_s"]
        click.echo(
            f"{' = '.join(row['with'])} = {row['size']:g}: hit ratios {ratios}; latency of a load"
            f" {row['latency_cycles']:.0f} cycles; DRAM reads {row['dram_bytes']['mean'] / 1e6:,.1f} MB;"
            f" at least {1e3 * time['mean']:.3g} ms ({1e3 * time['low']:.3g} to {1e3 * time['high']:.3g})"
        )
        if row["warning"]:
            click.echo(f"  warning: {row['warning']}")


def show_counts(report: BlockReport, formulas: bool, ran: bool) -> None:
    from memsim.report import PlainTable

    shown = chosen(len(report.sizes))
    changing = [n for n in report.sizes[0] if len({size.get(n) for size in report.sizes}) > 1]
    columns = ["block", "line", "begins with", "next", "instructions", "count"]
    for k in shown:
        columns.append(", ".join(f"{n}={report.sizes[k][n]}" for n in changing) or "sub-groups")
    rows = []
    for row in report.rows:
        lines = ", ".join(map(str, row.block.lines[:1])) + "..." * (len(row.block.lines) > 1)
        text = "  " * row.block.depth + row.block.text
        following = ", ".join("end" if f < 0 else f"B{f}" for f in row.block.followers)
        counts = [number(row, k) for k in shown]
        instructions = str(len(row.block.instructions))
        rows.append((row.block.name, lines, text, following, instructions, row.method, *counts))
    title = f"basic blocks of {report.kernel}: executions by sub-groups"
    console().print(PlainTable(title, columns, rows))
    reasons: dict[str, list[str]] = {}
    for row in report.rows:
        if row.reason:
            reasons.setdefault(f"{row.method}: {row.reason}", []).append(f"B{row.block.number}")
        if row.warning:
            reasons.setdefault(f"warning: {row.warning}", []).append(f"B{row.block.number}")
    for reason, numbers in reasons.items():
        click.echo(f"{', '.join(numbers)} {reason}")
    for note in report.notes:
        click.echo(f"note: {note}")
    if formulas:
        for row in report.rows:
            if row.formula:
                click.echo(f"{row.block.name} = {row.formula}")
    if any(row.method == "unknown" for row in report.rows):
        others = "" if ran else ", or count them with --run"
        click.echo(f"unknown counts: learn them with --train NAME=LOW:HIGH{others}")


def chosen(n: int) -> list[int]:
    """Indices of the sizes that are shown, evenly spread over n."""
    if n <= SHOWN_SIZES:
        return list(range(n))
    return sorted({round(k * (n - 1) / (SHOWN_SIZES - 1)) for k in range(SHOWN_SIZES)})


def number(row: Any, k: int) -> str:
    count = row.by_subgroups[k]
    if count is None:
        return "?"
    if row.method == "learned":
        return f"{count:,.0f} ({row.low[k]:,.0f} to {row.high[k]:,.0f})"
    return f"{count:,.0f}"


def show_costs(costs: Sequence[Mapping[str, Any]]) -> None:
    for cost in costs:
        size = ", ".join(f"{name}={value}" for name, value in cost["size"].items())
        at = f"{size}: " if size else ""
        requests = ", ".join(f"{n:,.0f} {what}" for what, n in cost["requests"].items())
        units = ", ".join(f"{u} {c:,.0f}" for u, c in cost["busy_cycles_per_core"].items())
        click.echo(f"{at}requests by sub-groups: {requests}; busy cycles per core: {units}")
        if cost["without"]:
            click.echo(f"  without {', '.join(cost['without'])}, whose counts are unknown")


def show_run(rows: Sequence[Mapping[str, Any]]) -> None:
    compared = [row for row in rows if row["equal"] is not None]
    wrong = [row["block"] for row in compared if not row["equal"]]
    found = f"{len(compared) - len(wrong)} of {len(compared)} counts are equal"
    if not compared:
        found = "counted; no count of the table is exact, to compare it with"
    click.echo(f"run of the first size: {found}" + f"; {', '.join(wrong)} differ" * bool(wrong))
    for row in rows:
        if row["equal"] is None:
            click.echo(
                f"  {row['block']}: {row['by_work_items']:,} work-items,"
                f" {row['by_sub_groups']:,} sub-groups"
            )
