"""Copies of tiles between global and local memory, which one lane starts and NVIDIA's unit for them (TMA) does; see operations.BULK.

What is read or written is recorded as granules in the order of the tile's rows, in as many accesses as sub-groups of the group live,
each with its equal part, and of all groups of a cluster to which a tile comes; where the granules of a tile do not ascend, each ascending piece by itself.
"""

from __future__ import annotations

import numpy as np

from memsim.compile import hot, inner
from tracegen.execution import operations as o
from tracegen.execution import tensor_maps as t
from tracegen.execution.atomics import updated
from tracegen.execution.barriers import record_barrier
from tracegen.execution.granules import stage, staged
from tracegen.execution.memory import beyond, fail, region_of
from tracegen.execution.paths import close_path
from tracegen.execution.repeats import uncounted, use
from tracegen.execution.state import (
    LOCAL_PART,
    MISALIGNED,
    OUT_OF_LOCAL,
    UNKNOWN,
    WRONG_MAP,
    Counter,
    Size,
    Staged,
    Warp,
    of_group,
    opened,
)
from tracegen.execution.transfers import in_cluster
from tracegen.execution.waits import end_copies
from tracegen.execution.windows import advance
from tracegen.execution.words import lowest, peek8, peek32, peek64, poke8, poke32, poke64

_D, _E, _A, _B, _C, _PLACE, _X, _Y = 2, 3, 4, 5, 6, 7, 9, 10
"""Columns of the interpreter's table; m of an access is the number of its place among the accesses of the code."""
_LOAD, _STORE, _ATOMIC = range(3)
_PREFETCH, _FROM_LOCAL, _SKIPPED, _BYTES = o.PREFETCH, o.FROM_LOCAL, o.SKIPPED, o.BYTES
_FLOATING, _PACKED, _BF16, _OPERATION = o.FLOATING, o.PACKED, o.BF16, o.ATOMIC_OPERATION
_MIN_S, _MIN_U, _MAX_U = o.ATOMIC_MIN_S, o.ATOMIC_MIN_U, o.ATOMIC_MAX_U
_WORD, _WINDOW, _UNIT, _LINE = 0xFFFFFFFF, (1 << o.GROUP_BITS) - 1, t.UNIT_BYTES, 128
_GROUP = o.GROUP_BITS
MOST_GRANULES = (1 << 15) + 64
"""Of a copy: 16 bits count its units of 16 bytes. Prefetched tiles could be larger, but are not."""
_BASE, _ELEMENT, _SWIZZLE, _RANK, _X_TYPE = range(5)
_SIZE, _DISTANCE, _BOX, _STEP, _START, _INDEX, _GROUPS = range(8, 64, 8)
"""Places in the description of a tile: base address, bytes of an element, bits that swizzle, axes, modifiers of an atomic operation; the
groups of the cluster whose local memory it concerns, a bit each; and
along each axis the tensor's elements, bytes from one to the next, elements copied, the step between these, the first one, and the
present one's number. Elements and steps of axis 0 are those of a row."""


