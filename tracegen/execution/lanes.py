"""Operations on rows, as vector instructions of this processor: 32 lanes at a time.

Numba would compile a loop over lanes into code that first asks whether rows overlap, as they often do (`R1 = R1 + R2`), and
then goes lane by lane. So the operations are written in LLVM's vectors: a row is loaded whole, computed with, and
stored. `rows_operation` is one switch over all of them; LLVM makes of each what the processor has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from tracegen.execution import operations as o
from tracegen.execution.state import MOST_CHUNKS

CHUNK = 32
"""Lanes that one vector holds."""
_I1, _I32, _I64 = (ir.IntType(bits) for bits in (1, 32, 64))
_F32, _F64 = ir.FloatType(), ir.DoubleType()


def _vector(kind: ir.Type) -> ir.VectorType:
    return ir.VectorType(kind, CHUNK)


class Lanes:
    """One operation on 32 lanes while it is built: its operands as vectors.

    place : address of the chunk within the first row;  row_bytes : from a row to the next
    fields : field -> offset of its row in bytes;  x, y : scalars;  m, n, active : 32 bits
    """

    def __init__(self, builder: Any, arguments: Any) -> None:
        self.builder = builder
        self.place, self.row_bytes = arguments[1:3]
        self.fields = dict(zip("deabc", arguments[3:8], strict=True))
        self.x, self.y = (builder.trunc(one, _I32) for one in arguments[8:10])
        self.m, self.n, self.active = (builder.trunc(one, _I32) for one in arguments[10:13])

    def _pointer(self, field: str, part: int, kind: ir.Type) -> Any:
        builder = self.builder
        at = builder.add(self.place, self.fields[field])
        for _ in range(part):
            at = builder.add(at, self.row_bytes)
        return builder.inttoptr(at, _vector(kind).as_pointer())

    def word(self, field: str, part: int = 0, kind: ir.Type = _I32) -> Any:
        return self.builder.load(self._pointer(field, part, kind), align=4)

    def wide(self, field: str) -> Any:
        """64 bits of each lane, of two rows."""
        low, high = (self.unsigned(self.word(field, part)) for part in (0, 1))
        return self.builder.or_(low, self.builder.shl(high, self.all(32, _I64)))

    def real(self, field: str) -> Any:
        return self.word(field, 0, _F32)

    def double(self, field: str) -> Any:
        return self.builder.bitcast(self.wide(field), _vector(_F64))

    def all(self, value: Any, kind: ir.Type = _I32) -> Any:
        """A number, or a scalar of the builder's, in every lane."""
        if isinstance(value, (int, float)):
            return ir.Constant(_vector(kind), [value] * CHUNK)
        first = self.builder.insert_element(
            ir.Constant(_vector(kind), ir.Undefined), value, _I32(0)
        )
        return self.builder.shuffle_vector(first, first, ir.Constant(_vector(_I32), [0] * CHUNK))

    def unsigned(self, value: Any) -> Any:
        return self.builder.zext(value, _vector(_I64))

    def signed(self, value: Any) -> Any:
        return self.builder.sext(value, _vector(_I64))

    def narrow(self, value: Any) -> Any:
        return self.builder.trunc(value, _vector(_I32))

    def lanes_of(self, bits: Any) -> Any:
        """A bit a lane as a vector of bits."""
        return self.builder.icmp_signed("<", self._at_sign(bits), self.all(0))

    def _at_sign(self, bits: Any) -> Any:
        """The bit of each lane as its sign: LLVM takes four times as long for a bitcast, without AVX-512."""
        places = ir.Constant(_vector(_I32), [31 - lane for lane in range(CHUNK)])
        return self.builder.shl(self.all(bits), places)

    def bits(self, lanes: Any) -> Any:
        return self.builder.bitcast(lanes, _I32)

    def call(self, name: str, *values: Any) -> Any:
        """An intrinsic of LLVM's that takes vectors of one type."""
        kind = values[0].type
        short = {_I32: "i32", _I64: "i64", _F32: "f32", _F64: "f64"}[kind.element]
        function = ir.FunctionType(kind, [value.type for value in values])
        return self.builder.call(
            _declared(self.builder.module, f"llvm.{name}.v{CHUNK}{short}", function), values
        )

    def has(self, modifier: int) -> Any:
        """Whether x has a modifier, as a scalar."""
        return self.builder.icmp_unsigned("!=", self.builder.and_(self.x, _I32(modifier)), _I32(0))

    def ones_if(self, modifier: int) -> Any:
        """All bits of a scalar where x has a modifier, else none."""
        return self.builder.sext(self.has(modifier), _I32)

    def store(self, field: str, value: Any) -> None:
        """Writes one row, or two of 64 bits; of active lanes alone."""
        builder = self.builder
        kind = value.type.element
        if kind in (_I64, _F64):
            value = builder.bitcast(value, _vector(_I64))
            self._store_row(field, 0, self.narrow(value))
            self._store_row(field, 1, self.narrow(builder.lshr(value, self.all(32, _I64))))
        else:
            self._store_row(field, 0, builder.bitcast(value, _vector(_I32)))

    def _store_row(self, field: str, part: int, value: Any) -> None:
        builder = self.builder
        pointer = self._pointer(field, part, _I32)
        everyone = builder.icmp_signed("==", self.active, _I32(-1))
        with builder.if_else(everyone) as (whole, some):
            with whole:
                builder.store(value, pointer, align=4)
            with some:
                before = builder.load(pointer, align=4)
                mask = builder.ashr(self._at_sign(self.active), self.all(31))
                chosen = builder.and_(builder.xor(before, value), mask)
                builder.store(builder.xor(before, chosen), pointer, align=4)


