"""Costs from block counts: requests to memory, and the cycles that each unit of a core is busy.

The instructions of a block are multiplied by the number of sub-groups that run it. Bank conflicts and caches are no part
of these cycles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from calib.prediction.machine_pipes import PREFIX, SLOTS_UNIT, load_store_cycles, unit_cycles
from calib.prediction.throughputs import cycles_of
from memsim.machine import Machine
from tracegen.blocks import Block

if TYPE_CHECKING:
    from calib.block_counts.report import BlockReport

LOAD_STORE = "load and store"
_UNITS = {
    "fma": "FMA",
    "alu": "ALU",
    "fp64": "FP64",
    "fp16": "FP16",
    "special": "special functions",
    SLOTS_UNIT: "issue slots",
}
"""The names of units; others keep theirs."""


def requests(
    blocks: Sequence[Block], by_subgroups: Sequence[float]
) -> dict[tuple[str, str], float]:
    """(memory, direction) -> instructions of sub-groups, as ("global", "load")."""
    total: dict[tuple[str, str], float] = {}
    for block, count in zip(blocks, by_subgroups, strict=True):
        for access in block.accesses:
            key = (access.space, access.direction)
            total[key] = total.get(key, 0.0) + count
    return total


def busy_cycles(
    blocks: Sequence[Block], by_subgroups: Sequence[float], machine: Machine
) -> dict[str, float]:
    """Unit -> core cycles in which instructions are issued to it, summed over all cores.

    Raises calib.prediction.throughputs.ThroughputError where the machine lacks a throughput.
    """
    issued: dict[str, float] = {}
    for block, count in zip(blocks, by_subgroups, strict=True):
        for kind, number in block.work.items():
            issued[PREFIX + kind] = issued.get(PREFIX + kind, 0.0) + count * number
    cycles = {
        _UNITS.get(unit, unit): busy for unit, busy in unit_cycles(machine, issued).items() if busy
    }
    accesses = issued.get(f"{PREFIX}access", 0.0)
    pipe = load_store_cycles(machine, issued)
    pipe += accesses * cycles_of(machine, "global_load") if accesses else 0.0
    return {**cycles, LOAD_STORE: pipe} if pipe else cycles


def costs_of(report: BlockReport, machine: Machine) -> list[dict[str, Any]]:
    """For each size: requests by memory and direction, and busy cycles of each unit of a core."""
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
