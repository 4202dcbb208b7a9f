"""Numbers of the formats that GPUs convert between, rounded as their instructions say, one lane at a time."""

from __future__ import annotations

import math

import numpy as np

from memsim.compile import inner
from tracegen.execution import operations as o
from tracegen.execution.words import (
    bits_of_double,
    bits_of_float,
    double_of,
    float_of,
    leading,
)

NEAREST, DOWN, UP, ZERO = o.TO_NEAREST, o.TO_DOWN, o.TO_UP, o.TO_ZERO
U8, S8, U16, S16, U32, S32, U64, S64, F16, BFLOAT16, F32, F64, E4M3, E5M2, E4M3FNUZ, E5M2FNUZ = range(16)  # fmt: skip
"""As in operations, whose names numba cannot see through a module."""
_LEAST = -(2**63)
_SIGN = np.int64(_LEAST)


@inner
def rounded(value, mode):
    """A whole number. mode : NEAREST (ties to even), DOWN, UP or ZERO"""
    if mode == DOWN:
        return float(np.floor(value))
    if mode == UP:
        return float(np.ceil(value))
    if mode == ZERO:
        return float(np.trunc(value))
    return float(np.rint(value))


@inner
def to_format(value, fraction, least, most, mode):
    """The bits of a number in a format with `fraction` bits behind the point and exponents `least` to `most`, without the sign bit.

    Rounding happens once, on the bits of the double. A number that is none has the highest fraction bit set.
    """
    bits = bits_of_double(value)
    negative = bits < 0
    exponent = (bits >> 52 & 2047) - 1023
    inside = bits & ((1 << 52) - 1)
    infinite = (most - least + 2) << fraction
    if exponent == 1024:
        return infinite | (1 << fraction) - 1 if inside else infinite
    if exponent == -1023:  # doubles too small for every other format
        exponent, inside = -1022, inside
    else:
        inside |= 1 << 52
    drop = 52 - fraction
    if exponent < least:
        drop += least - exponent
        exponent = least - 1
    if drop > 62:
        drop = 62
    kept, rest = inside >> drop, inside & ((1 << drop) - 1)
    half = 1 << drop - 1
    if mode == NEAREST:
        up = rest > half or (rest == half and kept & 1 == 1)
    else:
        up = rest > 0 and ((mode == UP and not negative) or (mode == DOWN and negative))
    kept += up
    # A carry makes the largest subnormal number the least normal one.
    result = kept + (max(exponent - least, 0) << fraction)
    if result >= infinite:
        towards = mode == NEAREST or (mode == UP and not negative) or (mode == DOWN and negative)
        return infinite if towards else infinite - 1
    return result


@inner
def half_bits(value, mode):
    return to_format(value, 10, -14, 15, mode) | (bits_of_double(value) >> 63 & 1) << 15


@inner
def bfloat_bits(value, mode):
    return to_format(value, 7, -126, 127, mode) | (bits_of_double(value) >> 63 & 1) << 15


@inner
def float_bits(value, mode):
    if mode == NEAREST:
        return bits_of_float(np.float32(value))
    return to_format(value, 23, -126, 127, mode) | (bits_of_double(value) >> 63 & 1) << 31


@inner
def of_half(bits):
    exponent, inside = bits >> 10 & 31, bits & 1023
    if exponent == 31:
        value = math.nan if inside else math.inf
    elif exponent == 0:
        value = inside * 2.0**-24
    else:
        value = double_of((exponent - 15 + 1023) << 52 | inside << 42)
    return -value if bits & 0x8000 else value


@inner
def of_bfloat(bits):
    return np.float64(float_of(bits << 16))


@inner
def of_eight(bits, kind):
    """The number of a float of 8 bits. FNUZ: a bias greater by one, no infinity, and 128 is not a number."""
    fraction = 2 if kind & 1 else 3
    size, inside = bits & 127, bits & (1 << fraction) - 1
    exponent = size >> fraction
    unit = 1 - (1 << 6 - fraction) - fraction + (kind < E4M3FNUZ)
    if exponent:
        inside, unit = inside + (1 << fraction), unit + exponent - 1
    value = inside * double_of(unit + 1023 << 52)
    if kind >= E4M3FNUZ:
        if bits == 128:
            value = math.nan
    elif kind == E4M3:
        if size == 127:
            value = math.nan
    elif size >= 124:
        value = math.inf if size == 124 else math.nan
    return -value if bits & 128 else value


@inner
def eight_bits(value, kind, mode, saturates):
    """The code of the nearest float of 8 bits."""
    fraction, is_fnuz = 2 if kind & 1 else 3, kind >= E4M3FNUZ
    bias = (1 << 6 - fraction) - (not is_fnuz)
    most = 7 if kind == E4M3FNUZ else 8 if kind == E4M3 else 15
    largest = 127 if is_fnuz else 126 if kind == E4M3 else 123
    beyond = 128 if is_fnuz else largest + 1
    if math.isnan(value):
        return 128 if is_fnuz else 127
    code = to_format(value, fraction, 1 - bias, most, mode)
    if code > largest:
        away = UP if value > 0 else DOWN
        is_over = mode in (NEAREST, away) or math.isinf(value)
        code = beyond if is_over and not saturates else largest
    if code == 128 or (code == 0 and is_fnuz):
        return code
    return code | (bits_of_double(value) >> 63 & 1) << 7


