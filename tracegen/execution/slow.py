"""Operations that go lane by lane, or that lanes do together: what vectors of a CPU have no instruction for.

Functions take the address of a sub-group's first row, offsets of rows in bytes, and masks as 64 bits.
"""

from __future__ import annotations

import math

import numpy as np

from memsim.compile import hot, inner
from tracegen.execution import operations as o
from tracegen.execution.numbers import (
    bfloat_bits,
    converted,
    float_bits,
    half_bits,
    of_bfloat,
    of_half,
)
from tracegen.execution.words import (
    bits_of_double,
    bits_of_float,
    double_of,
    float_of,
    fused,
    fused_towards,
    lowest,
    peek32,
    poke32,
)

LANEWISE = [
    "DOT4", "SUM_DIFFERENCES", "SPECIAL", "SPECIAL_F64", "SPECIAL_HIGH", "FRACTION_F32", "FRACTION_F64", "SCALE_F32",
    "SCALE_F64", "DIVISION_STEP_F32", "DIVISION_STEP_F64", "DIVISION_FIX_F32", "DIVISION_FIX_F64", "CONVERT", "PACK_F16",
    "ADD_F16", "MULTIPLY_F16", "FUSED_F16", "MINIMUM_F16", "MAXIMUM_F16",
]  # fmt: skip
"""Operations whose result, row d, depends on one lane alone."""
TESTS = [
    "COMPARE_F16",
    "CLASS_F32",
    "CLASS_F64",
    "DIVISION_CHECK",
    "DIVISION_SCALE_F32",
    "DIVISION_SCALE_F64",
]
"""The same, whose results are masks d and e, of the last two row d and mask e."""
TOGETHER = [
    "SHUFFLE", "READ_LANE", "READ_FIRST_LANE", "WRITE_LANE", "PERMUTE_LANES", "SCATTER_LANES", "MATCH_ANY", "MATCH_ALL",
    "REDUCE",
]  # fmt: skip
"""What lanes do together."""
(
    DOT4, SUM_DIFFERENCES, SPECIAL, SPECIAL_F64, SPECIAL_HIGH, FRACTION_F32, FRACTION_F64, SCALE_F32, SCALE_F64,
    DIVISION_STEP_F32, DIVISION_STEP_F64, DIVISION_FIX_F32, DIVISION_FIX_F64, CONVERT, PACK_F16, ADD_F16, MULTIPLY_F16,
    FUSED_F16, MINIMUM_F16, MAXIMUM_F16,
) = range(len(LANEWISE))  # fmt: skip
COMPARE_F16, CLASS_F32, CLASS_F64, DIVISION_CHECK, DIVISION_SCALE_F32, DIVISION_SCALE_F64 = range(
    len(TESTS)
)
(
    SHUFFLE, READ_LANE, READ_FIRST_LANE, WRITE_LANE, PERMUTE_LANES, SCATTER_LANES, MATCH_ANY, MATCH_ALL, REDUCE,
) = range(len(TOGETHER))  # fmt: skip
_WORD = 0xFFFFFFFF
_NEGATE_A, _NEGATE_B, _NEGATE_C = o.NEGATE_A, o.NEGATE_B, o.NEGATE_C
_ABSOLUTE_A, _ABSOLUTE_B, _ABSOLUTE_C = o.ABSOLUTE_A, o.ABSOLUTE_B, o.ABSOLUTE_C
_SATURATE, _FLUSH, _ROUNDING, _BF16, _TURNS = o.SATURATE, o.FLUSH, o.ROUNDING, o.BF16, o.TURNS
_LESS, _EQUAL, _GREATER, _UNORDERED = o.LESS, o.EQUAL, o.GREATER, o.UNORDERED
_OR, _XOR = o.COMBINE_OR, o.COMBINE_XOR
_HALVES_A, _HALVES_B, _HALVES_C = o.HALVES_A, o.HALVES_B, o.HALVES_C
_HIGH_A, _HIGH_B, _HIGH_C = o.NEGATE_HIGH_A, o.NEGATE_HIGH_B, o.NEGATE_HIGH_C


@inner
def _signed(word):
    return word - (1 << 32) if word >= 1 << 31 else word


@inner
def _with_signs(value, negate, absolute):
    value = abs(value) if absolute else value
    return -value if negate else value


