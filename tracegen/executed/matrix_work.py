"""What one execution of a matrix instruction computes, and what it reads of local memory beside its registers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from tracegen.compiled.model import Instruction
from tracegen.compiled.nvidia.sass_operands import matrix_shape
from tracegen.machine_code.gcn_matrices import EIGHT, mfma_of_opcode

_LANES, _PASS_BYTES = 32, 128
_FACTORS = {"BF16": "bf16", "TF32": "tf32", "E4M3": "f8", "E5M2": "f8", "S4": "i4", "U4": "i4"}
_BASES = {"H": "f16", "I": "i8", "D": "f64", "B": "b1", "Q": "f8", "O": "f4"}
_BITS = {"b1": 1, "f4": 4, "i4": 4, "i8": 8, "f8": 8, "f16": 16, "bf16": 16, "tf32": 32, "f64": 64}
_TOTALS = {"i8": "i32", "i4": "i32", "b1": "i32", "f64": "f64"}
_ON_AMD = {"xf32": "tf32", "bf16_1k": "bf16", "iu8": "i8"} | dict.fromkeys((*EIGHT, "f8f6f4"), "f8")
_IN_TENSOR_MEMORY = {
    "UTCHMMA": ("tcgen05_f16_f32", "tcgen05_tf32_f32", "tcgen05m64_f16_f32", "tcgen05m64_tf32_f32"),
    "UTCQMMA": ("tcgen05_f8_f32", "tcgen05m64_f8_f32"),
    "UTCIMMA": ("tcgen05_i8_i32", "tcgen05m64_i8_i32"),
    "UTCOMMA": ("tcgen05_f4_f32", "tcgen05m64_f4_f32"),
}
_WMMA = re.compile(r"v_wmma_\w+_16x16x16_(\w+)")


class MatrixWork(NamedTuple):
    """The work of a sub-group.

    kind : the rate that it takes in a machine's file: `tensor_f16_f32` multiplies numbers of 16 bits and adds in 32;
        `wgmma_f16_f32` is a product of four sub-groups, `tcgen05_f16_f32` one in tensor memory
    fused : multiply-adds of a lane, the mean
    passes : of local memory's banks, 128 bytes each, in which factors are read
    """

    kind: str
    fused: float
    passes: float


def matrix_work(instruction: Instruction) -> MatrixWork | None:
    """The work of an instruction; None where it multiplies no matrices, or its shape is not known."""
    return _work(instruction.opcode, instruction.text) if instruction.pipe == "tensor" else None


@lru_cache(maxsize=4096)
def _work(opcode: str, text: str) -> MatrixWork | None:
    if opcode.startswith("v_"):
        return _of_amd(opcode)
    base, *parts = opcode.split(".")
    if base.startswith("UTC") or not base.endswith("MMA"):  # of the former a register has the shape
        return None
    at = next((k for k, part in enumerate(parts) if part[0].isdigit()), None)
    if at is None:
        return None
    rows, columns, depth = matrix_shape(parts[at])
    factor = next((_FACTORS[part] for part in parts if part in _FACTORS), _BASES[base[0]])
    total = _TOTALS.get(factor, "f32")
    if parts[at + 1 : at + 2] == ["F16"] and "F32" not in parts:
        total = "f16"
    fused = rows * columns * depth / _LANES
    if not base.endswith("GMMA"):
        return MatrixWork(f"tensor_{factor}_{total}", fused, 0.0)
    # Four sub-groups share what is read: the second factor, and the first unless it is in registers.
    read = columns + (rows if re.search(r"MMA\S* R\d+, gdesc", text) else 0)
    bytes_read = read * depth * _BITS[factor] / 8
    return MatrixWork(f"wgmma_{factor}_{total}", fused / 4, bytes_read / _PASS_BYTES / 4)


def tensor_memory_kinds(opcode: str) -> tuple[str, ...]:
    """The rates of an instruction that multiplies tiles in tensor memory, those of 64 rows behind those of 128."""
    return _IN_TENSOR_MEMORY.get(opcode.partition(".")[0], ())


def measured_work(opcode: str, counts: Sequence[int]) -> MatrixWork:
    """What one such instruction did in the mean. counts : a row of Recorded.local_counts"""
    executed, form, fused, passes = (int(count) for count in counts)
    number = round(form / max(executed, 1))
    kinds = tensor_memory_kinds(opcode)
    kind = kinds[number * len(kinds) // 4]
    return MatrixWork(kind, fused / max(executed, 1) / _LANES, passes / max(executed, 1))


def _of_amd(opcode: str) -> MatrixWork | None:
    if match := _WMMA.match(opcode):
        name, fused = match[1], 16 * 16 * 16 / _LANES
    elif (found := mfma_of_opcode(opcode)) is not None:
        name, fused = found
    else:
        return None
    factor = _ON_AMD.get(name, name)
    total = _TOTALS.get(factor, "f32")
    return MatrixWork(f"tensor_{factor}_{total}", fused, 0.0)
