"""Addresses of 32 lanes, what of them lies together, and rows moved to and from memory; see lanes."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from tracegen.execution.lanes import CHUNK, I32, I64, Lanes, declared, vector


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
            zero = I64(0)
            v = Lanes(builder, [zero, *values[:2], zero, zero, *values[2:4], *[zero] * 6])
            if kind == "pair":
                at = v.wide("a")
            elif kind == "pairs":
                at = builder.add(v.wide("a"), v.wide("b"))
            elif kind == "word":
                scaled = builder.mul(v.word("a"), v.all(builder.trunc(values[4], I32)))
                at = v.unsigned(builder.add(scaled, v.word("b")))
            else:
                extended = (v.signed if kind == "signed" else v.unsigned)(v.word("a"))
                at = builder.add(builder.mul(extended, v.all(values[4], I64)), v.wide("b"))
            at = builder.add(at, v.all(values[5], I64))
            if kind == "word":
                at = builder.and_(at, v.all(0xFFFFFFFF, I64))
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
        zero = I64(0)
        v = Lanes(builder, [zero] * 13)
        at = _loaded(builder, values[0], I64)
        lanes = ir.Constant(vector(I64), list(range(CHUNK)))
        wanted = builder.add(v.all(values[1], I64), builder.mul(lanes, v.all(values[2], I64)))
        return builder.zext(v.bits(builder.icmp_unsigned("!=", at, wanted)), I64)

    return types.int64(types.int64, types.int64, types.int64), emit


@intrinsic  # type: ignore[untyped-decorator]
def copy_row(typing_context: Any, source: Any, target: Any) -> Any:
    """Copies 128 bytes from one address to another."""

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointers = [builder.inttoptr(value, vector(I32).as_pointer()) for value in values]
        builder.store(builder.load(pointers[0], align=1), pointers[1], align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), emit


@intrinsic  # type: ignore[untyped-decorator]
def deviating(typing_context: Any, addresses: Any, first: Any, pattern: Any) -> Any:
    """The lanes, as 32 bits, whose address (at `addresses`) is not `first` plus its number of 32 bits at `pattern`."""

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        v = Lanes(builder, [I64(0)] * 13)
        at, wanted = _loaded(builder, values[0], I64), v.signed(_loaded(builder, values[2], I32))
        wanted = builder.add(v.all(values[1], I64), wanted)
        return builder.zext(v.bits(builder.icmp_unsigned("!=", at, wanted)), I64)

    return types.int64(types.int64, types.int64, types.int64), emit


@intrinsic  # type: ignore[untyped-decorator]
def deviating_pair(
    typing_context: Any, low: Any, high: Any, first_low: Any, first_high: Any, pattern: Any
) -> Any:
    """The same of addresses whose halves lie at `low` and `high`, where no sum has a carry: its low half is first_low plus
    the number, its high half first_high."""

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        v = Lanes(builder, [I64(0)] * 13)
        b = builder
        lows, highs, wanted = (_loaded(b, values[k], I32) for k in (0, 1, 4))
        first_low, first_high = (v.all(b.trunc(values[k], I32)) for k in (2, 3))
        other = b.or_(b.xor(b.sub(lows, wanted), first_low), b.xor(highs, first_high))
        return b.zext(v.bits(b.icmp_unsigned("!=", other, v.all(0))), I64)

    return types.int64(*[types.int64] * 5), emit


@intrinsic  # type: ignore[untyped-decorator]
def keep_pattern(typing_context: Any, addresses: Any, first: Any, pattern: Any) -> Any:
    """Writes the numbers that `deviating` compares with."""

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        v = Lanes(builder, [I64(0)] * 13)
        away = builder.sub(_loaded(builder, values[0], I64), v.all(values[1], I64))
        pointer = builder.inttoptr(values[2], vector(I32).as_pointer())
        builder.store(v.narrow(away), pointer, align=4)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), emit


@intrinsic  # type: ignore[untyped-decorator]
def spread(typing_context: Any, addresses: Any, first: Any, active: Any, result: Any) -> Any:
    """Writes three numbers of 64 bits about 32 addresses, those of active lanes: the least and the greatest distance from `first`,
    and the bits that any address has.

    Returns the active lanes, as 32 bits, whose distance needs more than 32 bits: then these numbers are wrong.
    """

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        v = Lanes(builder, [I64(0)] * 13)
        b = builder
        at = _loaded(b, values[0], I64)
        away = b.sub(at, v.all(values[1], I64))
        near, active = v.narrow(away), b.trunc(values[2], I32)
        far = b.and_(v.bits(b.icmp_unsigned("!=", v.signed(near), away)), active)
        working = v.lanes_of(active)
        near = b.select(working, near, v.all(0))
        bits = b.select(working, v.narrow(at), v.all(0))
        function = ir.FunctionType(I32, [vector(I32)])
        to = b.inttoptr(values[3], I64.as_pointer())
        for k, (name, of) in enumerate((("smin", near), ("smax", near), ("or", bits))):
            reduce = declared(b.module, f"llvm.vector.reduce.{name}.v{CHUNK}i32", function)
            b.store(b.sext(b.call(reduce, [of]), I64), b.gep(to, [I64(k)]))
        return b.zext(far, I64)

    return types.int64(*[types.int64] * 4), emit


def _loaded(builder: Any, address: Any, kind: ir.Type) -> Any:
    pointer = builder.inttoptr(address, vector(kind).as_pointer())
    return builder.load(pointer, align=kind.width // 8)


@intrinsic  # type: ignore[untyped-decorator]
def granule_keys(
    typing_context: Any, addresses: Any, first: Any, size: Any, lane: Any, active: Any, keys: Any
) -> Any:
    """Writes (granule - first) << 6 | number of the lane, from `lane` on, of 32 lanes; 2^31 - 1 of those that are not active.

    Returns the active lanes, as 32 bits, whose bytes lie in two granules or whose granule is 2^24 or more away.
    """

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        v = Lanes(builder, [I64(0)] * 13)
        b = builder
        at = _loaded(b, values[0], I64)
        away = b.sub(b.ashr(at, v.all(5, I64)), v.all(values[1], I64))
        near = v.narrow(away)
        far = b.icmp_unsigned(">=", b.add(near, v.all(1 << 24)), v.all(1 << 25))
        far = b.or_(far, b.icmp_unsigned("!=", v.signed(near), away))
        inside = b.add(b.and_(v.narrow(at), v.all(31)), v.all(b.trunc(values[2], I32)))
        wrong = b.or_(far, b.icmp_unsigned(">", inside, v.all(32)))
        lanes = b.add(v.all(b.trunc(values[3], I32)), ir.Constant(vector(I32), list(range(CHUNK))))
        key = b.or_(b.shl(near, v.all(6)), lanes)
        active = b.trunc(values[4], I32)
        key = b.select(v.lanes_of(active), key, v.all((1 << 31) - 1))
        b.store(key, b.inttoptr(values[5], key.type.as_pointer()), align=4)
        return b.zext(b.and_(v.bits(wrong), active), I64)

    return types.int64(*[types.int64] * 6), emit


def _sorting(count: int) -> Any:
    """Sorts so many numbers of 32 bits at an address, as Batcher's bitonic network does: without a branch."""

    def sort(typing_context: Any, address: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            kind = ir.VectorType(I32, count)
            places = ir.VectorType(I32, count)
            pointer = builder.inttoptr(values[0], kind.as_pointer())
            keys = builder.load(pointer, align=4)
            steps = [(1 << k, 1 << j) for k in range(1, count.bit_length()) for j in range(k)[::-1]]
            for size, distance in steps:
                partner = ir.Constant(places, [i ^ distance for i in range(count)])
                other = builder.shuffle_vector(keys, keys, partner)
                function = ir.FunctionType(kind, [kind, kind])
                low, high = (
                    builder.call(
                        declared(builder.module, f"llvm.{name}.v{count}i32", function),
                        [keys, other],
                    )
                    for name in ("smin", "smax")
                )
                is_low = [(i & distance == 0) == (i & size == 0) for i in range(count)]
                chosen = [i if is_low[i] else i + count for i in range(count)]
                keys = builder.shuffle_vector(low, high, ir.Constant(places, chosen))
            builder.store(keys, pointer, align=4)
            return context.get_dummy_value()

        return types.void(types.int64), emit

    return intrinsic(sort)


sort_32, sort_64 = _sorting(32), _sorting(64)


@intrinsic  # type: ignore[untyped-decorator]
def copy_granules(
    typing_context: Any, source: Any, masks: Any, groups: Any, hits: Any, to: Any, to_masks: Any, to_groups: Any, to_hits: Any,
    count: Any, shift: Any,
) -> Any:  # fmt: skip
    """Copies granules, moved by `shift`, and three columns that belong to them, four at a time: up to three more are written."""

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        b = builder
        begin = b.block
        loop, end = (b.append_basic_block(name) for name in ("granules", "copied"))
        four = ir.VectorType(I64, 4)
        zero = ir.Constant(ir.VectorType(I32, 4), [0] * 4)
        single = b.insert_element(ir.Constant(four, ir.Undefined), values[9], I32(0))
        moved = b.shuffle_vector(single, single, zero)
        b.branch(loop)
        b.position_at_end(loop)
        k = b.phi(I64)
        for column, kind in enumerate((four, ir.VectorType(I32, 4), I32, I32)):
            size = I64((32, 16, 4, 4)[column] // 4)
            from_, to_ = (
                b.inttoptr(b.add(values[part + column], b.mul(k, size)), kind.as_pointer())
                for part in (0, 4)
            )
            value = b.load(from_, align=1)
            b.store(b.add(value, moved) if column == 0 else value, to_, align=1)
        following = b.add(k, I64(4))
        k.add_incoming(I64(0), begin)
        k.add_incoming(following, loop)
        b.cbranch(b.icmp_signed("<", following, values[8]), loop, end)
        b.position_at_end(end)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 10), emit


@intrinsic  # type: ignore[untyped-decorator]
def fill_row(typing_context: Any, value: Any, target: Any) -> Any:
    """Writes a word to 32 lanes."""

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        v = Lanes(builder, [I64(0)] * 13)
        pointer = builder.inttoptr(values[1], vector(I32).as_pointer())
        builder.store(v.all(builder.trunc(values[0], I32)), pointer, align=4)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), emit
