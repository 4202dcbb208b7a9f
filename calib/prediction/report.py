"""A prediction for a person: tables in a terminal, and one self-contained page."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from rich.table import Table

from calib.prediction.prediction import Prediction, access_rows, block_rows

MOST_BLOCKS = 16
MOST_NAMES = 3
STYLE = (
    "body{font:14px sans-serif;max-width:75em;margin:2em auto;padding:0 1em}"
    "td,th{padding:1px 9px;text-align:right}td:last-child,th:last-child{text-align:left}"
    "tr:nth-child(even){background:#f4f4f4}svg{max-width:100%;height:auto}"
)


def headline(found: Prediction) -> str:
    """The time with its interval over orderings, and what binds it."""
    estimate, timing = found.timing.estimate, found.timing
    interval = ""
    if estimate.has_interval:
        interval = (
            f" ({seconds(estimate.low)} to {seconds(estimate.high)}: 95 % over orderings,"
            " the model's own error not in it)"
        )
    return (
        f"{found.kernel} on {found.machine.name}: {seconds(estimate.mean)}{interval};"
        f" bound by {timing.binds}"
    )


def seconds(value: float) -> str:
    """In the unit that suits it."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if abs(value) * factor >= 1:
            return f"{value * factor:.4g} {unit}"
    return f"{value * 1e9:.4g} ns"


def residency_line(found: Prediction) -> str:
    """TLP, BLP, NB, RepNum and NBB."""
    resident, occupancy = found.timing.residents, found.occupancy
    return (
        f"{resident.subgroups_per_group} sub-groups a group (TLP), {resident.groups_per_core} groups"
        f" a core (BLP, limited by {occupancy.limited_by}), {resident.n_groups} groups on"
        f" {resident.n_cores} cores: {resident.rounds:.4g} rounds;"
        f" {float(found.program.n_blocks):.6g} blocks a sub-group (NBB)"
    )


def floors_table(found: Prediction) -> tuple[list[str], list[list[str]]]:
    """What must be done at least, and what would be saved without a thing."""
    total = found.timing.estimate.mean
    rows = [
        [f"{name}, at least", seconds(float(value.mean())), _percent(float(value.mean()) / total)]
        for name, value in found.timing.floors_s.items()
    ]
    rows += [
        [f"saved without {name}", seconds(value), _percent(value / total)]
        for name, value in found.timing.parts_s.items()
    ]
    return ["what", "time", "of the whole"], rows


def blocks_table(found: Prediction) -> tuple[list[str], list[list[str]]]:
    """The blocks that take most, in cycles of one sub-group."""
    channels = list(found.timing.inputs.channels)
    head = ["block", "runs", "issue", "latency", *channels, "not hidden", "waits for"]
    listed = sorted(block_rows(found), key=lambda row: -row["runs"] * row["issue_cycles"])
    rows = []
    for row in sorted(listed[:MOST_BLOCKS], key=lambda row: int(row["block"])):
        rows.append(
            [
                str(row["block"]),
                f"{row['runs']:.4g}",
                f"{row['issue_cycles']:.1f}",
                f"{row['latency_cycles']:.0f}",
                *(f"{row['way_cycles'][channel]:.1f}" for channel in channels),
                _percent(row["not_hidden"]),
                _waits(row),
            ]
        )
    return head, rows


def accesses_table(found: Prediction) -> tuple[list[str], list[list[str]]]:
    """Loads by the latency that nothing hides."""
    rows = [
        [
            f"{row['runs']:.4g}",
            f"{row['latency_cycles']:.0f}",
            _percent(1 - row["not_hidden"]),
            _percent(row["not_hidden"]),
            row["site"],
        ]
        for row in access_rows(found)
    ]
    return ["runs", "latency", "hidden", "not hidden", "access"], rows


def rich_table(title: str, content: tuple[list[str], list[list[str]]]) -> Table:
    """Texts come from kernels: nothing in them is markup."""
    from rich.text import Text

    head, rows = content
    table = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for k, name in enumerate(head):
        table.add_column(name, justify="left" if k == len(head) - 1 or not k else "right")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def page(found: Prediction, changed: Sequence[tuple[str, Prediction]] = ()) -> str:
    """One HTML page with the timeline inside; opens from the disk."""
    from calib.prediction.timeline import as_svg

    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        f"<title>{html.escape(headline(found))}</title><style>{STYLE}</style>",
        f"<h1>{html.escape(headline(found))}</h1><p>{html.escape(residency_line(found))}</p><ul>",
        *(f"<li>{html.escape(note)}</li>" for note in found.notes),
        "</ul>",
        *(
            f"<p>With {html.escape(text)}: {html.escape(comparison(found, other))}</p>"
            for text, other in changed
        ),
        "<h2>What binds</h2>",
        _html_table(floors_table(found)),
        "<h2>Accesses, by the latency that nothing hides</h2>",
        _html_table(accesses_table(found)),
        "<h2>Basic blocks, in cycles of one sub-group</h2>",
        _html_table(blocks_table(found)),
        "<h2>A few sub-groups on one core</h2>",
        as_svg(found),
    ]
    return "\n".join(parts)


def comparison(found: Prediction, other: Prediction) -> str:
    """The changed time beside the unchanged one."""
    before, after = found.timing.estimate.mean, other.timing.estimate.mean
    return (
        f"{seconds(after)} instead of {seconds(before)} ({after / before - 1:+.1%});"
        f" bound by {other.timing.binds}"
    )


def _html_table(content: tuple[list[str], list[list[str]]]) -> str:
    head, rows = content
    cells = "".join(f"<th>{html.escape(name)}" for name in head)
    lines = [f"<table><tr>{cells}</tr>"]
    lines += [
        "<tr>" + "".join(f"<td>{html.escape(cell)}" for cell in row) + "</tr>" for row in rows
    ]
    return "\n".join([*lines, "</table>"])


def _waits(row: dict[str, Any]) -> str:
    if row["starts_group"]:
        return "(a group starts)"
    names = row["waits_for"]
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    text = ", ".join(names[:MOST_NAMES]) + more
    return text or ("(barrier)" if row["barrier"] else "")


def _percent(value: float) -> str:
    return f"{100 * value:.0f} %"