def _declared(module: Any, name: str, kind: Any) -> Any:
    return module.globals.get(name) or ir.Function(module, kind, name)


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
    return total, v.bits(v.builder.icmp_unsigned("<", total, v.word("a"))), _I32(0)


def _add_middle(v: Lanes) -> Any:
    """The same with a carry from below."""
    b = v.builder
    first = b.add(v.word("a"), v.word("b"))
    total = b.sub(first, b.sext(v.lanes_of(v.m), _vector(_I32)))
    carried = b.icmp_unsigned("<", first, v.word("a"))
    return total, v.bits(b.or_(carried, b.icmp_unsigned("<", total, first))), _I32(0)


def _add_high(v: Lanes) -> Any:
    """The high half, with the carry."""
    b = v.builder
    total = b.add(b.add(v.word("a"), v.word("b")), v.word("c"))
    return b.sub(total, b.sext(v.lanes_of(v.m), _vector(_I32)))


def _wide(is_signed: bool) -> Callable[[Lanes], Any]:
    """MULTIPLY_WIDE without carries."""

    def build(v: Lanes) -> Any:
        widened = v.signed if is_signed else v.unsigned
        product = v.builder.mul(widened(v.word("a")), widened(v.word("b")))
        return v.builder.add(product, v.wide("c"))

    return build


def _add_carry(v: Lanes) -> Any:
    b = v.builder
    total = v.unsigned(b.zext(v.lanes_of(v.m), _vector(_I32)))
    total = b.add(total, v.unsigned(b.zext(v.lanes_of(v.n), _vector(_I32))))
    for field, modifier in zip("abc", (o.NEGATE_A, o.NEGATE_B, o.NEGATE_C), strict=True):
        ones = v.ones_if(modifier)
        word = v.unsigned(b.xor(v.word(field), v.all(ones)))
        total = b.add(total, b.add(word, v.all(b.zext(b.and_(ones, _I32(1)), _I64), _I64)))
    high = b.lshr(total, v.all(32, _I64))
    return v.narrow(total), _above(v, high, 0), _above(v, high, 1)


def _above(v: Lanes, value: Any, limit: int) -> Any:
    return v.bits(v.builder.icmp_unsigned(">", value, v.all(limit, _I64)))


def _borrow(v: Lanes) -> Any:
    b = v.builder
    first, second = v.unsigned(v.word("a")), v.unsigned(v.word("b"))
    rest = b.sub(b.sub(first, second), b.zext(v.lanes_of(v.m), _vector(_I64)))
    return v.narrow(rest), v.bits(b.icmp_signed("<", rest, v.all(0, _I64))), _I32(0)


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
        total = b.add(first, b.zext(v.lanes_of(v.m), _vector(_I64)))
        carried = b.or_(carried, b.icmp_unsigned("<", total, first))
        return total, v.bits(carried), _I32(0)

    return build


