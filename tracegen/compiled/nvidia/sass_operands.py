"""Which registers a SASS instruction reads and writes.

The text names the first register of a pair or a group; the opcode determines how many belong to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from tracegen.compiled.nvidia.sass_opcodes import NO_RESULT, ONE_PREDICATE, TWO_PREDICATES, words

_REGISTER = re.compile(r"(?<![\w$.@])(U?[RP])(\d+)(\.64)?(?![\w$])")
_ADDRESS = re.compile(r"(desc|gdesc|idesc|cx)?\[([^\]]*)\]")
_PLAIN_REGISTER = re.compile(r"U?R(?:\d+|Z)(?:\.\w+)*")
_PLAIN_PREDICATE = re.compile(r"U?P[\dT]")
_ALL_PREDICATES = tuple(f"P{index}" for index in range(7))
_GLOBAL_ACCESSES = words("LD LDG ST STG ATOM ATOMG RED REDG LDGSTS CCTL QSPC")
_SHARED_ACCESSES = words("LDS STS LDL STL ATOMS LDC ULDC LDCU")
_OF_16_LANES = re.compile(r"16dp(\d+)bit")
_PAIRS = words("DADD DFMA DMNMX DMUL DSET DSETP FADD2 FFMA2 FMUL2 RET BRX JMX BRXU JMXU CALL")
_SHIFTS = words("SHF USHF SHL SHR USHL USHR LEA ULEA")
_MATRIX_BITS = {"HMMA": 16, "IMMA": 8, "BMMA": 1, "DMMA": 64, "QMMA": 8, "OMMA": 4}
_LANES = 32
_TENSOR_MOVES = words("LDTM STTM")


def registers(
    opcode: str, operands: Sequence[str], guard: str = ""
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Reads and writes as single registers; RZ, PT and the like are left out.

    Whether a group starts at a register that is no multiple of its size is not checked.
    """
    n_results = _result_count(opcode.partition(".")[0], operands)
    reads = list(_names(guard, 1))
    writes: list[str] = []
    for index, operand in enumerate(operands):
        if "[" in operand:
            reads.extend(_address_registers(opcode, operand, index == 0))
        elif index < n_results:
            writes.extend(_names(operand, _result_width(opcode)))
        else:
            reads.extend(_names(operand, _source_width(opcode, index - n_results)))
    return tuple(dict.fromkeys(reads)), tuple(dict.fromkeys(writes))


def access_bytes(opcode: str) -> int:
    """Bytes that an access transfers for each item: `LDG.E.U8` 1, `LDS.128` 16."""
    parts = opcode.split(".")
    if parts[0] in ("LDSM", "STSM"):
        return 4 * int(parts[-1]) if parts[-1] in ("2", "4") else 4
    sizes = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "U64": 8, "S64": 8, "F64": 8}
    sizes |= {"128": 16, "256": 32}
    return next((sizes[part] for part in parts[1:] if part in sizes), 4)


def _result_count(base: str, operands: Sequence[str]) -> int:
    """How many of the first operands are results.

    In general they are predicates, one register, and after it those predicates that carry out: the
    ones that sources follow.
    """
    if base in NO_RESULT or not operands:
        return 0
    if base in ONE_PREDICATE:
        return 1
    if base in TWO_PREDICATES:
        return 2
    if base in ("VOTE", "VOTEU"):
        return len(operands) - 1
    count = _skip(_PLAIN_PREDICATE, operands, 0)
    if count == len(operands):
        return max(1, count - 1)
    if not _PLAIN_REGISTER.fullmatch(operands[count]):
        return count
    count += 1
    if base in ("LDG", "LD") and count < len(operands):  # 256 bits have two registers
        return count + bool(_PLAIN_REGISTER.fullmatch(operands[count]))
    carried = _skip(_PLAIN_PREDICATE, operands, count)
    return carried if carried < len(operands) else count


def _skip(pattern: re.Pattern[str], operands: Sequence[str], start: int) -> int:
    while start < len(operands) and pattern.fullmatch(operands[start]):
        start += 1
    return start


def _names(operand: str, width: int) -> Iterator[str]:
    if operand == "PR":
        yield from _ALL_PREDICATES
    for kind, number, wide in _REGISTER.findall(operand):
        yield from _range(kind, number, 1 if kind.endswith("P") else 2 if wide else width)


def _range(kind: str, first: str, count: int) -> Iterator[str]:
    return (f"{kind}{index}" for index in range(int(first), int(first) + count))


def _address_registers(opcode: str, operand: str, is_first: bool) -> Iterator[str]:
    """`[R2.64+UR4]`, `desc[UR4][R2.64]` and, before Ampere, `[R2]` with `.E` have 64-bit registers.

    The first operand of `LDGSTS.E [R2], [R4.64]` is in local memory.
    """
    base, *modifiers = opcode.split(".")
    far = base in _GLOBAL_ACCESSES and "E" in modifiers and not (base == "LDGSTS" and is_first)
    for prefix, address in _ADDRESS.findall(operand):
        for kind, number, wide in _REGISTER.findall(address):
            short = far and f"{kind}{number}.U32" in address
            pair = wide or prefix or (far and not short)
            yield from _range(kind, number, 2 if pair else 1)


