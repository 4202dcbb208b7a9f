"""A prediction as a notebook shows it: the time, what limits it, and the loads that are waited for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from memsim.report import bullets, data_table, embedded, paragraph


def fragment(prediction: Mapping[str, Any]) -> str:
    """HTML with its own style, of a prediction in the form of `as_json`. Names are escaped."""
    time_s, residency = prediction["time_s"], prediction["residency"]
    total = time_s["mean"]
    bounds = [(f"at least, for {name}", value) for name, value in prediction["floors_s"].items()]
    saved = prediction["saved_without_s"].items()
    bounds += [(f"saved without {name}", value) for name, value in saved]
    parts = [
        Markup("<h3>{} on {}</h3>").format(prediction["kernel"], prediction["machine"]),
        paragraph(f"{_time(time_s)}; limited by {prediction['binds']}", "headline"),
        paragraph(
            f"{residency['blp']} resident groups of {residency['tlp']} sub-groups per core, limited by"
            f" {residency['limited_by']}; {residency['nb']} groups on {residency['nsm']} cores",
            "soft small",
        ),
        bullets(prediction["notes"], "soft small"),
        data_table(
            ["part", "time, us", "share of the time"],
            [
                [name, f"{1e6 * value:.4g}", f"{100 * value / total:.0f} %"]
                for name, value in bounds
            ],
            sortable=False,
        ),
    ]
    if prediction["accesses"]:
        rows = [
            [row["site"], f"{row['runs']:.4g}", f"{row['latency_cycles']:.0f}", _hidden(row)]
            for row in prediction["accesses"]
        ]
        head = ["load", "executions by a sub-group", "latency, cycles", "hidden"]
        parts += [Markup("<h4>Loads, by their visible latency</h4>"), data_table(head, rows)]
    return embedded(Markup("").join(parts))


def _time(time_s: Mapping[str, Any]) -> str:
    text = f"{1e6 * time_s['mean']:.4g} us"
    if time_s["ci95"] is None:
        return text
    low, high = time_s["ci95"]
    return (
        f"{text} (95 % interval over orderings {1e6 * low:.4g} to {1e6 * high:.4g} us, without the model's"
        " error)"
    )


def _hidden(row: Mapping[str, Any]) -> str:
    return f"{100 * (1 - row['not_hidden']):.0f} %"