@inner
def _special(value, which, x):
    if which == 0:
        return np.float64(1.0) / value
    if which == 1:
        return (
            math.sqrt(value)
            if value >= 0
            else (value if value == 0 or value != value else math.nan)
        )
    if which == 2:
        if value == 0:
            return math.copysign(math.inf, value)
        return 1.0 / math.sqrt(value) if value > 0 else math.nan
    if which == 4:
        if value == 0:
            return -math.inf
        return np.log2(value) if value > 0 else math.nan
    if which == 7:
        return math.tanh(value)
    if math.isinf(value):
        return math.nan
    angle = value * 2 * math.pi if x & _TURNS else value
    return math.sin(angle) if which == 5 else math.cos(angle)


@inner
def _clamped(value, x):
    if x & _SATURATE:
        return min(value, 1.0) if value > 0 else 0.0
    return value


@inner
def _flushed(value, x):
    return math.copysign(0.0, value) if x & _FLUSH and abs(value) < 2.0**-126 else value


@inner
def _exact_error(a, b, total):
    """What a sum of doubles lost when it was rounded (Knuth, The Art of Computer Programming, 4.2.2, theorem B)."""
    other = total - a
    return (a - (total - other)) + (b - other)


@inner
def _sticky(value, lost):
    """A double that rounds to a float as the exact value does (round to odd: Boldo and Melquiond, 2008)."""
    if lost == 0 or math.isinf(value) or value != value:
        return value
    bits = bits_of_double(value)
    if bits & 1:
        return value
    if (lost > 0) == (value > 0):
        return double_of(bits | 1)
    return double_of((bits - 1) | 1)


@inner
def _mode(x):
    return (x & _ROUNDING) >> 8


@inner
def _half(bits, x):
    return of_bfloat(bits) if x & _BF16 else of_half(bits)


@inner
def _half_of(word, high, how, x):
    """The source of one half of a packed operation; how : see HALVES_A."""
    if how == 3:
        return np.float64(float_of(word))
    take_high = how == 2 or (how == 0 and high)
    return _half(word >> 16 if take_high else word & 65535, x)


@inner
def _least(a, b, greatest):
    if a != a:
        return b
    if b != b:
        return a
    if a == b:  # of zeros, the one whose sign is wanted
        return a if (math.copysign(1.0, a) < 0) != greatest else b
    return max(a, b) if greatest else min(a, b)


@inner
def _packed(which, a, b, c, x):
    result = 0
    for high in range(2):
        first = _half_of(a, high == 1, x >> _HALVES_A & 3, x)
        second = _half_of(b, high == 1, x >> _HALVES_B & 3, x)
        flip = high == 1
        first = _with_signs(
            first, (x & _NEGATE_A != 0) != (flip and x & _HIGH_A != 0), x & _ABSOLUTE_A != 0
        )
        second = _with_signs(
            second, (x & _NEGATE_B != 0) != (flip and x & _HIGH_B != 0), x & _ABSOLUTE_B != 0
        )
        if which == ADD_F16:
            total = first + second
            value = _sticky(total, _exact_error(first, second, total))
        elif which == MULTIPLY_F16:
            value = first * second
        elif which == FUSED_F16:
            third = _half_of(c, high == 1, x >> _HALVES_C & 3, x)
            third = _with_signs(
                third, (x & _NEGATE_C != 0) != (flip and x & _HIGH_C != 0), x & _ABSOLUTE_C != 0
            )
            product = first * second
            total = product + third
            value = _sticky(total, _exact_error(product, third, total))
        else:
            value = _least(first, second, which == MAXIMUM_F16)
        value = _clamped(value, x)
        bits = bfloat_bits(value, 0) if x & _BF16 else half_bits(value, 0)
        result |= bits << 16 * high
    return result


@inner
def _fixed_up(quotient, denominator, numerator, wide):
    """AMD's v_div_fixup: the quotient, or what IEEE 754 says of special operands. A quotient that is not a number overflowed."""
    sign = math.copysign(1.0, denominator) * math.copysign(1.0, numerator)
    if numerator != numerator or denominator != denominator:
        return math.nan
    if (numerator == 0 and denominator == 0) or (math.isinf(numerator) and math.isinf(denominator)):
        return math.nan
    if math.isinf(denominator) or numerator == 0:
        return math.copysign(0.0, sign)
    if math.isinf(numerator) or denominator == 0 or quotient != quotient:
        return math.copysign(math.inf, sign)
    apart = _biased(numerator, wide) - _biased(denominator, wide)
    if apart < (-1075 if wide else -150):
        return math.copysign(0.0, sign)
    return math.copysign(abs(quotient), sign)


