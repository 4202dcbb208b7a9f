"""One switch over all operations on rows; LLVM makes of each what the processor has."""

from __future__ import annotations

from typing import Any

from numba.core import types
from numba.extending import intrinsic

from tracegen.execution.float_lanes import FLOAT_COMPARISONS, FLOATS
from tracegen.execution.integer_lanes import CARRYING, INTEGER_COMPARISONS, INTEGERS, MASKED
from tracegen.execution.lanes import I32, I64, Lanes
from tracegen.execution.state import MOST_CHUNKS

ROWS = INTEGERS | FLOATS
"""Operations whose results are rows."""
COMPARISONS = INTEGER_COMPARISONS | FLOAT_COMPARISONS
"""Operations whose results are the masks d and e."""
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
        number = builder.trunc(values[0], I32)
        columns = {
            name: _column(builder, builder.add(values[2], I64(8 * MOST_CHUNKS * row)))
            for name, row in (("place", 0), ("m", 3), ("n", 4), ("first", 5), ("second", 6))
        }
        columns["here"] = _column(builder, values[3])
        switch = builder.switch(number, other)
        for k, name in enumerate(VECTOR):
            block = builder.append_basic_block(name.lower())
            switch.add_case(I32(k), block)
            builder.position_at_end(block)
            chunk = builder.phi(I64)
            chunk.add_incoming(I64(0), begin)
            _chunk(builder, name, chunk, columns, values)
            following = builder.add(chunk, I64(1))
            chunk.add_incoming(following, builder.block)
            builder.cbranch(builder.icmp_signed("<", following, values[1]), block, end)
        builder.position_at_end(other)
        builder.unreachable()
        builder.position_at_end(end)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 12), emit


def _column(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, I64.as_pointer())


def _chunk(builder: Any, name: str, chunk: Any, columns: dict[str, Any], values: Any) -> None:
    """Emits one operation on one chunk, unless none of its lanes works."""

    def of(column: str) -> Any:
        return builder.load(builder.gep(columns[column], [chunk]))

    here = of("here")
    with builder.if_then(builder.icmp_signed("!=", here, I64(0))):
        m, n = (of(one) if name not in ROWS else I64(0) for one in "mn")
        v = Lanes(builder, [None, of("place"), values[4], *values[5:12], m, n, here])
        for column, mask in zip(("first", "second"), _built(name, v), strict=False):
            builder.store(builder.zext(mask, I64), builder.gep(columns[column], [chunk]))


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
