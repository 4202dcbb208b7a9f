"""Launches that were replayed one after another: a table with a row each, and JSON of them all."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from memsim.report import text
from memsim.report.json_contract import SCHEMA, to_data
from memsim.report.numbers import LevelNumbers, Summary, zero_if_unknown
from memsim.report.table import frame

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
        f"{len(summaries)} launches on {first.machine_title}",
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
            *(_hits(_loads(one, name)) for name in one.level_names),
            text.byte_size(one.dram.read_bytes.mean),
            text.byte_size(one.dram.write_bytes.mean),
            text.plus_minus(one.load_latency_cycles, 0),
            text.percent(share),
        )
    return table


def launches_json(summaries: Sequence[Summary]) -> str:
    """`{"schema", "launches": [...]}`: each in the form of memsim.report.json_contract, in order."""
    data = {"schema": SCHEMA, "launches": [to_data(one) for one in summaries]}
    return json.dumps(data, indent=2, allow_nan=False, ensure_ascii=True)


def _loads(summary: Summary, level: str) -> LevelNumbers | None:
    kind = "load" if level == summary.level_names[0] else "read"
    return summary.totals.get((level, kind))


def _hits(level: LevelNumbers | None) -> str:
    return text.UNKNOWN if level is None else text.percent_estimate(level.hit_ratio)
