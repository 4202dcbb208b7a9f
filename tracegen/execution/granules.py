"""What is recorded of an access: its granules, and its row in the recording."""

from __future__ import annotations

import numpy as np

from memsim.compile import inner
from memsim.trace import coalesce
from tracegen.execution import operations as o
from tracegen.execution.lanes import granule_keys, ranks
from tracegen.execution.state import MOST_PATTERN, Counter, Fact, Size, Warp
from tracegen.execution.words import (
    lowest,
    ones,
    peek8,
    peek32,
    peek64,
    poke8,
    poke32,
    poke64,
)

_PLACE, _X, _Z = 7, 9, 11
"""Columns of the interpreter's table; m of an access is the number of its place among the accesses of the code."""
_LOAD, _ATOMIC = 0, 2
_LANES, _PRIVATE_WORDS, _PRIVATE_BASE = Size.LANES, Size.PRIVATE_WORDS, Size.PRIVATE_BASE
_N_REGION = Size.N_REGION
_ONE_LANE, _NO_RESULT, _COUNTED = o.ONE_LANE, o.NO_RESULT, o.COUNTED
_STAGED, _GRANULES = Counter.STAGED.value, Counter.STAGED_GRANULES.value
_WORD, _ALL = 0xFFFFFFFF, np.int64(-1)


@inner
def append(state, active, size, differ):
    """Appends the granules of an access to global memory, of at least one lane, whose addresses are in scratch; their end.

    differ : lanes whose address is not that of lane 0 plus the lanes between them
    """
    out, n = state.stage, state.counters[_GRANULES]
    first, shift = lowest(active), lowest(np.int64(size))
    address, run = state.scratch[first], active >> first
    if differ & active == 0 and run & (run + 1) == 0 and size == 1 << shift:
        n = _append_run(out, n, address, first, ones(active), shift)
    elif is_same(state, active, address):
        n = _append_same(out, n, address, active, size)
    else:
        n = _append_any(state, n, active, size)
    return n


@inner
def is_same(state, active, address):
    left = active
    while left != 0:
        if state.scratch[lowest(left)] != address:
            return False
        left &= left - 1
    return True


@inner
def _append_run(out, n, begin, lane, count, shift):
    """Appends the granules of neighbouring lanes that access neighbouring elements of 2^shift bytes."""
    end = begin + (count << shift)
    if begin & 31 == 0 and lane == 0 and shift == 2 and count == 32:  # what most accesses are
        place, granule = np.int64(out.granule.ctypes.data + 8 * n), begin >> 5
        for k in range(4):
            poke64(place + 8 * k, granule + k)
        masks = np.int64(out.byte_mask.ctypes.data + 4 * n)
        poke64(masks, _ALL)
        poke64(masks + 8, _ALL)
        poke32(np.int64(out.lane_groups.ctypes.data + n), 0x08040201)
        poke32(np.int64(out.lane_hits.ctypes.data + n), 0x08080808)
        return n + 4
    first = begin
    while first < end:
        granule = first >> 5
        last = min((granule + 1) << 5, end)
        low, high = lane + ((first - begin) >> shift), lane + ((last - 1 - begin) >> shift)
        out.granule[n] = granule
        out.byte_mask[n] = ((1 << (last - first)) - 1) << (first & 31)
        out.lane_groups[n] = ((2 << ((high >> 3) - (low >> 3))) - 1) << (low >> 3)
        out.lane_hits[n] = high - low + 1
        n += 1
        first = last
    return n


@inner
def _append_same(out, n, address, active, size):
    """Appends the granules of lanes that all access the same bytes."""
    groups, end = np.int64(0), address + size
    for q in range(8):
        groups |= np.int64(active >> 8 * q & 255 != 0) << q
    first = address
    while first < end:
        granule = first >> 5
        last = min((granule + 1) << 5, end)
        out.granule[n] = granule
        out.byte_mask[n] = ((1 << (last - first)) - 1) << (first & 31)
        out.lane_groups[n] = groups
        out.lane_hits[n] = ones(active)
        n += 1
        first = last
    return n


