"""Products of matrices: NVIDIA's of a sub-group (mma), of four together (wgmma), and with sums in tensor memory (tcgen05), and AMD's
(mfma, wmma).

Factors lie in registers of all lanes, as fragments, or in local memory, as tiles.

A core of a B200 has tensor memory beside local memory, 128 lanes of 512 columns of 32 bits a group. Sub-groups move rows of registers to
and from it; one lane starts a product that adds to what lies there. Products are computed at once, with the sum of each element in a
double that is rounded at the end: hardware adds in an order, and with a precision, that is not published.
Source: PTX ISA 8.8, "Warp-Level Matrix Instructions", "Asynchronous Warpgroup Level Matrix Instructions" and "TensorCore 5th Generation Family Instructions": matrix
descriptors, instruction descriptor, data paths; AMD, "CDNA3" and "RDNA3" Instruction Set Architecture Reference Guides, matrix instructions.
"""

from __future__ import annotations

import math

import numpy as np

from memsim.compile import hot, inner
from tracegen.execution import operations as o
from tracegen.execution.memory import fail
from tracegen.execution.numbers import (
    E4M3,
    E4M3FNUZ,
    NEAREST,
    half_bits,
    of_bfloat,
    of_eight,
    of_half,
)
from tracegen.execution.state import (
    OUT_OF_LOCAL,
    OUT_OF_TENSOR,
    UNKNOWN,
    Counter,
    Size,
    Warp,
    opened,
    source_mask,
)
from tracegen.execution.words import (
    bits_of_double,
    bits_of_float,
    double_of,
    float_of,
    fused,
    lowest,
    peek8,
    peek16,
    peek32,
    peek64,
    poke32,
    poke64,
)

N_LANE, N_COLUMN = 128, 512
_ROW_BYTES = 4 * N_COLUMN
_MOST_ROWS, _MOST_COLUMNS, _MOST_DEPTH = 128, 256, 64
"""Of the factors of a product."""
_FIRST = N_LANE * _ROW_BYTES
_SECOND = _FIRST + 8 * _MOST_ROWS * _MOST_DEPTH
_SUMS = _SECOND + 8 * _MOST_COLUMNS * _MOST_DEPTH
N_BYTES = _SUMS + 8 * _MOST_COLUMNS
"""Of State.tensor, for each group of a cluster: the memory, then both factors and a row of sums as doubles."""
_D, _E, _A, _B, _C, _M, _X, _Y, _Z = 2, 3, 4, 5, 6, 7, 9, 10, 11
"""Columns of the interpreter's table."""
_LOAD, _MULTIPLY, _FRAGMENTS, _COPY, _BLOCKS = 0, 2, 3, 4, 5
_WORD = 0xFFFFFFFF
_SHAPE, _PACKED, _COUNT, _IN_TENSOR_MEMORY = 7, o.TENSOR_PACKED, o.TENSOR_COUNT, o.IN_TENSOR_MEMORY
_SKIPPED = o.SKIPPED
_FIRST_IN_ROWS, _SECOND_IN_ROWS = o.FIRST_IN_ROWS, o.SECOND_IN_ROWS
_FIRST_ACROSS, _SECOND_ACROSS = o.FIRST_ACROSS, o.SECOND_ACROSS
_HALF_SUMS, _WHOLE_SUMS, _HIGH_HALVES = o.HALF_SUMS, o.WHOLE_SUMS, o.HIGH_HALVES
_WIDE, _HALVES, _QUARTERS, _EIGHTHS, _SIXTEEN = range(5)
"""Which lanes a sub-group's lanes move; see operations.TENSOR_LOAD."""
_SINGLES, _WHOLE = 1, 2
"""Formats of sums: floats and integers; 0 is halves."""
_DEPTH_BYTES, _PASS_BYTES = 32, 128
_SCALES, _SCALE_IS_FLOAT, _PAIRED, _GROUP_BITS = o.SCALES, o.SCALE_IS_FLOAT, o.PAIRED, o.GROUP_BITS


