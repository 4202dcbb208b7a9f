"""Polynomials through the counts of small sizes, compared with executions of larger ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from calib.block_counts import block_report
from experiments.bbml.applications import APPLICATIONS, executions, paper
from experiments.reproduction import Case, Figure

LEFT_OUT = (
    "lu, gramschmidt and gaussian are left out: their groups have 256 work-items, so polynomials of the third degree need"
    " executions of up to 3,000 launches; correlation and pathfinder, too, whose polynomials need as much."
)


@dataclass(frozen=True, kw_only=True)
class Exactness:
    """Numbers of basic blocks of one application.

    exact : with a polynomial;  different : whose polynomial differs from an execution, in work-items or sub-groups
    """

    blocks: int
    exact: int
    different: int


def exact_path(out: Path, quick: bool) -> Figure:
    """Counts per work-item and per sub-group of every block, at a size that is executed, too."""
    results = {name: _examine(name) for name, one in APPLICATIONS.items() if one.step > 1}
    blocks, exact, different = (
        sum(getattr(result, key) for result in results.values())
        for key in ("blocks", "exact", "different")
    )
    return Figure(
        title="Polynomials through small executions compared with larger executions",
        source="BB-ML, Table 1. Its blocks are those of compiled CUDA (for an unstated GPU of several), ours those that"
        " NVIDIA's compilers make of the OpenCL C that Loopy generates.",
        cases=[case for name, result in results.items() for case in _cases(name, result)],
        findings=[
            f"{exact} of {blocks} blocks have a polynomial; {different} of them differ from an execution, in"
            " work-items or sub-groups, over all launches.",
            LEFT_OUT,
        ],
    )


def _examine(name: str) -> Exactness:
    runs = executions(name)
    size = APPLICATIONS[name].least
    report = block_report(runs, [{key: str(value) for key, value in size.items()}], lambda _: {})
    counts = runs.counts(size)
    exact = different = 0
    for row in report.rows:
        if row.method == "exact":
            exact += 1
            executed = (counts.by_items[row.block.number], counts.by_subgroups[row.block.number])
            different += (row.by_items[0], row.by_subgroups[0]) != executed
    return Exactness(blocks=len(report.rows), exact=exact, different=different)


def _cases(name: str, result: Exactness) -> list[Case]:
    values = {
        "blocks": (paper()[name].blocks, result.blocks),
        "exact": (None, result.exact),
        "different from an execution": (None, result.different),
    }
    return [
        Case(name, quantity, "blocks", reference=reference, ours=ours)
        for quantity, (reference, ours) in values.items()
    ]
