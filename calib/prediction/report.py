"""A prediction as tables for a terminal, and as one self-contained page."""

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


def headline(prediction: Prediction) -> str:
    """The time with its interval over schedules, and what limits it."""
    estimate, timing = prediction.timing.estimate, prediction.timing
    interval = ""
    if estimate.has_interval:
        interval = (
            f" (95 % interval over schedules {seconds(estimate.low)} to {seconds(estimate.high)}, without"
            " the model's error)"
        )
    return (
        f"{prediction.kernel} on {prediction.machine.name}: {seconds(estimate.mean)}{interval};"
        f" limited by {timing.binds}"
    )


def seconds(value: float) -> str:
    """A time in s, ms, us or ns."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if abs(value) * factor >= 1:
            return f"{value * factor:.4g} {unit}"
    return f"{value * 1e9:.4g} ns"


def residency_line(prediction: Prediction) -> str:
    """The residency: TLP, BLP, NB, RepNum and NBB."""
    resident, occupancy = prediction.timing.residents, prediction.occupancy
    return (
        f"{resident.subgroups_per_group} sub-groups per group (TLP), {resident.groups_per_core} resident"
        f" groups per core (BLP, limited by {occupancy.limited_by}), {resident.n_groups} groups on"
        f" {resident.n_cores} cores: {resident.rounds:.4g} rounds;"
        f" {float(prediction.program.n_blocks):.6g} basic blocks per sub-group (NBB)"
    )


def floors_table(prediction: Prediction) -> tuple[list[str], list[list[str]]]:
    """Lower bounds of the time, and how much faster the kernel would be without latency, barriers, ..."""
    total = prediction.timing.estimate.mean
    rows = [
        [
            f"at least, for {name}",
            seconds(float(value.mean())),
            _percent(float(value.mean()) / total),
        ]
        for name, value in prediction.timing.floors_s.items()
    ]
    rows += [
        [f"saved without {name}", seconds(value), _percent(value / total)]
        for name, value in prediction.timing.parts_s.items()
    ]
    return ["part", "time", "share of the time"], rows


def blocks_table(prediction: Prediction) -> tuple[list[str], list[list[str]]]:
    """The blocks with the most issue cycles; numbers are cycles of one sub-group."""
    channels = list(prediction.timing.inputs.channels)
    head = ["block", "executions", "issue", "latency", *channels, "not hidden", "waits for"]
    listed = sorted(block_rows(prediction), key=lambda row: -row["runs"] * row["issue_cycles"])
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


def accesses_table(prediction: Prediction) -> tuple[list[str], list[list[str]]]:
    """The loads, by their visible latency."""
    rows = [
        [
            f"{row['runs']:.4g}",
            f"{row['latency_cycles']:.0f}",
            _percent(1 - row["not_hidden"]),
            _percent(row["not_hidden"]),
            row["site"],
        ]
        for row in access_rows(prediction)
    ]
    return ["executions", "latency", "hidden", "not hidden", "access"], rows


def rich_table(title: str, content: tuple[list[str], list[list[str]]]) -> Table:
    """A table for the terminal; its texts come from kernels and are never read as markup."""
    from rich.text import Text

    head, rows = content
    table = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for k, name in enumerate(head):
        table.add_column(name, justify="left" if k == len(head) - 1 or not k else "right")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def page(prediction: Prediction, changed: Sequence[tuple[str, Prediction]] = ()) -> str:
    """One HTML page that includes the timeline and loads nothing from elsewhere."""
    from calib.prediction.timeline import as_svg

    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        f"<title>{html.escape(headline(prediction))}</title><style>{STYLE}</style>",
        f"<h1>{html.escape(headline(prediction))}</h1>",
        f"<p>{html.escape(residency_line(prediction))}</p><ul>",
        *(f"<li>{html.escape(note)}</li>" for note in prediction.notes),
        "</ul>",
        *(
            f"<p>With {html.escape(text)}: {html.escape(comparison(prediction, other))}</p>"
            for text, other in changed
        ),
        "<h2>What limits the time</h2>",
        "<p>No schedule can be faster than a lower bound (&ldquo;at least&rdquo;). &ldquo;Saved"
        " without&rdquo; is how much faster the kernel would be without that part.</p>",
        _html_table(floors_table(prediction)),
        "<h2>Loads, by their visible latency</h2>",
        "<p>Latencies are in cycles of a core. The part that is hidden is covered by instructions of other"
        " sub-groups.</p>",
        _html_table(accesses_table(prediction)),
        "<h2>Basic blocks, in cycles of one sub-group</h2>",
        "<p>A sub-group issues a basic block without waiting, and then waits for its loads. The columns"
        " between latency and not hidden are the cycles that the block occupies a core's share of each"
        " level's bandwidth.</p>",
        _html_table(blocks_table(prediction)),
        "<h2>Timeline of a few sub-groups on one core</h2>",
        as_svg(prediction),
    ]
    return "\n".join(parts)


def comparison(prediction: Prediction, other: Prediction) -> str:
    """The time with changes, compared with the time without them."""
    before, after = prediction.timing.estimate.mean, other.timing.estimate.mean
    return (
        f"{seconds(after)} instead of {seconds(before)} ({after / before - 1:+.1%});"
        f" limited by {other.timing.binds}"
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
        return "(start of a group)"
    names = row["waits_for"]
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    text = ", ".join(names[:MOST_NAMES]) + more
    return text or ("(barrier)" if row["barrier"] else "")


def _percent(value: float) -> str:
    return f"{100 * value:.0f} %"
