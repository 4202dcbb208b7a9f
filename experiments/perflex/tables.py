"""Tables 1 and 3 and Figure 6: strides and access patterns, and the fitted parameters of a
model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from experiments import drawing
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
"""The paper's Table 1, as functions of the width n."""
PATTERNS = {"matmul": 5, "dg": 11, "finite_diff": 5}
"""Distinct global access patterns, sections 8.3 to 8.5."""
COSTS = {"p_PFa": "p_noPFa", "p_PFb": "p_noPFb"}
PAPER_COSTS = {"p_PFa": 3.0, "p_PFb": 5.0}
SUBGROUP_SIZE = 32


def table_1(out: Path, quick: bool) -> Figure:
    """The two loads of the tiled product, counted without running it."""
    (kernel,) = kernels(
        (("matmul_sq", "dtype:float32", "groups_fit:True", "prefetch:True", f"n:{N}"),)
    )
    counts = kernel_counts(kernel)
    cases = []
    for array, expected in TABLE_1.items():
        (access,) = [a for a in counts.inventory.accesses if a.tag == f"mmPF{array}"]
        counted = _of_load(kernel, counts, access)
        for name, paper in expected.items():
            cases.append(
                Case(
                    f"{array}, n = {N}",
                    name,
                    "",
                    reference=paper(N),
                    ours=float(counted[name][1]),
                    note=counted[name][0],
                )
            )
    return Figure(
        title="Table 1: the loads of a and b in the tiled matrix product",
        source="Stevens and Klöckner 2020, Table 1, in elements; exact, counted without running anything",
        cases=cases,
        findings=["The two loads differ only in the strides of gid and of the loop."],
    )


def _of_load(
    kernel: Any, counts: KernelCounts, access: AccessRecord
) -> dict[str, tuple[str, Fraction]]:
    """Quantity -> its formula as text, and its value at n = N."""
    accesses, footprint = counts.access_footprint(access, CountOptions())
    sizes = {"n": N}
    counted = {
        "accesses / footprint": (
            f"({accesses}) / ({footprint})",
            accesses.at(sizes) / footprint.at(sizes),
        )
    }
    scheduled = schedule(kernel.kernel)
    (index,) = [
        instruction.expression.index_tuple
        for instruction in scheduled.kernel.instructions
        if isinstance(instruction.expression, Subscript)
        and instruction.expression.aggregate.name == access.array
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
        counted[name] = (str(value), Fraction(value.evaluate(sizes)))
    return counted


def table_3(out: Path, quick: bool) -> Figure:
    """The fitted parameters of the model of the matrix products.

    An overlap model with an edge of 0 is the linear model with all costs doubled; the linear model
    is shown then.
    """
    evaluation = evaluate("matmul", quick)
    kind = "linear" if "p_edge" in evaluation.fits["overlap"].at_bound else "overlap"
    fit = evaluation.fits[kind]
    half_widths = {name: half for name, half in fit.half_widths().items() if np.isfinite(half)}
    relative = [
        Case(
            f"{tiled} relative to {plain}",
            "cost per item",
            "",
            reference=PAPER_COSTS[tiled],
            ours=_per_item(fit, tiled) / _per_item(fit, plain) if _per_item(fit, plain) else None,
            note="cost of loading an item with tiles, relative to without; Titan V in the paper",
        )
        for tiled, plain in COSTS.items()
    ]
    costs = {
        name: value for name, value in fit.items() if value > 0 and fit.model.features_of(name)
    }
    title = f"Cost of one count, {kind} model of the matrix products"
    return Figure(
        title=f"Table 3: costs of features in the {kind} model of the matrix products",
        source="Stevens and Klöckner 2020, Table 3 (Titan V); its numbers are missing from our text",
        cases=[*(_parameter_case(fit, name, half_widths) for name in fit), *relative],
        findings=[
            f"Measured on {evaluation.device}. A cost is that of one count, per sub-group of {SUBGROUP_SIZE}"
            " items (SG) or per work-item (WI)."
        ],
        pictures=[
            drawing.bars(
                out / "table-3.png",
                {name: {"": (cost, half_widths.get(name, np.nan))} for name, cost in costs.items()},
                title,
                "seconds per count, with 95 % interval",
                floor=0,
                across=True,
            )
        ],
    )


def _parameter_case(fit: Fit, name: str, half_widths: Mapping[str, float]) -> Case:
    value, features = fit[name], fit.model.features_of(name)
    unit, per_count, granularity = _rate(name, features)
    note = f"counted per {granularity}"
    if name in fit.at_bound:
        note = "at its bound of 0"
    elif unit and value:
        note += f": {per_count / value:.3g} {unit}"
    return Case(
        f"{name} ({' '.join(features) or 'no feature'})",
        "cost" if features else "edge",
        "s" if features else "",
        ours=value,
        ci95=None if name in fit.at_bound else half_widths.get(name),
        note=note,
    )


def figure_6(out: Path, quick: bool) -> Figure:
    """Number of distinct global access patterns of each application."""
    cases = []
    for name, application in APPLICATIONS.items():
        own, total = _patterns(application)
        cases.append(
            Case(
                application.title,
                "access patterns",
                "",
                reference=PATTERNS[name],
                ours=own if name == "matmul" else total,
                note=(
                    f"{own} in the variants, {total} with the stride-1 load that the model measures"
                    + ("" if name == "matmul" else ", which the paper includes here")
                ),
            )
        )
    return Figure(
        title="Figure 6: distinct global access patterns, by tag, direction and strides",
        source="Stevens and Klöckner 2020, sections 8.3 to 8.5",
        cases=cases,
        findings=["The measurement kernels of each model are listed in calib/fitting/models."],
    )


def _patterns(application: Application) -> tuple[int, int]:
    patterns = set()
    for kernel in application.kernels("test"):
        for access in kernel_counts(kernel).inventory.accesses:
            if access.memory == "global":
                strides = (access.local_strides, access.group_strides)
                patterns.add((access.tag, access.direction, strides))
    return len(patterns), len(patterns) + 1


def _rate(name: str, features: tuple[str, ...]) -> tuple[str, float, str]:
    """Unit of the throughput, the amount in that unit of one count, and the granularity of the
    count."""
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
    """Cost of one work-item's load. The load of a without tiles is counted per sub-group, others
    per item."""
    return fit[name] / (SUBGROUP_SIZE if name == "p_noPFa" else 1)