@inner
def _append_any(state, n, active, size):
    """Appends the granules of any lanes: sorted by their numbers, which few instructions do without a branch."""
    out, lanes = state.stage, state.sizes[_LANES]
    first = state.scratch[lowest(active)] >> 5
    where, keys = np.int64(state.scratch.ctypes.data), np.int64(state.keys.ctypes.data)
    wrong = np.int64(0)
    for chunk in range(lanes >> 5):
        wrong |= granule_keys(
            where + 256 * chunk, first, size, 32 * chunk, active >> 32 * chunk, keys + 128 * chunk
        )
    if wrong:
        return _append_scattered(state, n, active, size)
    for chunk in range(lanes >> 5):
        ranks(keys + 128 * chunk, keys, lanes, np.int64(state.ranks.ctypes.data) + 128 * chunk)
    ordered = state.lane_lists[0]
    for lane in range(lanes):
        ordered[state.ranks[lane]] = state.keys[lane]
    bytes_of_one, before = (np.int64(1) << size) - 1, np.int64(_WORD)
    n -= 1
    for k in range(ones(active)):
        key = ordered[k]
        lane = key & 63
        mask, group = bytes_of_one << (state.scratch[lane] & 31), np.int64(1) << (lane >> 3)
        if key >> 6 != before:
            before = key >> 6
            n += 1
            out.granule[n] = first + before
            out.byte_mask[n], out.lane_groups[n], out.lane_hits[n] = mask, group, 1
        else:
            out.byte_mask[n] |= np.uint32(mask)
            out.lane_groups[n] |= np.uint8(group)
            out.lane_hits[n] += np.uint8(1)
    return n + 1


@inner
def _append_scattered(state, n, active, size):
    lists, where, out = state.lane_lists, state.listed_addresses, state.stage
    count, left = 0, active
    while left != 0:
        lane = lowest(left)
        left &= left - 1
        lists[0, count] = lane
        where[count] = state.scratch[lane]
        count += 1
    return coalesce(
        where, lists, 0, count, size, state.requested, n, out.granule, out.byte_mask, out.lane_groups, out.lane_hits,
    )  # fmt: skip


@inner
def record_private(state, subgroup, at, kind, active, size):
    """The words of the lanes; each is an element of its own in memory, where neighbouring lanes have neighbouring words."""
    lanes, out = state.sizes[_LANES], state.stage
    slot = state.group_slots[state.counters[0]] + subgroup
    count, lists, left = 0, state.lane_lists, active
    while left != 0:
        lists[0, count] = lowest(left)
        left &= left - 1
        count += 1
    where, words, part = state.listed_addresses, max(size >> 2, 1), min(size, 4)
    base = state.sizes[_PRIVATE_BASE] + slot * state.sizes[_PRIVATE_WORDS] * lanes * 4
    first = state.counters[_GRANULES]
    n, word = first, 0
    while word < words:
        for k in range(count):
            own = state.scratch[lists[0, k]]
            where[k] = base + (((own >> 2) + word) * lanes + lists[0, k]) * 4 + (own & 3)
        n = coalesce(
            where, lists, 0, count, part, state.requested, n,
            out.granule, out.byte_mask, out.lane_groups, out.lane_hits,
        )  # fmt: skip
        word += 1
    if words > 1:
        n = _in_order(out, first, n)
    close(state, subgroup, at, kind, active, state.sizes[_N_REGION], n)


@inner
def _in_order(out, first, end):
    """Sorts the granules of one access and joins equal ones; returns their end."""
    for k in range(first + 1, end):
        granule, mask = out.granule[k], out.byte_mask[k]
        groups, hits = out.lane_groups[k], out.lane_hits[k]
        slot = k
        while slot > first and out.granule[slot - 1] > granule:
            _move(out, slot - 1, slot)
            slot -= 1
        out.granule[slot], out.byte_mask[slot] = granule, mask
        out.lane_groups[slot], out.lane_hits[slot] = groups, hits
    kept = first
    for k in range(first + 1, end):
        if out.granule[k] == out.granule[kept]:
            out.byte_mask[kept] |= out.byte_mask[k]
            out.lane_groups[kept] |= out.lane_groups[k]
            out.lane_hits[kept] = max(out.lane_hits[kept], out.lane_hits[k])
        else:
            kept += 1
            _move(out, k, kept)
    return kept + 1


@inner
def _move(out, source, target):
    out.granule[target], out.byte_mask[target] = out.granule[source], out.byte_mask[source]
    out.lane_groups[target], out.lane_hits[target] = out.lane_groups[source], out.lane_hits[source]


