"""Accesses whose lanes' addresses lie as at an earlier access of the same instruction: most are so.

Where all addresses move by the same, so do the granules, if by whole ones, and the banks of local memory, and all are checked by
their bounds. Of each instruction the last SLOTS accesses are remembered, for sub-groups may take turns: parts of a tile whose pieces
are exchanged lie in two or four ways.
"""

from __future__ import annotations

import numpy as np

from memsim.compile import hot, inner
from tracegen.execution import operations as o
from tracegen.execution.address_lanes import deviating, deviating_pair, keep_pattern
from tracegen.execution.granules import close, staged
from tracegen.execution.paths import row_of_work
from tracegen.execution.state import (
    GLOBAL_SLOTS,
    LOCAL_PART,
    SLOTS,
    Counter,
    Fact,
    Size,
    Staged,
    Warp,
    opened,
    source_mask,
)
from tracegen.execution.transfers import (
    find_addresses,
    has_pair,
    in_cluster,
    local_bounds,
    perform,
)
from tracegen.execution.words import lowest, ones, peek32, poke64

_GUARD, _A, _PLACE, _X, _Y, _Z = 1, 4, 7, 9, 10, 11
"""Columns of the interpreter's table; m of an access is the number of its place among the accesses of the code."""
_LOAD, _ATOMIC = 0, 2


@hot
def repeated(listed, at, kind, k, n):
    """Does an access of the running sub-groups from the k-th on, while it repeats one that is remembered.

    Returns the number of the first one that it does not, n if there is none.
    """
    state = opened(listed)
    row = state.table[np.uint64(at)]
    x, place = np.int64(row[_X]), np.int64(row[_PLACE])
    if x & 7 > o.LOCAL or (kind == _ATOMIC and not x & o.SKIPPED):
        return k
    of_all = state.facts[np.uint64(place * SLOTS)]
    slot, used = of_all[Fact.TRIED], of_all[Fact.USED]
    for _ in range(used):
        end = _repeated(listed, state, at, kind, k, n, place * SLOTS + slot)
        if end > k:
            of_all[Fact.MISSES] = 0
            # Where others repeat another one, that is mostly the next.
            of_all[Fact.TRIED] = slot if end == n else _following(slot, used)
            return end
        slot = _following(slot, used)
    return k


@inner
def _following(slot, n):
    return slot + 1 if slot + 1 < n else np.int64(0)


@inner
def _repeated(listed, state, at, kind, k, n, remembered):
    """The same with one row of State.facts."""
    row = state.table[np.uint64(at)]
    x, space = np.int64(row[_X]), np.int64(row[_X]) & 7
    facts = state.facts[np.uint64(remembered)]
    known = facts[Fact.ACTIVE]
    if known == 0:
        return k
    scratch, sizes, is_local = state.scratch, state.sizes, space == o.LOCAL
    region, seen = facts[Fact.REGION], not is_local
    low, high, host = np.int64(0), np.int64(0), np.int64(state.local.ctypes.data)
    if not is_local:
        low, high = state.region_base[region], state.region_end[region]
        host, seen = state.region_host[region], not state.hidden[region]
    least, most = facts[Fact.LOW], facts[Fact.HIGH]
    lane, phase, pair = lowest(known), phase_of(x), has_pair(x, row)
    count, start = ones(known), k
    high_row = np.int64(o.ZERO_ROW) if is_local else row[_A] + np.int64(sizes[Size.ROW_BYTES])
    pattern = np.int64(state.pattern[np.uint64(remembered)].ctypes.data)
    addresses = np.int64(scratch.ctypes.data)
    while k < n:
        subgroup = state.who[k]
        active = state.subgroups[subgroup, Warp.ACTIVE]
        active &= source_mask(state.masks[subgroup], row[_GUARD])
        if x & o.ONE_LANE:
            active = np.int64(1)
        recorded = state.subgroups[subgroup, Warp.RECORDS] != 0
        if active != known:
            break
        other = np.int64(0)
        if pair:
            here, above = state.rows[subgroup] + row[_A], state.rows[subgroup] + high_row
            first_low, first_high = peek32(here + 4 * lane), peek32(above + 4 * lane)
            first = (first_low | first_high << 32) + row[_Y]
            if first_low + least < 0 or first_low + most > 1 << 32:
                break
            for half in range(sizes[Size.LANES] >> 5):
                by = 128 * half
                different = deviating_pair(
                    here + by, above + by, first_low, first_high, pattern + by
                )
                other |= different << 32 * half
            if is_local:
                first &= 0xFFFFFFFF
                if len(state.local) > sizes[Size.LOCAL_BYTES]:
                    first = in_cluster(state, subgroup, x, first)
        else:
            find_addresses(state, subgroup, row, x)
            first = scratch[np.uint64(lane)]
            for chunk in range(sizes[Size.LANES] >> 5):
                other |= (
                    deviating(addresses + 256 * chunk, first, pattern + 128 * chunk) << 32 * chunk
                )
        if is_local:
            low, high = local_bounds(state, first)
        if (
            other & known != 0
            or first & phase != facts[Fact.PHASE]
            or first + least < low
            or first + most > high
        ):
            break
        if recorded and seen and facts[Fact.BEGIN] < 0:
            state.facts[np.uint64(row[_PLACE] * SLOTS), Fact.NEXT] = remembered % SLOTS
            break
        if recorded and seen:
            work, to = row_of_work(listed, state, subgroup, facts), state.counters[Counter.STAGED]
            shift = (first >> 5) - (facts[Fact.FIRST] >> 5)
            close(
                state, subgroup, row, kind, count, region, facts[Fact.BEGIN], facts[Fact.END], shift
            )
            poke64(staged(state, to) + 8 * Staged.WORK, work)
        elif not recorded and not is_local:
            uncounted(state, 1, count)
        if is_local:
            use_local(state, kind, x, first + least, first + most)
        if not x & o.SKIPPED:
            perform(listed, subgroup, at, kind, known, host, first, facts[Fact.FORM])
        k += 1
    done = k - start
    if is_local:
        count_local(state, row, done, facts[Fact.CONFLICTS], facts[Fact.WIDE])
    elif done:
        use(state, kind, x, region)
    return k


