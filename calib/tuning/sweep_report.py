"""A sweep as a table, JSON and a page."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from markupsafe import Markup

from calib.tuning.outcome import Outcome
from calib.tuning.results import Table, cells, dram_bytes, finite, levels_of
from calib.tuning.search import interval
from calib.tuning.space import number
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
    levels = levels_of(outcomes)
    head = [*names, "time", "interval", "limited by", "occupancy", "DRAM bytes"]
    head += [f"{level} hits" for level in levels]
    rows = []
    for one in outcomes:
        values = [one.configuration[name] for name in names]
        if one.failure:
            rows.append([*values, "failed", one.failure, *[UNKNOWN] * (3 + len(levels))])
        else:
            time, moved = cells(one, interval(one, 0.0), levels)
            rows.append([*values, *time, *moved])
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

    def chart(
        value: Callable[[Outcome], float], unit: str, *, log_y: bool = False
    ) -> Markup | None:
        curves = [Curve(m, x[m], [value(one) for one in rows]) for m, rows in known.items()]
        return line_chart(curves, name, unit, log_x=True, log_y=log_y)

    charts = {
        "time": chart(lambda one: 1e6 * one.time_s, "us", log_y=True),
        "DRAM bytes": chart(lambda one: dram_bytes(one) / 2**20, "MiB", log_y=True),
    }
    for level in levels_of([one for rows in known.values() for one in rows]):
        hits = functools.partial(_hit_percent, level=level)
        charts[f"{level} hits of loads"] = chart(hits, "%")
    return figures(figure(title, image) for title, image in charts.items() if image is not None)


def _hit_percent(one: Outcome, *, level: str) -> float:
    return 100 * one.hit_ratios.get(level, math.nan)
