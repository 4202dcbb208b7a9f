"""What each micro-operation does: a few lines of NumPy on arrays of Python's integers, one a lane.

These lines are the specification of `tracegen.execution.operations`; `tests.twins.execution` drives them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from tests.twins import reals
from tests.twins.reals import Format, Real, decoded, encoded, rounded_size
from tracegen.execution import operations as o

Lanes = Any
"""(lanes,) array of Python's integers, or of booleans."""
DO: dict[str, Callable[[Step], None]] = {}


class Step:
    """One micro-operation of one sub-group: its operands, and where its results go.

    who : the lanes that take part: active, with the guard set
    """

    def __init__(self, warp: Any, fields: o.MicroOperation, active: Lanes) -> None:
        self.warp, self.fields, self.active = warp, fields, active
        self.x, self.y = fields.x, fields.y
        self.lanes = len(active)
        self.who = active & warp.mask(fields.guard)

    def u(self, field: str, part: int = 0) -> Lanes:
        """A row as unsigned numbers."""
        return self.warp.rows[getattr(self.fields, field) + part].astype(object)

    def i(self, field: str) -> Lanes:
        return signed(self.u(field), 32)

    def u64(self, field: str) -> Lanes:
        return self.u(field) | self.u(field, 1) << 32

    def i64(self, field: str) -> Lanes:
        return signed(self.u64(field), 64)

    def m(self, field: str = "m") -> Lanes:
        """A source mask."""
        return self.warp.mask(getattr(self.fields, field))

    def carry(self, field: str = "m") -> Lanes:
        return self.m(field).astype(int).astype(object)

    def put(self, values: Lanes, rows: int = 1, field: str = "d", who: Lanes = None) -> None:
        """Writes one row or more, the low bits first, for `who` or else the lanes that take part."""
        values = np.broadcast_to(np.asarray(values, object), (self.lanes,))
        who = self.who if who is None else who
        for part in range(rows):
            words = (values >> 32 * part & 0xFFFFFFFF).astype(np.uint32)
            self.warp.rows[getattr(self.fields, field) + part][who] = words[who]

    def put_mask(self, values: Lanes, field: str = "d", who: Lanes = None) -> None:
        values = np.broadcast_to(np.asarray(values, bool), (self.lanes,))
        who = self.who if who is None else who
        self.warp.masks[getattr(self.fields, field)][who] = values[who]

    @property
    def everyone(self) -> Lanes:
        return np.ones(self.lanes, bool)


def operation(*names: str) -> Callable[[Callable[[Step], None]], Callable[[Step], None]]:
    """Registers what does operations of these names."""

    def register(function: Callable[[Step], None]) -> Callable[[Step], None]:
        DO.update((name, function) for name in names)
        return function

    return register


def gives(rows: int = 1, **results: Callable[[Step], Lanes]) -> None:
    """Registers operations whose only result is d."""
    for name, value in results.items():
        DO[name] = lambda s, value=value: s.put(value(s), rows)  # type: ignore[misc]


def signed(values: Lanes, bits: int) -> Lanes:
    """The numbers that these low bits are in two's complement."""
    sign = 1 << (bits - 1)
    return ((values & (2 * sign - 1)) ^ sign) - sign


def each(function: Callable[..., Any], *values: Lanes) -> Lanes:
    """A function of Python's numbers in each lane."""
    out = np.empty(len(values[0]), object)
    out[:] = [function(*lane) for lane in zip(*values, strict=True)]
    return out


def as_bits(lanes: Lanes) -> int:
    """Lanes as the bits of a number."""
    return sum(1 << lane for lane, on in enumerate(lanes) if on)


def sign_of(s: Step, field: str) -> int:
    """-1 where x negates a field, else 1."""
    return -1 if s.x & 1 << "abc".index(field) else 1


def distance(s: Step, field: str, width: int) -> Lanes:
    """A distance: modulo the width with WRAP, else no more than it."""
    return s.u(field) % width if s.x & o.WRAP else np.minimum(s.u(field), width)


