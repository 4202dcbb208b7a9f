"""Issue cycles of a block of instructions: each takes subgroup_size / throughput cycles.

Yuan et al. 2010, section 2.2: ILP_i = sum_j Throughput(ComputeInstruction_j) + sum_k
Throughput(MemAccInstruction_k), in cycles per sub-group. The [throughputs] of a machine file are
operations (lanes) that a core completes per cycle.

The name of a throughput is a type (fp16, fp32, fp64, int32, int64) and a kind (add, mul, fma, div,
special for exp, sin, sqrt and the like, shift, compare). `machine_operation` gives the name for an
operation of a kernel. The suffix `_local` means that one operand is read directly from local memory, which
only machines that list such a throughput can do. Other operations are global_load, global_store, local_load, local_store and barrier.
`load_store_lanes` are lanes whose accesses coalesce; where others are slower, as on AMD's GPUs,
`scattered_lanes` are theirs (calib.prediction.l1_cycles).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from memsim.errors import MemsimError
from memsim.machine import Machine

Operations = Mapping[str, float]

_PARTS: dict[str, tuple[tuple[str, float], ...]] = {
    **{
        f"{real}_{kind}": ((f"{real}_fma", 1.0),)
        for real in ("fp16", "fp32", "fp64")
        for kind in ("add", "mul")
    },
    "fp16_fma": (("fp32_fma", 1.0),),
    **{f"{real}_compare": ((f"{real}_fma", 1.0),) for real in ("fp32", "fp64")},
    "fp16_compare": (("fp32_compare", 1.0),),
    "fp16_special": (("fp32_special", 1.0),),
    "fp64_special": (("fp32_special", 1.0), ("fp64_fma", 8.0)),
    "fp16_div": (("fp32_div", 1.0),),
    # A reciprocal estimate, and Newton steps with IEEE rounding.
    "fp32_div": (("fp32_special", 1.0), ("fp32_fma", 8.0)),
    "fp64_div": (("fp32_special", 1.0), ("fp64_fma", 8.0)),
    "int32_fma": (("int32_mul", 1.0),),
    "int32_compare": (("int32_add", 1.0),),
    "int32_shift": (("int32_add", 1.0),),
    # By multiplication with an approximate reciprocal.
    "int32_div": (("int32_mul", 2.0), ("int32_add", 4.0), ("fp32_special", 1.0)),
    "int64_add": (("int32_add", 2.0),),
    "int64_compare": (("int32_add", 2.0),),
    "int64_shift": (("int32_shift", 2.0),),
    "int64_mul": (("int32_mul", 3.0), ("int32_add", 2.0)),
    "int64_fma": (("int64_mul", 1.0),),
    "int64_div": (("int32_div", 4.0),),
    "global_load": (("load_store_lanes", 1.0),),
    "global_store": (("load_store_lanes", 1.0),),
    "local_load": (("local_lanes", 1.0),),
    "local_store": (("local_lanes", 1.0),),
    "local_lanes": (("load_store_lanes", 1.0),),
    "barrier": (("barrier_lanes", 1.0),),
    "barrier_lanes": (("int32_add", 1.0),),
}
"""Simpler operations that replace an operation for which a machine lists no throughput. The counts for
divisions and 64-bit operations are those of typical code, not of a particular compiler."""

_KINDS: dict[str, str | None] = {
    "madd": "fma",
    **dict.fromkeys(("add", "bitwise"), "add"),
    **dict.fromkeys(("div", "floordiv", "mod"), "div"),
    **{kind: kind for kind in ("mul", "shift", "compare")},
    **dict.fromkeys(("minmax", "fmin", "fmax", "abs", "fabs", "floor", "ceil", "isnan"), "compare"),
    **dict.fromkeys(("real", "imag", "conj")),  # they only name a register
}
"""Operation as `calib.counting` names it -> kind of throughput; an operation that is not listed runs
on the special-function unit."""


def machine_operation(dtype: str, operation: str) -> str | None:
    """The throughput that an operation needs; None for an operation that takes no instruction.

    dtype, operation : as in the feature `f_op_<dtype>_<operation>`; complex numbers are computed on
        by parts
    """
    kind = _KINDS.get(operation, "special")
    if kind is None:
        return None
    number_type = np.dtype(dtype)
    if number_type.kind == "c":
        return f"fp{min(4 * number_type.itemsize, 64)}_{kind}"
    if number_type.kind == "f":
        return f"fp{min(8 * number_type.itemsize, 64)}_{kind}"
    return f"int{64 if number_type.itemsize == 8 else 32}_{kind}"


class ThroughputError(MemsimError):
    """A machine lists no throughput for an operation."""


def cycles_of(machine: Machine, operation: str) -> float:
    """Core cycles of one instruction of a sub-group.

    Raises ThroughputError where neither the machine nor `_PARTS` defines the operation.
    """
    cycles = _cycles(machine, operation)
    if cycles is None:
        raise ThroughputError(_complaint(machine, [operation]))
    return cycles


def issue_cycles(machine: Machine, operations: Operations) -> float:
    """ILP_i: the sum over a block's instructions.

    Raises ThroughputError that names every operation without a throughput.
    """
    lacking = missing(machine, operations)
    if lacking:
        raise ThroughputError(_complaint(machine, lacking))
    return sum(count * cycles_of(machine, name) for name, count in operations.items())


def missing(machine: Machine, operations: Iterable[str]) -> list[str]:
    """The throughputs, sorted, that a machine file lacks for the issue time of these operations."""
    return sorted(
        {lack for name in operations for lack in _lacking(machine, name)},
    )


def _cycles(machine: Machine, operation: str) -> float | None:
    rate = machine.throughputs.get(operation)
    if rate:
        return machine.subgroup_size / rate
    parts = _PARTS.get(operation, ())
    total = 0.0
    for name, count in parts:
        cycles = _cycles(machine, name)
        if cycles is None:
            return None
        total += count * cycles
    return total if parts else None


def _lacking(machine: Machine, operation: str) -> list[str]:
    if machine.throughputs.get(operation):
        return []
    parts = _PARTS.get(operation)
    if parts is None:
        return [operation]
    return [lack for name, _ in parts for lack in _lacking(machine, name)]


def _complaint(machine: Machine, lacking: Iterable[str]) -> str:
    names = ", ".join(sorted({lack for name in lacking for lack in _lacking(machine, name)}))
    return (
        f"machine {machine.name} lists no throughput of {names}: add it to the [throughputs] of its"
        " file, in operations a core finishes per cycle"
    )