@inner
def _biased(value, wide):
    """The exponent as it is stored in a double or float, of subnormal numbers 0."""
    return max(math.frexp(value)[1] - 1 + (1023 if wide else 127), 0)


@inner
def _fraction(value, which):
    if which == 0:
        part = value - np.floor(value)
        return min(part, double_of(0x3FEFFFFFFFFFFFFF)) if part == part else part
    if value == 0 or math.isinf(value) or value != value:
        return 0.0 if which == 2 else value
    mantissa, exponent = math.frexp(value)
    return mantissa if which == 1 else float(exponent)


@inner
def _lane(which, a, b, c, a2, b2, c2, m, x, y):
    """(low, high) of one lane's result. a, b, c : words;  a2, b2, c2 : with those of the next rows above them"""
    if which == CONVERT:
        return converted(a, a2 >> 32 & _WORD, x)
    if which == SPECIAL:
        value = _with_signs(np.float64(float_of(a)), x & _NEGATE_A != 0, x & _ABSOLUTE_A != 0)
        result = _clamped(_special(_flushed(value, x), y, x), x)
        return float_bits(_flushed(result, x), 0)
    if which == SPECIAL_F64:
        value = _with_signs(double_of(a2), x & _NEGATE_A != 0, x & _ABSOLUTE_A != 0)
        return bits_of_double(_special(value, y, x))
    if which == SPECIAL_HIGH:
        return bits_of_double(_special(double_of(a << 32), y, x)) >> 32 & _WORD
    if which == FRACTION_F32:
        value = _with_signs(np.float64(float_of(a)), x & _NEGATE_A != 0, x & _ABSOLUTE_A != 0)
        part = _fraction(value, y)
        return (
            np.int64(part) & _WORD
            if y == 2
            else float_bits(min(part, 0.99999994) if y == 0 else part, 0)
        )
    if which == FRACTION_F64:
        value = _with_signs(double_of(a2), x & _NEGATE_A != 0, x & _ABSOLUTE_A != 0)
        part = _fraction(value, y)
        return np.int64(part) & _WORD if y == 2 else bits_of_double(part)
    if which == SCALE_F32:
        return float_bits(_clamped(_scaled(np.float64(float_of(a)), _signed(b)), x), 0)
    if which == SCALE_F64:
        return bits_of_double(_scaled(double_of(a2), _signed(b)))
    if which == PACK_F16:
        first = _with_signs(np.float64(float_of(a)), x & _NEGATE_A != 0, False)
        second = _with_signs(np.float64(float_of(b)), x & _NEGATE_B != 0, False)
        mode = _mode(x)
        if x & _BF16:
            return bfloat_bits(first, mode) << 16 | bfloat_bits(second, mode)
        return half_bits(first, mode) << 16 | half_bits(second, mode)
    if which == DIVISION_STEP_F32:
        return _rounded_step(a, b, c, m)
    if which == DIVISION_STEP_F64:
        if not m:
            return bits_of_double(fused(double_of(a2), double_of(b2), double_of(c2)))
        return bits_of_double(
            _scaled_step(double_of(a2), double_of(b2), double_of(c2), c2 >> 52 & 2047 > 1023)
        )
    if which == DIVISION_FIX_F32:
        value = _fixed_up(
            np.float64(float_of(a)), np.float64(float_of(b)), np.float64(float_of(c)), False
        )
        return float_bits(value, 0)
    if which == DIVISION_FIX_F64:
        return bits_of_double(_fixed_up(double_of(a2), double_of(b2), double_of(c2), True))
    if ADD_F16 <= which <= MAXIMUM_F16:
        return _packed(which, a, b, c, x)
    if which == DOT4:
        return _dot4(a, b, c, x)
    return _differences(a, b, c, x)


@inner
def _scaled(value, by):
    return math.ldexp(value, min(max(by, -4000), 4000))


