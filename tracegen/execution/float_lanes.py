"""Operations on floating-point numbers, of 32 lanes; see lanes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from llvmlite import ir

from tracegen.execution import operations as o
from tracegen.execution.integer_lanes import combined, signs
from tracegen.execution.lanes import F32, F64, I1, I32, I64, Lanes, declared, vector

_SIGNS = {
    "a": (o.NEGATE_A, o.ABSOLUTE_A),
    "b": (o.NEGATE_B, o.ABSOLUTE_B),
    "c": (o.NEGATE_C, o.ABSOLUTE_C),
}
_EXPONENT = 0x7F800000


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


def _rounded(name: str, fields: str, double: bool = False) -> Callable[[Lanes], Any]:
    """Rounded down, up or to zero, as x says, by the processor itself."""

    def build(v: Lanes) -> None:
        b, module = v.builder, v.builder.module
        values = [_float_operand(v, field, False, double) for field in fields]
        change = declared(module, "llvm.set.rounding", ir.FunctionType(ir.VoidType(), [I32]))
        # LLVM's numbers: 0 to zero, 1 nearest, 2 up, 3 down; those of x: 1 down, 2 up, 3 to zero.
        mode = b.and_(b.lshr(v.x, I32(8)), I32(3))
        number = b.select(b.icmp_unsigned("==", mode, I32(1)), I32(3), I32(0))
        number = b.select(b.icmp_unsigned("==", mode, I32(2)), I32(2), number)
        b.call(change, [number])
        kind, metadata = values[0].type, ir.MetaDataType()
        function = ir.FunctionType(kind, [kind] * len(values) + [metadata] * 2)
        named = f"llvm.experimental.constrained.{name}.v32f{64 if double else 32}"
        said = [ir.MetaDataString(module, text) for text in ("round.dynamic", "fpexcept.strict")]
        result = b.call(declared(module, named, function), [*values, *said])
        b.call(change, [I32(1)])
        v.store("d", _float_result(v, result))

    return build


def _special(compute: Callable[[Lanes, Any], Any]) -> Callable[[Lanes], Any]:
    """A function of floats, computed with doubles."""

    def build(v: Lanes) -> None:
        b = v.builder
        value = b.fpext(_float_operand(v, "a", False, False), vector(F64))
        result = compute(v, value)
        size = v.call("fabs", result)
        small = b.fcmp_ordered("<", size, v.all(2.0**-126, F64))
        small = b.and_(small, v.all(v.has(o.FLUSH), I1))
        sign = b.and_(b.bitcast(result, vector(I64)), v.all(-(1 << 63), I64))
        result = b.select(small, b.bitcast(sign, vector(F64)), result)
        v.store("d", _float_result(v, b.fptrunc(result, vector(F32))))

    return build


def _power_of_two(v: Lanes, value: Any) -> Any:
    """2^(k + f), |f| <= 1/2: the series of exp(f log 2) up to what is lost when doubles are rounded."""
    b = v.builder
    inside = v.call(
        "minimumnum", v.call("maximumnum", value, v.all(-200.0, F64)), v.all(200.0, F64)
    )
    # Behind this number the last bits of a double are those of an integer.
    shift = v.all(3 * 2.0**51, F64)
    shifted = b.fadd(inside, shift)
    rest = b.fsub(inside, b.fsub(shifted, shift))
    power = v.all(0.0, F64)
    for n in range(13, -1, -1):
        power = v.call("fma", power, rest, v.all(math.log(2) ** n / math.factorial(n), F64))
    exponent = b.add(b.bitcast(shifted, vector(I64)), v.all(1023, I64))
    scale = b.bitcast(b.shl(exponent, v.all(52, I64)), vector(F64))
    is_number = b.fcmp_ordered("ord", value, value)
    return b.select(is_number, b.fmul(power, scale), value)


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
    **{
        f"ROUNDED_{name}_F{64 if double else 32}": _rounded(function, fields, double)
        for name, function, fields in (
            ("ADD", "fadd", "ab"),
            ("MULTIPLY", "fmul", "ab"),
            ("FUSED", "fma", "abc"),
        )
        for double in (False, True)
    },
    "SPECIAL_0": _special(lambda v, one: v.builder.fdiv(v.all(1.0, F64), one)),
    "SPECIAL_1": _special(lambda v, one: v.call("sqrt", one)),
    "SPECIAL_2": _special(lambda v, one: v.builder.fdiv(v.all(1.0, F64), v.call("sqrt", one))),
    "SPECIAL_3": _special(_power_of_two),
}
"""Operations that write their results by themselves, and return None. ROUNDED_* are those with a rounding in x, SPECIAL_* those with
RECIPROCAL, ROOT, RECIPROCAL_ROOT and EXP2 in y."""
FLOAT_COMPARISONS: dict[str, Callable[[Lanes], Any]] = {
    "COMPARE_F32": _compare_float(False),
    "COMPARE_F64": _compare_float(True),
}
