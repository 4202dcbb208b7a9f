"""A sweep as a table, JSON, CSV and a page."""

from __future__ import annotations

import csv
import io
import math
from typing import Any

from markupsafe import Markup

from calib.prediction.report import seconds, seconds_range
from calib.tuning.conditions import number
from calib.tuning.results import Table, byte_text, dram_bytes, finite
from calib.tuning.search import interval
from calib.tuning.sweep import Swept, bound_changes, growth, knees
from memsim.report import (
    UNKNOWN,
    Curve,
    Section,
    bullets,
    data_table,
    figure,
    figures,
    file_label,
    line_chart,
    page,
    paragraph,
    percent,
    text_cell,
)


def findings(swept: Swept, machine: str) -> list[str]:
    """Knees, changes of what limits the time, and how the time grows between the largest sizes."""
    outcomes = swept.outcomes[machine]
    lines = [str(knee) for knee in knees(outcomes)] + bound_changes(outcomes)
    exponent = growth(outcomes, swept.varied[0])
    if math.isfinite(exponent):
        lines.append(
            f"between the largest sizes, the time grows like {swept.varied[0]}^{exponent:.2g}"
        )
    return lines


def table(swept: Swept, machine: str) -> Table:
    """A row for each size, with the settings that vary."""
    outcomes = swept.outcomes[machine]
    names = swept.varied
    levels = _levels(outcomes)
    head = [*names, "time", "interval", "limited by", "occupancy", "DRAM bytes"]
    head += [f"{level} hits" for level in levels]
    rows = []
    for one in outcomes:
        values = [one.configuration[name] for name in names]
        if one.failure:
            rows.append([*values, "failed", one.failure, *[UNKNOWN] * (3 + len(levels))])
            continue
        ends = interval(one, 0.0)
        rows.append(
            [
                *values,
                seconds(one.time_s),
                seconds_range(ends.low_s, ends.high_s),
                one.binds,
                percent(one.occupancy, 0),
                byte_text(dram_bytes(one)),
                *(percent(one.hit_ratios.get(level, math.nan)) for level in levels),
            ]
        )
    return head, rows


def as_json(swept: Swept) -> dict[str, Any]:
    """For json.dumps."""
    return {
        "schema": 1,
        "kernel": swept.subject.kernel.spec,
        "seed": swept.subject.seed,
        "interrupted": swept.interrupted,
        "machines": {
            machine: {
                "findings": findings(swept, machine),
                "sizes": [finite(one.as_json()) for one in outcomes],
            }
            for machine, outcomes in swept.outcomes.items()
        },
    }


def as_csv(swept: Swept) -> str:
    """A row for each machine and size."""
    stream = io.StringIO()
    writer = csv.writer(stream)
    names = list(swept.sizes[0])
    levels = _levels([one for outcomes in swept.outcomes.values() for one in outcomes])
    head = ["time_s", "low_s", "high_s", "limited_by", "occupancy", "dram_bytes"]
    writer.writerow(["machine", *names, *head, *(f"{one}_hit_ratio" for one in levels), "failure"])
    for machine, outcomes in swept.outcomes.items():
        for one in outcomes:
            cells: list[Any] = [text_cell(machine)]
            cells += [text_cell(one.configuration[name]) for name in names]
            if one.failure:
                cells += [*[""] * (6 + len(levels)), text_cell(one.failure)]
            else:
                ends = interval(one, 0.0)
                cells += [
                    one.time_s,
                    ends.low_s,
                    ends.high_s,
                    one.binds,
                    one.occupancy,
                    dram_bytes(one),
                ]
                cells += [*(one.hit_ratios.get(level, "") for level in levels), ""]
            writer.writerow(cells)
    return stream.getvalue()


def sweep_page(swept: Swept) -> str:
    """One page: curves of all machines, then each machine's table."""
    machines = list(swept.outcomes)
    first = findings(swept, machines[0])
    sections = [Section("Curves", _curves(swept))]
    for machine in machines:
        lines = bullets(findings(swept, machine))
        head, rows = table(swept, machine)
        sections.append(
            Section(machine, lines + data_table(head, rows, left=(len(swept.varied) + 2,)))
        )
    sections.append(
        Section(
            "How to read this",
            paragraph(
                "Times are predicted, as by 'memsim predict', from a snapshot of up to 32 waves of groups; intervals"
                " are over orderings and do not contain the model's error. A knee is where the hit ratio of an"
                " array falls most from one size to the next, by 10 points at least."
            ),
        )
    )
    return page(
        f"{file_label(swept.subject.kernel.spec)} over {', '.join(swept.varied)}",
        "; ".join(f"{machines[0]}: {line}" for line in first[:1]) or "no knee",
        sections,
        subtitle=f"{len(swept.sizes)} sizes on {', '.join(machines)}"
        + ("; interrupted" if swept.interrupted else ""),
    )


def _curves(swept: Swept) -> Markup:
    name = swept.varied[0]
    known = {
        machine: [
            one
            for one in outcomes
            if not one.failure and isinstance(number(one.configuration[name]), int | float)
        ]
        for machine, outcomes in swept.outcomes.items()
    }
    x = {m: [number(one.configuration[name]) for one in rows] for m, rows in known.items()}
    charts = {
        "time": line_chart(
            [Curve(m, x[m], [1e6 * one.time_s for one in rows]) for m, rows in known.items()],
            name,
            "us",
            log_x=True,
            log_y=True,
        ),
        "DRAM bytes": line_chart(
            [
                Curve(m, x[m], [dram_bytes(one) / 2**20 for one in rows])
                for m, rows in known.items()
            ],
            name,
            "MiB",
            log_x=True,
            log_y=True,
        ),
    }
    for level in _levels([one for rows in known.values() for one in rows]):
        charts[f"{level} hits of loads"] = line_chart(
            [
                Curve(m, x[m], [100 * one.hit_ratios.get(level, math.nan) for one in rows])
                for m, rows in known.items()
            ],
            name,
            "%",
            log_x=True,
        )
    return figures(figure(title, image) for title, image in charts.items() if image is not None)


def _levels(outcomes: Any) -> list[str]:
    return list(dict.fromkeys(level for one in outcomes for level in one.hit_ratios))