@inner
def close(state, subgroup, at, kind, active, region, n_granule):
    """Ends the row of an access whose granules have been written."""
    table, counters, out = state.table, state.counters, state.stage
    warp = state.subgroups[subgroup]
    n, own = counters[_STAGED], warp[Warp.N_ACCESS]
    x, z = np.int64(table[at, _X]), np.int64(table[at, _Z])
    count = ones(active)
    out.access[n] = table[at, _PLACE] * (state.sizes[_N_REGION] + 1) + region
    out.waits[n] = warp[Warp.SETTLED]
    out.lanes[n] = count
    out.granule_end[n] = n_granule
    out.whose[n] = subgroup
    counters[_STAGED] = n + 1
    warp[Warp.N_GRANULE] += n_granule - counters[_GRANULES]
    counters[_GRANULES] = n_granule
    counters[Counter.LANE_ACCESSES] += count
    warp[Warp.N_ACCESS] = own + 1
    slot = z >> 20 & 7
    if slot < 7:
        state.slots[subgroup, slot] = own
    if kind == _LOAD or (kind == _ATOMIC and not x & _NO_RESULT):
        if x & _ONE_LANE:
            warp[Warp.N_SCALAR] = own + 1
        else:
            state.loads[subgroup, warp[Warp.N_LOADS] & 63] = own
            warp[Warp.N_LOADS] += 1
    elif x & _COUNTED:  # a wait for it is one for the loads before it
        n_loads = warp[Warp.N_LOADS]
        before = state.loads[subgroup, (n_loads - 1) & 63] if n_loads else np.int32(-1)
        state.loads[subgroup, n_loads & 63] = before
        warp[Warp.N_LOADS] = n_loads + 1


@inner
def remember(state, place, first, begin, end):
    """Keeps the granules of an access, for `append_remembered`; whether there are few enough."""
    if end - begin > MOST_PATTERN:
        return False
    out, to, granule = state.stage, place * MOST_PATTERN, first >> 5
    for k in range(end - begin):
        state.pattern_granule[to + k] = out.granule[begin + k] - granule
        state.pattern_mask[to + k] = out.byte_mask[begin + k]
        state.pattern_groups[to + k] = out.lane_groups[begin + k]
        state.pattern_hits[to + k] = out.lane_hits[begin + k]
    state.facts[place, Fact.GRANULES] = end - begin
    return True


@inner
def append_remembered(state, place, first):
    """Appends the granules of the remembered access, moved to another first address; their end."""
    n, source = state.counters[_GRANULES], np.int64(place * MOST_PATTERN)
    granule, count = first >> 5, state.facts[place, Fact.GRANULES]
    to, from_ = _addresses(state.stage, n), _pattern_addresses(state, source)
    for k in range(0, count, 4):  # what is written behind the end is written again, or room
        for j in range(4):
            at = 8 * (k + j)
            poke64(to[0] + at, peek64(from_[0] + at) + granule)
        poke64(to[1] + 4 * k, peek64(from_[1] + 4 * k))
        poke64(to[1] + 4 * k + 8, peek64(from_[1] + 4 * k + 8))
        poke32(to[2] + k, peek32(from_[2] + k))
        poke32(to[3] + k, peek32(from_[3] + k))
    return n + count


@inner
def move(source, begin, end, target, at):
    """Copies granules from columns to columns; their end there."""
    from_, to = _addresses(source, begin), _addresses(target, at)
    count, k = end - begin, np.int64(0)
    while k + 4 <= count:
        for j in range(4):
            poke64(to[0] + 8 * (k + j), peek64(from_[0] + 8 * (k + j)))
        poke64(to[1] + 4 * k, peek64(from_[1] + 4 * k))
        poke64(to[1] + 4 * k + 8, peek64(from_[1] + 4 * k + 8))
        poke32(to[2] + k, peek32(from_[2] + k))
        poke32(to[3] + k, peek32(from_[3] + k))
        k += 4
    while k < count:
        poke64(to[0] + 8 * k, peek64(from_[0] + 8 * k))
        poke32(to[1] + 4 * k, peek32(from_[1] + 4 * k))
        poke8(to[2] + k, peek8(from_[2] + k))
        poke8(to[3] + k, peek8(from_[3] + k))
        k += 1
    return at + count


@inner
def _addresses(columns, n):
    """Of the columns of granules, from the n-th on."""
    return (
        np.int64(columns.granule.ctypes.data) + 8 * n,
        np.int64(columns.byte_mask.ctypes.data) + 4 * n,
        np.int64(columns.lane_groups.ctypes.data) + n,
        np.int64(columns.lane_hits.ctypes.data) + n,
    )


@inner
def _pattern_addresses(state, n):
    return (
        np.int64(state.pattern_granule.ctypes.data) + 8 * n,
        np.int64(state.pattern_mask.ctypes.data) + 4 * n,
        np.int64(state.pattern_groups.ctypes.data) + n,
        np.int64(state.pattern_hits.ctypes.data) + n,
    )
