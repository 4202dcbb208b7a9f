"""SASS that multiplies matrices with the tensor cores of a sub-group or of four, lowered to micro-operations."""

from __future__ import annotations

import re

from tracegen.execution import operations as o
from tracegen.execution.operations import ALWAYS
from tracegen.execution.slicing import fragment_rows
from tracegen.machine_code.sass_emit import Emitter, UnknownInstruction, lowers
from tracegen.machine_code.sass_text import Operand, Sass

_SHAPES = {
    "884": (8, 4), "8816": (8, 16), "1684": (16, 4), "1688": (16, 8), "16816": (16, 16), "16832": (16, 32), "16864": (16, 64),
    "8x8x4": (8, 4), "16x8x4": (16, 4), "16x8x8": (16, 8), "16x8x16": (16, 16),
}  # fmt: skip
"""Name -> rows of the first factor, and depth; the second one has 8 columns."""
_GROUP_SHAPES = {f"64x{n}x{k}": (n, k) for n in range(8, 257, 8) for k in (8, 16, 32)}
_KINDS = "F32 F16 BF16 TF32 E4M3 E5M2 S8 U8"
_SCALED = {"E8": 0, "UE4M3": o.SCALE_IS_FLOAT}
"""The formats of scales."""
_DESCRIPTOR = re.compile(r"gdesc\[UR(\d+)\](\.tnspA)?(\.tnspB)?")


@lowers("HMMA IMMA DMMA QMMA OMMA", f"{' '.join(_SHAPES)} {_KINDS} E2M1 SF 4X {' '.join(_SCALED)}")
def _of_one(e: Emitter, s: Sass) -> None:
    """`HMMA.16816.F32.BF16 d, a, b, c`: of halves unless another kind is named; `.F16`: results are halves, too. The layouts `.ROW` and
    `.COL` are the only ones. `OMMA.SF.16864.F32.E2M1.E2M1.E8 d, a, b, c, R0, R2, URZ`: blocks have scales, in the first lanes of
    four; other lanes and bytes than the first ones are not known."""
    operands = s.operands[:4]
    if e.assembler.width not in (None, 32) or len(operands) < 4:
        raise UnknownInstruction
    if any(one.suffix not in ((), ("ROW",), ("COL",)) for one in operands):
        raise UnknownInstruction
    d, a, b, c = operands
    rows, depth = _SHAPES[s.one_of(*_SHAPES)]
    x = _formats(s) | o.FIRST_IN_ROWS | o.SECOND_IN_ROWS
    _multiply(e, x | _scales(s), (8, rows, depth), d, (a, b), c, scales=s.operands[4:])


@lowers("HGMMA IGMMA QGMMA", f"{' '.join(_GROUP_SHAPES)} {_KINDS}")
def _of_four(e: Emitter, s: Sass) -> None:
    """`HGMMA.64x128x16.F32 d, gdesc[UR8].tnspB, c`: wgmma of four sub-groups, of which each has 16 rows of the first factor. That is in
    registers, or in local memory as the second one always is. It is computed at once; code waits for it with WARPGROUP.DEPBAR."""
    operands = [one for one in s.operands if not one.text.startswith("gsb")]
    given = [one for one in operands if one.is_predicate]
    d, *factors, c = [one for one in operands if not one.is_predicate]
    found = _DESCRIPTOR.fullmatch(factors[-1].text)
    if found is None:
        raise UnknownInstruction
    n, depth = _GROUP_SHAPES[s.one_of(*_GROUP_SHAPES)]
    x = _formats(s) | (o.FIRST_ACROSS if found[2] else 0) | (o.SECOND_ACROSS if found[3] else 0)
    first: Operand | int = e.register("UR", int(found[1]), 4)
    if len(factors) == 2:
        first, x = factors[0], x | o.FIRST_IN_ROWS
    second = e.register("UR", int(found[1]), 4) + 2
    _multiply(e, x, (n, 16, depth), d, (first, second), c, e.mask(given[0]) if given else ALWAYS)


def _formats(s: Sass) -> int:
    """The formats of factors and of sums, as modifiers."""
    named = [
        part.lower()
        for part in s.parts
        if part in ("BF16", "TF32", "E4M3", "E5M2", "S8", "U8", "E2M1")
    ]
    if "e2m1" in named and s.base != "OMMA":  # a byte each
        raise UnknownInstruction
    named = named or ["f64" if s.base == "DMMA" else "f16"]
    first, second = (o.FACTORS.index(name) for name in (named * 2)[:2])
    x = first | second << 4
    if s.base.startswith("I"):
        return x | o.WHOLE_SUMS
    return x | (o.HALF_SUMS if s.has("F16") and not s.has("F32") else 0)


def _scales(s: Sass) -> int:
    """Into how many blocks the depth is divided, and what their scales are, as modifiers."""
    if not s.has("SF"):
        return 0
    blocks = 4 if s.has("4X") else 2 if s.base == "OMMA" else 1
    return blocks << o.SCALES | _SCALED[s.one_of(*_SCALED)]


def _multiply(
    e: Emitter, x: int, shape: tuple[int, int, int], d: Operand, factors: tuple[Operand | int, Operand | int], c: Operand, m: int = ALWAYS,
    scales: tuple[Operand, ...] = (),
) -> None:  # fmt: skip
    """shape : columns, rows and depth;  factors : registers, or rows with descriptors"""
    if any(
        isinstance(one, Operand) and (one.negative or one.kind != "R") for one in (d, *factors, c)
    ):
        raise UnknownInstruction
    n, rows, depth = shape
    y = n | rows << 9 | depth << 14
    n_sums, widths = fragment_rows(x, y)
    a, b = (
        one if isinstance(one, int) else e.register("R", one.number, widths[field])
        for field, one in zip("ab", factors, strict=True)
    )
    sums, given = e.register("R", c.number, n_sums), {}
    if x >> o.SCALES & 7:
        if len(scales) != 3 or not scales[2].is_zero:
            raise UnknownInstruction
        given["e"] = e.temporary(2)
        for k, one in enumerate(scales[:2]):
            e.move(given["e"] + k, e.plain(one))
    e.emit("MATRIX_MULTIPLY", d=e.result(d), a=a, b=b, c=sums, m=m, x=x, y=y, **given)


@lowers("MOVM", "16 MT88")
def _transpose(e: Emitter, s: Sass) -> None:
    """`MOVM.16.MT88`: 8 by 8 halves, of which lane l has elements 2 t and 2 t + 1 of row g, change rows for columns."""
    d, a = s.operands
    lanes, made = range(e.assembler.lanes), []
    if not s.has("MT88"):
        raise UnknownInstruction
    upper = e.assembler.lane_table(tuple(16 * (lane // 4 % 2) for lane in lanes))
    for part in range(2):
        sources = tuple((lane % 4 * 2 + part) * 4 + lane // 8 for lane in lanes)
        made.append(e.temporary())
        e.emit("PERMUTE_LANES", d=made[-1], a=e.plain(a), c=e.assembler.lane_table(sources), x=1)
        e.emit("SHIFT_RIGHT_U", d=made[-1], a=made[-1], b=upper)
    e.emit("PERMUTE_BYTES", d=e.result(d), a=made[0], b=made[1], c=e.constant(0x5410))
