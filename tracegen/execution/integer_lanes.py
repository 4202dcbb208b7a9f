"""Operations on integers and bits, of 32 lanes; see lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from tracegen.execution import operations as o
from tracegen.execution.lanes import CHUNK, I1, I32, I64, Lanes, declared, vector


# --- integers ---------------------------------------------------------------------------------------
def _negated(v: Lanes, field: str, modifier: int) -> Any:
    """A row, or its two's complement where x has a modifier."""
    ones = v.all(v.ones_if(modifier))
    return v.builder.sub(v.builder.xor(v.word(field), ones), ones)


def _add3(v: Lanes) -> Any:
    b = v.builder
    parts = [
        _negated(v, f, k) for f, k in zip("abc", (o.NEGATE_A, o.NEGATE_B, o.NEGATE_C), strict=True)
    ]
    return b.add(b.add(parts[0], parts[1]), parts[2])


def _add_low(v: Lanes) -> Any:
    """The low half of a sum of two numbers of 64 bits, and its carry."""
    total = v.builder.add(v.word("a"), v.word("b"))
    return total, v.bits(v.builder.icmp_unsigned("<", total, v.word("a"))), I32(0)


def _add_middle(v: Lanes) -> Any:
    """The same with a carry from below."""
    b = v.builder
    first = b.add(v.word("a"), v.word("b"))
    total = b.sub(first, b.sext(v.lanes_of(v.m), vector(I32)))
    carried = b.icmp_unsigned("<", first, v.word("a"))
    return total, v.bits(b.or_(carried, b.icmp_unsigned("<", total, first))), I32(0)


def _add_high(v: Lanes) -> Any:
    """The high half, with the carry."""
    b = v.builder
    total = b.add(b.add(v.word("a"), v.word("b")), v.word("c"))
    return b.sub(total, b.sext(v.lanes_of(v.m), vector(I32)))


def _wide(is_signed: bool) -> Callable[[Lanes], Any]:
    """MULTIPLY_WIDE without carries."""

    def build(v: Lanes) -> Any:
        widened = v.signed if is_signed else v.unsigned
        product = v.builder.mul(widened(v.word("a")), widened(v.word("b")))
        return v.builder.add(product, v.wide("c"))

    return build


def _add_carry(v: Lanes) -> Any:
    b = v.builder
    total = v.unsigned(b.zext(v.lanes_of(v.m), vector(I32)))
    total = b.add(total, v.unsigned(b.zext(v.lanes_of(v.n), vector(I32))))
    for field, modifier in zip("abc", (o.NEGATE_A, o.NEGATE_B, o.NEGATE_C), strict=True):
        ones = v.ones_if(modifier)
        word = v.unsigned(b.xor(v.word(field), v.all(ones)))
        total = b.add(total, b.add(word, v.all(b.zext(b.and_(ones, I32(1)), I64), I64)))
    high = b.lshr(total, v.all(32, I64))
    return v.narrow(total), _above(v, high, 0), _above(v, high, 1)


def _above(v: Lanes, value: Any, limit: int) -> Any:
    return v.bits(v.builder.icmp_unsigned(">", value, v.all(limit, I64)))


def _borrow(v: Lanes) -> Any:
    b = v.builder
    first, second = v.unsigned(v.word("a")), v.unsigned(v.word("b"))
    rest = b.sub(b.sub(first, second), b.zext(v.lanes_of(v.m), vector(I64)))
    return v.narrow(rest), v.bits(b.icmp_signed("<", rest, v.all(0, I64))), I32(0)


def _multiply_add(v: Lanes) -> Any:
    b = v.builder
    product = b.mul(_negated(v, "a", o.NEGATE_A), v.word("b"))
    return b.add(product, _negated(v, "c", o.NEGATE_C))


def _multiply_wide(is_signed: bool) -> Callable[[Lanes], Any]:
    def build(v: Lanes) -> Any:
        b = v.builder
        widened = v.signed if is_signed else v.unsigned
        product, added = b.mul(widened(v.word("a")), widened(v.word("b"))), v.wide("c")
        first = b.add(product, added)
        carried = b.icmp_unsigned("<", first, product)
        total = b.add(first, b.zext(v.lanes_of(v.m), vector(I64)))
        carried = b.or_(carried, b.icmp_unsigned("<", total, first))
        return total, v.bits(carried), I32(0)

    return build