@lru_cache(maxsize=4096)
def _result_width(opcode: str) -> int:
    """32-bit registers of a result."""
    base, *modifiers = opcode.split(".")
    if base in _GLOBAL_ACCESSES | _SHARED_ACCESSES | {"LDSM"}:
        return min(4, max(1, access_bytes(opcode) // 4))
    if base in _TENSOR_MOVES:
        return _tensor_width(modifiers)
    if base in _MATRIX_BITS or base.endswith("GMMA"):
        return _matrix_widths(opcode)[0]
    if base in ("CS2R", "LEPC"):
        return 1 if "32" in modifiers else 2
    if base == "MOVM":
        return 2 if "U4TO8" in modifiers else 1
    if base in ("I2F", "FRND"):
        return 2 if "F64" in modifiers else 1
    if base == "F2F":
        return 2 if _formats(modifiers)[:1] == ["F64"] else 1
    return 2 if _is_wide(base, modifiers) or "WIDE" in modifiers else 1


@lru_cache(maxsize=4096)
def _source_width(opcode: str, index: int) -> int:
    """32-bit registers of the source with this index, counted from 0 after the results."""
    base, *modifiers = opcode.split(".")
    if base in _GLOBAL_ACCESSES | _SHARED_ACCESSES | {"STSM"}:
        return min(4, max(1, access_bytes(opcode) // 4))
    if base in _TENSOR_MOVES:
        return _tensor_width(modifiers)
    if base in _MATRIX_BITS or base.endswith("GMMA"):
        return _matrix_widths(opcode)[1 + min(index, 2)]
    if base in ("F2I", "FRND"):
        return 2 if "F64" in modifiers else 1
    if base == "I2F":
        return 2 if {"S64", "U64"} & set(modifiers) else 1
    if base == "F2F":
        return 2 if _formats(modifiers)[1:2] == ["F64"] else 1
    if base in ("IMAD", "UIMAD") and {"WIDE", "HI"} & set(modifiers):
        return 2 if index == 2 else 1
    return 2 if _is_wide(base, modifiers) else 1


def _tensor_width(modifiers: Sequence[str]) -> int:
    """Registers that move to or from tensor memory: `16dp256bit.x2` 8."""
    repeats = next((int(one[1:]) for one in modifiers if one[0] == "x"), 1)
    bits = next((int(found[1]) for one in modifiers if (found := _OF_16_LANES.match(one))), 64)
    return repeats * max(bits // 64, 1)


def _is_wide(base: str, modifiers: Sequence[str]) -> bool:
    """Whether all registers of an instruction are pairs."""
    return base in _PAIRS or (
        base not in _SHIFTS and not {"64", "S64", "U64"}.isdisjoint(modifiers)
    )


def _formats(modifiers: Sequence[str]) -> list[str]:
    return [modifier for modifier in modifiers if modifier in ("F16", "BF16", "F32", "F64")]


def _matrix_widths(opcode: str) -> tuple[int, int, int, int]:
    """Registers of D, A, B and C of a matrix instruction, such as `HMMA.16816.F32`.

    A sub-group holds each matrix once: m * k elements of A in 32 lanes' registers. Four sub-groups
    share D of the GMMA instructions, whose B lies in local memory.
    """
    base, *modifiers = opcode.split(".")
    at = next((index for index, modifier in enumerate(modifiers) if modifier[0].isdigit()), None)
    rows, columns, depth = matrix_shape(modifiers[at]) if at is not None else (16, 8, 16)
    result_type = "".join(modifiers[at + 1 : at + 2]) if at is not None else ""
    result_bits = 64 if base == "DMMA" else 16 if result_type == "F16" else 32
    bits = 32 if "TF32" in modifiers else _MATRIX_BITS.get(base, 16)
    if {"S4", "U4"} & set(modifiers):
        bits = 4
    n_stored = rows * depth // (2 if "SP" in modifiers else 1)
    result = _per_lane(rows * columns, result_bits)
    if base.endswith("GMMA"):
        return result // 4, 4, 2, result // 4
    return result, _per_lane(n_stored, bits), _per_lane(columns * depth, bits), result


def matrix_shape(modifier: str) -> tuple[int, int, int]:
    """m, n and k of `16816`, `884`, `8x8x4` or `64x128x16`."""
    if "x" in modifier:
        rows, columns, depth = (int(part) for part in modifier.split("x"))
        return rows, columns, depth
    return (16, 8, int(modifier[3:])) if modifier.startswith("168") else (8, 8, int(modifier[2:]))


def _per_lane(n_elements: int, bits: int) -> int:
    return max(1, n_elements * bits // (32 * _LANES))
