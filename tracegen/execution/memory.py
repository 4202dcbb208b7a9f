"""Accesses whose lanes' addresses are new: their checks, what is recorded of them, and the transfer of the data."""

from __future__ import annotations

import numpy as np

from memsim.compile import hot, inner
from tracegen.execution import operations as o
from tracegen.execution.address_lanes import differing, spread
from tracegen.execution.banks import WIDE_WORDS, added_passes
from tracegen.execution.granules import append, close, record_private
from tracegen.execution.repeats import (
    count_local,
    is_worth,
    remember,
    uncounted,
    use,
    use_local,
)
from tracegen.execution.state import (
    MISALIGNED,
    OUT_OF_BOUNDS,
    OUT_OF_LOCAL,
    OUT_OF_PRIVATE,
    Counter,
    Fact,
    Size,
    Warp,
    opened,
)
from tracegen.execution.transfers import (
    find_addresses,
    load_words,
    local_bounds,
    perform,
    transfer,
)
from tracegen.execution.words import leading, lowest, ones

_D, _PLACE, _X, _Z = 2, 7, 9, 11
"""Columns of the interpreter's table; m of an access is the number of its place among the accesses of the code."""
LOAD, STORE, ATOMIC = range(3)
_GLOBAL, _LOCAL, _PRIVATE, _GENERIC = o.GLOBAL, o.LOCAL, o.PRIVATE, o.GENERIC
_LOCAL_WINDOW, _PRIVATE_WINDOW, _WINDOW_BYTES = o.LOCAL_WINDOW, o.PRIVATE_WINDOW, 1 << 24
_LANES = Size.LANES
_ADDRESS, _LANE, _ARRAY = (
    Counter.FAULT_ADDRESS.value, Counter.FAULT_LANE.value, Counter.FAULT_ARRAY.value,
)  # fmt: skip


@hot
def access(listed, subgroup, at, kind, active):
    """One access of the active lanes; 0, or the kind of a fault.

    at : row of the table
    """
    state = opened(listed)
    row = state.table[np.uint64(at)]
    x, stride, host = np.int64(row[_X]), np.int64(4), np.int64(state.local.ctypes.data)
    space = x & 7
    if x & o.ONE_LANE:
        active = np.int64(1)
    if active == 0:
        if space == _LOCAL:
            state.local_counts[row[_Z] & 0xFFFFF, 0] += 1
        return 0
    find_addresses(state, subgroup, row, x)
    if space == _GLOBAL:
        return _global(listed, subgroup, at, kind, active)
    local = active if space == _LOCAL else np.int64(0)
    private = active if space == _PRIVATE else np.int64(0)
    if space == _GENERIC:
        groups = state.sizes[Size.IN_CLUSTER]
        local = _within(state, active, _LOCAL_WINDOW, groups * _WINDOW_BYTES)
        private = _within(state, active, _PRIVATE_WINDOW, _WINDOW_BYTES)
        state.counters[Counter.IS_LOCAL] = np.int64(local == active)
    if local:
        fault = _local(listed, at, kind, local)
        if fault != 0:
            return fault
        if not x & o.SKIPPED:
            transfer(listed, subgroup, at, kind, local, host, stride)
    if private:
        stride = np.int64(4 * state.sizes[_LANES])
        fault = _private(listed, subgroup, at, kind, private, x >> o.BYTES & 63)
        if fault != 0:
            return fault
        if not x & o.SKIPPED:
            transfer(listed, subgroup, at, kind, private, np.int64(0), stride)
    # The last, for it changes the addresses of all lanes.
    rest = active & ~local & ~private
    return _global(listed, subgroup, at, kind, rest) if rest else np.int64(0)


@inner
def _within(state, active, window, n_bytes):
    """The lanes whose address lies in a window; their addresses become those inside it."""
    inside, left = np.int64(0), active
    while left != 0:
        lane = lowest(left)
        left &= left - 1
        if window <= state.scratch[lane] < window + n_bytes:
            inside |= np.int64(1) << lane
            state.scratch[lane] -= window
    return inside


@inner
def _is_run(state, active, first, step):
    """Whether the address of each active lane is first + lane * step."""
    other = np.int64(0)
    for chunk in range(state.sizes[_LANES] >> 5):
        where = np.int64(state.scratch.ctypes.data + 256 * chunk)
        other |= differing(where, first + 32 * chunk * step, step) << 32 * chunk
    return other & active == 0


@inner
def fail(state, kind, lane, address):
    state.counters[_LANE] = lane
    state.counters[_ADDRESS] = address
    return kind