def _multiply_high(is_signed: bool) -> Callable[[Lanes], Any]:
    def build(v: Lanes) -> Any:
        b = v.builder
        widened = v.signed if is_signed else v.unsigned
        product = b.mul(widened(v.word("a")), widened(v.word("b")))
        return v.narrow(b.lshr(product, v.all(32, _I64)))

    return build


def _add64(v: Lanes) -> Any:
    b = v.builder
    parts = []
    for field, modifier in (("a", o.NEGATE_A), ("b", o.NEGATE_B)):
        ones = v.all(b.sext(v.ones_if(modifier), _I64), _I64)
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
    values = [v.all(b.sub(_I32(0), b.and_(b.lshr(v.y, _I32(k)), _I32(1)))) for k in range(8)]
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
        kind = _I64 if bits == 64 else _I32
        value = v.wide("a") if bits == 64 else v.word("a")
        distance = v.word("b")
        low = b.and_(distance, v.all(bits - 1))
        beyond = b.icmp_unsigned(">=", distance, v.all(bits))
        beyond = b.and_(beyond, v.all(b.not_(v.has(o.WRAP)), _I1))
        shifted = getattr(b, name)(value, v.unsigned(low) if bits == 64 else low)
        out = b.ashr(value, v.all(bits - 1, kind)) if name == "ashr" else v.all(0, kind)
        return b.select(beyond, out, shifted)

    return build


def _funnel(left: bool) -> Callable[[Lanes], Any]:
    def build(v: Lanes) -> Any:
        b = v.builder
        both = b.or_(v.unsigned(v.word("a")), b.shl(v.unsigned(v.word("c")), v.all(32, _I64)))
        distance = v.word("b")
        wrapped = b.and_(distance, v.all(31))
        clamped = v.call("umin", distance, v.all(32))
        by = v.unsigned(b.select(v.has(o.WRAP), wrapped, clamped))
        if left:
            return v.narrow(b.lshr(b.shl(both, by), v.all(32, _I64)))
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
    one = v.all(1, _I64)
    ones = b.sub(b.shl(one, v.unsigned(count)), one)
    return v.narrow(b.shl(ones, v.unsigned(first)))


def _sign_extend_at(v: Lanes) -> Any:
    b = v.builder
    count = v.word("b")
    count = b.select(v.has(o.WRAP), b.and_(count, v.all(31)), v.call("umin", count, v.all(32)))
    rest = v.unsigned(b.sub(v.all(64), v.narrow(v.unsigned(count))))
    up = b.shl(v.unsigned(v.word("a")), b.and_(rest, v.all(63, _I64)))
    cut = v.narrow(b.ashr(up, b.and_(rest, v.all(63, _I64))))
    return b.select(b.icmp_unsigned("==", count, v.all(0)), v.all(0), cut)


def _permute_bytes(v: Lanes) -> Any:
    b = v.builder
    both = b.or_(v.unsigned(v.word("a")), b.shl(v.unsigned(v.word("b")), v.all(32, _I64)))
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
    function = ir.FunctionType(_vector(_I32), [_vector(_I32), _I1])
    declared = _declared(v.builder.module, f"llvm.{name}.v{CHUNK}i32", function)
    return v.builder.call(declared, [value, _I1(0)])


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
        return _combined(v, [(less, o.LESS), (equal, o.EQUAL), (greater, o.GREATER)])

    return build


def _combined(v: Lanes, relations: list[tuple[Any, int]]) -> Any:
    """Which lanes the condition holds for, and for which it does not, each combined with mask m."""
    b = v.builder
    holds: Any = _I32(0)
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
        sides.append(_signs(v, v.word(field), negate, absolute, 31))
    return b.select(v.lanes_of(v.m), *sides)


# --- floating-point numbers -------------------------------------------------------------------------
def _signs(v: Lanes, value: Any, negate: int, absolute: int, sign_bit: int) -> Any:
    """The sign bit dropped, then changed, where x says so; of a vector of integers."""
    b = v.builder
    kind = value.type.element
    sign = 1 << sign_bit

    def where(modifier: int, bits: int) -> Any:
        return v.all(b.select(v.has(modifier), kind(bits), kind(0)), kind)

    kept = b.and_(value, b.not_(where(absolute, sign)))
    return b.xor(kept, where(negate, sign))