@hot
def bulk(listed, subgroup, at, kind, active):
    """A copy that the first of the active lanes starts; 0, or the kind of a fault."""
    if active == 0:
        return np.int64(0)
    state = opened(listed)
    row, tile = state.table[np.uint64(at)], state.requested
    lane, row_bytes = lowest(active), np.int64(state.sizes[Size.ROW_BYTES])
    here, y, x = state.rows[subgroup] + 4 * lane, np.int64(row[_Y]), np.int64(row[_X])
    address = peek32(here + row[_A]) | peek32(here + row[_A] + row_bytes) << 32
    local, place = peek32(here + row[_C]), np.int64(row[_PLACE])
    brings = kind == _LOAD and not y & _PREFETCH
    if not brings:
        local = in_cluster(state, subgroup, x, local)
    in_all = state.sizes[Size.IN_CLUSTER]
    groups = peek32(here + row[_E] + row_bytes) if brings else np.int64(0)
    if local >> _GROUP >= in_all or groups >> in_all:
        return fail(state, OUT_OF_LOCAL, lane, local)
    tile[_GROUPS] = groups if groups else np.int64(1) << (local >> _GROUP)
    local &= _WINDOW
    if y & _FROM_LOCAL:
        return _within_cluster(listed, subgroup, at, lane, address & _WORD, local)
    for k in range(_SIZE, _INDEX + 8):
        tile[k] = 1
    tile[_SWIZZLE], tile[_START], tile[_X_TYPE] = 0, 0, x
    tile[_RANK] = max(y & 7, 1)
    if y & 7:
        fault = _read_map(listed, place, lane, address, y & 7)
        if fault:
            return fault
        for k in range(y & 7):
            word = peek32(here + row[_B] + k * row_bytes)
            tile[_START + k] = word - (1 << 32) if word >> 31 else word
    else:
        tile[_BASE], tile[_ELEMENT] = address, max(x >> _BYTES & 63, 1) if kind == _ATOMIC else 1
        tile[_BOX] = tile[_SIZE] = peek32(here + row[_B]) // tile[_ELEMENT]
        if address & _UNIT - 1:
            return fail(state, MISALIGNED, lane, address)
    n_bytes = tile[_BOX] * tile[_ELEMENT]
    n_row = np.int64(1)
    for k in range(1, tile[_RANK]):
        n_row, tile[_INDEX + k] = n_row * tile[_BOX + k], 0
    if not y & _PREFETCH:
        grain = _LINE if y & 7 else _UNIT
        if local & grain - 1 or n_bytes & _UNIT - 1:
            return fail(state, MISALIGNED, lane, local)
        if local + n_row * n_bytes > state.sizes[Size.LOCAL_BYTES]:
            return fail(state, OUT_OF_LOCAL, lane, local + n_row * n_bytes - 1)
    if brings:
        _in_step(listed, subgroup)
        state.subgroups[subgroup, Warp.BRINGS] = 1
    fault = _rows(listed, subgroup, at, kind, lane, local, n_row)
    if fault:
        return fault
    if kind == _LOAD:
        poke32(here + row[_D], n_row * n_bytes)
        if state.sizes[Size.RECORD]:
            mark = (peek32(here + row[_E]) & _WINDOW) + 1
            for one in range(state.sizes[Size.N_SUBGROUP]):
                if _takes(state, one):
                    rank = state.subgroups[one, Warp.RANK]
                    end_copies(state, one, mark + (rank << _GROUP))
    return np.int64(0)


