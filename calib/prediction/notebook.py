"""A prediction as a notebook shows it: the time, what limits it, and the loads that are waited for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from memsim.report import (
    bound,
    data_table,
    embedded,
    limiter_name,
    paragraph,
    percent,
    read_time,
    time_sections,
)


def fragment(prediction: Mapping[str, Any]) -> str:
    """HTML with its own style, of a prediction in the form of `as_json`. Names are escaped."""
    time, residency = read_time(prediction), prediction["residency"]
    parts = [
        Markup("<h3>{} on {}</h3>").format(prediction["kernel"], prediction["machine"]),
        paragraph(bound(time), "headline"),
        paragraph(
            f"{residency['blp']} resident groups of {residency['tlp']} sub-groups per core, limited by"
            f" {limiter_name(residency['limited_by'])}; {residency['nb']:,} groups on {residency['nsm']} cores",
            "soft small",
        ),
    ]
    for section in time_sections(time):
        parts.append(Markup("<h4>{}</h4>{}").format(section.title, section.body))
    if prediction["accesses"]:
        rows = [
            [row["site"], f"{row['runs']:.4g}", f"{row['latency_cycles']:.0f}", _hidden(row)]
            for row in prediction["accesses"]
        ]
        head = ["load", "executions by a sub-group", "latency, cycles", "hidden"]
        parts += [Markup("<h4>Loads, by their visible latency</h4>"), data_table(head, rows)]
    return embedded(Markup("").join(parts))


def _hidden(row: Mapping[str, Any]) -> str:
    return percent(1 - row["not_hidden"], 0)