def _multiply_high(is_signed: bool) -> Callable[[Lanes], Any]:
    def build(v: Lanes) -> Any:
        b = v.builder
        widened = v.signed if is_signed else v.unsigned
        product = b.mul(widened(v.word("a")), widened(v.word("b")))
        return v.narrow(b.lshr(product, v.all(32, I64)))

    return build


def _add64(v: Lanes) -> Any:
    b = v.builder
    parts = []
    for field, modifier in (("a", o.NEGATE_A), ("b", o.NEGATE_B)):
        ones = v.all(b.sext(v.ones_if(modifier), I64), I64)
        parts.append(b.sub(b.xor(v.wide(field), ones), ones))
    return b.add(*parts)


def _multiply_24(v: Lanes) -> Any:
    b = v.builder

    def cut(field: str) -> Any:
        up = b.shl(v.word(field), v.all(8))
        signed, plain = b.ashr(up, v.all(8)), b.lshr(up, v.all(8))
        return b.select(v.has(1), signed, plain)

    return b.add(b.mul(cut("a"), cut("b")), v.word("c"))


def _logic3(v: Lanes) -> Any:
    """Three levels of choices: between the two values for c, then those for b, then for a."""
    b = v.builder
    words = {field: v.word(field) for field in "abc"}
    values = [v.all(b.sub(I32(0), b.and_(b.lshr(v.y, I32(k)), I32(1)))) for k in range(8)]
    for field in "cba":
        values = [
            b.xor(low, b.and_(b.xor(low, high), words[field]))
            for low, high in zip(values[::2], values[1::2], strict=True)
        ]
    return values[0]


def _shift(name: str, bits: int) -> Callable[[Lanes], Any]:
    """Distances beyond the width shift everything out, unless they wrap."""

    def build(v: Lanes) -> Any:
        b = v.builder
        kind = I64 if bits == 64 else I32
        value = v.wide("a") if bits == 64 else v.word("a")
        distance = v.word("b")
        low = b.and_(distance, v.all(bits - 1))
        beyond = b.icmp_unsigned(">=", distance, v.all(bits))
        beyond = b.and_(beyond, v.all(b.not_(v.has(o.WRAP)), I1))
        shifted = getattr(b, name)(value, v.unsigned(low) if bits == 64 else low)
        out = b.ashr(value, v.all(bits - 1, kind)) if name == "ashr" else v.all(0, kind)
        return b.select(beyond, out, shifted)

    return build


def _funnel(left: bool) -> Callable[[Lanes], Any]:
    def build(v: Lanes) -> Any:
        b = v.builder
        both = b.or_(v.unsigned(v.word("a")), b.shl(v.unsigned(v.word("c")), v.all(32, I64)))
        distance = v.word("b")
        wrapped = b.and_(distance, v.all(31))
        clamped = v.call("umin", distance, v.all(32))
        by = v.unsigned(b.select(v.has(o.WRAP), wrapped, clamped))
        if left:
            return v.narrow(b.lshr(b.shl(both, by), v.all(32, I64)))
        return v.narrow(b.lshr(both, by))

    return build


def _bit_field(is_signed: bool) -> Callable[[Lanes], Any]:
    def build(v: Lanes) -> Any:
        b = v.builder
        count = b.and_(v.word("c"), v.all(31))
        value = b.lshr(v.word("a"), b.and_(v.word("b"), v.all(31)))
        if is_signed:
            # Where fewer bits than wanted are left, the sign of a comes in.
            value = b.ashr(v.word("a"), b.and_(v.word("b"), v.all(31)))
        rest = b.and_(b.sub(v.all(32), count), v.all(31))
        up = b.shl(value, rest)
        cut = b.ashr(up, rest) if is_signed else b.lshr(up, rest)
        return b.select(b.icmp_unsigned("==", count, v.all(0)), v.all(0), cut)

    return build


def _bit_mask(v: Lanes) -> Any:
    b = v.builder
    first, count = v.word("a"), v.word("b")
    wraps = v.has(o.WRAP)
    first = b.select(wraps, b.and_(first, v.all(31)), v.call("umin", first, v.all(32)))
    count = b.select(wraps, b.and_(count, v.all(31)), v.call("umin", count, v.all(32)))
    one = v.all(1, I64)
    ones = b.sub(b.shl(one, v.unsigned(count)), one)
    return v.narrow(b.shl(ones, v.unsigned(first)))


