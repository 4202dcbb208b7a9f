"""The turns of four granules at once: comparisons and stores of vectors of four int32."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

_TURN = ir.IntType(32)
_TURNS = ir.VectorType(_TURN, 4)


def _pointer(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    data = context.make_array(kind)(context, builder, array)
    at = cgutils.get_item_pointer(context, builder, kind, data, [index], wraparound=False)
    return builder.bitcast(at, _TURNS.as_pointer())


def _spread(builder: Any, value: Any) -> Any:
    """Four times the low word of an int64."""
    nothing = ir.Constant(_TURNS, ir.Undefined)
    first = builder.insert_element(nothing, builder.trunc(value, _TURN), _TURN(0))
    return builder.shuffle_vector(first, nothing, ir.Constant(_TURNS, [0] * 4))


@intrinsic  # type: ignore[untyped-decorator]
def _later_than(typing_context: Any, array: Any, index: Any, turn: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        turns = builder.load(_pointer(context, builder, signature.args[0], *arguments[:2]), align=4)
        later = builder.icmp_signed(">", turns, _spread(builder, arguments[2]))
        return builder.zext(builder.bitcast(later, ir.IntType(4)), ir.IntType(64))

    return types.int64(array, types.int64, types.int64), emit


@intrinsic  # type: ignore[untyped-decorator]
def _put(typing_context: Any, array: Any, index: Any, mask: Any, turn: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        at = _pointer(context, builder, signature.args[0], *arguments[:2])
        bit = ir.Constant(_TURNS, [1, 2, 4, 8])
        chosen = builder.and_(_spread(builder, arguments[2]), bit)
        is_chosen = builder.icmp_signed("==", chosen, bit)
        new = _spread(builder, arguments[3])
        builder.store(builder.select(is_chosen, new, builder.load(at, align=4)), at, align=4)
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64, types.int64), emit


def _later_than_in_python(array: Any, index: int, turn: int) -> int:
    return sum(1 << g for g in range(4) if array[int(index) + g] > turn)


def _put_in_python(array: Any, index: int, mask: int, turn: int) -> None:
    for g in range(4):
        if int(mask) >> g & 1:
            array[int(index) + g] = np.int32(turn)


later_than: Any = _later_than_in_python if nb.config.DISABLE_JIT else _later_than
"""later_than(array, index, turn): bit g of the result says whether array[index + g] > turn, for g in 0..3."""
put: Any = _put_in_python if nb.config.DISABLE_JIT else _put
"""put(array, index, mask, turn): array[index + g] = turn where bit g of mask is 1, for g in 0..3."""
