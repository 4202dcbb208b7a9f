"""The cost of a kernel's blocks at sizes; `blocks` and `predict` use it.

It imports nothing heavy at module level, because the help of the command group loads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calib.block_counts.report import BlockReport
    from memsim.machine import Machine


def costs_of(report: BlockReport, machine: Machine) -> list[dict[str, Any]]:
    """For each size: requests by memory and direction, and busy cycles of each unit of a core."""
    from calib.block_counts.costs import busy_cycles, requests

    blocks = [row.block for row in report.rows]
    costs = []
    for k, size in enumerate(report.sizes):
        unknown = [row.block.name for row in report.rows if row.by_subgroups[k] is None]
        counts = [row.by_subgroups[k] or 0.0 for row in report.rows]
        totals = {
            f"{memory} {direction}s": number
            for (memory, direction), number in requests(blocks, counts).items()
        }
        costs.append(
            {
                "size": dict(size),
                "machine": machine.name,
                "requests": totals,
                "busy_cycles_per_core": {
                    unit: cycles / machine.n_cores
                    for unit, cycles in busy_cycles(blocks, counts, machine).items()
                },
                "without": unknown,
            }
        )
    return costs
