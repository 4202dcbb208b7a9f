"""Tables 1 and 3, and what Figure 6 lists: access patterns, and what a model's parameters came to."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from pymbolic.primitives import Subscript

from calib.counting import (
    AccessRecord,
    CountOptions,
    KernelCounts,
    axis_strides,
    kernel_counts,
    schedule,
)
from calib.fitting import Fit
from experiments.perflex import drawing
from experiments.perflex.applications import APPLICATIONS, Application, kernels
from experiments.perflex.evaluation import evaluate
from experiments.reproduction import Case, Figure

N = 2048
TABLE_1: dict[str, dict[str, Callable[[int], int]]] = {
    "a": {
        "accesses / footprint": lambda n: n // 16,
        "lid(0) stride": lambda n: 1,
        "lid(1) stride": lambda n: n,
        "gid(0) stride": lambda n: 0,
        "gid(1) stride": lambda n: 16 * n,
        "loop stride": lambda n: 16,
    },
    "b": {
        "accesses / footprint": lambda n: n // 16,
        "lid(0) stride": lambda n: 1,
        "lid(1) stride": lambda n: n,
        "gid(0) stride": lambda n: 16,
        "gid(1) stride": lambda n: 0,
        "loop stride": lambda n: 16 * n,
    },
}
"""The paper's Table 1, in the width n."""
PATTERNS = {"matmul": 5, "dg": 11, "finite_diff": 5}
"""Distinct global access patterns, sections 8.3 to 8.5."""
PRICES = {"p_PFa": "p_noPFa", "p_PFb": "p_noPFb"}
PAPER_PRICES = {"p_PFa": 3.0, "p_PFb": 5.0}
SUBGROUP_SIZE = 32


def table_1(out: Path, quick: bool) -> Figure:
    """The two loads of the product with tiles, from its text alone."""
    (kernel,) = kernels(
        (("matmul_sq", "dtype:float32", "groups_fit:True", "prefetch:True", f"n:{N}"),)
    )
    counts = kernel_counts(kernel)
    cases = []
    for array, wanted in TABLE_1.items():
        (access,) = [a for a in counts.inventory.accesses if a.tag == f"mmPF{array}"]
        found = _of_load(kernel, counts, access)
        for name, paper in wanted.items():
            cases.append(
                Case(
                    figure="table-1",
                    case=f"{array}, n = {N}",
                    quantity=name,
                    unit="",
                    reference=paper(N),
                    ours=float(found[name][1]),
                    note=found[name][0],
                )
            )
    return Figure(
        name="table-1",
        title="Table 1: the loads of a and b in the product with tiles",
        source="Stevens and Klöckner, Table 1, in elements; exact, counted without running anything",
        cases=cases,
        findings=["Both differ in the strides of gid and of the loop alone."],
    )


def _of_load(
    kernel: Any, counts: KernelCounts, access: AccessRecord
) -> dict[str, tuple[str, Fraction]]:
    """Each quantity's text and its value at n = N."""
    accesses, footprint = counts.access_footprint(access, CountOptions())
    sizes = {"n": N}
    found = {
        "accesses / footprint": (
            f"({accesses}) / ({footprint})",
            accesses.at(sizes) / footprint.at(sizes),
        )
    }
    scheduled = schedule(kernel.kernel)
    (index,) = [
        each.expression.index_tuple
        for each in scheduled.kernel.instructions
        if isinstance(each.expression, Subscript) and each.expression.aggregate.name == access.array
    ]
    (loop,) = axis_strides(
        scheduled.kernel,
        scheduled.kernel.arg_dict[access.array],
        index,
        ["k_outer"],
        scheduled.parameters,
    )
    strides = {f"lid({axis}) stride": value for axis, value in enumerate(access.local_strides)}
    strides |= {f"gid({axis}) stride": value for axis, value in enumerate(access.group_strides)}
    for name, value in {**strides, "loop stride": loop}.items():
        assert value is not None
        found[name] = (str(value), Fraction(value.evaluate(sizes)))
    return found