_SIGNS = {
    "a": (o.NEGATE_A, o.ABSOLUTE_A),
    "b": (o.NEGATE_B, o.ABSOLUTE_B),
    "c": (o.NEGATE_C, o.ABSOLUTE_C),
}
_FRACTION, _EXPONENT = 0x007FFFFF, 0x7F800000


def _flushed(v: Lanes, bits: Any, flush: int = o.FLUSH) -> Any:
    """Subnormal floats become zero of their sign where x says so."""
    b = v.builder
    small = b.icmp_unsigned("==", b.and_(bits, v.all(_EXPONENT)), v.all(0))
    small = b.and_(small, v.all(v.has(flush), _I1))
    return b.select(small, b.and_(bits, v.all(-(1 << 31))), bits)


def _float_operand(v: Lanes, field: str, plain: bool, double: bool) -> Any:
    if plain:
        return v.double(field) if double else v.real(field)
    if double:
        return v.builder.bitcast(_signs(v, v.wide(field), *_SIGNS[field], 63), _vector(_F64))
    bits = _signs(v, _flushed(v, v.word(field)), *_SIGNS[field], 31)
    return v.builder.bitcast(bits, _vector(_F32))


def _float_result(v: Lanes, value: Any) -> Any:
    """Clamped and flushed where x says so."""
    b = v.builder
    kind = value.type.element
    clamped = v.call("minimumnum", v.call("maximumnum", value, v.all(0.0, kind)), v.all(1.0, kind))
    value = b.select(v.has(o.SATURATE), clamped, value)
    if kind == _F64:
        return value
    return _flushed(v, b.bitcast(value, _vector(_I32)))


def _arithmetic(name: str, fields: str, double: bool = False) -> Callable[[Lanes], Any]:
    """Most instructions have no modifiers: these take a way without them."""

    def computed(v: Lanes, plain: bool) -> Any:
        values = [_float_operand(v, field, plain, double) for field in fields]
        if name in ("fadd", "fmul"):
            return getattr(v.builder, name)(*values)
        return v.call(name, *values)

    def build(v: Lanes) -> None:
        plain = v.builder.icmp_unsigned("==", v.x, _I32(0))
        with v.builder.if_else(plain) as (without, otherwise):
            with without:
                v.store("d", computed(v, True))
            with otherwise:
                v.store("d", _float_result(v, computed(v, False)))

    return build


def _compare_float(double: bool) -> Callable[[Lanes], Any]:
    def build(v: Lanes) -> Any:
        b = v.builder
        values = []
        for field in "ab":
            negate, absolute = (bit << 8 for bit in _SIGNS[field])
            if double:
                bits = _signs(v, v.wide(field), negate, absolute, 63)
            else:
                bits = _signs(v, _flushed(v, v.word(field), o.FLUSH << 8), negate, absolute, 31)
            values.append(b.bitcast(bits, _vector(_F64 if double else _F32)))
        relations = [
            (v.bits(b.fcmp_ordered(sign, *values)), relation)
            for sign, relation in (("<", o.LESS), ("==", o.EQUAL), (">", o.GREATER))
        ]
        return _combined(v, [*relations, (v.bits(b.fcmp_unordered("uno", *values)), o.UNORDERED)])

    return build