@hot
def tile_operation(listed, subgroup, at, which, active):
    """One operation on tensor memory, or a product whose sums lie in registers; whether it went well."""
    state = opened(listed)
    if which == _FRAGMENTS:
        fault = _multiply_fragments(listed, subgroup, at, active)
    elif which == _BLOCKS:
        fault = _multiply_blocks(listed, subgroup, at)
    elif which == _MULTIPLY:
        fault = _multiply(listed, subgroup, at, lowest(active))
    elif which == _COPY:
        fault = _copy(listed, subgroup, at, lowest(active))
    else:
        fault = _move(listed, subgroup, at, which == _LOAD, active)
    state.counters[Counter.FAULT] = fault
    return fault == 0


@inner
def _memories(state, rank):
    """Where on this computer the local and the tensor memory of a group of the cluster begin."""
    local = np.int64(state.local.ctypes.data) + (rank << _GROUP_BITS)
    return local, np.int64(state.tensor.ctypes.data) + rank * N_BYTES


@inner
def _tensor(state, subgroup):
    return _memories(state, state.subgroups[subgroup, Warp.RANK])[1]


@hot
def _move(listed, subgroup, at, loads, active):
    """Copies registers of lanes; 0, or the kind of a fault."""
    state = opened(listed)
    row, row_bytes = state.table[at], np.int64(state.sizes[Size.ROW_BYTES])
    x, place = np.int64(row[_X]), state.rows[subgroup]
    shape, packed, n = x & _SHAPE, x & _PACKED != 0, x >> _COUNT & 0xFF
    memory = _tensor(state, subgroup)
    left = active
    while left != 0:
        lane = lowest(left)
        left &= left - 1
        address = (peek32(place + row[_A] + 4 * lane) + row[_Y]) & _WORD
        if state.subgroups[subgroup, Warp.RANK] & 1 and address >> 16 & N_LANE:
            address -= N_LANE << 16  # of a pair, whose second group may count lanes from 128 on
        registers = place + row[_D if loads else _C] + 4 * lane
        for k in range(n):
            line, column = lane & 15 if shape == _SIXTEEN else lane, k
            if _HALVES <= shape <= _EIGHTHS:
                line = lane >> 2
            if shape == _HALVES:
                line, column = line + 8 * (lane >> 1 & 1), 2 * k + (lane & 1)
            elif shape == _QUARTERS:
                line, column = line + 8 * (k & 1), 4 * (k >> 1) + (lane & 3)
            elif shape == _EIGHTHS:
                line = line + 8 * (k >> 1 & 1)
                column = 8 * (k >> 2) + 2 * (lane & 3) + (k & 1)
            line, column = (
                line + (address >> 16),
                (2 if packed else 1) * column + (address & 0xFFFF),
            )
            if line >= N_LANE or column + packed >= N_COLUMN:
                return fail(state, OUT_OF_TENSOR, lane, line << 16 | column)
            where, here = memory + line * _ROW_BYTES + 4 * column, registers + k * row_bytes
            if loads and packed:
                poke32(here, peek16(where) | peek16(where + 4) << 16)
            elif loads:
                poke32(here, peek32(where))
            elif packed:
                poke32(where, peek32(here) & 0xFFFF)
                poke32(where + 4, peek32(here) >> 16)
            else:
                poke32(where, peek32(here))
    return np.int64(0)


@hot
def _copy(listed, subgroup, at, lane):
    """32 rows of 16 bytes from local memory to tensor memory, four times; 0, or the kind of a fault."""
    state = opened(listed)
    row, row_bytes = state.table[at], np.int64(state.sizes[Size.ROW_BYTES])
    here, first = state.rows[subgroup] + 4 * lane, state.subgroups[subgroup, Warp.RANK]
    place, low = peek32(here + row[_A]), peek32(here + row[_B])
    start, stride = (low & 0x3FFF) << 4, (peek32(here + row[_B] + row_bytes) & 0x3FFF) << 4
    if place >> 16 or place + 4 > N_COLUMN:
        return fail(state, OUT_OF_TENSOR, lane, place + 3)
    count = np.int64(1)
    if row[_X] & _PAIRED:
        first, count = first & ~np.int64(1), np.int64(2)
    for rank in range(first, first + count):
        local, memory = _memories(state, rank)
        for i in range(32):
            from_ = start + (i >> 3) * stride + (i & 7) * 16
            if from_ + 16 > state.sizes[Size.LOCAL_BYTES]:
                return fail(state, OUT_OF_LOCAL, lane, from_)
            for word in range(4):
                for part in range(4):
                    to = memory + _at(place + word, 32 * part + i)
                    poke32(to, peek32(local + from_ + 4 * word))
    return np.int64(0)


