"""Operations on floating-point numbers, of 32 lanes; see lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracegen.execution import operations as o
from tracegen.execution.integer_lanes import combined, signs
from tracegen.execution.lanes import F32, F64, I1, I32, Lanes, vector

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
    small = b.and_(small, v.all(v.has(flush), I1))
    return b.select(small, b.and_(bits, v.all(-(1 << 31))), bits)


def _float_operand(v: Lanes, field: str, plain: bool, double: bool) -> Any:
    if plain:
        return v.double(field) if double else v.real(field)
    if double:
        return v.builder.bitcast(signs(v, v.wide(field), *_SIGNS[field], 63), vector(F64))
    bits = signs(v, _flushed(v, v.word(field)), *_SIGNS[field], 31)
    return v.builder.bitcast(bits, vector(F32))


def _float_result(v: Lanes, value: Any) -> Any:
    """Clamped and flushed where x says so."""
    b = v.builder
    kind = value.type.element
    clamped = v.call("minimumnum", v.call("maximumnum", value, v.all(0.0, kind)), v.all(1.0, kind))
    value = b.select(v.has(o.SATURATE), clamped, value)
    if kind == F64:
        return value
    return _flushed(v, b.bitcast(value, vector(I32)))


def _arithmetic(name: str, fields: str, double: bool = False) -> Callable[[Lanes], Any]:
    """Most instructions have no modifiers: these take a way without them."""

    def computed(v: Lanes, plain: bool) -> Any:
        values = [_float_operand(v, field, plain, double) for field in fields]
        if name in ("fadd", "fmul"):
            return getattr(v.builder, name)(*values)
        return v.call(name, *values)

    def build(v: Lanes) -> None:
        plain = v.builder.icmp_unsigned("==", v.x, I32(0))
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
                bits = signs(v, v.wide(field), negate, absolute, 63)
            else:
                bits = signs(v, _flushed(v, v.word(field), o.FLUSH << 8), negate, absolute, 31)
            values.append(b.bitcast(bits, vector(F64 if double else F32)))
        relations = [
            (v.bits(b.fcmp_ordered(sign, *values)), relation)
            for sign, relation in (("<", o.LESS), ("==", o.EQUAL), (">", o.GREATER))
        ]
        return combined(v, [*relations, (v.bits(b.fcmp_unordered("uno", *values)), o.UNORDERED)])

    return build


FLOATS: dict[str, Callable[[Lanes], Any]] = {
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
"""Operations that write their results by themselves, and return None."""
FLOAT_COMPARISONS: dict[str, Callable[[Lanes], Any]] = {
    "COMPARE_F32": _compare_float(False),
    "COMPARE_F64": _compare_float(True),
}
