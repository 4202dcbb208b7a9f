"""32 lanes of rows as vectors of this processor, while LLVM's code of an operation on them is built.

Numba would compile a loop over lanes into code that first asks whether rows overlap, as they often do (`R1 = R1 + R2`), and
then goes lane by lane. So the operations are written in LLVM's vectors: a row is loaded whole, computed with, and stored.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

CHUNK = 32
"""Lanes that one vector holds."""
I1, I32, I64 = (ir.IntType(bits) for bits in (1, 32, 64))
F32, F64 = ir.FloatType(), ir.DoubleType()


def vector(kind: ir.Type) -> ir.VectorType:
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
        self.x, self.y = (builder.trunc(one, I32) for one in arguments[8:10])
        self.m, self.n, self.active = (builder.trunc(one, I32) for one in arguments[10:13])

    def _pointer(self, field: str, part: int, kind: ir.Type) -> Any:
        builder = self.builder
        at = builder.add(self.place, self.fields[field])
        for _ in range(part):
            at = builder.add(at, self.row_bytes)
        return builder.inttoptr(at, vector(kind).as_pointer())

    def word(self, field: str, part: int = 0, kind: ir.Type = I32) -> Any:
        return self.builder.load(self._pointer(field, part, kind), align=4)

    def wide(self, field: str) -> Any:
        """64 bits of each lane, of two rows."""
        low, high = (self.unsigned(self.word(field, part)) for part in (0, 1))
        return self.builder.or_(low, self.builder.shl(high, self.all(32, I64)))

    def real(self, field: str) -> Any:
        return self.word(field, 0, F32)

    def double(self, field: str) -> Any:
        return self.builder.bitcast(self.wide(field), vector(F64))

    def all(self, value: Any, kind: ir.Type = I32) -> Any:
        """A number, or a scalar of the builder's, in every lane."""
        if isinstance(value, (int, float)):
            return ir.Constant(vector(kind), [value] * CHUNK)
        first = self.builder.insert_element(ir.Constant(vector(kind), ir.Undefined), value, I32(0))
        return self.builder.shuffle_vector(first, first, ir.Constant(vector(I32), [0] * CHUNK))

    def unsigned(self, value: Any) -> Any:
        return self.builder.zext(value, vector(I64))

    def signed(self, value: Any) -> Any:
        return self.builder.sext(value, vector(I64))

    def narrow(self, value: Any) -> Any:
        return self.builder.trunc(value, vector(I32))

    def lanes_of(self, bits: Any) -> Any:
        """A bit a lane as a vector of bits."""
        return self.builder.icmp_signed("<", self._at_sign(bits), self.all(0))

    def _at_sign(self, bits: Any) -> Any:
        """The bit of each lane as its sign: LLVM takes four times as long for a bitcast, without AVX-512."""
        places = ir.Constant(vector(I32), [31 - lane for lane in range(CHUNK)])
        return self.builder.shl(self.all(bits), places)

    def bits(self, lanes: Any) -> Any:
        return self.builder.bitcast(lanes, I32)

    def call(self, name: str, *values: Any) -> Any:
        """An intrinsic of LLVM's that takes vectors of one type."""
        kind = values[0].type
        short = {I32: "i32", I64: "i64", F32: "f32", F64: "f64"}[kind.element]
        function = ir.FunctionType(kind, [value.type for value in values])
        return self.builder.call(
            declared(self.builder.module, f"llvm.{name}.v{CHUNK}{short}", function), values
        )

    def has(self, modifier: int) -> Any:
        """Whether x has a modifier, as a scalar."""
        return self.builder.icmp_unsigned("!=", self.builder.and_(self.x, I32(modifier)), I32(0))

    def ones_if(self, modifier: int) -> Any:
        """All bits of a scalar where x has a modifier, else none."""
        return self.builder.sext(self.has(modifier), I32)

    def store(self, field: str, value: Any) -> None:
        """Writes one row, or two of 64 bits; of active lanes alone."""
        builder = self.builder
        kind = value.type.element
        if kind in (I64, F64):
            value = builder.bitcast(value, vector(I64))
            self._store_row(field, 0, self.narrow(value))
            self._store_row(field, 1, self.narrow(builder.lshr(value, self.all(32, I64))))
        else:
            self._store_row(field, 0, builder.bitcast(value, vector(I32)))

    def _store_row(self, field: str, part: int, value: Any) -> None:
        builder = self.builder
        pointer = self._pointer(field, part, I32)
        everyone = builder.icmp_signed("==", self.active, I32(-1))
        with builder.if_else(everyone) as (whole, some):
            with whole:
                builder.store(value, pointer, align=4)
            with some:
                # Volatile, or LLVM makes masked stores of this, each of which takes 40 cycles of some processors.
                before = _VolatileLoad(builder.block, pointer)
                builder._insert(before)
                mask = builder.ashr(self._at_sign(self.active), self.all(31))
                chosen = builder.and_(builder.xor(before, value), mask)
                builder.store(builder.xor(before, chosen), pointer, align=4)


class _VolatileLoad(ir.instructions.LoadInstr):  # type: ignore[misc]
    """A load of words that stays as it is."""

    def descr(self, buf: list[str]) -> None:
        pointer = self.operands[0]
        buf.append(
            f"load volatile {self.type}, {pointer.type} {pointer.get_reference()}, align 4\n"
        )


def declared(module: Any, name: str, kind: Any) -> Any:
    return module.globals.get(name) or ir.Function(module, kind, name)