ROWS: dict[str, Callable[[Lanes], Any]] = {
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
    "ADD_F32": _arithmetic("fadd", "ab"),
    "MULTIPLY_F32": _arithmetic("fmul", "ab"),
    "FUSED_F32": _arithmetic("fma", "abc"),
    "MINIMUM_F32": _arithmetic("minimumnum", "ab"),
    "MAXIMUM_F32": _arithmetic("maximumnum", "ab"),
    "ADD_F64": _arithmetic("fadd", "ab", True),
    "MULTIPLY_F64": _arithmetic("fmul", "ab", True),
    "FUSED_F64": _arithmetic("fma", "abc", True),
    "MINIMUM_F64": _arithmetic("minimumnum", "ab", True),
    "MAXIMUM_F64": _arithmetic("maximumnum", "ab", True),
}
"""Operations whose results are rows; those of the float ones are written by themselves, and return None."""
SIMPLE_LOGIC = {0xC0: "AND", 0xFC: "OR", 0x3C: "XOR"}
"""LOGIC3 of two rows, by its table: what most of them are."""
ROWS |= {
    "AND": lambda v: v.builder.and_(v.word("a"), v.word("b")),
    "OR": lambda v: v.builder.or_(v.word("a"), v.word("b")),
    "XOR": lambda v: v.builder.xor(v.word("a"), v.word("b")),
    "ADD": lambda v: v.builder.add(v.builder.add(v.word("a"), v.word("b")), v.word("c")),
    "MULTIPLY": lambda v: v.builder.add(v.builder.mul(v.word("a"), v.word("b")), v.word("c")),
    "WIDE_U": _wide(False),
    "WIDE_S": _wide(True),
}
MASKED: dict[str, Callable[[Lanes], Any]] = {"SELECT": _select, "ADD_HIGH": _add_high}
"""Operations whose results are rows, and which read mask m."""
COMPARISONS: dict[str, Callable[[Lanes], Any]] = {
    "COMPARE_S": _compare(True, False),
    "COMPARE_U": _compare(False, False),
    "COMPARE64_S": _compare(True, True),
    "COMPARE64_U": _compare(False, True),
    "COMPARE_F32": _compare_float(False),
    "COMPARE_F64": _compare_float(True),
}
"""Operations whose results are the masks d and e."""
CARRYING: dict[str, Callable[[Lanes], Any]] = {
    "ADD_CARRY": _add_carry,
    "ADD_LOW": _add_low,
    "ADD_MIDDLE": _add_middle,
    "BORROW": _borrow,
    "MULTIPLY_WIDE_U": _multiply_wide(False),
    "MULTIPLY_WIDE_S": _multiply_wide(True),
}
"""Operations whose results are row d and the masks e and y."""
VECTOR = [*ROWS, *MASKED, *COMPARISONS, *CARRYING]
"""In the order of their numbers in the switch."""


@intrinsic  # type: ignore[untyped-decorator]
def rows_operation(
    typing_context: Any, number: Any, count: Any, chunks: Any, here: Any, row_bytes: Any, d: Any, e: Any, a: Any, b: Any,
    c: Any, x: Any, y: Any,
) -> Any:  # fmt: skip
    """Does one operation, of its number in VECTOR, on `count` chunks of 32 lanes; all arguments are int64.

    chunks : address of State.chunks, whose rows FIRST and SECOND get the result masks;  here : of the row with the lanes that work
    d to c : offsets of rows in bytes
    """

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        end = builder.append_basic_block("done")
        other = builder.append_basic_block("other")
        begin = builder.block
        number = builder.trunc(values[0], _I32)
        columns = {
            name: _column(builder, builder.add(values[2], _I64(8 * MOST_CHUNKS * row)))
            for name, row in (("place", 0), ("m", 3), ("n", 4), ("first", 5), ("second", 6))
        }
        columns["here"] = _column(builder, values[3])
        switch = builder.switch(number, other)
        for k, name in enumerate(VECTOR):
            block = builder.append_basic_block(name.lower())
            switch.add_case(_I32(k), block)
            builder.position_at_end(block)
            chunk = builder.phi(_I64)
            chunk.add_incoming(_I64(0), begin)
            _chunk(builder, name, chunk, columns, values)
            following = builder.add(chunk, _I64(1))
            chunk.add_incoming(following, builder.block)
            builder.cbranch(builder.icmp_signed("<", following, values[1]), block, end)
        builder.position_at_end(other)
        builder.unreachable()
        builder.position_at_end(end)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 12), emit


def _column(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, _I64.as_pointer())


def _chunk(builder: Any, name: str, chunk: Any, columns: dict[str, Any], values: Any) -> None:
    """Emits one operation on one chunk, unless none of its lanes works."""

    def of(column: str) -> Any:
        return builder.load(builder.gep(columns[column], [chunk]))

    here = of("here")
    with builder.if_then(builder.icmp_signed("!=", here, _I64(0))):
        m, n = (of(one) if name not in ROWS else _I64(0) for one in "mn")
        v = Lanes(builder, [None, of("place"), values[4], *values[5:12], m, n, here])
        for column, mask in zip(("first", "second"), _built(name, v), strict=False):
            builder.store(builder.zext(mask, _I64), builder.gep(columns[column], [chunk]))


