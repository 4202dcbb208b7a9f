"""SASS of pairs of halves and bfloat16s, lowered to micro-operations."""

from __future__ import annotations

import math

from tracegen.execution import operations as o
from tracegen.execution.operations import ALWAYS, NEVER, ZERO_ROW
from tracegen.machine_code.sass_emit import (
    FIELDS,
    FLOAT_SIGNS,
    Emitter,
    UnknownInstruction,
    float_bits,
    float_modifiers,
    half_bits,
    lowers,
)
from tracegen.machine_code.sass_floats import COMPARED
from tracegen.machine_code.sass_integers import BOOLEANS, RELATIONS
from tracegen.machine_code.sass_text import Operand, Sass

_HALF = "F32 BF16_V2 BF16 MMA SAT FTZ RELU NAN"
_CHOSEN = {"": 0, "H0_H0": 1, "H1_H1": 2, "F32": 3, "H0_NH1": 0}
_CHOICES = (o.HALVES_A, o.HALVES_B, o.HALVES_C)


def _joined(s: Sass) -> tuple[Operand | tuple[Operand, Operand], ...]:
    """The operands, the two numbers of a packed immediate as one."""
    found: list[Operand | tuple[Operand, Operand]] = []
    waiting: Operand | None = None
    for one in s.operands:
        if one.kind == "f" and waiting is not None:
            found.append((waiting, one))
            waiting = None
        elif one.kind == "f":
            waiting = one
        else:
            found.append(one)
    if waiting is not None:
        raise UnknownInstruction
    return tuple(found)


def _half_bits(value: float, brain: bool) -> int:
    if brain:
        return float_bits(value) >> 16
    if math.isnan(value):
        return 0x7FFF
    return half_bits(value)


def _packed_source(
    e: Emitter, one: Operand | tuple[Operand, Operand], index: int, brain: bool
) -> tuple[int, int]:
    """The row of a pair of halves and its modifiers as the source with this index."""
    if isinstance(one, tuple):
        high, low = (_half_bits(part.value, brain) for part in one)
        return e.constant(high << 16 | low), 0
    chosen = next((name for name in one.suffix if name in _CHOSEN), "")
    if any(name not in _CHOSEN for name in one.suffix):
        raise UnknownInstruction
    row, choice = e.plain(one), _CHOSEN[chosen]
    if chosen == "F32":  # `HADD2 d, R0.F32, -RZ` is what ptxas makes of cvt.rz.f16.f32
        narrow = e.temporary(2)
        e.emit("CONVERT", d=narrow, a=row, x=o.F32 | o.F16 << 4 | o.TO_ZERO << 8)
        row, choice = narrow, _CHOSEN["H0_H0"]
    if chosen == "H0_NH1":  # the low half above, and the high half negated below
        turned = e.temporary()
        e.emit("PERMUTE_BYTES", d=turned, a=row, b=ZERO_ROW, c=e.constant(0x1032))
        e.emit("LOGIC3", d=turned, a=turned, b=e.constant(0x8000), y=0x3C)
        row = turned
    return row, e.sign(one, FIELDS[index]) | choice << _CHOICES[index]


@lowers("HADD2 HMUL2 HFMA2 HADD2_32I HMUL2_32I HFMA2_32I", _HALF)
def _halves(e: Emitter, s: Sass) -> None:
    """Packed arithmetic. The first of two immediate numbers is the high half. `HFMA2 d, -RZ, RZ, 1, 2` moves a constant."""
    d, *sources = _joined(s)
    if isinstance(d, tuple):
        raise UnknownInstruction
    brain = s.has("BF16_V2", "BF16")
    if s.base.startswith("HADD2") and s.has("F32"):
        return _widened(e, s, d, sources)
    is_move = s.base.startswith("HFMA2") and isinstance(sources[2], tuple)
    if is_move and all(not isinstance(one, tuple) and one.is_zero for one in sources[:2]):
        return e.move(e.result(d), _packed_source(e, sources[2], 2, brain)[0])
    x = (o.BF16 if brain else 0) | float_modifiers(s)
    fields = {}
    for index, one in enumerate(sources):
        fields[FIELDS[index]], flags = _packed_source(e, one, index, brain)
        x |= flags
    name = {"A": "ADD_F16", "M": "MULTIPLY_F16", "F": "FUSED_F16"}[s.base[1]]
    if not s.has("RELU"):
        return e.emit(name, d=e.result(d), x=x, **fields)
    row, positive = e.temporary(), e.temporary()
    e.emit(name, d=row, x=x, **fields)
    e.emit("MAXIMUM_F16", d=positive, a=row, b=ZERO_ROW, x=o.BF16 if brain else 0)
    _spoil(e, positive, (row, 0), (row, 0), brain)
    return e.move(e.result(d), positive)


def _widened(
    e: Emitter, s: Sass, d: Operand, sources: list[Operand | tuple[Operand, Operand]]
) -> None:
    """`HADD2.F32 d, -RZ, R2.H1_H1`: the sum of two halves as a float."""
    rows = []
    kind = o.BFLOAT16 if s.has("BF16_V2", "BF16") else o.F16
    for one in sources:
        if isinstance(one, tuple):
            rows.append(e.constant(float_bits(one[1].value)))
            continue
        x = kind | o.F32 << 4 | (o.NEGATE_SOURCE if one.negative else 0)
        x |= (o.ABSOLUTE_SOURCE if one.absolute else 0) | (("H1_H1" in one.suffix) << o.SOURCE_PART)
        rows.append(e.temporary(2))
        e.emit("CONVERT", d=rows[-1], a=e.plain(one), x=x)
    first = sources[0]
    if not isinstance(first, tuple) and first.is_zero:
        e.move(e.result(d), rows[1])
    else:
        e.emit("ADD_F32", d=e.result(d), a=rows[0], b=rows[1], x=float_modifiers(s))