@inner
def phase_of(x):
    """The bits of the first address that must be equal: those within a granule, a word or what one lane accesses of banks."""
    if x & 7 == o.GLOBAL:
        return np.int64(31)
    size = x >> o.BYTES & 63
    return np.int64(3 if size <= 4 else 7 if size == 8 else 31)


@inner
def remember(state, active, row, region, least, most, size, form):
    """Keeps the addresses in scratch, of an access to one memory. Returns the number of its row of State.facts."""
    of_all = state.facts[np.int64(row[_PLACE]) * SLOTS]
    slot = of_all[Fact.NEXT]
    to = np.int64(row[_PLACE]) * SLOTS + slot
    n = SLOTS if row[_X] & 7 == o.LOCAL else GLOBAL_SLOTS
    of_all[Fact.NEXT], of_all[Fact.USED] = _following(slot, n), max(of_all[Fact.USED], slot + 1)
    scratch, pattern = np.int64(state.scratch.ctypes.data), np.int64(state.pattern[to].ctypes.data)
    facts, first = state.facts[to], state.scratch[lowest(active)]
    for chunk in range(state.sizes[Size.LANES] >> 5):
        keep_pattern(scratch + 256 * chunk, first, pattern + 128 * chunk)
    facts[Fact.ACTIVE], facts[Fact.PHASE] = active, first & phase_of(np.int64(row[_X]))
    facts[Fact.LOW], facts[Fact.HIGH] = least, most + size
    facts[Fact.REGION], facts[Fact.FIRST], facts[Fact.FORM] = region, first, form
    facts[Fact.BEGIN] = -1
    return to


@inner
def is_worth(state, place):
    """Whether to remember an access: seldom where the next ones were others, time and again."""
    state.facts[place * SLOTS, Fact.MISSES] += 1
    return is_tried(state, place)


@inner
def is_tried(state, place):
    """Whether the last access of an instruction was remembered, so that the next one may repeat it."""
    misses = state.facts[np.uint64(place * SLOTS), Fact.MISSES]
    return misses < 16 or misses & 15 == 0


@inner
def use(state, kind, x, region):
    """Notes whether a load took a value, or a store left one out."""
    state.region_use[region] |= _taken(kind, x)


@inner
def use_local(state, kind, x, begin, end):
    """Notes of bytes of local memory what stores left out, and whether a later load takes it."""
    if len(state.left_out):
        taken, found = _taken(kind, x), np.uint8(0)
        for k in range(begin // LOCAL_PART, (end - 1) // LOCAL_PART + 1):
            found |= state.left_out[k]
            state.left_out[k] |= taken >> 1
        state.counters[Counter.MISSED] |= found & taken


@inner
def _taken(kind, x):
    taken = (
        np.uint8(2 if x & o.SKIPPED else 0)
        if kind != _LOAD
        else np.uint8(0 if x & o.SKIPPED else 1)
    )
    if kind == _ATOMIC and not x & o.SKIPPED:
        taken = np.uint8(0 if x & o.NO_RESULT else 1)
    return taken


@inner
def uncounted(state, accesses, lanes):
    """Counts accesses that are not recorded, of so many lanes each."""
    state.counters[Counter.LANE_ACCESSES] += accesses * lanes
    state.counters[Counter.UNRECORDED] += accesses


@inner
def count_local(state, row, accesses, conflicts, wide):
    counts = state.local_counts[np.int64(row[_Z]) & 0xFFFFF]
    counts[0] += accesses
    counts[1] += accesses
    counts[2] += accesses * conflicts
    counts[3] += accesses * wide
