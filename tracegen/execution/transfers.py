"""Where the lanes of an access find their data on this computer, and the data moved between rows and memory."""

from __future__ import annotations

import numpy as np

from memsim.compile import hot, inner
from tracegen.execution import operations as o
from tracegen.execution.address_lanes import (
    addresses_of_pair,
    addresses_of_pairs,
    addresses_of_signed,
    addresses_of_unsigned,
    addresses_of_words,
    copy_row,
    fill_row,
)
from tracegen.execution.atomics import atomic
from tracegen.execution.state import Size, Warp, opened
from tracegen.execution.words import lowest, peek8, peek16, peek32, poke8, poke16, poke32

_D, _A, _B, _C, _X, _Y = 2, 4, 5, 6, 9, 10
"""Columns of the interpreter's table."""
_LOAD, _STORE, _ATOMIC = range(3)
_WORD, _ALL = 0xFFFFFFFF, np.int64(-1)


@inner
def has_pair(x, row):
    """Whether the address of a lane is a number in one or two rows, plus y."""
    scaled = x & o.ADDRESS_32 if x & 7 == o.GLOBAL else x >> o.SCALE & 3
    return scaled == 0 and row[_B] == 0


@inner
def find_addresses(state, subgroup, row, x):
    """Writes the addresses of all lanes to scratch."""
    result, space = np.int64(state.scratch.ctypes.data), x & 7
    row_bytes = np.int64(state.sizes[Size.ROW_BYTES])
    a, b, y = np.int64(row[_A]), np.int64(row[_B]), np.int64(row[_Y])
    scale = np.int64(1)
    if x >> o.SCALE & 3:
        scale = np.int64(2) << (x >> o.SCALE & 3)
    for chunk in range(state.sizes[Size.LANES] >> 5):
        place = state.rows[subgroup] + 128 * chunk
        to = result + 256 * chunk
        if space in (o.LOCAL, o.PRIVATE):
            addresses_of_words(place, row_bytes, a, b, scale, y, to)
        elif x & o.ADDRESS_32:
            if x & o.SIGNED_32:
                addresses_of_signed(place, row_bytes, a, b, scale, y, to)
            else:
                addresses_of_unsigned(place, row_bytes, a, b, scale, y, to)
        elif b == 0:
            addresses_of_pair(place, row_bytes, a, b, scale, y, to)
        else:
            addresses_of_pairs(place, row_bytes, a, b, scale, y, to)
    if space == o.LOCAL and len(state.local) > state.sizes[Size.LOCAL_BYTES]:
        for lane in range(state.sizes[Size.LANES]):
            state.scratch[lane] = in_cluster(state, subgroup, x, state.scratch[lane])


@inner
def in_cluster(state, subgroup, x, address):
    """An address of local memory with the number of the group whose it is, see operations.ANY_GROUP."""
    if x & o.ANY_GROUP:
        return address
    own = state.subgroups[subgroup, Warp.RANK]
    return address & (1 << o.GROUP_BITS) - 1 | own << o.GROUP_BITS


@inner
def local_bounds(state, address):
    """Where the local memory begins and ends in which an address lies, or would lie."""
    begin = address >> o.GROUP_BITS << o.GROUP_BITS
    if begin < 0 or begin >= len(state.local):
        return np.int64(0), np.int64(-1) << 62
    return begin, begin + state.sizes[Size.LOCAL_BYTES]


@hot
def perform(listed, subgroup, at, kind, active, host, first, form):
    """Moves the data of an access to one memory. host : address here minus address there;  first : of the first active lane

    form : see Fact
    """
    state = opened(listed)
    row = state.table[np.uint64(at)]
    x, lanes, row_bytes = np.int64(row[_X]), state.sizes[Size.LANES], state.sizes[Size.ROW_BYTES]
    size, whole = x >> o.BYTES & 63, active == (_ALL if lanes == 64 else np.int64(_WORD))
    registers = state.rows[subgroup] + row[_D if kind == _LOAD else _C]
    if size == 4 and whole and form == 1 and kind != _ATOMIC:
        for chunk in range(lanes >> 5):
            here, there = registers + 128 * chunk, first + host + 128 * chunk
            if kind == _LOAD:
                copy_row(there, here)
            else:
                copy_row(here, there)
        return
    if size >= 4 and kind == _LOAD and (x & o.ONE_LANE or (form == 2 and whole)):
        for word in range(size >> 2):
            value = peek32(first + host + 4 * word)
            for chunk in range(lanes >> 5):
                fill_row(value, registers + word * row_bytes + 128 * chunk)
        return
    if has_pair(x, row):  # then it may be that nobody needed them yet
        find_addresses(state, subgroup, row, x)
    transfer(listed, subgroup, at, kind, active, host, np.int64(4))


@hot
def transfer(listed, subgroup, at, kind, active, host, stride):
    """Moves data between rows and the addresses in scratch plus `host`. stride : bytes from a word of a lane to its next"""
    state = opened(listed)
    row, scratch = state.table[np.uint64(at)], state.scratch
    x = np.int64(row[_X])
    size = x >> o.BYTES & 63
    if kind == _ATOMIC:
        atomic(listed, subgroup, at, active, host, x, size)
        return
    row_bytes = state.sizes[Size.ROW_BYTES]
    registers = state.rows[subgroup] + row[_D if kind == _LOAD else _C]
    if size == 4 and kind == _LOAD:
        load_words(scratch, active, host, registers)
        return
    left = active
    while left != 0:
        lane = lowest(left)
        left &= left - 1
        where, here = scratch[np.uint64(lane)] + host, registers + 4 * lane
        if size < 4:
            _small(kind, x, size, where, here)
        elif kind == _LOAD:
            for word in range(size >> 2):
                poke32(here + row_bytes * word, peek32(where + stride * word))
        else:
            for word in range(size >> 2):
                poke32(where + stride * word, peek32(here + row_bytes * word))


@inner
def load_words(scratch, active, host, registers):
    """Loads a word of 32 bits for each active lane into a row."""
    left = active
    while left != 0:
        lane = lowest(left)
        left &= left - 1
        poke32(registers + 4 * lane, peek32(scratch[np.uint64(lane)] + host))


@inner
def _small(kind, x, size, where, here):
    """One or two bytes."""
    if kind == _STORE:
        value = peek32(here) >> (16 if x & o.HIGH_HALF else 0)
        if size == 1:
            poke8(where, value)
        else:
            poke16(where, value)
        return
    value = peek8(where) if size == 1 else peek16(where)
    if x & o.SIGN_EXTEND and value >> (8 * size - 1):
        value -= 1 << 8 * size
    if x & o.HIGH_HALF:
        value = peek32(here) & 0xFFFF | (value & 0xFFFF) << 16
    elif x & o.KEEP_HALF:
        value = peek32(here) & 0xFFFF0000 | value & 0xFFFF
    poke32(here, value)