def table_3(out: Path, quick: bool) -> Figure:
    """What the model's parameters came to for the matrix products.

    An overlap model whose edge is 0 is the linear model with all costs twice as large: then that one's.
    """
    found = evaluate("matmul", quick)
    kind = "linear" if "p_edge" in found.fits["overlap"].at_bound else "overlap"
    fit = found.fits[kind]
    halves = fit.half_widths()
    cases = []
    for name, value in fit.items():
        features = fit.model.features_of(name)
        unit, per_count, counted = _rate(name, features)
        held = name in fit.at_bound
        cases.append(
            Case(
                figure="table-3",
                case=f"{name} ({' '.join(features) or 'no feature'})",
                quantity="cost" if features else "edge",
                unit="s" if features else "",
                reference=None,
                ours=value,
                ci95=None if held or not np.isfinite(halves[name]) else halves[name],
                note="held at 0"
                if held
                else f"counted per {counted}: {per_count / value:.3g} {unit}"
                if unit and value
                else f"counted per {counted}",
            )
        )
    for tiled, plain in PRICES.items():
        cases.append(
            Case(
                figure="table-3",
                case=f"{tiled} over {plain}",
                quantity="cost an item",
                unit="",
                reference=PAPER_PRICES[tiled],
                ours=_per_item(fit, tiled) / _per_item(fit, plain)
                if _per_item(fit, plain)
                else None,
                note="what tiles make of the cost of an item loaded; Titan V in the paper",
            )
        )
    return Figure(
        name="table-3",
        title=f"Table 3: costs of features in the {kind} model of the matrix products",
        source="Stevens and Klöckner, Table 3 (Titan V); the text lost its numbers",
        cases=cases,
        findings=[
            f"Measured on {found.device}. Costs are of one count: per sub-group of {SUBGROUP_SIZE}"
            " items (SG) or per work-item (WI)."
        ],
        pictures=[
            drawing.rates(
                out / "table-3.png",
                {
                    name: value
                    for name, value in fit.items()
                    if value > 0 and fit.model.features_of(name)
                },
                {name: half for name, half in halves.items() if np.isfinite(half)},
                f"Cost of one count, {kind} model of the matrix products",
            )
        ],
    )


def figure_6(out: Path, quick: bool) -> Figure:
    """How many distinct global access patterns each application has."""
    cases = []
    for name, application in APPLICATIONS.items():
        own, total = _patterns(application)
        cases.append(
            Case(
                figure="figure-6",
                case=application.title,
                quantity="access patterns",
                unit="",
                reference=PATTERNS[name],
                ours=own if name == "matmul" else total,
                note=f"{own} of the variants, {total} with the stride-1 load that the model measures"
                + ("" if name == "matmul" else ", which the paper counts here"),
            )
        )
    return Figure(
        name="figure-6",
        title="Figure 6: distinct global access patterns, by tag, direction and strides",
        source="Stevens and Klöckner, sections 8.3 to 8.5",
        cases=cases,
        findings=["The measurement kernels of each model are listed in calib/models."],
    )


def _patterns(application: Application) -> tuple[int, int]:
    found = set()
    for kernel in application.kernels("test"):
        for access in kernel_counts(kernel).inventory.accesses:
            if access.memory == "global":
                strides = (access.local_strides, access.group_strides)
                found.add((access.tag, access.direction, strides))
    return len(found), len(found) + 1


def _rate(name: str, features: tuple[str, ...]) -> tuple[str, float, str]:
    """Unit of the throughput, what one count stands for in it, and what is counted once for."""
    if name in ("p_add", "p_mul", "p_madd"):
        return "op/s", SUBGROUP_SIZE, "SG"
    if name == "p_local":
        return "B/s", 4 * SUBGROUP_SIZE, "SG"
    if name == "p_noPFa":
        return "B/s", 4 * SUBGROUP_SIZE, "SG"
    if features and features[0].startswith("f_mem_access"):
        return "B/s", 4, "WI"
    return "", 0.0, "group and launch" if features else "fit"


def _per_item(fit: Fit, name: str) -> float:
    """The load of a without tiles is counted once a sub-group, the others once an item."""
    return fit[name] / (SUBGROUP_SIZE if name == "p_noPFa" else 1)
