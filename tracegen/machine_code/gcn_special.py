"""Vector instructions that take several micro-operations of different kinds: saturating sums, and segments of 2 / pi."""

from __future__ import annotations

import re
from functools import lru_cache

from tracegen.execution import operations as o
from tracegen.machine_code.gcn_arithmetic import half_source, result_row
from tracegen.machine_code.gcn_wave import AND, OR, XOR, Wave, by_patterns

_SEGMENT_BITS, _TABLE_BITS = 53, 1201
"""Of 2 / pi: bits of one segment, and of what the hardware knows."""
_FAR, _VERY_FAR = 1077, 1968
"""Exponents, with their bias, from which segments move on, and from which results are scaled by 2^128."""


def _saturating(wave: Wave, match: re.Match[str]) -> bool:
    """An addition or subtraction of integers whose result stays at the end of the range."""
    if "clamp" not in wave.parsed.modifiers:
        return False
    name, kind, bits = match[1], match[2], int(match[3])
    wave.first_source = len(wave.parsed.operands) - 2
    first, second = wave.first_source, wave.first_source + 1
    if name == "subrev":
        first, second = second, first
    subtracts = name != "add"
    if bits == 16:
        _saturating_half(wave, kind, subtracts, first, second)
        return True
    a, b = wave.source(first).row, wave.source(second).row
    total, mask, limit = wave.temporary(), wave.new_mask(), wave.temporary()
    if kind == "u":
        wave.emit("BORROW" if subtracts else "ADD_CARRY", d=total, a=a, b=b, e=mask)
        limit = o.ZERO_ROW if subtracts else wave.constant(-1)
        if wave.first_source == 2:  # before gfx9 with the carry
            wave.mask_logic(
                wave.result_mask(wave.operand(1), of_active=True), 2 * mask, wave.guard, AND
            )
    else:
        wave.emit("ADD3", d=total, a=a, b=b, x=o.NEGATE_B * subtracts)
        wave.logic(limit, a, b, 0x18 if subtracts else 0x42, total)
        wave.emit("COMPARE_S", d=mask, a=limit, x=o.LESS)
        wave.emit("SHIFT_RIGHT_S", d=limit, a=a, b=wave.constant(31))
        wave.logic(limit, limit, wave.constant(0x7FFFFFFF), XOR)
    wave.emit("SELECT", d=result_row(wave, 0), a=limit, b=total, m=2 * mask)
    return True


def _saturating_half(wave: Wave, kind: str, subtracts: bool, first: int, second: int) -> None:
    """Of 16 bits: in 32 bits nothing is lost."""
    half = "hs" if kind == "i" else "hu"
    total = wave.temporary()
    a, b = (half_source(wave, k, half).row for k in (first, second))
    lowest, highest = (-0x8000, 0x7FFF) if kind == "i" else (0, 0xFFFF)
    wave.emit("ADD3", d=total, a=a, b=b, x=o.NEGATE_B * subtracts)
    wave.emit("MAXIMUM_S", d=total, a=total, b=wave.constant(lowest))
    wave.emit("MINIMUM_S", d=result_row(wave, 0, half=half), a=total, b=wave.constant(highest))


@lru_cache(maxsize=1)
def two_over_pi() -> tuple[int, ...]:
    """The bits of 2 / pi behind the point as 32-bit words, the first ones first, zero behind the last bit of the table."""
    bits = _TABLE_BITS + 64

    def arctangent_of_inverse(n: int) -> int:
        term = total = (1 << bits) // n
        k, sign = 1, -1
        while term:
            term //= n * n
            k += 2
            total += sign * (term // k)
            sign = -sign
        return total

    pi = 4 * (4 * arctangent_of_inverse(5) - arctangent_of_inverse(239))  # Machin's formula
    table = (1 << 2 * bits + 1) // pi >> bits - _TABLE_BITS
    n_words = -(-_TABLE_BITS // 32)
    table <<= 32 * n_words - _TABLE_BITS
    return tuple(table >> 32 * (n_words - 1 - k) & 0xFFFFFFFF for k in range(n_words))


def _segment(wave: Wave, match: re.Match[str]) -> None:
    """v_trig_preop_f64: 53 bits of 2 / pi, from those on that matter for an argument of this size.

    AMD, "CDNA3" Instruction Set Architecture, V_TRIG_PREOP_F64. Each lane reads its words as lanes of a table.
    """
    source, segment = wave.source(1, "f64").row, wave.source(2).row
    exponent, shift, scale = (wave.temporary() for _ in range(3))
    wave.emit("BIT_FIELD_U", d=exponent, a=source + 1, b=wave.constant(20), c=wave.constant(11))
    wave.emit("BIT_FIELD_U", d=shift, a=segment, c=wave.constant(5))
    wave.emit("MAXIMUM_U", d=scale, a=exponent, b=wave.constant(_FAR))
    wave.emit("ADD3", d=scale, a=scale, b=wave.constant(-_FAR))
    wave.emit("MULTIPLY_ADD", d=shift, a=shift, b=wave.constant(_SEGMENT_BITS), c=scale)
    place, words = wave.temporary(), [wave.temporary() for _ in range(3)]
    wave.emit("SHIFT_RIGHT_U", d=place, a=shift, b=wave.constant(5))
    for k, word in enumerate(words):
        _word(wave, word, place, k)
    made, mask = wave.temporary(2), wave.new_mask()
    for part, (high, low) in enumerate(((words[1], words[2]), (words[0], words[1]))):
        wave.emit("FUNNEL_LEFT", d=made + part, a=low, b=shift, c=high, x=o.WRAP)
    wave.emit("SHIFT_RIGHT64_U", d=made, a=made, b=wave.constant(64 - _SEGMENT_BITS))
    wave.emit("CONVERT", d=made, a=made, x=o.U64 | o.F64 << 4)
    wave.emit("ADD3", d=scale, a=wave.constant(-_SEGMENT_BITS), b=shift, x=o.NEGATE_B)
    wave.emit("COMPARE_U", d=mask, a=exponent, b=wave.constant(_VERY_FAR), x=o.GREATER | o.EQUAL)
    wave.emit("SELECT", d=place, a=wave.constant(128), m=2 * mask)
    wave.emit("ADD3", d=scale, a=scale, b=place)
    wave.emit("SCALE_F64", d=wave.result(wave.operand(0), 2), a=made, b=scale)


def _word(wave: Wave, d: int, place: int, k: int) -> None:
    """Word `place` + k of 2 / pi, of a table in the lanes of one row or two; 0 behind its end."""
    table = two_over_pi()
    part, index = wave.temporary(), wave.temporary()
    for first in range(0, len(table), wave.lanes):
        row = wave.out.lane_table((*table, *[0] * wave.lanes)[first : first + wave.lanes])
        wave.emit("ADD3", d=index, a=place, b=wave.constant(k - first))
        wave.emit("PERMUTE_LANES", d=part if first else d, a=row, c=index, x=1)
        if first:
            wave.logic(d, d, part, OR)


special = by_patterns(
    (r"v_(add|sub|subrev)_(?:nc_)?([iu])(16|32)$", _saturating),
    (r"v_trig_preop_f64$", _segment),
)
"""Lowers an instruction of this module; False if it is another one."""
