"""SASS of floats of 8 bits (OCP's E4M3 and E5M2), lowered to micro-operations."""

from __future__ import annotations

from typing import NamedTuple

from tracegen.execution import operations as o
from tracegen.execution.operations import ZERO_ROW
from tracegen.machine_code.sass_compare import packed
from tracegen.machine_code.sass_emit import Emitter, UnknownInstruction, float_bits
from tracegen.machine_code.sass_integers import RELATIONS
from tracegen.machine_code.sass_text import Operand, Sass


class _Format(NamedTuple):
    """fraction, bias : of the format; largest : code of the largest finite number"""

    fraction: int
    bias: int
    largest: int


FORMATS = {"E4M3": _Format(3, 7, 0x7E), "E5M2": _Format(2, 15, 0x7B)}
_NOT_A_NUMBER, _FLOAT_BIAS = 0x7F, 127


def convert(e: Emitter, s: Sass) -> None:
    """`PACK_AB_MERGE_C d, a, b, c`: c << 16, the code of a << 8 and the code of b; `UNPACK_B_MERGE_C d, b, c`: of two halves;
    `UNPACK_B d, b`: the halves that two codes stand for, of the upper ones of b with `.H1`."""
    form = FORMATS[s.one_of(*FORMATS)]
    d, *sources = s.operands
    if s.has("UNPACK_B"):
        return _unpacked(e, e.result(d), sources[0], form)
    if s.has("UNPACK_B_MERGE_C") and s.has("F16"):
        halves, above = sources
        floats = [e.temporary(2), e.temporary(2)]
        for part, row in zip((1, 0), floats, strict=True):
            x = o.F16 | o.F32 << 4 | part << o.SOURCE_PART
            e.emit("CONVERT", d=row, a=e.plain(halves), x=x)
    elif s.has("PACK_AB_MERGE_C") and s.has("F32"):
        *given, above = sources
        floats = [e.number(one, "a")[0] for one in given]
        if any(e.sign(one, "a") for one in given):
            raise UnknownInstruction
    else:
        raise UnknownInstruction
    codes = [_code(e, row, form) for row in floats]
    return packed(e, e.result(d), codes, 8, e.whole(above))


def _code(e: Emitter, a: int, form: _Format) -> int:
    """The code of the nearest number, of two that are equally near the one with the even code; at most the largest."""
    drop, least = 23 - form.fraction, 1 - form.bias
    names = ("size", "odd", "code", "small", "sign")
    size, odd, code, small, sign = (e.temporary() for _ in names)
    is_small, is_none = e.temporary_mask(), e.temporary_mask()
    e.emit("LOGIC3", d=size, a=a, b=e.constant(0x7FFFFFFF), y=0xC0)
    e.emit("BIT_FIELD_U", d=odd, a=size, b=e.constant(drop), c=e.constant(1))
    e.emit("ADD3", d=code, a=size, b=odd, c=e.constant((1 << drop - 1) - 1))
    e.emit("SHIFT_RIGHT_U", d=code, a=code, b=e.constant(drop))
    bias = _FLOAT_BIAS - form.bias << form.fraction
    e.emit("ADD3", d=code, a=code, b=e.constant(-bias))
    # In a sum with this number the last bit has the value of the smallest subnormal number.
    unit = float_bits(2.0 ** (least - form.fraction + 23))
    e.emit("ADD_F32", d=small, a=size, b=e.constant(unit))
    e.emit("ADD3", d=small, a=small, b=e.constant(-unit))
    e.emit("COMPARE_U", d=is_small, a=size, b=e.constant(float_bits(2.0**least)), x=RELATIONS["LT"])
    e.emit("SELECT", d=code, a=small, b=code, m=2 * is_small)
    e.emit("MINIMUM_U", d=code, a=code, b=e.constant(form.largest))
    e.emit("COMPARE_F32", d=is_none, a=a, b=a, x=o.UNORDERED)
    e.emit("SELECT", d=code, a=e.constant(_NOT_A_NUMBER), b=code, m=2 * is_none)
    e.emit("SHIFT_RIGHT_U", d=sign, a=a, b=e.constant(24))
    e.emit("LOGIC3", d=code, a=code, b=sign, c=e.constant(0x80), y=0xF8)
    e.emit("SELECT", d=code, a=e.constant(_NOT_A_NUMBER), b=code, m=2 * is_none)
    return code


def _unpacked(e: Emitter, d: int, source: Operand, form: _Format) -> None:
    """A half has E5M2's exponent; that of E4M3 is smaller by 8."""
    at = {(): 0, ("H0",): 0, ("H1",): 16}.get(source.suffix)
    if at is None:
        raise UnknownInstruction
    row, found, shift = e.plain(source), [], 10 - form.fraction
    for k in range(2):
        code, size, sign, half = (e.temporary() for _ in range(4))
        e.emit("BIT_FIELD_U", d=code, a=row, b=e.constant(at + 8 * k), c=e.constant(8))
        e.emit("LOGIC3", d=size, a=code, b=e.constant(0x7F), y=0xC0)
        e.emit("LOGIC3", d=sign, a=code, b=e.constant(0x80), y=0xC0)
        e.emit("SHIFT_LEFT", d=sign, a=sign, b=e.constant(8))
        e.emit("SHIFT_LEFT", d=half, a=size, b=e.constant(shift))
        if form.fraction == 3:
            is_none = e.temporary_mask()
            factor = e.constant(0x5C00)  # 256
            e.emit("MULTIPLY_F16", d=half, a=half, b=factor)
            relation = RELATIONS["EQ"]
            e.emit("COMPARE_U", d=is_none, a=size, b=e.constant(_NOT_A_NUMBER), x=relation)
            e.emit("SELECT", d=half, a=e.constant(0x7FFF), b=half, m=2 * is_none)
        e.emit("LOGIC3", d=half, a=half, b=sign, y=0xFC)
        found.append(half)
    packed(e, d, found[::-1], 16, ZERO_ROW)