@hot
def _multiply(listed, subgroup, at, lane):
    """A product of tiles, which this lane starts; 0, or the kind of a fault."""
    state = opened(listed)
    row = state.table[at]
    x, here = np.int64(row[_X]), state.rows[subgroup] + 4 * lane
    what, kind = peek32(here + row[_E]), x & 7
    n, m = (what >> 17 & 63) << 3, (what >> 24 & 31) << 4
    first, second = _format(kind, what >> 7 & 7), _format(kind, what >> 10 & 7)
    sparse, saturated, pair = what >> 2 & 1, what >> 3 & 1, 2 if x & _PAIRED else 1
    m //= pair
    groups = state.sizes[Size.IN_CLUSTER]
    if (
        first < 0
        or second < 0
        or sparse
        or saturated
        or m not in (64, 128)
        or not 8 <= n <= 256
        or (pair == 2 and (m == 64 or groups % 2 != 0))
    ):
        return fail(state, UNKNOWN, lane, what)
    bits = _bits_of(first)
    depth, in_tensor_memory = 8 * _DEPTH_BYTES // bits, x & _IN_TENSOR_MEMORY != 0
    counts = state.local_counts[np.int64(row[_Z]) & 0xFFFFF]
    counts[0] += 1
    counts[1] += (bits == 32) + 2 * (m == 64)
    counts[2] += m * n * depth
    counts[3] += ((0 if in_tensor_memory else m) + n // pair) * _DEPTH_BYTES // _PASS_BYTES
    if x & _SKIPPED:
        return np.int64(0)
    for half in range(pair):
        fault = _multiply_half(listed, subgroup, at, lane, half, m, n, depth)
        if fault:
            return fault
    return np.int64(0)


@inner
def _multiply_half(listed, subgroup, at, lane, half, m, n, depth):
    """The rows of a product that one group has: all, or its half of those of a pair of groups, each of which has half of the second factor's
    columns; 0, or the kind of a fault."""
    state = opened(listed)
    row, row_bytes = state.table[at], np.int64(state.sizes[Size.ROW_BYTES])
    x, here = np.int64(row[_X]), state.rows[subgroup] + 4 * lane
    what, kind, scales = peek32(here + row[_E]), x & 7, x >> _SCALES & 7
    first, second = _format(kind, what >> 7 & 7), _format(kind, what >> 10 & 7)
    total, pair = _SINGLES if scales else what >> 4 & 3, 2 if x & _PAIRED else 1
    own = state.subgroups[subgroup, Warp.RANK]
    if pair == 2:
        own += half - (own & 1)
    local, memory = _memories(state, own)
    place, last = peek32(here + row[_C]), _line(m - 1, m)
    if (place >> 16) + last >= N_LANE or (place & 0xFFFF) + n > N_COLUMN:
        return fail(state, OUT_OF_TENSOR, lane, place + (last << 16) + n - 1)
    sign = -1.0 if what >> 13 & 1 else 1.0
    if x & _IN_TENSOR_MEMORY:
        held, width = peek32(here + row[_A]), _DEPTH_BYTES // 4
        if (held >> 16) + last >= N_LANE or (held & 0xFFFF) + width > N_COLUMN:
            return fail(state, OUT_OF_TENSOR, lane, held + (last << 16) + width - 1)
        for i in range(m):
            where = memory + _at(held, _line(i, m))
            for k in range(depth):
                value = sign * _value(where, k, first)
                poke64(memory + _first(i, k), bits_of_double(value))
    else:
        low, high = peek32(here + row[_A]), peek32(here + row[_A] + row_bytes)
        across = what >> 15 & 1
        far = _read_tile(state, local, memory, low, high, 0, m, 0, first, sign, across, False)
        if far:
            return fail(state, OUT_OF_LOCAL, lane, far)
    low, high = peek32(here + row[_B]), peek32(here + row[_B] + row_bytes)
    sign, across, columns = -1.0 if what >> 14 & 1 else 1.0, what >> 16 & 1, n // pair
    for part in range(pair):
        of_part, _ = _memories(state, own if pair == 1 else own - (own & 1) + part)
        far = _read_tile(
            state,
            of_part,
            memory,
            low,
            high,
            0,
            columns,
            part * columns,
            second,
            sign,
            across,
            True,
        )
        if far:
            return fail(state, OUT_OF_LOCAL, lane, far)
    if scales:
        factors, is_float = here + row[_D] + row_bytes, what >> 23 & 1 == 0
        one, other = peek32(factors), peek32(factors + row_bytes)
        _scale(memory, one, what >> 29 & 3, m, depth, scales, is_float, False)
        _scale(memory, other, what >> 4 & 3, n, depth, scales, is_float, True)
    adds = peek32(here + row[_D]) != 0
    for i in range(m):
        where, sums = memory + _at(place, _line(i, m)), memory + _SUMS
        for j in range(n):
            value = _sum_of(peek32(where + 4 * j), total) if adds else 0.0
            poke64(sums + 8 * j, bits_of_double(value))
        for k in range(depth):
            factor = double_of(peek64(memory + _first(i, k)))
            others = memory + _second(0, k)
            for j in range(n):
                value = double_of(peek64(sums + 8 * j)) + factor * double_of(peek64(others + 8 * j))
                poke64(sums + 8 * j, bits_of_double(value))
        for j in range(n):
            value = double_of(peek64(sums + 8 * j))
            if total == _SINGLES:
                poke32(where + 4 * j, bits_of_float(np.float32(value)))
            else:
                poke32(
                    where + 4 * j, np.int64(value) if total == _WHOLE else half_bits(value, NEAREST)
                )
    return np.int64(0)


@inner
def _read_tile(state, local, memory, low, high, begin, n, to, form, sign, across, is_second):
    """Reads a factor's n rows or columns from `begin` on to doubles, from the number `to` on; 0, or an address beyond local memory.

    local, memory : see _memories;  low, high : halves of a descriptor of tcgen05;  across : whether elements follow each other across the depth;  is_second : then they
        are written depth by depth
    """
    start, leading, stride = (low & 0x3FFF) << 4, (low >> 16 & 0x3FFF) << 4, (high & 0x3FFF) << 4
    mode, bits = high >> 29 & 7, _bits_of(form)
    width = 16 if mode == 0 else 32 if mode == 6 else 64 if mode == 4 else 128
    for i in range(n):
        for k in range(8 * _DEPTH_BYTES // bits):
            along, of_row = begin + i, k
            if not across:
                along, of_row = k, begin + i
            along = along * bits >> 3
            at = start + (of_row & 7) * width
            if across:
                outer, inside = (stride, leading) if mode == 0 else (leading, stride)
                at += along // width * outer + along % width + (of_row >> 3) * inside
            elif mode == 0:
                at += along // width * leading + along % width + (of_row >> 3) * stride
            else:
                at += along + (of_row >> 3) * stride
            at ^= at >> 2 & 0x60 if mode == 1 else at >> 3 & width - 16
            if at + max(bits >> 3, 1) > state.sizes[Size.LOCAL_BYTES]:
                return at
            value = sign * _value(local + at, k & 1 if bits < 8 else 0, form)
            poke64(
                memory + (_second(to + i, k) if is_second else _first(to + i, k)),
                bits_of_double(value),
            )
    return np.int64(0)


@hot
def _multiply_fragments(listed, subgroup, at, active):
    """A product whose sums lie in registers: see operations.MATRIX_MULTIPLY; 0, or the kind of a fault."""
    state = opened(listed)
    row, row_bytes = state.table[at], np.int64(state.sizes[Size.ROW_BYTES])
    x, y, place = np.int64(row[_X]), np.int64(row[_Y]), state.rows[subgroup]
    first, second, n, m, depth = x & 15, x >> 4 & 15, y & 511, y >> 9 & 31, y >> 14
    local, memory = _memories(state, state.subgroups[subgroup, Warp.RANK])
    here = place + 4 * lowest(active)
    if x & _FIRST_IN_ROWS:
        _read_fragment(memory, place + row[_A], row_bytes, m, depth, first, False)
    else:
        low, high = _older(peek32(here + row[_A]), peek32(here + row[_A] + row_bytes))
        own = 16 * (subgroup % state.sizes[Size.IN_GROUP] & 3)
        across = x & _FIRST_ACROSS
        far = _read_tile(state, local, memory, low, high, own, m, 0, first, 1.0, across, False)
        if far:
            return fail(state, OUT_OF_LOCAL, lowest(active), far)
    if x & _SECOND_IN_ROWS:
        _read_fragment(memory, place + row[_B], row_bytes, n, depth, second, True)
    else:
        low, high = _older(peek32(here + row[_B]), peek32(here + row[_B] + row_bytes))
        across = x & _SECOND_ACROSS
        far = _read_tile(state, local, memory, low, high, 0, n, 0, second, 1.0, across, True)
        if far:
            return fail(state, OUT_OF_LOCAL, lowest(active), far)
    scales = x >> _SCALES & 7
    if scales:
        factors, is_float = place + np.int64(row[_E]), x & _SCALE_IS_FLOAT != 0
        _scale_fragments(memory, factors, m, depth, scales, is_float, False)
        _scale_fragments(memory, factors + row_bytes, n, depth, scales, is_float, True)
    adds = source_mask(state.masks[subgroup], row[_M]) & active != 0
    words = 2 if first == _DOUBLE else 1
    for lane in range(32):
        for j in range(n >> 3):
            for r in range(m >> 2):  # rows g and g + 8, columns 2 t and 2 t + 1
                i, column = (lane >> 2) + 8 * (r >> 1), 8 * j + 2 * (lane & 3) + (r & 1)
                number = (m >> 2) * j + r
                from_, to = place + row[_C] + 4 * lane, place + row[_D] + 4 * lane
                if x & _HALF_SUMS:
                    from_, to = from_ + (number >> 1) * row_bytes, to + (number >> 1) * row_bytes
                    word = peek32(from_)
                    total = of_half(word >> 16 * (r & 1) & 0xFFFF) if adds else 0.0
                    total = half_bits(_sum(memory, i, column, depth, total), NEAREST)
                    if r & 1:
                        poke32(to, peek32(to) & 0xFFFF | total << 16)
                    else:
                        poke32(to, word & 0xFFFF0000 | total)
                    continue
                from_, to = from_ + number * words * row_bytes, to + number * words * row_bytes
                bits = peek32(from_)
                if words == 2:
                    before = double_of(bits | peek32(from_ + row_bytes) << 32)
                else:
                    before = _sum_of(bits, _WHOLE if x & _WHOLE_SUMS else _SINGLES)
                total = _sum(memory, i, column, depth, before if adds else 0.0)
                if words == 2:
                    poke32(to, bits_of_double(total))
                    poke32(to + row_bytes, bits_of_double(total) >> 32)
                elif x & _WHOLE_SUMS:
                    poke32(to, np.int64(total))
                else:
                    poke32(to, bits_of_float(np.float32(total)))
    return np.int64(0)


@hot
def _multiply_blocks(listed, subgroup, at):
    """AMD's product of blocks: see operations.BLOCK_MULTIPLY; 0."""
    state = opened(listed)
    row, row_bytes = state.table[at], np.int64(state.sizes[Size.ROW_BYTES])
    x, y, lanes = np.int64(row[_X]), np.int64(row[_Y]), np.int64(state.sizes[Size.LANES])
    rows, blocks, depth, each = y & 63, y >> 6 & 31, y >> 11 & 255, y >> 19
    first, place = x & 15, state.rows[subgroup]
    memory, adds = _tensor(state, subgroup), row[_M] != 1
    one, other = memory + _FIRST, memory + _SECOND
    _read_blocks(one, place + row[_A], row_bytes, rows, blocks, depth, each, first)
    _read_blocks(other, place + row[_B], row_bytes, rows, blocks, depth, each, x >> 4 & 15)
    part = 2 if x & _HIGH_HALVES else 0
    for lane in range(lanes):
        for number in range(rows * rows * blocks // lanes):
            i, j, block = _sum_at(lane, number, rows, lanes, first == _DOUBLE)
            from_, to = place + row[_C] + 4 * lane, place + row[_D] + 4 * lane
            words = 2 if first == _DOUBLE else 1
            from_, to = from_ + number * words * row_bytes, to + number * words * row_bytes
            if first == _DOUBLE:
                total = double_of(peek32(from_) | peek32(from_ + row_bytes) << 32)
            elif x & _HALF_SUMS:
                total = of_half(peek16(from_ + part))
            else:
                total = _sum_of(peek32(from_), _WHOLE if x & _WHOLE_SUMS else _SINGLES)
            total = total if adds else 0.0
            for k in range(depth):
                a = double_of(peek64(one + 8 * ((block * rows + i) * depth + k)))
                b = double_of(peek64(other + 8 * ((block * rows + j) * depth + k)))
                total = fused(a, b, total)
            if first == _DOUBLE:
                poke32(to, bits_of_double(total))
                poke32(to + row_bytes, bits_of_double(total) >> 32)
            elif x & _HALF_SUMS:
                kept = peek32(to) & 0xFFFF << 16 - 8 * part
                poke32(to, kept | half_bits(total, NEAREST) << 8 * part)
            elif x & _WHOLE_SUMS:
                poke32(to, np.int64(total))
            else:
                poke32(to, bits_of_float(np.float32(total)))
    return np.int64(0)


@inner
def _read_blocks(memory, registers, row_bytes, rows, blocks, depth, each, form):
    """Reads a factor, (block, row or column, depth) doubles."""
    bits = _bits_of(form)
    for lane in range(rows * blocks * depth // each):
        group, i = lane // rows, lane % rows
        of_block = memory + 8 * ((group % blocks * rows + i) * depth + group // blocks * each)
        for k in range(each):
            at = registers + k * bits // 32 * row_bytes + 4 * lane
            if form == _DOUBLE:
                value = double_of(peek32(at) | peek32(at + row_bytes) << 32)
            else:
                value = _value(at, k % (32 // bits), form)
            poke64(of_block + 8 * k, bits_of_double(value))


@inner
def _sum_at(lane, number, rows, lanes, is_double):
    """(row, column, block) of a sum of a lane."""
    group, column = lane // rows, lane % rows
    if rows == 4:
        return (group // 4, column, group % 4) if is_double else (number, column, group)
    if lanes == 32:
        return 2 * number + group, column, np.int64(0)
    each = rows * rows // lanes
    block, number = number // each, number % each
    if is_double:
        return 4 * number + group, column, block
    return 4 * (lanes // rows) * (number // 4) + 4 * group + number % 4, column, block


@inner
def _sum(memory, i, j, depth, total):
    for k in range(depth):
        a, b = double_of(peek64(memory + _first(i, k))), double_of(peek64(memory + _second(j, k)))
        total = fused(a, b, total)
    return total


@inner
def _older(low, high):
    """A descriptor of wgmma, whose number of a swizzle differs, as one of tcgen05."""
    mode = high >> 30 & 3
    return low, high & 0x1FFFFFFF | (2 * (4 - mode) if mode > 1 else 2 * mode) << 29


@inner
def _read_fragment(memory, rows, row_bytes, n, depth, form, is_second):
    """Reads a factor of n rows or columns from registers of all lanes to doubles. rows : address of the first one"""
    each = max(32 // _bits_of(form), 1)  # elements of a word
    for lane in range(32):
        at = rows + 4 * lane
        for block in range(depth // (4 * each)):
            for down in range(n >> 3):
                for part in range(each):
                    i, k = (lane >> 2) + 8 * down, each * (4 * block + (lane & 3)) + part
                    if form == _DOUBLE:
                        word = at + 2 * (block * (n >> 3) + down) * row_bytes
                        value = double_of(peek32(word) | peek32(word + row_bytes) << 32)
                    else:
                        word = at + (block * (n >> 3) + down) * row_bytes
                        value = _value(word, part, form)
                    poke64(
                        memory + (_second(i, k) if is_second else _first(i, k)),
                        bits_of_double(value),
                    )


@inner
def _first(i, k):
    """Where in State.tensor an element of the first factor lies as a double, and one of the second."""
    return _FIRST + 8 * (i * _MOST_DEPTH + k)


@inner
def _second(j, k):
    return _SECOND + 8 * (k * _MOST_COLUMNS + j)


@inner
def _line(i, m):
    """The lane that has a row of a tile of m rows: 64 have every second 16 of 128."""
    return i if m == 128 else 32 * (i >> 4) + (i & 15)


@inner
def _at(place, line):
    """The offset in bytes of a place in tensor memory, so many lanes below."""
    return ((place >> 16) + line) * _ROW_BYTES + 4 * (place & 0xFFFF)


(
    _HALF, _BFLOAT, _TF32, _E4M3, _E5M2, _U8, _S8, _DOUBLE, _E2M1, _SINGLE, _E4M3_FNUZ, _E5M2_FNUZ,
) = range(len(o.FACTORS))  # fmt: skip


@inner
def _format(kind, number):
    """The format of a factor's elements; -1 for one that is not known. kind : see operations.TENSOR_MULTIPLY"""
    if kind == 3:
        return _E2M1 if number == 1 else -1
    least, most = (_HALF, _TF32) if kind == 0 else (_E4M3, _E5M2) if kind == 1 else (_U8, _S8)
    return least + number if least + number <= most else -1


@inner
def _bits_of(form):
    if form == _E2M1:
        return 4
    if form in (_TF32, _SINGLE):
        return 32
    return 64 if form == _DOUBLE else 16 if form < _TF32 else 8


@inner
def _value(where, k, form):
    """The k-th element from an address on, as a double."""
    if form == _HALF:
        return of_half(peek16(where + 2 * k))
    if form == _BFLOAT:
        return of_bfloat(peek16(where + 2 * k))
    if form == _TF32:
        return np.float64(float_of(peek32(where + 4 * k) & 0xFFFFE000))
    if form == _SINGLE:
        return np.float64(float_of(peek32(where + 4 * k)))
    if form == _E2M1:
        code = peek8(where + (k >> 1)) >> 4 * (k & 1)
        size = code & 7
        value = 0.5 * size if size < 4 else (2.0 + (size & 1)) * (1 << (size >> 1) - 2)
        return -value if code & 8 else value
    bits = peek8(where + k)
    if form in (_E4M3, _E5M2):
        return of_eight(bits, E4M3 + form - _E4M3)
    if form in (_E4M3_FNUZ, _E5M2_FNUZ):
        return of_eight(bits, E4M3FNUZ + form - _E4M3_FNUZ)
    return np.float64(bits - 256 if form == _S8 and bits & 128 else bits)


@inner
def _scale(memory, place, number, n, depth, scales, is_float, is_second):
    """Multiplies the elements of a factor by the scales of their blocks, which lie in tensor memory.

    place : there, 32 rows or columns a column;  number : the byte of a word that the first block's lies in;  scales : blocks
    """
    for i in range(n):
        word = peek32(memory + _at(place + (i >> 5), i & 31))
        for k in range(depth):
            code = word >> 8 * (number + k * scales // depth) & 255
            _multiply_by(memory + (_second(i, k) if is_second else _first(i, k)), code, is_float)


@inner
def _multiply_by(where, code, is_float):
    """By a scale: a float of 8 bits without a sign, or a power of two."""
    scale = of_eight(code & 127, E4M3) if is_float else double_of(code - 127 + 1023 << 52)
    if not is_float and code == 255:
        scale = math.nan
    poke64(where, bits_of_double(double_of(peek64(where)) * scale))


@inner
def _scale_fragments(memory, rows, n, depth, scales, is_float, is_second):
    """The same of scales in registers: of row g the first lane of four has them, of row g + 8 the second."""
    for i in range(n):
        word = peek32(rows + 4 * (4 * (i & 7) + (i >> 3)))
        for k in range(depth):
            code = word >> 8 * (k * scales // depth) & 255
            _multiply_by(memory + (_second(i, k) if is_second else _first(i, k)), code, is_float)


@inner
def _sum_of(bits, total):
    if total == _SINGLES:
        return np.float64(float_of(bits))
    if total == _WHOLE:
        return np.float64(bits - (1 << 32) if bits >> 31 else bits)
    return of_half(bits & 0xFFFF)