@inner
def beyond(state, place, region, lane, address):
    """An access out of bounds. region : that it begins in, -1 for none"""
    if state.stays[place]:
        region = np.int64(state.hints[place])
    state.counters[_ARRAY] = region + 1
    return fail(state, OUT_OF_BOUNDS, lane, address)


@inner
def _grain(state, size):
    """What the address of an access of so many bytes must be a multiple of; AMD's may begin at any byte."""
    if state.sizes[Size.UNIFORM]:
        return 1
    return 4 if size == 12 else min(size, 16)


@inner
def _bounds(state, active, first):
    """(least, greatest distance of an address from the first one, bits that any has); of lanes far away an impossible one."""
    least, most, bits, far = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    scratch, found = np.int64(state.scratch.ctypes.data), state.spread
    for chunk in range(state.sizes[_LANES] >> 5):
        working, to = active >> 32 * chunk & 0xFFFFFFFF, np.int64(found.ctypes.data)
        far |= spread(scratch + 256 * chunk, first, working, to)
        least, most, bits = min(least, found[0]), max(most, found[1]), bits | found[2]
    return (least if far == 0 else np.int64(-(1 << 62))), most, bits


@hot
def _global(listed, subgroup, at, kind, active):
    """Checks, records and performs an access; the kind of a fault, or 0."""
    state = opened(listed)
    scratch, row = state.scratch, state.table[np.uint64(at)]
    x, place, lane = np.int64(row[_X]), np.int64(row[_PLACE]), lowest(active)
    size, first = x >> o.BYTES & 63, scratch[lane]
    grain, region = _grain(state, size), region_of(state, place, first)
    if region < 0:
        return beyond(state, place, -1, lane, first)
    least, most, bits = _bounds(state, active, first)
    one_region = (
        bits & grain - 1 == 0
        and first + least >= state.region_base[region]
        and first + most + size <= state.region_end[region]
    )
    if not one_region:
        fault = _check(listed, at, active, region)
        if fault:
            return fault
    use(state, kind, x, region)
    differ, far = np.int64(-1), 63 - leading(active)
    if scratch[far] - first == (far - lane) * size:  # else they are no neighbours
        differ = np.int64(0)
        for chunk in range(state.sizes[_LANES] >> 5):
            where = np.int64(scratch.ctypes.data) + 256 * chunk
            differ |= differing(where, first + (32 * chunk - lane) * size, size) << 32 * chunk
    same = one_region and least == most == 0
    form = np.int64(1 if differ & active == 0 else 2 if same else 0)
    remembered = one_region and is_worth(state, place)
    at_row = np.int64(0)
    if remembered:
        at_row = remember(state, active, row, region, least, most, size, form)
    if not state.subgroups[subgroup, Warp.RECORDS]:
        uncounted(state, 1, ones(active))
    elif not state.hidden[region]:
        begin = state.counters[Counter.STAGED_GRANULES]
        end = append(state, active, size, differ, same)
        if remembered:
            state.facts[at_row, Fact.BEGIN], state.facts[at_row, Fact.END] = begin, end
        close(state, subgroup, row, kind, ones(active), region, begin, end, np.int64(0))
    if x & o.SKIPPED:
        return np.int64(0)
    host = state.region_host[region]
    if one_region and (form or x & o.ONE_LANE):
        perform(listed, subgroup, at, kind, active, host, first, form)
        return np.int64(0)
    if one_region and size == 4 and kind == LOAD:
        load_words(scratch, active, host, state.rows[subgroup] + row[_D])
        return np.int64(0)
    left = active if not one_region else np.int64(0)
    while left != 0:
        one = lowest(left)
        left &= left - 1
        scratch[one] += state.region_host[region_of(state, place, scratch[one])] - host
    transfer(listed, subgroup, at, kind, active, host, np.int64(4))
    return np.int64(0)


@hot
def _check(listed, at, active, region):
    """Checks lanes one after another, whose arrays may be several. region : of the first one"""
    state = opened(listed)
    row = state.table[np.uint64(at)]
    place, size = np.int64(row[_PLACE]), np.int64(row[_X]) >> o.BYTES & 63
    low, high = state.region_base[region], state.region_end[region] - size
    left = active
    while left != 0:
        one = lowest(left)
        left &= left - 1
        where = state.scratch[one]
        if where & _grain(state, size) - 1:
            return fail(state, MISALIGNED, one, where)
        if where < low or where > high:
            other = region_of(state, place, where)
            if other < 0 or where + size > state.region_end[other]:
                begun = region if where < high + size and where >= low else np.int64(-1)
                return beyond(state, place, begun, one, where)
            state.region_use[other] |= np.uint8(3)  # not told apart: values are needed
    return np.int64(0)