# --- moves and integers -----------------------------------------------------------------------------
gives(
    MOVE=lambda s: s.u("a"),
    SELECT=lambda s: np.where(
        s.m(), signs(s.x, "a", s.u("a"), reals.F32), signs(s.x, "b", s.u("b"), reals.F32)
    ),
    ADD3=lambda s: sum(sign_of(s, field) * s.u(field) for field in "abc"),
    MULTIPLY_ADD=lambda s: sign_of(s, "a") * s.u("a") * s.u("b") + sign_of(s, "c") * s.u("c"),
    MULTIPLY_HIGH_U=lambda s: s.u("a") * s.u("b") >> 32,
    MULTIPLY_HIGH_S=lambda s: s.i("a") * s.i("b") >> 32,
    MULTIPLY_24=lambda s: of_24(s, "a") * of_24(s, "b") + s.u("c"),
    DOT4=lambda s: (
        s.u("c") + sum(byte(s, "a", k, s.x & 1) * byte(s, "b", k, s.x & 2) for k in range(4))
    ),
    LOGIC3=lambda s: lookup(s.y, s.u("a"), s.u("b"), s.u("c")),
    SHIFT_LEFT=lambda s: s.u("a") << distance(s, "b", 32),
    SHIFT_RIGHT_U=lambda s: s.u("a") >> distance(s, "b", 32),
    SHIFT_RIGHT_S=lambda s: s.i("a") >> distance(s, "b", 32),
    FUNNEL_LEFT=lambda s: (s.u("c") << 32 | s.u("a")) << distance(s, "b", 32) >> 32,
    FUNNEL_RIGHT=lambda s: (s.u("c") << 32 | s.u("a")) >> distance(s, "b", 32),
    BIT_FIELD_U=lambda s: s.u("a") >> s.u("b") % 32 & (1 << s.u("c") % 32) - 1,
    BIT_FIELD_S=lambda s: lowest_signed(s.i("a") >> s.u("b") % 32, s.u("c") % 32),
    BIT_MASK=lambda s: ((1 << distance(s, "b", 32)) - 1) << distance(s, "a", 32),
    SIGN_EXTEND_AT=lambda s: lowest_signed(s.u("a"), distance(s, "b", 32)),
    PERMUTE_BYTES=lambda s: each(permuted, s.u("b") << 32 | s.u("a"), s.u("c")),
    MINIMUM_S=lambda s: np.minimum(s.i("a"), s.i("b")),
    MAXIMUM_S=lambda s: np.maximum(s.i("a"), s.i("b")),
    MINIMUM_U=lambda s: np.minimum(s.u("a"), s.u("b")),
    MAXIMUM_U=lambda s: np.maximum(s.u("a"), s.u("b")),
    ABSOLUTE=lambda s: abs(s.i("a")),
    COUNT_ONES=lambda s: each(int.bit_count, s.u("a")),
    HIGHEST_BIT=lambda s: each(lambda a: highest_bit(a, s.x), s.i("a")),
    LOWEST_BIT=lambda s: each(lambda a: (a & -a).bit_length() - 1, s.u("a")),
    REVERSE_BITS=lambda s: each(lambda a: int(f"{a:032b}"[::-1], 2), s.u("a")),
    SUM_DIFFERENCES=lambda s: s.u("c") + differences(s),
)
gives(
    2,
    MOVE2=lambda s: s.u64("a"),
    ADD64=lambda s: sign_of(s, "a") * s.u64("a") + sign_of(s, "b") * s.u64("b"),
    MULTIPLY64=lambda s: s.u64("a") * s.u64("b"),
    SHIFT_LEFT64=lambda s: s.u64("a") << distance(s, "b", 64),
    SHIFT_RIGHT64_U=lambda s: s.u64("a") >> distance(s, "b", 64),
    SHIFT_RIGHT64_S=lambda s: s.i64("a") >> distance(s, "b", 64),
    MINIMUM64_S=lambda s: np.minimum(s.i64("a"), s.i64("b")),
    MAXIMUM64_S=lambda s: np.maximum(s.i64("a"), s.i64("b")),
    MINIMUM64_U=lambda s: np.minimum(s.u64("a"), s.u64("b")),
    MAXIMUM64_U=lambda s: np.maximum(s.u64("a"), s.u64("b")),
)


def of_24(s: Step, field: str) -> Lanes:
    return signed(s.u(field), 24) if s.x & 1 else s.u(field) & 0xFFFFFF


def byte(s: Step, field: str, number: int, is_signed: int) -> Lanes:
    value = s.u(field) >> 8 * number & 255
    return signed(value, 8) if is_signed else value