def _built(name: str, v: Lanes) -> tuple[Any, ...]:
    """Emits one operation; returns its masks."""
    if name in COMPARISONS:
        first, second = COMPARISONS[name](v)
        return first, second
    if name in CARRYING:
        value, first, second = CARRYING[name](v)
        v.store("d", value)
        return first, second
    value = (ROWS | MASKED)[name](v)
    if value is not None:
        v.store("d", value)
    return ()


# --- addresses and memory ---------------------------------------------------------------------------
def _addresses(kind: str) -> Any:
    """Writes 32 addresses of 64 bits: (place, row_bytes, a, b, scale, y, address of the result)."""

    def addresses(
        typing_context: Any,
        place: Any,
        row_bytes: Any,
        a: Any,
        b: Any,
        scale: Any,
        y: Any,
        result: Any,
    ) -> Any:
        def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            zero = _I64(0)
            v = Lanes(builder, [zero, *values[:2], zero, zero, *values[2:4], *[zero] * 6])
            if kind == "pair":
                at = v.wide("a")
            elif kind == "pairs":
                at = builder.add(v.wide("a"), v.wide("b"))
            elif kind == "word":
                scaled = builder.mul(v.word("a"), v.all(builder.trunc(values[4], _I32)))
                at = v.unsigned(builder.add(scaled, v.word("b")))
            else:
                extended = (v.signed if kind == "signed" else v.unsigned)(v.word("a"))
                at = builder.add(builder.mul(extended, v.all(values[4], _I64)), v.wide("b"))
            at = builder.add(at, v.all(values[5], _I64))
            if kind == "word":
                at = builder.and_(at, v.all(0xFFFFFFFF, _I64))
            builder.store(at, builder.inttoptr(values[6], at.type.as_pointer()), align=8)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 7), emit

    return intrinsic(addresses)


addresses_of_pair, addresses_of_pairs = _addresses("pair"), _addresses("pairs")
addresses_of_words = _addresses("word")
addresses_of_unsigned, addresses_of_signed = _addresses("unsigned"), _addresses("signed")
"""Of ADDRESS_64 without a row b and with one, of memories with addresses of 32 bits, and of ADDRESS_32 without and with SIGNED_32."""


@intrinsic  # type: ignore[untyped-decorator]
def differing(typing_context: Any, addresses: Any, first: Any, step: Any) -> Any:
    """The lanes, as 32 bits, whose address (at `addresses`) is not first + lane * step."""

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        zero = _I64(0)
        v = Lanes(builder, [zero] * 13)
        at = builder.load(builder.inttoptr(values[0], _vector(_I64).as_pointer()), align=8)
        lanes = ir.Constant(_vector(_I64), list(range(CHUNK)))
        wanted = builder.add(v.all(values[1], _I64), builder.mul(lanes, v.all(values[2], _I64)))
        return builder.zext(v.bits(builder.icmp_unsigned("!=", at, wanted)), _I64)

    return types.int64(types.int64, types.int64, types.int64), emit


@intrinsic  # type: ignore[untyped-decorator]
def copy_row(typing_context: Any, source: Any, target: Any) -> Any:
    """Copies 128 bytes from one address to another."""

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointers = [builder.inttoptr(value, _vector(_I32).as_pointer()) for value in values]
        builder.store(builder.load(pointers[0], align=1), pointers[1], align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), emit


@intrinsic  # type: ignore[untyped-decorator]
def deviating(typing_context: Any, addresses: Any, first: Any, pattern: Any) -> Any:
    """The lanes, as 32 bits, whose address (at `addresses`) is not `first` plus its number at `pattern`."""

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        v = Lanes(builder, [_I64(0)] * 13)
        at, wanted = (
            builder.load(builder.inttoptr(one, _vector(_I64).as_pointer()), align=8)
            for one in (values[0], values[2])
        )
        wanted = builder.add(v.all(values[1], _I64), wanted)
        return builder.zext(v.bits(builder.icmp_unsigned("!=", at, wanted)), _I64)

    return types.int64(types.int64, types.int64, types.int64), emit


