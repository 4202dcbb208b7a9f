"""Issue cycles of a block of instructions: each takes subgroup_size / throughput cycles.

Yuan et al. 2010, section 2.2: ILP_i = sum_j Throughput(ComputeInstruction_j) + sum_k
Throughput(MemAccInstruction_k), in cycles per sub-group. The [throughputs] of a machine file are
operations (lanes) that a core completes per cycle: fp16_fma, fp32_fma, fp64_fma, fp32_special (exp, sin, sqrt and the
like), int32_add, global_load, global_store, local_load, local_store and barrier. The suffix `_local` means that one
operand is read directly from local memory, which only machines that list such a throughput can do.
`load_store_lanes` are lanes whose accesses coalesce; where others are slower, as on AMD's GPUs,
`scattered_lanes` are theirs (calib.prediction.l1_cycles). `local_bytes` is what local memory delivers, if less than a pass of
its banks; what several lanes read counts once. `tensor_f16_f32` are multiply-adds of matrix instructions whose factors
are of 16 bits and whose sums of 32, `wgmma_f16_f32` those of instructions of four sub-groups, `tcgen05_f16_f32` those
in tensor memory (`tcgen05m64_f16_f32` with 64 rows). `bulk_lines` are lines, row by row of a tile, that the unit for bulk copies requests.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

from memsim.errors import MemsimError
from memsim.machine import Machine

Operations = Mapping[str, float]

_FACTORS = ("b1", "f4", "i4", "i8", "f8", "f16", "bf16", "tf32", "f32", "f64")
MATRIX_RATES = frozenset(
    f"{unit}_{factor}_{total}"
    for unit, factor, total in itertools.product(
        ("tensor", "wgmma", "tcgen05", "tcgen05m64"), _FACTORS, ("f16", "f32", "f64", "i32")
    )
)
"""The rates of matrix instructions, by the types of factors and sums."""
BULK_LINES = "bulk_lines"
STANDS_IN = {
    **{
        f"{unit}_{name}": f"{unit}_f16_f32"
        for unit in ("tensor", "wgmma", "tcgen05", "tcgen05m64")
        for name in ("bf16_f32", "f16_f16")
    },
    "fp16_fma": "fp32_fma",
    "global_load": "load_store_lanes",
    "global_store": "load_store_lanes",
    "local_load": "local_lanes",
    "local_store": "local_lanes",
    "local_lanes": "load_store_lanes",
    "barrier": "barrier_lanes",
    "barrier_lanes": "int32_add",
}
"""The throughput of an operation for which a machine lists none."""


class ThroughputError(MemsimError):
    """A machine lists no throughput for an operation."""


def cycles_of(machine: Machine, operation: str) -> float:
    """Core cycles of one instruction of a sub-group. Raises ThroughputError where the machine lists no throughput."""
    require(machine, [operation])
    return machine.subgroup_size / machine.throughputs[_name(machine, operation)]


def issue_cycles(machine: Machine, operations: Operations) -> float:
    """ILP_i: the sum over a block's instructions. Raises ThroughputError as `require` does."""
    require(machine, operations)
    return sum(count * cycles_of(machine, name) for name, count in operations.items())


def require(machine: Machine, operations: Iterable[str]) -> None:
    """Raises ThroughputError, which names every throughput that a machine lacks for the issue time of these operations."""
    names = {_name(machine, operation) for operation in operations}
    lacking = sorted(name for name in names if not machine.throughputs.get(name))
    if lacking:
        raise ThroughputError(
            f"machine {machine.name} lists no throughput of {', '.join(lacking)}: add it to the [throughputs] of its"
            " file, in operations a core finishes per cycle"
        )


def _name(machine: Machine, operation: str) -> str:
    """The throughput that an operation takes; where the machine lists none, the last that would do."""
    while operation in STANDS_IN and not machine.throughputs.get(operation):
        operation = STANDS_IN[operation]
    return operation