@inner
def _rounded_step(a, b, c, m):
    product = np.float64(float_of(a)) * np.float64(float_of(b))
    third = np.float64(float_of(c))
    total = product + third
    value = _sticky(total, _exact_error(product, third, total))
    if m:
        value *= 2.0**64 if c >> 23 & 255 > 127 else 2.0**-64
    return bits_of_float(np.float32(value))


@inner
def _scaled_step(a, b, c, up):
    """a * b + c times 2^128 or 2^-128, rounded once."""
    value, half = fused(a, b, c), 2.0**-947
    if up:
        return value * 2.0**128
    if (
        math.isinf(value) and math.isfinite(a) and math.isfinite(b)
    ):  # c is too small to matter but for its sign
        large, small = (a, b) if abs(a) > abs(b) else (b, a)
        return fused(large * 2.0**-128, small, c)
    result = value * 2.0**-128
    if abs(value - result * 2.0**128) == half:  # between two numbers, if the sum is exact
        below = fused_towards(a, b, c, 1)
        if below != fused_towards(a, b, c, 2):
            result = (value + (half if value == below else -half)) * 2.0**-128
    return result


@inner
def _byte(word, k, is_signed):
    value = word >> 8 * k & 255
    return value - 256 if is_signed and value > 127 else value


@inner
def _dot4(a, b, c, x):
    total = c
    for k in range(4):
        total += _byte(a, k, x & 1 != 0) * _byte(b, k, x & 2 != 0)
    return total & _WORD


@inner
def _differences(a, b, c, x):
    if x & 2:
        total = c
        for k in range(4):
            total += abs(_byte(a, k, x & 1 == 0) - _byte(b, k, x & 1 == 0))
        return total & _WORD
    first, second = (a, b) if x & 1 else (_signed(a), _signed(b))
    return (c + abs(first - second)) & _WORD


@hot
def lanewise(which, place, row_bytes, d, a, b, c, active, m, x, y):
    """One operation of LANEWISE, for the active lanes."""
    wide = which in (
        SPECIAL_F64, SCALE_F64, DIVISION_STEP_F64, DIVISION_FIX_F64,
    )  # fmt: skip
    wide |= which == FRACTION_F64 and y != 2
    to = x >> 4 & 15
    wide |= which == CONVERT and to in (o_U64, o_S64, o_F64)
    narrow = which == CONVERT and to in (o_U8, o_S8, o_U16, o_S16, o_F16, o_BF16)
    bits = 255 if to <= o_S8 else 65535
    left = active
    while left != 0:
        lane = lowest(left)
        left &= left - 1
        at = place + 4 * lane
        first, second, third = peek32(at + a), peek32(at + b), peek32(at + c)
        result = _lane(
            which, first, second, third,
            peek32(at + a + row_bytes) << 32 | first,
            peek32(at + b + row_bytes) << 32 | second,
            peek32(at + c + row_bytes) << 32 | third,
            m >> lane & 1 != 0, x, y,
        )  # fmt: skip
        if narrow:
            result &= bits
        poke32(at + d, result)
        if wide:
            poke32(at + d + row_bytes, result >> 32)


o_U8, o_S8, o_U16, o_S16, o_U64, o_S64 = o.U8, o.S8, o.U16, o.S16, o.U64, o.S64
o_F16, o_BF16, o_F64 = o.F16, o.BFLOAT16, o.F64


@inner
def _class(value, bits, width):
    """The class of a number as a bit: signalling, quiet, -inf, -normal, -subnormal, -0, +0, +subnormal, +normal, +inf."""
    if value != value:
        quiet = bits >> (51 if width == 64 else 22) & 1
        return 2 if quiet else 1
    negative = math.copysign(1.0, value) < 0
    if math.isinf(value):
        return 4 if negative else 512
    if value == 0:
        return 32 if negative else 64
    least = 2.0**-1022 if width == 64 else 2.0**-126
    if abs(value) < least:
        return 16 if negative else 128
    return 8 if negative else 256


@inner
def _holds(a, b, x):
    if a != a or b != b:
        return x & _UNORDERED != 0
    return x & (_LESS if a < b else _EQUAL if a == b else _GREATER) != 0


@inner
def _needs_slow_division(a, b):
    """FCHK: exponents of numerator and denominator beyond the range in which NVIDIA's division is exact without scaling.

    The bounds are those that the subroutine behind it tests again, see the code that ptxas emits for a division. A numerator of
    zero is beyond, too: the fast path adds 0 to the quotient, which would lose the sign of -0.
    """
    ea, eb = a >> 23 & 255, b >> 23 & 255
    inside = 1 < eb < 253 and 24 < ea < 255 and -125 < ea - eb < 125
    return not inside


