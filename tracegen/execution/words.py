"""Words of this computer's memory by their address, and numbers as their bits: what LLVM has and numba does not offer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

_I64 = ir.IntType(64)


def _peek(bits: int) -> Any:
    def peek(typing_context: Any, address: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            pointer = builder.inttoptr(values[0], ir.IntType(bits).as_pointer())
            value = builder.load(pointer, align=1)
            return value if bits == 64 else builder.zext(value, _I64)

        return types.int64(types.int64), emit

    return intrinsic(peek)


def _poke(bits: int) -> Any:
    def poke(typing_context: Any, address: Any, value: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            kind = ir.IntType(bits)
            pointer = builder.inttoptr(values[0], kind.as_pointer())
            value = values[1] if bits == 64 else builder.trunc(values[1], kind)
            builder.store(value, pointer, align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), emit

    return intrinsic(poke)


def _scalar(result: Any, argument: Any, build: Callable[[Any, Any], Any]) -> Any:
    def scalar(typing_context: Any, value: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return build(builder, values[0])

        return result(argument), emit

    return intrinsic(scalar)


peek8, peek16, peek32, peek64 = (_peek(bits) for bits in (8, 16, 32, 64))
"""The unsigned number (of 64 bits: signed) at an address, which need not be aligned."""
poke8, poke16, poke32, poke64 = (_poke(bits) for bits in (8, 16, 32, 64))
"""Write the low bits of a number at an address."""
float_of: Any = _scalar(
    types.float32,
    types.int64,
    lambda b, v: b.bitcast(b.trunc(v, ir.IntType(32)), ir.FloatType()),
)
bits_of_float: Any = _scalar(
    types.int64,
    types.float32,
    lambda b, v: b.zext(b.bitcast(v, ir.IntType(32)), _I64),
)
double_of: Any = _scalar(types.float64, types.int64, lambda b, v: b.bitcast(v, ir.DoubleType()))
bits_of_double: Any = _scalar(types.int64, types.float64, lambda b, v: b.bitcast(v, _I64))


@intrinsic  # type: ignore[untyped-decorator]
def fused(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
    """a * b + c of doubles with one rounding."""

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.fma(*values)

    return types.float64(types.float64, types.float64, types.float64), emit


@intrinsic  # type: ignore[untyped-decorator]
def fused_towards(typing_context: Any, a: Any, b: Any, c: Any, mode: Any) -> Any:
    """The same rounded down, up or to zero, where mode is 1, 2 or 3."""

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        module, double, word = builder.module, ir.DoubleType(), ir.IntType(32)
        said = [ir.MetaDataString(module, text) for text in ("round.dynamic", "fpexcept.strict")]
        function = ir.FunctionType(double, [double] * 3 + [ir.MetaDataType()] * 2)
        name = "llvm.experimental.constrained.fma.f64"
        compute = module.globals.get(name) or ir.Function(module, function, name)
        name, function = "llvm.set.rounding", ir.FunctionType(ir.VoidType(), [word])
        choose = module.globals.get(name) or ir.Function(module, function, name)
        # LLVM's numbers: 0 to zero, 1 nearest, 2 up, 3 down.
        towards = builder.trunc(values[3], word)
        number = builder.select(
            builder.icmp_unsigned("==", towards, word(2)), word(2), builder.sub(word(3), towards)
        )
        number = builder.select(builder.icmp_unsigned("==", towards, word(1)), word(3), number)
        builder.call(choose, [number])
        result = builder.call(compute, [*values[:3], *said])
        builder.call(choose, [word(1)])
        return result

    return types.float64(*[types.float64] * 3, types.int64), emit


def _counting(name: str, second: bool) -> Callable[[Any, Any], Any]:
    def build(builder: Any, value: Any) -> Any:
        kinds = [_I64, ir.IntType(1)] if second else [_I64]
        declared = builder.module.globals.get(f"llvm.{name}.i64") or ir.Function(
            builder.module, ir.FunctionType(_I64, kinds), f"llvm.{name}.i64"
        )
        return builder.call(declared, [value, ir.IntType(1)(0)] if second else [value])

    return build


ones: Any = _scalar(types.int64, types.int64, _counting("ctpop", False))
"""How many bits of 64 are set."""
lowest: Any = _scalar(types.int64, types.int64, _counting("cttz", True))
"""The number of the lowest bit that is set, 64 where none is."""
leading: Any = _scalar(types.int64, types.int64, _counting("ctlz", True))
"""Zeros above the highest bit of 64 that is set."""
