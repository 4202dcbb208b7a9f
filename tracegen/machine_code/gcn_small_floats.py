"""AMD's conversions of floats of 8 and 4 bits, as micro-operations: "CDNA3" and "CDNA4" Instruction Set Architecture Reference Guides.

Those of 8 bits are FNUZ on gfx942, and OCP's from gfx950 on.
"""

from __future__ import annotations

import re

from tracegen.execution import operations as o
from tracegen.machine_code.gcn_wave import AND, OR, Wave, by_patterns

_KINDS = {"fp8": o.E4M3, "bf8": o.E5M2, "f32": o.F32, "f16": o.F16, "bf16": o.BFLOAT16}
_EXPONENT = 0xFF << 23
_TWICE = 0x03020100, 0x0C080604
"""Twice the sizes of a float of 4 bits, a byte each."""


def _kind(wave: Wave, name: str) -> int:
    is_fnuz = name in ("fp8", "bf8") and wave.target == "gfx942"
    return _KINDS[name] + (o.E4M3FNUZ - o.E4M3) * is_fnuz


def _expanded(wave: Wave, match: re.Match[str]) -> None:
    """`v_cvt_pk_f32_fp8 v[0:1], v2`: of two bytes, the upper ones with op_sel, as with sdwa; `v_cvt_f32_fp8`: of one."""
    n, row = 2 if match[1] else 1, wave.source(1).row
    selected = wave.parsed.listed("op_sel", (0, 0))
    first = 2 * selected[0] if match[1] else selected[0] + 2 * selected[1]
    d, made = wave.result(wave.operand(0), n), wave.temporary(2)
    for k in range(n):
        x = _kind(wave, match[2]) | o.F32 << 4 | first + k << o.SOURCE_PART
        wave.emit("CONVERT", d=made + k, a=row, x=x)
    wave.emit("MOVE2" if match[1] else "MOVE", d=d, a=made)


def _reduced(wave: Wave, match: re.Match[str]) -> None:
    """`v_cvt_pk_fp8_f32 v0, v1, v2`: two codes become the low half of the result, the high one with op_sel; the other stays."""
    x = o.F32 | _kind(wave, match[1]) << 4 | o.SATURATE_TO * wave.saturates
    codes = [wave.temporary(), wave.temporary()]
    for k, code in enumerate(codes):
        source = wave.plain(wave.source(1 + k, "f32"), "f32")
        wave.emit("CONVERT", d=code, a=source, x=x)
    _merge(wave, codes, wave.parsed.listed("op_sel", (0, 0, 0))[2])


def _scaled(wave: Wave, match: re.Match[str]) -> None:
    """`v_cvt_scalef32_pk_f16_fp8 v0, v1, s0`: two numbers times a power of two, the exponent of a float."""
    to, form = match[1], match[2]
    row, scale = wave.source(1).row, _power(wave, 2)
    selected = wave.parsed.listed("op_sel", (0, 0, 0))
    if form == "fp4":
        numbers = _of_four(wave, row, selected[0] + 2 * selected[1])
    else:
        numbers = [wave.temporary(), wave.temporary()]
        for k, one in enumerate(numbers):
            x = _kind(wave, form) | o.F32 << 4 | 2 * selected[0] + k << o.SOURCE_PART
            wave.emit("CONVERT", d=one, a=row, x=x)
    for one in numbers:
        wave.emit("MULTIPLY_F32", d=one, a=one, b=scale)
    if to == "f32":
        d = wave.result(wave.operand(0), 2)
        for k, one in enumerate(numbers):
            wave.emit("MOVE", d=d + k, a=one)
    else:
        x = o.BF16 * (to == "bf16")
        wave.emit("PACK_F16", d=wave.result(wave.operand(0)), a=numbers[1], b=numbers[0], x=x)


def _unscaled(wave: Wave, match: re.Match[str]) -> None:
    """`v_cvt_scalef32_pk_fp8_f32 v0, v1, v2, s0`, or of two halves in one register: the codes of numbers divided by a power of two."""
    n = 2 if match[2] == "f32" else 1
    scale, inverse = _power(wave, 1 + n), wave.temporary()
    wave.emit("ADD3", d=inverse, a=wave.constant(254 << 23), b=scale, x=o.NEGATE_B)
    x = o.F32 | _kind(wave, match[1]) << 4 | o.SATURATE_TO * wave.saturates
    codes = [wave.temporary(), wave.temporary()]
    for k, code in enumerate(codes):
        if n == 2:
            row = wave.plain(wave.source(1 + k, "f32"), "f32")
        else:
            row = code
            half = _KINDS[match[2]] | o.F32 << 4 | k << o.SOURCE_PART
            wave.emit("CONVERT", d=row, a=wave.source(1).row, x=half)
        wave.emit("MULTIPLY_F32", d=code, a=row, b=inverse)
        wave.emit("CONVERT", d=code, a=code, x=x)
    _merge(wave, codes, wave.parsed.listed("op_sel", (0,) * (2 + n))[1 + n])


def _power(wave: Wave, index: int) -> int:
    made = wave.temporary()
    wave.logic(made, wave.source(index, "f32").row, wave.constant(_EXPONENT), AND)
    return made


def _of_four(wave: Wave, row: int, byte: int) -> list[int]:
    """The numbers that two floats of 4 bits stand for, which are one byte of a row."""
    codes, numbers, sign = wave.temporary(), [wave.temporary(), wave.temporary()], wave.temporary()
    wave.emit("SHIFT_RIGHT_U", d=codes, a=row, b=wave.constant(8 * byte))
    wave.logic(codes, codes, wave.constant(0x77), AND)
    low, high = (wave.constant(one) for one in _TWICE)
    wave.emit("PERMUTE_BYTES", d=codes, a=low, b=high, c=codes)
    for k, one in enumerate(numbers):
        wave.emit("CONVERT", d=one, a=codes, x=o.U8 | o.F32 << 4 | k << o.SOURCE_PART)
        wave.emit("MULTIPLY_F32", d=one, a=one, b=wave.constant(0x3F000000))
        wave.emit("SHIFT_LEFT", d=sign, a=row, b=wave.constant(28 - 8 * byte - 4 * k))
        wave.logic(sign, sign, wave.constant(1 << 31), AND)
        wave.logic(one, one, sign, OR)
    return numbers


def _merge(wave: Wave, codes: list[int], high: int) -> None:
    made, d = wave.temporary(), wave.result(wave.operand(0))
    wave.emit("PERMUTE_BYTES", d=made, a=codes[0], b=codes[1], c=wave.constant(0x40))
    wave.emit("PERMUTE_BYTES", d=d, a=d, b=made, c=wave.constant(0x5410 if high else 0x3254))


small_floats = by_patterns(
    (r"v_cvt_(pk_)?f32_(fp8|bf8)$", _expanded),
    (r"v_cvt_pk_(fp8|bf8)_f32$", _reduced),
    (r"v_cvt_scalef32_pk_(f32|f16|bf16)_(fp8|bf8|fp4)$", _scaled),
    (r"v_cvt_scalef32_pk_(fp8|bf8)_(f32|f16|bf16)$", _unscaled),
)
"""Lowers a conversion; False if the instruction is another one."""
