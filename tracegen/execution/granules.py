"""What is recorded of an access: its granules, and its row in the stage."""

from __future__ import annotations

import numpy as np

from memsim.compile import inner
from memsim.trace import coalesce
from tracegen.execution import operations as o
from tracegen.execution.address_lanes import granule_keys, sort_32, sort_64
from tracegen.execution.state import N_STAGED, Counter, Size, Staged, Warp
from tracegen.execution.words import lowest, ones, poke64

_PLACE, _X, _Z = 7, 9, 11
"""Columns of the interpreter's table; m of an access is the number of its place among the accesses of the code."""
_LOAD, _ATOMIC = 0, 2
_LANES, _PRIVATE_WORDS = Size.LANES, Size.PRIVATE_WORDS
_GRANULES = Counter.STAGED_GRANULES.value
_NONE = 1 << 40
"""No key's granule."""


@inner
def append(state, active, size, differ, same):
    """Appends the granules of an access to global memory, of at least one lane, whose addresses are in scratch; their end.

    differ : lanes whose address is not that of lane 0 plus the lanes between them;  same : whether all access the same
    """
    out, n = state.stage, state.counters[_GRANULES]
    first, shift = lowest(active), lowest(np.int64(size))
    address, run = state.scratch[first], active >> first
    if differ & active == 0 and run & (run + 1) == 0 and size == 1 << shift:
        return _append_run(out, n, address, first, ones(active), shift)
    if same:
        return _append_same(out, n, address, active, size)
    return _append_any(state, n, active, size)


@inner
def _append_run(out, n, begin, lane, count, shift):
    """Appends the granules of neighbouring lanes that access neighbouring elements of 2^shift bytes."""
    end = begin + (count << shift)
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
    if lanes == 32:
        sort_32(keys)
    else:
        sort_64(keys)
    bytes_of_one, before = (np.int64(1) << size) - 1, np.int64(_NONE)
    mask = groups = hits = np.int64(0)
    n -= 1
    for k in range(ones(active)):
        key = np.int64(state.keys[np.uint64(k)])
        near, lane = key >> 6, key & 63
        same = np.int64(
            near == before
        )  # whether the granule is that of the lane before, without a branch
        before, n = near, n + 1 - same
        mask = mask & -same | bytes_of_one << (state.scratch[np.uint64(lane)] & 31)
        groups, hits = groups & -same | np.int64(1) << (lane >> 3), (hits & -same) + 1
        to = np.uint64(n)
        out.granule[to], out.byte_mask[to] = first + near, mask
        out.lane_groups[to], out.lane_hits[to] = groups, hits
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
    rank, groups = state.subgroups[subgroup, Warp.RANK], state.sizes[Size.IN_CLUSTER]
    own = subgroup - rank * state.sizes[Size.IN_GROUP]
    slot = state.group_slots[state.counters[0] * groups + rank] + own
    count, lists, left = 0, state.lane_lists, active
    while left != 0:
        lists[0, count] = lowest(left)
        left &= left - 1
        count += 1
    where, words, part = state.listed_addresses, max(size >> 2, 1), min(size, 4)
    base = state.sizes[Size.PRIVATE_BASE] + slot * state.sizes[_PRIVATE_WORDS] * lanes * 4
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
    close(
        state,
        subgroup,
        state.table[at],
        kind,
        ones(active),
        state.sizes[Size.N_REGION],
        first,
        n,
        np.int64(0),
    )


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
def close(state, subgroup, row, kind, count, region, begin, end, shift):
    """Adds an access to the stage. row : of the table;  begin, end, shift : its granules, see Staged"""
    counters, warp = state.counters, state.subgroups[subgroup]
    x, slot, own = np.int64(row[_X]), np.int64(row[_Z]) >> 20 & 7, warp[Warp.N_ACCESS]
    number = row[_PLACE] * (state.sizes[Size.N_REGION] + 1) + region
    stage(state, subgroup, number, count, begin, end, shift)
    counters[Counter.LANE_ACCESSES] += count
    if slot < 7:
        state.slots[subgroup, slot] = own
    if kind == _LOAD or (kind == _ATOMIC and not x & o.NO_RESULT) or x & o.COUNTED:
        if x & o.ONE_LANE:
            warp[Warp.N_SCALAR] = own + 1
        else:
            state.loads[subgroup, warp[Warp.N_LOADS] & 63] = own
            warp[Warp.N_LOADS] += 1


@inner
def stage(state, subgroup, number, count, begin, end, shift):
    """Adds a row to the stage; its row of work is set later."""
    counters, warp = state.counters, state.subgroups[subgroup]
    to = staged(state, counters[Counter.STAGED])
    poke64(to + 8 * Staged.ACCESS, number)
    poke64(to + 8 * Staged.WAITS, warp[Warp.SETTLED])
    poke64(to + 8 * Staged.LANES, count)
    poke64(to + 8 * Staged.WHOSE, subgroup)
    poke64(to + 8 * Staged.BEGIN, begin)
    poke64(to + 8 * Staged.END, end)
    poke64(to + 8 * Staged.SHIFT, shift)
    counters[Counter.STAGED] += 1
    counters[Counter.STAGED_GRANULES] = max(counters[Counter.STAGED_GRANULES], end)
    counters[Counter.GROUP_GRANULES] += end - begin
    warp[Warp.N_ACCESS] += 1


@inner
def staged(state, n):
    """The address of a row of the stage."""
    return np.int64(state.stage.rows.ctypes.data) + 8 * N_STAGED * n