@inner
def _scale_for_division(denominator, numerator, wide):
    """AMD's v_div_scale: by how many powers of two the operands are scaled, and whether v_div_fmas scales back.

    Returns (for the denominator, for the numerator, flag). RDNA3 Instruction Set Architecture, V_DIV_SCALE_F32 and F64,
    whose exponents are biased.
    """
    bias, by, many, few = (1023, 128, 768, 53) if wide else (127, 64, 96, 23)
    least = 2.0 ** (1 - bias)
    if denominator == 0 or numerator == 0 or math.isinf(denominator) or math.isinf(numerator):
        return 0, 0, False
    if numerator != numerator or denominator != denominator:
        return 0, 0, False
    n, d = math.frexp(numerator)[1] - 1 + bias, math.frexp(denominator)[1] - 1 + bias
    if max(n, 0) - max(d, 0) >= many:
        return by, 0, True
    if abs(denominator) < least:
        return by, by, False
    above, below = abs(math.frexp(numerator)[0]), abs(math.frexp(denominator)[0])
    tiny_reciprocal = d - bias > bias - 1 or (d - bias == bias - 1 and below > 0.5)
    tiny_quotient = n - d < 1 - bias or (n - d == 1 - bias and above < below)
    if tiny_reciprocal and tiny_quotient:
        return -by, 0, True
    if tiny_reciprocal:
        return -by, -by, False
    if tiny_quotient:
        return 0, by, True
    return (by, by, False) if n <= few else (0, 0, False)


@hot
def tested(which, place, row_bytes, d, a, b, c, active, m, x, masks, e):
    """One operation of TESTS, for the active lanes. masks : of the sub-group;  d : a mask or a row"""
    first_mask, second_mask = np.int64(0), np.int64(0)
    left = active
    while left != 0:
        lane = lowest(left)
        left &= left - 1
        at = place + 4 * lane
        low, other = peek32(at + a), peek32(at + b)
        bit = np.int64(1) << lane
        if which == COMPARE_F16:
            for high in range(2):
                one = _half_of(low, high == 1, x >> 24 & 3, x)
                two = _half_of(other, high == 1, x >> 26 & 3, x)
                one = _with_signs(one, x >> 8 & _NEGATE_A != 0, x >> 8 & _ABSOLUTE_A != 0)
                two = _with_signs(two, x >> 8 & _NEGATE_B != 0, x >> 8 & _ABSOLUTE_B != 0)
                holds, given = _holds(one, two, x), m >> lane & 1 != 0
                if x & _OR:
                    holds = holds or given
                elif x & _XOR:
                    holds = holds != given
                else:
                    holds = holds and given
                if high == 0:
                    first_mask |= bit * holds
                else:
                    second_mask |= bit * holds
        elif which == CLASS_F32:
            first_mask |= bit * (_class(np.float64(float_of(low)), low, 32) & other != 0)
        elif which == CLASS_F64:
            bits = peek32(at + a + row_bytes) << 32 | low
            first_mask |= bit * (_class(double_of(bits), bits, 64) & other != 0)
        elif which == DIVISION_CHECK:
            first_mask |= bit * _needs_slow_division(low, other)
        elif which == DIVISION_SCALE_F32:
            numerator = peek32(at + c)
            of_denominator, of_numerator, flag = _scale_for_division(
                np.float64(float_of(other)), np.float64(float_of(numerator)), False
            )
            by = of_denominator if low == other else of_numerator
            poke32(at + d, float_bits(_scaled(np.float64(float_of(low)), by), 0))
            second_mask |= bit * flag
        else:
            source = peek32(at + a + row_bytes) << 32 | low
            denominator = peek32(at + b + row_bytes) << 32 | other
            numerator = peek32(at + c + row_bytes) << 32 | peek32(at + c)
            of_denominator, of_numerator, flag = _scale_for_division(
                double_of(denominator), double_of(numerator), True
            )
            by = of_denominator if source == denominator else of_numerator
            result = bits_of_double(_scaled(double_of(source), by))
            poke32(at + d, result)
            poke32(at + d + row_bytes, result >> 32)
            second_mask |= bit * flag
    if which <= DIVISION_CHECK:
        masks[d] = masks[d] & ~active | first_mask
    if which == COMPARE_F16 or which >= DIVISION_SCALE_F32:
        masks[e] = masks[e] & ~active | second_mask