def lookup(table: int, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """Bit by bit what the table says; of 32 bits."""
    terms = [
        (a if k & 4 else ~a) & (b if k & 2 else ~b) & (c if k & 1 else ~c)
        for k in range(8)
        if table >> k & 1
    ]
    return sum(terms, np.zeros_like(a))  # no bit is in two terms


def lowest_signed(values: Lanes, count: Lanes) -> Lanes:
    """The lowest bits with their sign; of none 0."""
    return each(lambda a, n: signed(a, n) if n else 0, values, count)


def permuted(both: int, choice: int) -> int:
    chosen = [choice >> 4 * k & 15 for k in range(4)]
    found = [both >> 8 * (which & 7) & 255 for which in chosen]
    signs_or_bytes = [
        255 * (one >> 7) if which & 8 else one for one, which in zip(found, chosen, strict=True)
    ]
    return int.from_bytes(signs_or_bytes, "little")


def highest_bit(a: int, x: int) -> int:
    value = (a if a >= 0 else ~a) if x & 2 else a & 0xFFFFFFFF
    return -1 if value == 0 else 32 - value.bit_length() if x & 1 else value.bit_length() - 1


def differences(s: Step) -> Lanes:
    """|a - b| of the words, or summed over their bytes."""
    if s.x & 2:
        return sum(abs(byte(s, "a", k, ~s.x & 1) - byte(s, "b", k, ~s.x & 1)) for k in range(4))
    return abs(s.u("a") - s.u("b")) if s.x & 1 else abs(s.i("a") - s.i("b"))


@operation("ADD_CARRY")
def add_carry(s: Step) -> None:
    total = s.carry("m") + s.carry("n")
    for k, field in enumerate("abc"):
        total = total + ((~s.u(field) & 0xFFFFFFFF) + 1 if s.x >> k & 1 else s.u(field))
    s.put(total)
    s.put_mask(total >> 32 != 0, "e")
    s.put_mask(total >> 32 > 1, "y")


@operation("BORROW")
def borrow(s: Step) -> None:
    rest = s.u("a") - s.u("b") - s.carry()
    s.put(rest)
    s.put_mask(rest < 0, "e")


@operation("MULTIPLY_WIDE_U", "MULTIPLY_WIDE_S")
def multiply_wide(s: Step) -> None:
    is_signed = s.fields.op == o.OPERATIONS["MULTIPLY_WIDE_S"].number
    product = s.i("a") * s.i("b") if is_signed else s.u("a") * s.u("b")
    total = (product & (1 << 64) - 1) + s.u64("c") + s.carry()
    s.put(total, 2)
    s.put_mask(total >> 64 != 0, "e")


# --- comparisons and masks --------------------------------------------------------------------------
def conditions(s: Step, **holds: Lanes) -> None:
    """Writes each condition combined with mask m, which may be one of those written."""
    m = s.m().copy()
    for field, value in holds.items():
        value = value.astype(bool)
        combined = {o.COMBINE_AND: value & m, o.COMBINE_OR: value | m}
        s.put_mask(combined.get(s.x & 3 << 20, value ^ m), field)


def relation(x: int, a: Any, b: Any) -> bool:
    """Whether one of the relations that x names holds."""
    named = o.LESS if a < b else o.EQUAL if a == b else o.GREATER if a > b else o.UNORDERED
    return bool(x & named)


def comparison(name: str, operand: Callable[[Step, str], Lanes]) -> None:
    def do(s: Step) -> None:
        holds = each(lambda a, b: relation(s.x, a, b), operand(s, "a"), operand(s, "b"))
        conditions(s, d=holds, e=~holds.astype(bool))

    DO[name] = do


comparison("COMPARE_S", Step.i)
comparison("COMPARE_U", Step.u)
comparison("COMPARE64_S", Step.i64)
comparison("COMPARE64_U", Step.u64)
comparison("COMPARE_F32", lambda s, field: values_of(s, field, reals.F32, s.x >> 8))
comparison("COMPARE_F64", lambda s, field: values_of(s, field, reals.F64, s.x >> 8))


@operation("COMPARE_F16")
def compare_f16(s: Step) -> None:
    form = half_format(s.x)
    x = s.x >> 8 & 0xFB | (s.x >> 24 & 3) << o.HALVES_A | (s.x >> 26 & 3) << o.HALVES_B
    sides = [[halves(s, side, form, x, half) for side in "ab"] for half in (0, 1)]
    low, high = (each(lambda p, q: relation(s.x, p.value, q.value), *both) for both in sides)
    conditions(s, d=low, e=high)


def float_class(bits: int, form: Format) -> int:
    """The number of a class as AMD counts them."""
    real, fraction = decoded(bits, form), bits & ((1 << form.fraction) - 1)
    if real.is_nan:
        return 1 if fraction >> (form.fraction - 1) else 0
    tiny = form.exponent(bits) == 0
    place = 0 if real.is_infinite else 3 if real.size == 0 else 2 if tiny else 1
    return 2 + place if real.negative else 9 - place


@operation("CLASS_F32", "CLASS_F64")
def class_of(s: Step) -> None:
    is_double = s.fields.op == o.OPERATIONS["CLASS_F64"].number
    bits, form = (s.u64("a"), reals.F64) if is_double else (s.u("a"), reals.F32)
    s.put_mask(each(lambda a, b: b >> float_class(a, form) & 1, bits, s.u("b")))


@operation("MASK_LOGIC3")
def mask_logic3(s: Step) -> None:
    k = 4 * s.carry("m") + 2 * s.carry("n") + s.carry("y")
    s.put_mask(s.x >> k & 1)


@operation("MASK_TO_ROWS")
def mask_to_rows(s: Step) -> None:
    s.put(as_bits(s.m() & s.who if s.x & 1 else s.m()), 1 if s.x & 2 else 2, who=s.active)


@operation("ROWS_TO_MASK")
def rows_to_mask(s: Step) -> None:
    s.put_mask(
        [s.u("a", lane // 32)[0] >> lane % 32 & 1 for lane in range(s.lanes)], who=s.everyone
    )


@operation("VOTE")
def vote(s: Step) -> None:
    said = s.m()[s.who]
    s.put_mask((said.any(), said.all(), said.all() or not said.any())[s.y])


@operation("VOTE_WHOLE")
def vote_whole(s: Step) -> None:
    s.put_mask(s.m().any(), who=s.everyone)


# --- floating-point numbers -------------------------------------------------------------------------
def signs(x: int, field: str, bits: Lanes, form: Format) -> Lanes:
    """Numbers whose sign is dropped, then changed, where x says so."""
    place = "abc".index(field)
    if x & o.ABSOLUTE_A << place:
        bits = bits & ~form.sign
    return bits ^ form.sign if x & o.NEGATE_A << place else bits


def flushed(bits: int, form: Format, x: int) -> int:
    """A subnormal number becomes zero of its sign where x says so."""
    return bits & form.sign if x & o.FLUSH and form.exponent(bits) == 0 else bits


def operand(s: Step, field: str, form: Format, x: int) -> Lanes:
    """A source as exact numbers."""
    bits = s.u64(field) if form.bits == 64 else s.u(field)
    bits = signs(x, field, each(lambda one: flushed(one, form, x), bits), form)
    return each(lambda one: decoded(one, form), bits)


def values_of(s: Step, field: str, form: Format, x: int) -> Lanes:
    return each(lambda real: real.value, operand(s, field, form, x))


def half_format(x: int) -> Format:
    return reals.BF16 if x & o.BF16 else reals.F16


def halves(s: Step, field: str, form: Format, x: int, high: int) -> Lanes:
    """Of packed numbers, what the low or the high result is computed from."""
    place = "abc".index(field)
    choice = x >> (o.HALVES_A, o.HALVES_B, o.HALVES_C)[place] & 3
    if choice == 3:
        form, bits = reals.F32, s.u(field)
    else:
        bits = s.u(field) >> 16 * (high, 0, 1)[choice] & 0xFFFF
    bits = signs(x, field, each(lambda one: flushed(one, form, x), bits), form)
    if high and x & o.NEGATE_HIGH_A << place:
        bits = bits ^ form.sign
    return each(lambda one: decoded(one, form), bits)


def result(real: Real, form: Format, x: int) -> int:
    rounding = (x & o.ROUNDING) >> 8
    return flushed(
        encoded(reals.clamped(real) if x & o.SATURATE else real, form, rounding), form, x
    )


def arithmetic(name: str, fields: str, function: Callable[..., Real]) -> None:
    """Registers an operation on floats, doubles and pairs of halves."""

    def compute(s: Step, form: Format, sources: list[Lanes]) -> Lanes:
        rounding = (s.x & o.ROUNDING) >> 8
        return each(lambda *one: result(function(*one, rounding), form, s.x), *sources)

    def floats(s: Step) -> None:
        s.put(compute(s, reals.F32, [operand(s, field, reals.F32, s.x) for field in fields]))

    def doubles(s: Step) -> None:
        s.put(compute(s, reals.F64, [operand(s, field, reals.F64, s.x) for field in fields]), 2)

    def packed(s: Step) -> None:
        form = half_format(s.x)
        low, high = (
            compute(s, form, [halves(s, field, form, s.x, half) for field in fields])
            for half in (0, 1)
        )
        s.put(low | high << 16)

    DO.update({f"{name}_F32": floats, f"{name}_F64": doubles, f"{name}_F16": packed})


arithmetic("ADD", "ab", reals.plus)
arithmetic("MULTIPLY", "ab", reals.times)
arithmetic("FUSED", "abc", reals.fused)
arithmetic("MINIMUM", "ab", reals.smaller)
arithmetic("MAXIMUM", "ab", reals.larger)

SPECIALS: dict[int, Callable[[Any], Any]] = {
    o.RECIPROCAL: lambda a: 1 / a, o.ROOT: np.sqrt, o.RECIPROCAL_ROOT: lambda a: 1 / np.sqrt(a),
    o.EXP2: np.exp2, o.LOG2: np.log2, o.SINE: np.sin, o.COSINE: np.cos, o.TANH: np.tanh,
}  # fmt: skip


def special(values: Any, s: Step) -> Any:
    """Of doubles; turns are made radians when whole ones are dropped."""
    if s.x & o.TURNS and s.y in (o.SINE, o.COSINE):
        values = 2 * np.pi * np.fmod(values, 1)
    return SPECIALS[s.y](values)


@operation("SPECIAL")
@np.errstate(all="ignore")
def special_f32(s: Step) -> None:
    bits = each(lambda one: flushed(one, reals.F32, s.x), s.u("a"))
    a = signs(s.x, "a", bits, reals.F32).astype(np.uint32).view(np.float32)
    found = special(a.astype(np.float64), s).astype(np.float32).view(np.uint32).astype(object)
    s.put(each(lambda one: result(decoded(one, reals.F32), reals.F32, s.x & ~o.ROUNDING), found))


@operation("SPECIAL_F64")
@np.errstate(all="ignore")
def special_f64(s: Step) -> None:
    a = s.u64("a").astype(np.uint64).view(np.float64)
    s.put(special(a, s).view(np.uint64).astype(object), 2)


@operation("SPECIAL_HIGH")
@np.errstate(all="ignore")
def special_high(s: Step) -> None:
    a = (s.u("a") << 32).astype(np.uint64).view(np.float64)
    s.put(special(a, s).view(np.uint64).astype(object) >> 32)


@operation("FRACTION_F32", "FRACTION_F64")
def fraction(s: Step) -> None:
    double = s.fields.op == o.OPERATIONS["FRACTION_F64"].number
    form = reals.F64 if double else reals.F32
    parts = each(lambda real: fraction_of(real, form)[s.y], operand(s, "a", form, 0))
    s.put(parts, 2 if double and s.y < 2 else 1)


def fraction_of(real: Real, form: Format) -> tuple[int, int, int]:
    """a - floor(a), which stays below 1; mantissa; exponent; of what is not finite: itself, or not a number, and 0."""
    if isinstance(real.size, float):
        return form.not_a_number, encoded(real, form), 0
    exponent = 0
    if real.size:
        exponent = real.size.numerator.bit_length() - real.size.denominator.bit_length()
        exponent += real.size >= reals.power(exponent)
    mantissa = Real(real.negative, real.size / reals.power(exponent))
    rest = Real(False, Fraction(real.value) - math.floor(real.value))
    below_one = encoded(reals.ONE, form) - 1
    return min(encoded(rest, form), below_one), encoded(mantissa, form), exponent


@operation("SCALE_F32", "SCALE_F64")
def scale(s: Step) -> None:
    form, rows = (reals.F64, 2) if "64" in name_of(s) else (reals.F32, 1)
    s.put(each(lambda a, b: encoded(scaled(a, b), form), operand(s, "a", form, 0), s.i("b")), rows)


def scaled(real: Real, exponent: int) -> Real:
    """a * 2^exponent."""
    within = max(-5000, min(5000, exponent))
    return reals.times(real, Real(False, reals.power(within)))


def name_of(s: Step) -> str:
    return list(o.OPERATIONS)[s.fields.op]


@operation("DIVISION_CHECK")
def division_check(s: Step) -> None:
    a, b = s.u("a") >> 23 & 255, s.u("b") >> 23 & 255
    fast = (b > 1) & (b < 253) & (a < 255) & (a > 24) & (abs(a - b) < 125)
    s.put_mask(~fast.astype(bool))


def pre_scaled(bits: tuple[int, int, int], form: Format) -> tuple[int, bool]:
    """v_div_scale: (source, denominator, numerator) -> the source scaled so that a quotient can be refined, and
    whether the quotient must be scaled back."""
    source, low, high = (decoded(one, form) for one in bits)
    exponents = [form.exponent(one) for one in bits]
    step, apart, least = (64, 96, 23) if form.bits == 32 else (128, 768, 53)
    tiny, huge = reals.power(form.lowest), reals.power(-form.lowest)
    if any(isinstance(one.size, float) or one.size == 0 for one in (low, high)):
        return bits[0], False  # v_div_fixup does not look at the quotient
    by, back, ratio = 0, False, high.size / low.size
    if exponents[2] - exponents[1] >= apart:
        by, back = step * (source.value == low.value), True
    elif exponents[1] == 0:
        by = step
    elif low.size > huge and ratio < tiny:
        by, back = -step * (source.value == low.value), True
    elif low.size > huge:
        by = -step
    elif ratio < tiny:
        by, back = step * (source.value == high.value), True
    elif exponents[2] <= least:
        by = step
    return encoded(scaled(source, by), form), back


def quotient(bits: tuple[int, int, int], form: Format) -> int:
    """v_div_fixup: (quotient, denominator, numerator) -> the quotient, right for every special case."""
    found, low, high = (decoded(one, form) for one in bits)
    negative = low.negative != high.negative
    if low.is_nan or high.is_nan or (low.size == high.size and low.size in (0, math.inf)):
        return form.not_a_number
    least = -150 if form.bits == 32 else -1075
    vanishes = form.exponent(bits[2]) - form.exponent(bits[1]) < least
    if low.size == 0 or high.is_infinite or (found.is_nan and not low.is_infinite and high.size):
        return encoded(Real(negative, math.inf), form)
    if low.is_infinite or high.size == 0 or vanishes:
        return encoded(Real(negative, Fraction(0)), form)
    return encoded(Real(negative, found.size), form)


def division(form: Format, suffix: str) -> None:
    rows = form.bits // 32

    def bits(s: Step) -> list[Lanes]:
        return [s.u64(field) if rows == 2 else s.u(field) for field in "abc"]

    def scale_first(s: Step) -> None:
        found = each(lambda *one: pre_scaled(one, form), *bits(s))
        s.put(each(lambda one: one[0], found), rows)
        s.put_mask(each(lambda one: one[1], found), "e")

    def step(s: Step) -> None:
        by, bias = (64, 127) if rows == 1 else (128, 1023)

        def one(a: int, b: int, c: int, m: bool) -> int:
            total = reals.fused(*(decoded(v, form) for v in (a, b, c)))
            way = by if form.exponent(c) > bias else -by
            return encoded(scaled(total, way) if m else total, form)

        s.put(each(one, *bits(s), s.m()), rows)

    DO[f"DIVISION_SCALE_{suffix}"] = scale_first
    DO[f"DIVISION_STEP_{suffix}"] = step
    DO[f"DIVISION_FIX_{suffix}"] = lambda s: s.put(
        each(lambda *one: quotient(one, form), *bits(s)), rows
    )


def eight(code: int, fraction: int, bias: int) -> Real:
    exponent, inside = code % 128 >> fraction, code % (1 << fraction)
    inside += (1 << fraction) * (exponent > 0)
    return Real(code >= 128, inside * reals.power(max(exponent, 1) - bias - fraction))


def nearest_eight(real: Real, kind: int, rounding: int, saturates: bool) -> int:
    """The code of a float of 8 bits: of the numbers below and above the one that is nearer, or is even, or lies where rounding goes."""
    none = next(code for code, one in EIGHTS[kind].items() if one.is_nan and code >= 127)
    none = 127 if kind in (o.E4M3, o.E5M2) else none
    if real.is_nan:
        return none
    finite = [code for code in range(128) if not isinstance(EIGHTS[kind][code].size, float)]
    sizes = [EIGHTS[kind][code].size for code in finite]
    beyond = 2 * sizes[-1] - sizes[-2]  # the next one, if there were more
    if real.size >= beyond:
        away = reals.DOWN if real.negative else reals.UP
        code = finite[-1] + (real.is_infinite or rounding in (reals.NEAREST, away))
    else:
        below = max(k for k, one in enumerate(sizes) if one <= real.size)
        part = (real.size - sizes[below]) / ([*sizes, beyond][below + 1] - sizes[below])
        odd = below % 2
        code = below - odd + rounded_size(part + odd, real.negative, rounding)
    if code > finite[-1]:
        code = finite[-1] if saturates else {o.E4M3: 127, o.E5M2: 124}.get(kind, none)
    if code == 128 or (code == 0 and kind in (o.E4M3FNUZ, o.E5M2FNUZ)):
        return code
    return code + 128 * real.negative


division(reals.F32, "F32")
division(reals.F64, "F64")

FORMATS = {o.F16: reals.F16, o.BFLOAT16: reals.BF16, o.F32: reals.F32, o.F64: reals.F64}
EIGHTS = {
    kind: {
        code: reals.NOT_A_NUMBER if code in none else eight(code, fraction, bias)
        for code in range(256)
    }
    for kind, fraction, bias, none in (
        (o.E4M3, 3, 7, (127, 255)), (o.E4M3FNUZ, 3, 8, (128,)), (o.E5M2FNUZ, 2, 16, (128,)),
    )
} | {o.E5M2: {code: reals.decoded(code << 8, reals.F16) for code in range(256)}}  # fmt: skip
"""What each code of a float of 8 bits is."""
WIDTHS = {o.U8: 8, o.S8: 8, o.U16: 16, o.S16: 16, o.U32: 32, o.S32: 32, o.U64: 64, o.S64: 64}
ROUNDINGS = {o.TO_NEAREST: reals.NEAREST, o.TO_DOWN: reals.DOWN, o.TO_UP: reals.UP, o.TO_ZERO: reals.ZERO}  # fmt: skip


@operation("CONVERT")
def convert(s: Step) -> None:
    source, target = s.x & 15, s.x >> 4 & 15
    form = FORMATS.get(source)
    width = form.bits if form else WIDTHS.get(source, 8)
    bits = s.u64("a") >> (s.x >> o.SOURCE_PART & 3) * width * (width < 32) & (1 << width) - 1
    target_width = FORMATS[target].bits if target in FORMATS else WIDTHS.get(target, 8)
    s.put(each(lambda one: converted(one, s.x), bits), 2 if target_width == 64 else 1)


def converted(bits: int, x: int) -> int:
    """The bits of one number of another kind; above those of 8 and 16 bits there are zeros."""
    source, target, rounding = x & 15, x >> 4 & 15, ROUNDINGS[x >> 8 & 3]
    flush = o.FLUSH if x & o.FLUSH_SOURCE else 0  # of floats alone
    if source in FORMATS:
        form = FORMATS[source]
        real = decoded(flushed(bits, form, flush) if source == o.F32 else bits, form)
    elif source in EIGHTS:
        real = EIGHTS[source][bits]
    else:
        real = reals.whole(signed(bits, WIDTHS[source]) if source % 2 else bits)
    negative = (real.negative and not x & o.ABSOLUTE_SOURCE) != bool(x & o.NEGATE_SOURCE)
    is_float = source in FORMATS or source in EIGHTS
    real = Real(negative and (is_float or real.size != 0), real.size)
    to_float = target in FORMATS or (target in EIGHTS and is_float)
    if to_float and x & o.WHOLE_NUMBER and not isinstance(real.size, float):
        real = Real(real.negative, Fraction(rounded_size(real.size, real.negative, rounding)))
    if target in EIGHTS:
        return nearest_eight(real, target, rounding, bool(x & o.SATURATE_TO))
    if target in FORMATS:
        real = reals.clamped(real) if x & o.SATURATE_TO else real
        bits = encoded(real, FORMATS[target], rounding)
        return flushed(bits, reals.F32, flush) if target == o.F32 else bits
    lowest = -(1 << WIDTHS[target] - 1) if target % 2 else 0
    highest = lowest + (1 << WIDTHS[target]) - 1
    if isinstance(real.size, float):
        number = 0 if real.is_nan else lowest if real.negative else highest
    else:
        number = rounded_size(real.size, real.negative, rounding) * (-1 if real.negative else 1)
    if is_float or x & o.SATURATE_TO:
        number = max(lowest, min(highest, number))
    return number & (1 << WIDTHS[target]) - 1


@operation("PACK_F16")
def pack_f16(s: Step) -> None:
    form, rounding = half_format(s.x), (s.x & o.ROUNDING) >> 8
    high, low = (
        each(lambda real: encoded(real, form, rounding), operand(s, field, reals.F32, s.x & 0x3F))
        for field in "ab"
    )
    s.put(high << 16 | low)


# --- between lanes ----------------------------------------------------------------------------------
@operation("SHUFFLE")
def shuffle(s: Step) -> None:
    """As PTX describes shfl: lanes of a segment, of 32 lanes. What a lane reads that does not take part is 0."""
    lane = np.arange(s.lanes, dtype=object)
    by, clamp, segment = s.u("b") & 31, s.u("c") & 31, s.u("c") >> 8 & 31
    low, top = lane & segment, lane & segment | clamp & ~segment
    source = (low | by & ~segment, lane - by, lane + by, lane ^ by)[s.y]
    within = (source >= top if s.y == o.SHUFFLE_UP else source <= top).astype(bool)
    source = np.where(within, source, lane).astype(int) % s.lanes
    s.put(np.where(s.who[source], s.u("a")[source], 0))
    s.put_mask(within, "e")


def first(s: Step) -> int:
    """The first lane that takes part, or lane 0."""
    return int(np.argmax(s.who))


@operation("READ_LANE")
def read_lane(s: Step) -> None:
    s.put(s.u("a")[s.u("b")[0] % s.lanes], who=s.everyone)


@operation("READ_FIRST_LANE")
def read_first_lane(s: Step) -> None:
    s.put(s.u("a")[first(s)], who=s.everyone)


@operation("WRITE_LANE")
def write_lane(s: Step) -> None:
    s.put(s.u("a")[0], who=np.arange(s.lanes) == s.u("b")[0] % s.lanes)


@operation("PERMUTE_LANES")
def permute_lanes(s: Step) -> None:
    """Numbers of lanes are not taken modulo the lanes: one that exceeds them is no lane."""
    source = s.u("c")
    found = (source < s.lanes) & s.m()[(source % s.lanes).astype(int)]
    values = np.where(found, s.u("a")[(source % s.lanes).astype(int)], 0)
    s.put(values, who=s.who if s.x & 1 else s.who & found.astype(bool))


@operation("SCATTER_LANES")
def scatter_lanes(s: Step) -> None:
    values = np.zeros(s.lanes, object)
    for lane in np.flatnonzero(s.who):
        values[s.u("c")[lane] % s.lanes] = s.u("a")[lane]
    s.put(values)


@operation("MATCH_ANY", "MATCH_ALL")
def match(s: Step) -> None:
    values = s.u64("a") if s.x & 1 else s.u("a")
    if name_of(s) == "MATCH_ANY":
        s.put(each(lambda one: as_bits(s.who & (values == one)), values))
        return
    same = len(set(values[s.who])) <= 1
    s.put(as_bits(s.who) if same else 0)
    s.put_mask(same, "e")


@operation("REDUCE")
def reduce(s: Step) -> None:
    values = (s.i if s.y in (o.REDUCE_MIN_S, o.REDUCE_MAX_S) else s.u)("a")[s.who]
    functions = {
        o.REDUCE_ADD: np.add, o.REDUCE_MIN_S: np.minimum, o.REDUCE_MIN_U: np.minimum, o.REDUCE_AND: np.bitwise_and,
        o.REDUCE_OR: np.bitwise_or, o.REDUCE_XOR: np.bitwise_xor,
    }  # fmt: skip
    if len(values):
        s.put(functions.get(s.y, np.maximum).reduce(values))