@lowers("HMNMX2", f"{_HALF}")
def _extreme_halves(e: Emitter, s: Sass) -> None:
    d, a, b, least = _joined(s)
    if isinstance(d, tuple) or isinstance(least, tuple):
        raise UnknownInstruction
    brain = s.has("BF16_V2", "BF16")
    (x, first), (y, second) = _packed_source(e, a, 0, brain), _packed_source(e, b, 1, brain)
    flags = first | second | (o.BF16 if brain else 0)
    found = e.either(("MINIMUM_F16", "MAXIMUM_F16"), least, a=x, b=y, x=flags)
    if s.has("NAN"):
        _spoil(e, found, (x, first), (y, second), brain)
    e.move(e.result(d), found)


Source = tuple[int, int]
"""A row of halves, and its modifiers as of a source of packed arithmetic."""


def _spoil(e: Emitter, found: int, a: Source, b: Source, brain: bool) -> None:
    """Halves of a row become no number where one of a and b is none."""
    masks, spoiled = (e.temporary_mask(), e.temporary_mask()), e.temporary()
    _compare_halves(e, masks, a, b, ALWAYS, o.UNORDERED, brain)
    for none, nothing in zip(masks, (0x3254, 0x7610), strict=True):
        fields = {"b": e.constant(0x7FFF7FFF), "c": e.constant(nothing)}
        e.emit("PERMUTE_BYTES", d=spoiled, a=found, **fields)
        e.emit("SELECT", d=found, a=spoiled, b=found, m=2 * none)


def _compare_halves(
    e: Emitter, results: tuple[int, int], a: Source, b: Source, m: int, x: int, brain: bool
) -> None:
    """The conditions of the low and of the high halves, each combined with a mask. x : relation and combination"""
    flags = a[1] | b[1]
    if not brain:
        choices = (a[1] >> o.HALVES_A & 3) << 24 | (b[1] >> o.HALVES_B & 3) << 26
        x |= (flags & 0xFF) << 8 | choices
        return e.emit("COMPARE_F16", d=results[0], e=results[1], a=a[0], b=b[0], m=m, x=x)
    if m not in (ALWAYS, NEVER):  # which may be one of the results
        kept = e.temporary_mask()
        e.emit("MASK_LOGIC3", d=kept, m=m, x=0xF0)
        m = 2 * kept
    for half, result in enumerate(results):
        rows = []
        for index, (row, sign) in enumerate((a, b)):
            part = (half, 0, 1)[sign >> _CHOICES[index] & 3]
            negate, absolute = FLOAT_SIGNS[FIELDS[index]]
            y = o.BFLOAT16 | o.F32 << 4 | part << o.SOURCE_PART
            y |= o.NEGATE_SOURCE * bool(sign & negate) | o.ABSOLUTE_SOURCE * bool(sign & absolute)
            rows.append(e.temporary(2))
            e.emit("CONVERT", d=rows[-1], a=row, x=y)
        e.emit("COMPARE_F32", d=result, a=rows[0], b=rows[1], m=m, x=x)
    return None


def _condition(
    e: Emitter, s: Sass, results: tuple[int, int], a: object, b: object, p: Operand
) -> None:
    brain = s.has("BF16_V2", "BF16")
    x = RELATIONS[s.one_of(*RELATIONS)] | BOOLEANS[s.one_of(*BOOLEANS) or "AND"]
    first, second = (_packed_source(e, one, k, brain) for k, one in enumerate((a, b)))  # type: ignore[arg-type]
    _compare_halves(e, results, first, second, e.mask(p), x, brain)


@lowers("HSETP2", f"{COMPARED} BF16_V2 H_AND")
def _compare_to_masks(e: Emitter, s: Sass) -> None:
    """The conditions of the low and of the high halves; `.H_AND`: whether both hold, and its opposite."""
    d, second, a, b, p = _joined(s)
    if isinstance(d, tuple) or isinstance(second, tuple) or isinstance(p, tuple):
        raise UnknownInstruction
    if not s.has("H_AND"):
        return _condition(e, s, (e.result_mask(d), e.result_mask(second)), a, b, p)
    low, high, joined = (e.temporary_mask() for _ in range(3))
    _condition(e, s, (low, high), a, b, p)
    e.emit("MASK_LOGIC3", d=joined, m=2 * low, n=2 * high, x=0xC0)
    e.move_mask(e.result_mask(d), 2 * joined)
    return e.move_mask(e.result_mask(second), 2 * joined + 1)


@lowers("HSET2", f"{COMPARED} BF16_V2 BF BM")
def _compare_to_halves(e: Emitter, s: Sass) -> None:
    """1.0 (`.BF`) or all ones (`.BM`) in each half whose condition holds."""
    d, a, b, p = _joined(s)
    if isinstance(d, tuple) or isinstance(p, tuple):
        raise UnknownInstruction
    low, high, row, other = e.temporary_mask(), e.temporary_mask(), e.temporary(), e.temporary()
    _condition(e, s, (low, high), a, b, p)
    one = _half_bits(1.0, s.has("BF16_V2")) if s.has("BF") else 0xFFFF
    e.emit("SELECT", d=row, a=e.constant(one), m=2 * low)
    e.emit("SELECT", d=other, a=e.constant(one << 16), m=2 * high)
    e.emit("LOGIC3", d=e.result(d), a=row, b=other, y=0xFC)