@inner
def _within_cluster(listed, subgroup, at, lane, source, local):
    """A copy from the group's local memory to that of another group of the cluster, which is no access; 0, or the kind of a fault."""
    state = opened(listed)
    row, tile = state.table[at], state.requested
    here, x = state.rows[subgroup] + 4 * lane, np.int64(row[_X])
    n_bytes = peek32(here + row[_B])
    source = in_cluster(state, subgroup, x, source)
    if (source | local | n_bytes) & _UNIT - 1:
        return fail(state, MISALIGNED, lane, source | local)
    size = state.sizes[Size.LOCAL_BYTES]
    if (source & _WINDOW) + n_bytes > size or local + n_bytes > size:
        return fail(state, OUT_OF_LOCAL, lane, max(source & _WINDOW, local) + n_bytes - 1)
    base, to = np.int64(state.local.ctypes.data), (lowest(tile[_GROUPS]) << _GROUP) + local
    if not x & _SKIPPED:
        for k in range(n_bytes >> 3):
            poke64(base + to + 8 * k, peek64(base + source + 8 * k))
    if len(state.left_out):
        for k in range(n_bytes // LOCAL_PART):
            left = state.left_out[source // LOCAL_PART + k] | np.uint8(x & _SKIPPED != 0)
            state.left_out[to // LOCAL_PART + k] = left
    poke32(here + row[_D], n_bytes)
    return np.int64(0)


@inner
def _in_step(listed, subgroup):
    """Records a barrier where earlier copies have been waited for since the last one: who starts further ones has heard from all
    others that they are done with what those brought, so no sub-group is farther ahead than copies are."""
    state = opened(listed)
    warp = state.subgroups[subgroup]
    if warp[Warp.SETTLED] > warp[Warp.IN_STEP]:
        first, end = of_group(state, subgroup)
        for one in range(first, end):
            if state.subgroups[one, Warp.RECORDS]:
                record_barrier(listed, one)


@inner
def _lives(state, subgroup):
    return state.subgroups[subgroup, Warp.ENDED] == 0 and state.subgroups[subgroup, Warp.LIVE] != 0


@inner
def _takes(state, subgroup):
    """Whether a sub-group lives, and is of a group to which bytes come, or from which."""
    return (
        _lives(state, subgroup)
        and state.requested[_GROUPS] >> state.subgroups[subgroup, Warp.RANK] & 1 != 0
    )


@hot
def _read_map(listed, place, lane, address, rank):
    """Describes the tile of a tensor map; 0, or the kind of a fault."""
    state = opened(listed)
    region = region_of(state, place, address)
    if region < 0 or address + t.MAP_BYTES > state.region_end[region]:
        return beyond(state, place, region, lane, address)
    state.region_use[region] |= np.uint8(1)
    where, tile = address + state.region_host[region], state.requested
    form, high, steps = (
        peek32(where + t.FORM),
        peek32(where + t.HIGH_DISTANCES),
        peek32(where + t.STEPS),
    )
    element = np.int64(t.TYPE_BYTES[form >> t.TYPE & 15])
    plain = (form >> t.INTERLEAVE & 3) == 0 and (form >> t.FILL & 1) == 0 and element != 0
    if not plain or (form >> t.RANK & 7) + 1 != rank:
        return fail(state, WRONG_MAP, lane, address)
    tile[_BASE], tile[_ELEMENT] = peek64(where + t.ADDRESS), element
    swizzle = form >> t.SWIZZLE & 3
    tile[_SWIZZLE] = (1 << swizzle) - 1
    for k in range(rank):
        tile[_SIZE + k] = peek32(where + t.SIZES + 4 * k) + 1
        tile[_STEP + k] = (steps >> 3 * k & 7) + 1
        tile[_BOX + k] = peek8(where + t.BOX + k) // tile[_STEP + k] + 1
        tile[_DISTANCE + k] = element
        if k:
            units = peek32(where + t.DISTANCES + 4 * k - 4) | (high >> 4 * k - 4 & 15) << 32
            tile[_DISTANCE + k] = units * _UNIT
    number, x = form >> t.TYPE & 15, tile[_X_TYPE]
    what = x >> _OPERATION & 15
    if number in (3, 5) and what in (_MIN_U, _MAX_U):
        what += _MIN_S - _MIN_U
    x = x & ~(15 << _OPERATION) | what << _OPERATION
    if number >= t.HALF:
        x |= _FLOATING | (_PACKED if element == 2 else 0) | (_BF16 if number == t.BFLOAT16 else 0)
    tile[_X_TYPE] = x
    return np.int64(0)


@hot
def _rows(listed, subgroup, at, kind, lane, local, n_row):
    """Records and performs a copy row by row; 0, or the kind of a fault. local : in the memory of one group"""
    state = opened(listed)
    row, tile, out = state.table[np.uint64(at)], state.requested, state.stage
    x, y, place = tile[_X_TYPE], np.int64(row[_Y]), np.int64(row[_PLACE])
    element, step, box = tile[_ELEMENT], tile[_STEP], tile[_BOX]
    origin = begin = n = state.counters[Counter.STAGED_GRANULES]
    of_all, is_known = np.int64(-1), False
    for number in range(n_row):
        inside, where = True, tile[_BASE]
        for k in range(1, tile[_RANK]):
            at_k = tile[_START + k] + tile[_INDEX + k] * tile[_STEP + k]
            inside, where = (
                inside and 0 <= at_k < tile[_SIZE + k],
                where + at_k * tile[_DISTANCE + k],
            )
        low = max(-(tile[_START] // step), 0) if inside else box
        high = min((tile[_SIZE] - tile[_START] + step - 1) // step, box) if inside else np.int64(0)
        start = where + tile[_START] * element
        host = np.int64(0)
        if low < high:
            first, last = start + low * step * element, start + ((high - 1) * step + 1) * element
            region = region_of(state, place, first)
            if region < 0 or last > state.region_end[region] or (is_known and region != of_all):
                return beyond(state, place, region, lane, first if region < 0 else last - 1)
            if not is_known:
                is_known, of_all = True, region
                use(state, kind, x | (_SKIPPED if y & _PREFETCH else 0), region)
            host = state.region_host[region]
            for k in range(low if step > 1 else np.int64(0), high if step > 1 else np.int64(1)):
                if step > 1:
                    first = start + k * step * element
                    last = first + element
                while first < last:
                    granule, end = first >> 5, min((first >> 5) + 1 << 5, last)
                    bits = (1 << end - first) - 1 << (first & 31)
                    if n - origin == MOST_GRANULES:
                        return fail(state, UNKNOWN, lane, first)
                    if n > begin and out.granule[n - 1] == granule:
                        out.byte_mask[n - 1] |= np.uint32(bits)
                    else:
                        if n > begin and out.granule[n - 1] > granule:
                            _share(listed, row, kind, of_all, begin, n)
                            begin = n
                        out.granule[n], out.byte_mask[n] = granule, bits
                        out.lane_groups[n], out.lane_hits[n] = 15, 1
                        n += 1
                    first = end
        if not x & _SKIPPED and not y & _PREFETCH:
            left, own = tile[_GROUPS], local + number * box * element
            while left != 0:
                there = own + (lowest(left) << _GROUP)
                left &= left - 1
                _move(state, kind, there, start + host, low, high)
                if kind != _LOAD and is_known and _leaves_out(state, there, box * element):
                    state.region_use[of_all] |= np.uint8(2)
        for k in range(1, tile[_RANK]):
            tile[_INDEX + k] += 1
            if tile[_INDEX + k] < tile[_BOX + k]:
                break
            tile[_INDEX + k] = 0
    if is_known:
        _share(listed, row, kind, of_all, begin, n)
    return np.int64(0)


@inner
def _leaves_out(state, local, n_bytes):
    """Whether stores have left out parts of a row of a tile; rows are swizzled within 8 of their units."""
    found = np.uint8(0)
    if len(state.left_out):
        for k in range(
            (local & -128) // LOCAL_PART, ((local + n_bytes + 127) & -128) // LOCAL_PART
        ):
            found |= state.left_out[min(k, len(state.left_out) - 1)]
    return found != 0


@inner
def _move(state, kind, local, where, low, high):
    """A row of a tile. local : address of it there;  where : of its element 0 on this computer;  low, high : elements inside"""
    tile, base = state.requested, np.int64(state.local.ctypes.data)
    element, step, x = tile[_ELEMENT], tile[_STEP], tile[_X_TYPE]
    for part in range(tile[_BOX] * element // _UNIT):
        at = local + _UNIT * part
        to = base + (at ^ (at >> 7 & tile[_SWIZZLE]) << 4)
        first, last = _UNIT * part // element, (_UNIT * part + _UNIT) // element
        if kind != _ATOMIC and step == 1 and (element <= _UNIT and low <= first and last <= high):
            source = where + _UNIT * part
            if kind == _STORE:
                to, source = source, to
            poke64(to, peek64(source))
            poke64(to + 8, peek64(source + 8))
            continue
        for k in range(first, last):
            inner_at, outer = to + (k - first) * element, where + k * step * element
            if kind == _ATOMIC and low <= k < high:
                old, operand = _number(outer, element), _number(inner_at, element)
                _put(outer, element, updated(x >> _OPERATION & 15, old, operand, 0, x, element))
            elif kind == _LOAD or low <= k < high:
                for byte in range(element):
                    if kind == _STORE:
                        poke8(outer + byte, peek8(inner_at + byte))
                    else:
                        poke8(inner_at + byte, peek8(outer + byte) if low <= k < high else 0)


@inner
def _number(at, n_bytes):
    total = np.int64(0)
    for k in range(n_bytes):
        total |= peek8(at + k) << 8 * k
    return total


@inner
def _put(at, n_bytes, number):
    for k in range(n_bytes):
        poke8(at + k, number >> 8 * k)


@hot
def _share(listed, row, kind, region, begin, end):
    """Records granules, in equal parts for the sub-groups that take them."""
    state = opened(listed)
    counters, place, living = state.counters, np.int64(row[_PLACE]), np.int64(0)
    number = place * (state.sizes[Size.N_REGION] + 1) + region
    for one in range(state.sizes[Size.N_SUBGROUP]):
        living += _takes(state, one)
    passed, first = np.int64(0), begin
    for one in range(state.sizes[Size.N_SUBGROUP]):
        if not _takes(state, one):
            continue
        passed += 1
        last = begin + (end - begin) * passed // living
        if last == first:
            continue
        lanes = min(2 * (last - first), state.sizes[Size.WIDTH])
        if not state.subgroups[one, Warp.RECORDS]:
            uncounted(state, 1, lanes)
        elif not state.hidden[region]:
            to, own = counters[Counter.STAGED], state.subgroups[one, Warp.N_ACCESS]
            stage(state, one, number, lanes, first, last, np.int64(0))
            poke64(staged(state, to) + 8 * Staged.WORK, close_path(listed, one))
            counters[Counter.LANE_ACCESSES] += lanes
            if kind == _LOAD:
                state.slots[one, 6] = own
        if state.sizes[Size.WINDOWED]:
            state.out.runs[place] += 1
            if not state.sizes[Size.BY_BARRIERS]:
                advance(state, one)
        first = last