def _sign_extend_at(v: Lanes) -> Any:
    b = v.builder
    count = v.word("b")
    count = b.select(v.has(o.WRAP), b.and_(count, v.all(31)), v.call("umin", count, v.all(32)))
    rest = v.unsigned(b.sub(v.all(64), v.narrow(v.unsigned(count))))
    up = b.shl(v.unsigned(v.word("a")), b.and_(rest, v.all(63, I64)))
    cut = v.narrow(b.ashr(up, b.and_(rest, v.all(63, I64))))
    return b.select(b.icmp_unsigned("==", count, v.all(0)), v.all(0), cut)


def _permute_bytes(v: Lanes) -> Any:
    b = v.builder
    both = b.or_(v.unsigned(v.word("a")), b.shl(v.unsigned(v.word("b")), v.all(32, I64)))
    choice, result = v.word("c"), v.all(0)
    for k in range(4):
        which = b.lshr(choice, v.all(4 * k))
        distance = b.shl(b.and_(which, v.all(7)), v.all(3))
        byte = b.and_(v.narrow(b.lshr(both, v.unsigned(distance))), v.all(255))
        sign = b.ashr(b.shl(byte, v.all(24)), v.all(31))
        of_sign = b.icmp_unsigned("!=", b.and_(which, v.all(8)), v.all(0))
        byte = b.select(of_sign, b.and_(sign, v.all(255)), byte)
        result = b.or_(result, b.shl(byte, v.all(8 * k)))
    return result


def _called(name: str, wide: bool = False) -> Callable[[Lanes], Any]:
    def build(v: Lanes) -> Any:
        fields = "a" if name in ("ctpop", "bitreverse") else "ab"
        return v.call(name, *((v.wide if wide else v.word)(field) for field in fields))

    return build


def _absolute(v: Lanes) -> Any:
    b = v.builder
    sign = b.ashr(v.word("a"), v.all(31))
    return b.sub(b.xor(v.word("a"), sign), sign)


def _zeros(v: Lanes, name: str, value: Any) -> Any:
    """Leading or trailing zeros, 32 of zero."""
    function = ir.FunctionType(vector(I32), [vector(I32), I1])
    found = declared(v.builder.module, f"llvm.{name}.v{CHUNK}i32", function)
    return v.builder.call(found, [value, I1(0)])


def _highest_bit(v: Lanes) -> Any:
    b = v.builder
    value = v.word("a")
    flipped = b.xor(value, b.ashr(value, v.all(31)))
    value = b.select(v.has(2), flipped, value)
    zeros = _zeros(v, "ctlz", value)
    place = b.select(v.has(1), zeros, b.sub(v.all(31), zeros))
    return b.select(b.icmp_unsigned("==", value, v.all(0)), v.all(-1), place)


def _lowest_bit(v: Lanes) -> Any:
    value = v.word("a")
    none = v.builder.icmp_unsigned("==", value, v.all(0))
    return v.builder.select(none, v.all(-1), _zeros(v, "cttz", value))


def _compare(is_signed: bool, wide: bool) -> Callable[[Lanes], Any]:
    def build(v: Lanes) -> Any:
        b = v.builder
        first, second = ((v.wide if wide else v.word)(field) for field in "ab")
        compare = b.icmp_signed if is_signed else b.icmp_unsigned
        less = v.bits(compare("<", first, second))
        equal = v.bits(b.icmp_unsigned("==", first, second))
        greater = b.not_(b.or_(less, equal))
        return combined(v, [(less, o.LESS), (equal, o.EQUAL), (greater, o.GREATER)])

    return build


def combined(v: Lanes, relations: list[tuple[Any, int]]) -> Any:
    """Which lanes the condition holds for, and for which it does not, each combined with mask m."""
    b = v.builder
    holds: Any = I32(0)
    for lanes, relation in relations:
        holds = b.or_(holds, b.and_(lanes, v.ones_if(relation)))

    def with_mask(bits: Any) -> Any:
        plain = b.select(v.has(o.COMBINE_OR), b.or_(bits, v.m), b.and_(bits, v.m))
        return b.select(v.has(o.COMBINE_XOR), b.xor(bits, v.m), plain)

    return with_mask(holds), with_mask(b.not_(holds))


def _select(v: Lanes) -> Any:
    b = v.builder
    sides = []
    for field, negate, absolute in (
        ("a", o.NEGATE_A, o.ABSOLUTE_A),
        ("b", o.NEGATE_B, o.ABSOLUTE_B),
    ):
        sides.append(signs(v, v.word(field), negate, absolute, 31))
    return b.select(v.lanes_of(v.m), *sides)