@inner
def _source_lane(how, lane, by, clamp):
    """The lane that a shuffle reads, and whether it is in range (PTX ISA, shfl.sync)."""
    segment = clamp >> 8 & 31
    top = lane & segment | clamp & 31 & ~segment
    if how == 0:
        source = lane & segment | by & 31 & ~segment
    elif how == 1:
        source = lane - (by & 31)
        return source, source >= top
    elif how == 2:
        source = lane + (by & 31)
    else:
        source = lane ^ (by & 31)
    return source, source <= top


@inner
def _reduced(how, total, word):
    if how == 0:
        return (total + word) & _WORD
    if how == 1:
        return min(_signed(total), _signed(word)) & _WORD
    if how == 2:
        return max(_signed(total), _signed(word)) & _WORD
    if how == 3:
        return min(total, word)
    if how == 4:
        return max(total, word)
    if how == 5:
        return total & word
    return total | word if how == 6 else total ^ word


@hot
def together(which, place, row_bytes, lanes, d, a, b, c, active, m, x, y, masks, e, held):
    """One operation of TOGETHER. held : (64,) int64 scratch"""
    if which in (READ_LANE, READ_FIRST_LANE):
        lane = peek32(place + b) & lanes - 1
        if which == READ_FIRST_LANE:
            lane = lowest(active) if active != 0 else 0
        word = peek32(place + a + 4 * lane)
        for k in range(lanes):
            poke32(place + d + 4 * k, word)
        return
    if which == WRITE_LANE:
        poke32(place + d + 4 * (peek32(place + b) & lanes - 1), peek32(place + a))
        return
    for k in range(lanes):
        held[k] = peek32(place + a + 4 * k)
        if x & 1 and which in (MATCH_ANY, MATCH_ALL):
            held[k] |= peek32(place + a + row_bytes + 4 * k) << 32
    result_mask = np.int64(0)
    total, first = np.int64(0), lowest(active)
    if which == SHUFFLE:
        # What absent lanes give is undefined by the manuals; a sum without its upper lanes relies on 0 (CUDA samples' reduction).
        left = ~active & ((np.int64(1) << (lanes - 1)) - 1 << 1 | 1)
        while left != 0:
            held[lowest(left)] = 0
            left &= left - 1
    left = active
    if which == SCATTER_LANES:
        # d may be the row of their numbers: who writes is found for one lane after the other.
        for lane in range(lanes):
            held[lane] |= (peek32(place + c + 4 * lane) & lanes - 1) << 32
        while left != 0:
            to = lowest(left)
            left &= left - 1
            word, sent = np.int64(0), active
            while sent != 0:
                lane = lowest(sent)
                sent &= sent - 1
                word = held[lane] & _WORD if held[lane] >> 32 == to else word
            poke32(place + d + 4 * to, word)
        return
    if which == REDUCE:
        total = held[first]
        left &= left - 1
        while left != 0:
            total = _reduced(y, total, held[lowest(left)])
            left &= left - 1
        left = active
    while left != 0:
        lane = lowest(left)
        left &= left - 1
        at = place + 4 * lane
        if which == SHUFFLE:
            source, inside = _source_lane(y, lane, peek32(at + b), peek32(at + c))
            poke32(at + d, held[source] if inside else held[lane])
            result_mask |= np.int64(inside) << lane
        elif which == PERMUTE_LANES:
            source = peek32(at + c)
            if source < lanes and m >> source & 1:
                poke32(at + d, held[source])
            elif x & 1:
                poke32(at + d, 0)
        elif which == REDUCE:
            poke32(at + d, total)
        else:
            equal, others = np.int64(0), active
            while others != 0:
                other = lowest(others)
                others &= others - 1
                equal |= np.int64(held[other] == held[lane]) << other
            if which == MATCH_ANY:
                poke32(at + d, equal)
            else:
                poke32(at + d, active if equal == active else 0)
                result_mask |= np.int64(equal == active) << lane
    if which in (SHUFFLE, MATCH_ALL):
        masks[e] = masks[e] & ~active | result_mask
