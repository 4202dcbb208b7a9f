"""Sizes that are not executed and the cost of a kernel's blocks there; `blocks` and `predict` use them.

It imports nothing heavy at module level, because the help of the command group loads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from calib.words import whole

if TYPE_CHECKING:
    from calib.block_counts.report import BlockReport
    from memsim.machine import Machine
    from tracegen.blocks import BlockCounter


def integer_sizes(
    counter: BlockCounter,
    base: Any,
    small: Mapping[str, str],
    rows: Sequence[Mapping[str, str]],
    spec: str,
) -> list[dict[str, int]]:
    """The kernel's integer arguments at the settings of each row.

    Settings that are integer arguments of the kernel give them directly, so no arrays of these sizes are
    made. For other settings the workload is built at each size.

    base : the workload at the settings `small`
    """
    from calib.counting.kernel_arguments import sizes_of
    from tracegen.workloads import load_kernel

    if not counter.loopy:
        return [_whole(row) for row in rows]
    base_sizes = sizes_of(base)
    sizes = []
    for row in rows:
        changed = [name for name in row if row[name] != small.get(name)]
        row_sizes = base_sizes
        if any(name not in base_sizes for name in changed):
            row_sizes = sizes_of(load_kernel(spec, dict(row)))
        sizes.append({**row_sizes, **_whole(row)})
    return sizes


def _whole(row: Mapping[str, str]) -> dict[str, int]:
    numbers = {name: whole(text) for name, text in row.items()}
    return {name: value for name, value in numbers.items() if value is not None}


def costs_of(counter: BlockCounter, report: BlockReport, machine: Machine) -> list[dict[str, Any]]:
    """For each size: requests by memory and direction, and busy cycles of each unit of a core."""
    from calib.block_counts.costs import block_work, busy_cycles, requests

    work = block_work(counter)
    costs = []
    for k, size in enumerate(report.sizes):
        unknown = [row.block.name for row in report.rows if row.by_subgroups[k] is None]
        counts = [row.by_subgroups[k] or 0.0 for row in report.rows]
        totals: dict[str, float] = {}
        for (memory, direction, _), number in requests(work, counts).items():
            key = f"{memory} {direction}s"
            totals[key] = totals.get(key, 0.0) + number
        costs.append(
            {
                "size": dict(size),
                "machine": machine.name,
                "requests": totals,
                "busy_cycles_per_core": {
                    unit: cycles / machine.n_cores
                    for unit, cycles in busy_cycles(work, counts, machine).items()
                },
                "without": unknown,
            }
        )
    return costs
