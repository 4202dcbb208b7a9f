"""Atomic operations on the bytes of this computer that stand for a launch's memory."""

from __future__ import annotations

import numpy as np

from memsim.compile import hot, inner
from tracegen.execution import operations as o
from tracegen.execution.numbers import bfloat_bits, half_bits, of_bfloat, of_half
from tracegen.execution.state import Size, opened
from tracegen.execution.words import (
    bits_of_double,
    bits_of_float,
    double_of,
    float_of,
    lowest,
    peek16,
    peek32,
    peek64,
    poke16,
    poke32,
    poke64,
)  # fmt: skip

_D, _E, _C = 2, 3, 6
"""Columns of the interpreter's table."""
(
    o_ADD, o_SUBTRACT, o_AND, o_OR, o_XOR, o_EXCHANGE, o_COMPARE, o_INCREMENT, o_DECREMENT, o_MIN_U, o_MAX_U, o_MIN_S, o_MAX_S,
    o_ARRIVE, o_HOPPER, o_DROP,
) = (
    o.ATOMIC_ADD, o.ATOMIC_SUBTRACT, o.ATOMIC_AND, o.ATOMIC_OR, o.ATOMIC_XOR, o.ATOMIC_EXCHANGE, o.ATOMIC_COMPARE,
    o.ATOMIC_INCREMENT, o.ATOMIC_DECREMENT, o.ATOMIC_MIN_U, o.ATOMIC_MAX_U, o.ATOMIC_MIN_S, o.ATOMIC_MAX_S,
    o.ATOMIC_ARRIVE, o.ATOMIC_ARRIVE_HOPPER, o.ATOMIC_DROP_HOPPER,
)  # fmt: skip
_FLOATING, _PACKED, _BF16, _NO_RESULT, _OPERATION = (
    o.FLOATING, o.PACKED, o.BF16, o.NO_RESULT, o.ATOMIC_OPERATION,
)  # fmt: skip


@hot
def atomic(listed, subgroup, at, active, host, x, size):
    """The lanes one after another, in ascending order, at the addresses in scratch plus `host`."""
    state = opened(listed)
    row_bytes, table = state.sizes[Size.ROW_BYTES], state.table
    place, what = state.rows[subgroup], x >> _OPERATION & 15
    left = active
    while left != 0:
        lane = lowest(left)
        left &= left - 1
        where, here = state.scratch[lane] + host, place + 4 * lane
        operand = peek32(here + table[at, _C])
        wanted = peek32(here + table[at, _E])
        if size == 8 and what >= o_HOPPER and x & 7 == o.LOCAL and wanted:
            operand |= peek32(here + table[at, _C] + row_bytes) << 32
            _come_to_groups(state, where, wanted, operand, what)
            continue
        if size == 8:
            operand |= peek32(here + table[at, _C] + row_bytes) << 32
            wanted |= peek32(here + table[at, _E] + row_bytes) << 32
            old = peek64(where)
            poke64(where, updated(what, old, operand, wanted, x, 8))
        elif size == 2:
            old = peek16(where)
            poke16(where, updated(what, old, operand & 0xFFFF, wanted & 0xFFFF, x, 2))
        else:
            old = peek32(where)
            poke32(where, updated(what, old, operand, wanted, x, 4))
        if not x & _NO_RESULT:
            poke32(here + table[at, _D], old)
            if size == 8:
                poke32(here + table[at, _D] + row_bytes, old >> 32)


@inner
def _come_to_groups(state, where, groups, operand, what):
    """Some come to the barriers at one place in the local memory of groups of the cluster. where : on this computer, of one of them"""
    first = np.int64(state.local.ctypes.data)
    place = where - first & (1 << o.GROUP_BITS) - 1
    for group in range(state.sizes[Size.IN_CLUSTER]):
        if groups >> group & 1:
            there = first + (group << o.GROUP_BITS) + place
            poke64(there, _arrived(what, peek64(there), operand))


@inner
def updated(what, old, operand, wanted, x, size):
    """What an atomic operation leaves in memory; see ATOMIC_OPERATION."""
    if what == o_EXCHANGE:
        return operand
    if what == o_COMPARE:
        return operand if old == wanted else old
    if x & _FLOATING:
        return _updated_float(what, old, operand, x, size)
    if what == o_ADD:
        return old + operand
    if what >= o_ARRIVE:
        return _arrived(what, old, operand)
    if what == o_SUBTRACT:
        return old - operand
    if what == o_AND:
        return old & operand
    if what == o_OR:
        return old | operand
    if what == o_XOR:
        return old ^ operand
    unsigned_old, unsigned_new = np.uint64(old), np.uint64(operand)
    if what == o_INCREMENT:
        return 0 if unsigned_old >= unsigned_new else old + 1
    if what == o_DECREMENT:
        return operand if old == 0 or unsigned_old > unsigned_new else old - 1
    if what in (o_MIN_U, o_MAX_U):
        smaller = unsigned_old < unsigned_new
    else:
        sign = np.int64(1) << (8 * size - 1)
        smaller = old < operand if size == 8 else (old ^ sign) < (operand ^ sign)
    keep = smaller == (what in (o_MIN_U, o_MIN_S))
    return old if keep else operand


@inner
def _arrived(what, old, operand):
    """A barrier in memory to which some have come, see ATOMIC_ARRIVE."""
    if what == o_ARRIVE:
        come = (old >> 32) + 1
        if come & 0x7FFFFFFF == 0:
            come += (old & 0xFFFFFFFF) + 0x40000000
        return come << 32 | old & 0xFFFFFFFF
    phase, number = old >> 63 & 1, operand & 0xFFFFFFFF
    whole = (old >> 1) + (number if what == o_DROP else 0) & 0xFFFFF
    awaited, come = (old >> 21) + (operand >> 32) & 0x3FFFFF, (old >> 43) + number & 0xFFFFF
    if awaited == 0 and come == 0:
        phase, come = 1 - phase, whole
    return phase << 63 | come << 43 | awaited << 21 | whole << 1 | old & 1


@inner
def _combined(what, a, b):
    if what == o_ADD:
        return a + b
    if a != a:
        return b
    if b != b:
        return a
    return min(a, b) if what in (o_MIN_S, o_MIN_U) else max(a, b)


@inner
def _updated_float(what, old, operand, x, size):
    if size == 8 and not x & _PACKED:
        return bits_of_double(_combined(what, double_of(old), double_of(operand)))
    if size == 4 and not x & (_PACKED | _BF16):
        a, b = np.float64(float_of(old)), np.float64(float_of(operand))
        return bits_of_float(np.float32(_combined(what, a, b)))
    result = np.int64(0)
    for k in range(size >> 1):
        first, second = old >> 16 * k & 0xFFFF, operand >> 16 * k & 0xFFFF
        if x & _BF16:
            part = bfloat_bits(_combined(what, of_bfloat(first), of_bfloat(second)), 0)
        else:
            part = half_bits(_combined(what, of_half(first), of_half(second)), 0)
        result |= np.int64(part) << 16 * k
    return result
