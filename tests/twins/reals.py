"""Binary floating-point numbers as exact rational ones that are rounded once: slow, and plain enough to be believed."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

NEAREST, DOWN, UP, ZERO = range(4)


class Format(NamedTuple):
    """A format of IEEE 754: how many bits it has, and how many of them are the fraction."""

    bits: int
    fraction: int

    @property
    def sign(self) -> int:
        return 1 << (self.bits - 1)

    @property
    def infinity(self) -> int:
        return self.sign - (1 << self.fraction)

    @property
    def not_a_number(self) -> int:
        return self.infinity | 1 << (self.fraction - 1)

    @property
    def lowest(self) -> int:
        """The exponent of two of the smallest normal number."""
        return 2 - (1 << (self.bits - self.fraction - 2))

    def exponent(self, bits: int) -> int:
        """The exponent field, as it is stored."""
        return (bits & ~self.sign) >> self.fraction


F16, BF16, F32, F64 = Format(16, 10), Format(16, 7), Format(32, 23), Format(64, 52)


class Real(NamedTuple):
    """A sign and a size: exact, infinite, or not a number."""

    negative: bool
    size: Fraction | float

    @property
    def is_nan(self) -> bool:
        return isinstance(self.size, float) and math.isnan(self.size)

    @property
    def is_infinite(self) -> bool:
        return isinstance(self.size, float) and math.isinf(self.size)

    @property
    def value(self) -> Fraction | float:
        return -self.size if self.negative else self.size

    @property
    def order(self) -> tuple[Fraction | float, bool]:
        """What numbers are sorted by: -0 lies below +0."""
        return self.value, not self.negative


NOT_A_NUMBER = Real(False, math.nan)
ONE = Real(False, Fraction(1))


def power(exponent: int) -> Fraction:
    """Two to this exponent."""
    return Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent)


def whole(number: int) -> Real:
    """An integer."""
    return Real(number < 0, Fraction(abs(number)))


def decoded(bits: int, form: Format) -> Real:
    """What these bits stand for."""
    negative, exponent = bool(bits & form.sign), form.exponent(bits)
    fraction = bits & ((1 << form.fraction) - 1)
    if exponent == form.infinity >> form.fraction:
        return Real(negative, math.nan if fraction else math.inf)
    if exponent:
        fraction |= 1 << form.fraction
    return Real(negative, fraction * power(max(exponent, 1) - 1 + form.lowest - form.fraction))


def rounded_size(size: Fraction, negative: bool, rounding: int) -> int:
    """A size as a whole number, rounded by one of NEAREST (ties to even), DOWN, UP and ZERO."""
    floor, rest = divmod(size, 1)
    if rounding == NEAREST:
        return floor + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and floor % 2 == 1))
    return floor + (rest > 0 and rounding == (DOWN if negative else UP))


def encoded(real: Real, form: Format, rounding: int = NEAREST) -> int:
    """The bits of a number, rounded once; beyond the largest number infinity, or that, as the rounding says."""
    sign = form.sign if real.negative else 0
    if isinstance(real.size, float):
        return form.not_a_number if real.is_nan else sign | form.infinity
    if real.size == 0:
        return sign
    exponent = real.size.numerator.bit_length() - real.size.denominator.bit_length()
    exponent = max(exponent - (real.size < power(exponent)), form.lowest)
    steps = rounded_size(real.size / power(exponent - form.fraction), real.negative, rounding)
    bits = ((exponent - form.lowest) << form.fraction) + steps
    if bits >= form.infinity:
        kept = rounding not in (NEAREST, DOWN if real.negative else UP)
        bits = form.infinity - kept
    return sign | bits


def plus(a: Real, b: Real, rounding: int = NEAREST) -> Real:
    """The exact sum; a zero of two signs is positive, or negative where results are rounded down."""
    if a.is_nan or b.is_nan or (a.is_infinite and b.is_infinite and a.negative != b.negative):
        return NOT_A_NUMBER
    if a.is_infinite or b.is_infinite:
        return a if a.is_infinite else b
    total = a.value + b.value
    if total == 0:
        return Real(a.negative if a.negative == b.negative else rounding == DOWN, Fraction(0))
    return Real(total < 0, abs(total))


def times(a: Real, b: Real, rounding: int = NEAREST) -> Real:
    """The exact product."""
    if a.is_nan or b.is_nan or {a.size, b.size} == {Fraction(0), math.inf}:
        return NOT_A_NUMBER
    infinite = a.is_infinite or b.is_infinite
    return Real(a.negative != b.negative, math.inf if infinite else a.size * b.size)


def fused(a: Real, b: Real, c: Real, rounding: int = NEAREST) -> Real:
    """The exact a * b + c."""
    return plus(times(a, b), c, rounding)


def smaller(a: Real, b: Real, rounding: int = NEAREST) -> Real:
    """The smaller one, or the number where one is not a number."""
    if a.is_nan or b.is_nan:
        return b if a.is_nan else a
    return min(a, b, key=lambda real: real.order)


def larger(a: Real, b: Real, rounding: int = NEAREST) -> Real:
    """The larger one, or the number where one is not a number."""
    if a.is_nan or b.is_nan:
        return b if a.is_nan else a
    return max(a, b, key=lambda real: real.order)


def clamped(real: Real) -> Real:
    """Into [0, 1]; what is not a number becomes 0."""
    return Real(False, Fraction(0)) if real.is_nan or real.negative else smaller(real, ONE)