@intrinsic  # type: ignore[untyped-decorator]
def keep_pattern(typing_context: Any, addresses: Any, first: Any, pattern: Any) -> Any:
    """Writes the numbers that `deviating` compares with."""

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        v = Lanes(builder, [_I64(0)] * 13)
        pointers = [
            builder.inttoptr(one, _vector(_I64).as_pointer()) for one in (values[0], values[2])
        ]
        at = builder.load(pointers[0], align=8)
        builder.store(builder.sub(at, v.all(values[1], _I64)), pointers[1], align=8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), emit


@intrinsic  # type: ignore[untyped-decorator]
def granule_keys(
    typing_context: Any, addresses: Any, first: Any, size: Any, lane: Any, active: Any, keys: Any
) -> Any:
    """Writes (granule - first) << 6 | number of the lane, from `lane` on, of 32 lanes; 2^31 - 1 of those that are not active.

    Returns the active lanes, as 32 bits, whose bytes lie in two granules or whose granule is 2^24 or more away.
    """

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        v = Lanes(builder, [_I64(0)] * 13)
        b = builder
        at = b.load(b.inttoptr(values[0], _vector(_I64).as_pointer()), align=8)
        away = b.sub(b.ashr(at, v.all(5, _I64)), v.all(values[1], _I64))
        near = v.narrow(away)
        far = b.icmp_unsigned(">=", b.add(near, v.all(1 << 24)), v.all(1 << 25))
        far = b.or_(far, b.icmp_unsigned("!=", v.signed(near), away))
        inside = b.add(b.and_(v.narrow(at), v.all(31)), v.all(b.trunc(values[2], _I32)))
        wrong = b.or_(far, b.icmp_unsigned(">", inside, v.all(32)))
        lanes = b.add(
            v.all(b.trunc(values[3], _I32)), ir.Constant(_vector(_I32), list(range(CHUNK)))
        )
        key = b.or_(b.shl(near, v.all(6)), lanes)
        active = b.trunc(values[4], _I32)
        key = b.select(v.lanes_of(active), key, v.all((1 << 31) - 1))
        b.store(key, b.inttoptr(values[5], key.type.as_pointer()), align=4)
        return b.zext(b.and_(v.bits(wrong), active), _I64)

    return types.int64(*[types.int64] * 6), emit


@intrinsic  # type: ignore[untyped-decorator]
def ranks(typing_context: Any, keys: Any, among: Any, count: Any, result: Any) -> Any:
    """Of each of 32 keys, how many of the `count` keys at `among` are less; without a branch, as sorting has them."""

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        v = Lanes(builder, [_I64(0)] * 13)
        vector = _vector(_I32)
        own = builder.load(builder.inttoptr(values[0], vector.as_pointer()), align=4)
        others = builder.inttoptr(values[1], _I32.as_pointer())
        begin = builder.block
        loop, end = (builder.append_basic_block(name) for name in ("rank", "ranked"))
        builder.branch(loop)
        builder.position_at_end(loop)
        k, total = builder.phi(_I64), builder.phi(vector)
        other = v.all(builder.load(builder.gep(others, [k])))
        less = builder.sext(builder.icmp_signed("<", other, own), vector)
        added, following = builder.sub(total, less), builder.add(k, _I64(1))
        k.add_incoming(_I64(0), begin)
        k.add_incoming(following, loop)
        total.add_incoming(v.all(0), begin)
        total.add_incoming(added, loop)
        builder.cbranch(builder.icmp_signed("<", following, values[2]), loop, end)
        builder.position_at_end(end)
        builder.store(added, builder.inttoptr(values[3], vector.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4), emit


@intrinsic  # type: ignore[untyped-decorator]
def fill_row(typing_context: Any, value: Any, target: Any) -> Any:
    """Writes a word to 32 lanes."""

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        v = Lanes(builder, [_I64(0)] * 13)
        pointer = builder.inttoptr(values[1], _vector(_I32).as_pointer())
        builder.store(v.all(builder.trunc(values[0], _I32)), pointer, align=4)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), emit