@inner
def region_of(state, place, address):
    """The number of the array that contains a byte, -1 for none."""
    hint = state.hints[place]
    if state.region_base[hint] <= address < state.region_end[hint]:
        return np.int64(hint)
    if state.stays[place]:
        return np.int64(-1)
    low, high = np.int64(0), state.sizes[Size.N_REGION]
    while low < high:
        middle = (low + high) >> 1
        if state.region_base[middle] <= address:
            low = middle + 1
        else:
            high = middle
    found = low - 1
    if found < 0 or address >= state.region_end[found]:
        return np.int64(-1)
    state.hints[place] = found
    return found


@hot
def _local(listed, at, kind, active):
    """Checks an access to the group's local memory, and counts what its bank conflicts add."""
    state = opened(listed)
    scratch, row = state.scratch, state.table[np.uint64(at)]
    lane, size = lowest(active), np.int64(row[_X]) >> o.BYTES & 63
    grain, first = min(_grain(state, size), 4), scratch[lane]
    least, most, bits = _bounds(state, active, first)
    low, high = local_bounds(state, first)
    if first + least < low or first + most + size > high or bits & grain - 1:
        left = active  # they access the memory of several groups, if that is no fault
        while left != 0:
            one = lowest(left)
            left &= left - 1
            where = scratch[one]
            low, high = local_bounds(state, where)
            if where + size > high:
                return fail(state, OUT_OF_LOCAL, one, where)
            if where & grain - 1:
                return fail(state, MISALIGNED, one, where)
            use_local(state, kind, np.int64(row[_X]), where, where + size)
    else:
        use_local(state, kind, np.int64(row[_X]), first + least, first + most + size)
    is_run = _is_run(state, active, first - lane * size, np.int64(size))
    form = np.int64(1 if is_run else 2 if least == most == 0 else 0)
    passes, wide = _passes(state, active, size, form, np.int64(row[_X]) & o.IN_TURN != 0)
    count_local(state, row, 1, passes, wide)
    if is_worth(state, np.int64(row[_PLACE])):
        facts = state.facts[remember(state, active, row, np.int64(0), least, most, size, form)]
        facts[Fact.CONFLICTS], facts[Fact.WIDE] = passes, wide
    return np.int64(0)


@inner
def _passes(state, active, size, form, in_turn):
    """(passes that bank conflicts add to an access, wide passes). form : see Fact;  in_turn : see operations.IN_TURN"""
    lanes = state.sizes[_LANES]
    if form == 2 and size <= 4 and not in_turn:
        return np.int64(0), np.int64(0)
    words = 1
    while words * 4 < size:
        words *= 2
    if form == 1:
        wide, together = np.int64(0), 32 // words
        for first in range(0, lanes, together):
            served = ones(active >> first & (1 << together) - 1)
            wide += served * size > 4 * WIDE_WORDS
        return np.int64(0), wide
    noted, word, in_bank = state.noted, state.word, state.in_bank
    for k in range(lanes):
        noted[0, k] = state.scratch[k] + 1 if active >> k & 1 else 0
    added, wide = added_passes(noted[:, :lanes], words, lanes, word, in_bank, in_turn)
    return np.int64(added), np.int64(wide)


@hot
def _private(listed, subgroup, at, kind, active, size):
    """Checks and records an access to the lanes' own memory, whose words lie lane by lane, then word by word."""
    state = opened(listed)
    scratch, words, lanes = state.scratch, state.sizes[Size.PRIVATE_WORDS], state.sizes[_LANES]
    left = active
    while left != 0:
        one = lowest(left)
        left &= left - 1
        where = scratch[one]
        if where < 0 or where + size > 4 * words:
            return fail(state, OUT_OF_PRIVATE, one, where)
        if where & min(size, 4) - 1:
            return fail(state, MISALIGNED, one, where)
    if state.subgroups[subgroup, Warp.RECORDS]:
        record_private(state, subgroup, at, kind, active, size)
    left = active
    while left != 0:
        lane = lowest(left)
        left &= left - 1
        where = scratch[lane]
        scratch[lane] = state.private_at[subgroup] + ((where >> 2) * lanes + lane) * 4 + (where & 3)
    return 0