@inner
def of_integer(value, is_unsigned):
    """A double that rounds as the integer does to formats of at most 51 bits: the lowest bit says whether some were lost."""
    magnitude = np.uint64(value)
    negative = not is_unsigned and value < 0
    if negative:
        magnitude = np.uint64(-value)
    zeros = leading(np.int64(magnitude))
    if zeros < 11:
        lost = np.int64(11 - zeros)
        kept = np.int64(magnitude >> np.uint64(lost))
        sticky = magnitude != np.uint64(kept) << np.uint64(lost)
        made = np.float64(kept | sticky) * 2.0**lost
    else:
        made = np.float64(np.int64(magnitude))
    return -made if negative else made


@inner
def exact_double(value, is_unsigned, mode):
    """A double from an integer of 64 bits, rounded once."""
    magnitude = np.uint64(value)
    negative = not is_unsigned and value < 0
    if negative:
        magnitude = np.uint64(-value)
    zeros = leading(np.int64(magnitude))
    if zeros >= 11:
        made = np.float64(np.int64(magnitude))
        return -made if negative else made
    lost = 11 - zeros
    kept, rest = (
        np.int64(magnitude >> np.uint64(lost)),
        np.int64(magnitude & np.uint64((1 << lost) - 1)),
    )
    half = 1 << lost - 1
    if mode == NEAREST:
        kept += rest > half or (rest == half and kept & 1 == 1)
    else:
        kept += rest > 0 and ((mode == UP and not negative) or (mode == DOWN and negative))
    made = np.float64(kept) * 2.0**lost
    return -made if negative else made


@inner
def to_integer(value, kind):
    """The nearest integer of a kind to a whole number; 0 of what is no number."""
    if math.isnan(value):
        return 0
    bits = 64 if kind >= U64 else 32 if kind >= U32 else 16 if kind >= U16 else 8
    if kind & 1 == 0:
        if value <= 0:
            return 0
        if value >= 2.0**bits:
            return -1 if bits == 64 else (1 << bits) - 1
        return np.int64(np.uint64(value)) if value >= 2.0**63 else np.int64(value)
    if value >= 2.0 ** (bits - 1):
        return ~_SIGN if bits == 64 else (1 << bits - 1) - 1
    if value <= -(2.0 ** (bits - 1)):
        return _SIGN if bits == 64 else -(1 << bits - 1)
    return np.int64(value)


@inner
def converted(low, high, x):
    """The bits of a converted number, 64 of them. low, high : rows of the source;  x : see CONVERT"""
    kind, to, mode = x & 15, x >> 4 & 15, x >> 8 & 3
    part = x >> o_SOURCE_PART & 3
    if kind < F16:
        if kind <= S8:
            value = low >> 8 * part & 255
            value = value - 256 if kind == S8 and value > 127 else value
        elif kind <= S16:
            value = low >> 16 * part & 65535
            value = value - 65536 if kind == S16 and value > 32767 else value
        elif kind <= S32:
            value = low - (1 << 32) if kind == S32 and low >= 1 << 31 else low
        else:
            value = high << 32 | low
        if x & o_ABSOLUTE:
            value = abs(value)
        if x & o_NEGATE:
            value = -value
        if to < F16:
            if x & o_SATURATE and kind < U64:
                return to_integer(np.float64(value), to)
            return value
        if to == F64:
            return bits_of_double(exact_double(value, kind == U64, mode))
        number = of_integer(value, kind == U64)
    else:
        if kind == F16:
            number = of_half(low >> 16 * part & 65535)
        elif kind == BFLOAT16:
            number = of_bfloat(low >> 16 * part & 65535)
        elif kind == F32:
            number = np.float64(float_of(low))
            if x & o_FLUSH and abs(number) < 2.0**-126:
                number = math.copysign(0.0, number)
        elif kind == F64:
            number = double_of(high << 32 | low)
        else:
            number = of_eight(low >> 8 * part & 255, kind)
        if x & o_ABSOLUTE:
            number = abs(number)
        if x & o_NEGATE:
            number = -number
        if to < F16:
            return to_integer(rounded(number, mode), to)
        if x & o_WHOLE:
            number = rounded(number, mode)
        if x & o_SATURATE and to < E4M3:
            number = min(number, 1.0) if number > 0 else 0.0
    if to == F16:
        return half_bits(number, mode)
    if to == BFLOAT16:
        return bfloat_bits(number, mode)
    if to == F32:
        bits = float_bits(number, mode)
        if x & o_FLUSH and bits & 0x7F800000 == 0:
            bits &= 0x80000000
        return bits
    if to >= E4M3:
        return eight_bits(number, to, mode, x & o_SATURATE != 0)
    return bits_of_double(number)


o_SOURCE_PART, o_ABSOLUTE, o_NEGATE = o.SOURCE_PART, o.ABSOLUTE_SOURCE, o.NEGATE_SOURCE
o_FLUSH, o_WHOLE, o_SATURATE = o.FLUSH_SOURCE, o.WHOLE_NUMBER, o.SATURATE_TO