def signs(v: Lanes, value: Any, negate: int, absolute: int, sign_bit: int) -> Any:
    """The sign bit dropped, then changed, where x says so; of a vector of integers."""
    b = v.builder
    kind = value.type.element
    sign = 1 << sign_bit

    def where(modifier: int, bits: int) -> Any:
        return v.all(b.select(v.has(modifier), kind(bits), kind(0)), kind)

    kept = b.and_(value, b.not_(where(absolute, sign)))
    return b.xor(kept, where(negate, sign))


INTEGERS: dict[str, Callable[[Lanes], Any]] = {
    "MOVE": lambda v: v.word("a"),
    "MOVE2": lambda v: v.wide("a"),
    "ADD3": _add3,
    "MULTIPLY_ADD": _multiply_add,
    "MULTIPLY_HIGH_U": _multiply_high(False),
    "MULTIPLY_HIGH_S": _multiply_high(True),
    "ADD64": _add64,
    "MULTIPLY64": lambda v: v.builder.mul(v.wide("a"), v.wide("b")),
    "MULTIPLY_24": _multiply_24,
    "LOGIC3": _logic3,
    "SHIFT_LEFT": _shift("shl", 32),
    "SHIFT_RIGHT_U": _shift("lshr", 32),
    "SHIFT_RIGHT_S": _shift("ashr", 32),
    "FUNNEL_LEFT": _funnel(True),
    "FUNNEL_RIGHT": _funnel(False),
    "SHIFT_LEFT64": _shift("shl", 64),
    "SHIFT_RIGHT64_U": _shift("lshr", 64),
    "SHIFT_RIGHT64_S": _shift("ashr", 64),
    "BIT_FIELD_U": _bit_field(False),
    "BIT_FIELD_S": _bit_field(True),
    "BIT_MASK": _bit_mask,
    "SIGN_EXTEND_AT": _sign_extend_at,
    "PERMUTE_BYTES": _permute_bytes,
    "MINIMUM_S": _called("smin"),
    "MAXIMUM_S": _called("smax"),
    "MINIMUM_U": _called("umin"),
    "MAXIMUM_U": _called("umax"),
    "MINIMUM64_S": _called("smin", True),
    "MAXIMUM64_S": _called("smax", True),
    "MINIMUM64_U": _called("umin", True),
    "MAXIMUM64_U": _called("umax", True),
    "ABSOLUTE": _absolute,
    "COUNT_ONES": _called("ctpop"),
    "HIGHEST_BIT": _highest_bit,
    "LOWEST_BIT": _lowest_bit,
    "REVERSE_BITS": _called("bitreverse"),
    "AND": lambda v: v.builder.and_(v.word("a"), v.word("b")),
    "OR": lambda v: v.builder.or_(v.word("a"), v.word("b")),
    "XOR": lambda v: v.builder.xor(v.word("a"), v.word("b")),
    "ADD": lambda v: v.builder.add(v.builder.add(v.word("a"), v.word("b")), v.word("c")),
    "MULTIPLY": lambda v: v.builder.add(v.builder.mul(v.word("a"), v.word("b")), v.word("c")),
    "WIDE_U": _wide(False),
    "WIDE_S": _wide(True),
}
SIMPLE_LOGIC = {0xC0: "AND", 0xFC: "OR", 0x3C: "XOR"}
"""LOGIC3 of two rows, by its table: what most of them are."""
MASKED: dict[str, Callable[[Lanes], Any]] = {"SELECT": _select, "ADD_HIGH": _add_high}
"""Operations whose results are rows, and which read mask m."""
INTEGER_COMPARISONS: dict[str, Callable[[Lanes], Any]] = {
    "COMPARE_S": _compare(True, False),
    "COMPARE_U": _compare(False, False),
    "COMPARE64_S": _compare(True, True),
    "COMPARE64_U": _compare(False, True),
}
CARRYING: dict[str, Callable[[Lanes], Any]] = {
    "ADD_CARRY": _add_carry,
    "ADD_LOW": _add_low,
    "ADD_MIDDLE": _add_middle,
    "BORROW": _borrow,
    "MULTIPLY_WIDE_U": _multiply_wide(False),
    "MULTIPLY_WIDE_S": _multiply_wide(True),
}
"""Operations whose results are row d and the masks e and y."""
