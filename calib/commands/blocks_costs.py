"""Sizes that need not run, and what a kernel's blocks cost there, for the commands that ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calib.block_counts.report import BlockReport
    from tracegen.blocks import BlockCounter


def sizes_asked(
    counter: BlockCounter,
    base: Any,
    small: Mapping[str, str],
    asked: Sequence[Mapping[str, str]],
    spec: str,
) -> list[dict[str, int]]:
    """The kernel's integer arguments at each size.

    Settings that are such arguments need nothing else, so no array of those sizes is made; for
    others the workload is made at each size.
    """
    from calib.counting.kernel_arguments import sizes_of
    from tracegen.workloads import load_kernel

    if not counter.loopy:
        return [{k: int(v) for k, v in row.items() if v.isdigit()} for row in asked]
    known = sizes_of(base)
    found = []
    for row in asked:
        changed = [name for name in row if row[name] != small.get(name)]
        own = known
        if any(name not in known for name in changed):
            own = sizes_of(load_kernel(spec, dict(row)))
        found.append({**own, **{n: int(v) for n, v in row.items() if v.isdigit()}})
    return found


def costs_of(counter: BlockCounter, report: BlockReport, name: str) -> list[dict[str, Any]]:
    """Per size: requests by memory and direction, busy cycles of each unit a core on a machine."""
    from calib.block_counts.costs import block_work, busy_cycles, requests
    from memsim.machine import load_machine

    machine = load_machine(name)
    work = block_work(counter)
    found = []
    for k, size in enumerate(report.sizes):
        unknown = [row.block.name for row in report.rows if row.by_subgroups[k] is None]
        counts = [row.by_subgroups[k] or 0.0 for row in report.rows]
        totals: dict[str, float] = {}
        for (memory, direction, _), number in requests(work, counts).items():
            key = f"{memory} {direction}s"
            totals[key] = totals.get(key, 0.0) + number
        found.append(
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
    return found
