"""A cache level in numba: lookup, replacement, fills, stores, write-backs, pending hits.

Arrays and scalars in, arrays out; the readable twin is memsim/reference/trial.py.

Addresses are dense: the 256-byte chunks that a trace touches are numbered in address order, so a
line is an index, and a table says in which slot it was put last: if it is not there any more, it is
nowhere. So a cache of any associativity is looked up with two loads. Within a line a uint8 mask has one bit per 32-byte granule.

A request on its way down is one uint64 record; see `pack`. Bytes of partly written granules travel
beside it in `partial`, in the same order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from memsim.compile import inner, nth
from memsim.hierarchy.rng import below

U8 = npt.NDArray[np.uint8]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
I16 = npt.NDArray[np.int16]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

LRU, FIFO, RANDOM, PLRU = range(4)
PASS, NO_FETCH, FETCH_ON_WRITE, LAZY_FETCH, UPDATE_AND_FETCH = range(5)
LOAD, STORE, ATOMIC, BYPASS = range(4)
"""Kinds of requests; BYPASS, a load that the first level lets by, is a LOAD from there on."""
ROUND_ROBIN, LOOSE_ROUND_ROBIN, GREEDY_OLDEST, UNIFORM = range(4)

ACCESSES, HITS, PENDING, READ_GRANULES, WRITE_GRANULES, FAR = range(6)
N_COUNTS = 6
"""Columns of the counts; rows are sites, and again sites for what is not counted (warm-up). FAR: of the
hits, pending ones included, those that another partition served (see memsim.hierarchy.partitions)."""

MAX_SITES = 1 << 15
MAX_LINES = 1 << 30


class Geometry(NamedTuple):
    """The numbers of one cache level; see memsim.machine.parts.Level.

    n_sets : of a whole instance, all slices;  stride : int32 words of a slot
    partitions : so many neighbouring instances are partitions of one cache
    in_partitions : True where they are more than one, else None
    on_fill : True where a line takes its slot when its data come, None where as they are asked for
    completes : True where sectors written in part are completed early, None where they wait for their
        eviction; completes_of_65536 : how many of as many are

    None is a type: loops are compiled without what a machine does not have.
    """

    granules_per_line: int
    n_sets: int
    ways: int
    n_lines: int
    replacement: int
    write_back: bool
    write_allocate: int
    evict_on_write: bool
    caches_loads: bool
    written_hits_only: bool
    down_granules: int
    stride: int
    partitions: int
    in_partitions: bool | None
    on_fill: bool | None
    completes: bool | None
    completes_of_65536: int


class Tables(NamedTuple):
    """By granule mask (256,) uint8: sectors widened, sectors counted, and what a miss fetches."""

    sectors: U8
    n_sectors: U8
    fill: U8
    n_granules: U8


class Cache(NamedTuple):
    """The state of all instances of one level, laid out so that a request meets few of this CPU's
    own cache lines.

    lines : (n_instance * n_lines * 2,) int32: the slot that a line was put into last, which another may
        have taken since (see `where`), and its set. So an eviction need not find the old line's entry
    slots : (n_instance * n_sets * ways * stride,) int32; a slot is the index of its first word.
        Words: LINE (-1 empty), META (granule masks: valid | dirty << 8 | partly written << 16 |
        brought in by a write << 24), PREV and NEXT in the set's recency ring, then per granule the
        turn of its fill, or the core that wrote its sector in part; where stores are kept, the site
        that wrote last; and where they are kept under a mask, per granule the bytes written
    sets : (n_instance * n_sets * 2,) int32: the back of the recency ring and nothing, for LRU and
        FIFO; else the first empty slot, which others follow through NEXT, and how many are filled
    tree : (n_instance * n_sets * ways,) uint8, nodes of tree-PLRU, or (1,)
    home : (n_lines,) uint8, the partition that a line belongs to, or (1,)
    aloft : (n_instance * n_lines,) uint8, granules asked for and not there yet, or (1,): on_fill
    flights : (2 + 2 * most,) int64, or (2,): the ring of what is aloft, [first, how many], then of each
        its line (over all instances) | granules << 40, and the turn when it is there
    """

    lines: I32
    slots: I32
    sets: I32
    tree: U8
    home: U8
    aloft: U8
    flights: I64


LINE, META, PREV, NEXT, TURNS = range(5)
"""Words of a slot; `_writer` and `_bytes` find the others. Eight suffice for a write-through level
with four granules a line: a V100's L1 state is then 32 KiB, and fits into this CPU's own."""
LONG_AGO = -(1 << 30)
"""A turn before all others."""


class Queue(NamedTuple):
    """Requests on their way down: records, bytes of partial granules, how many of each."""

    record: U64
    partial: U32
    used: I64


@inner
def pack(line, mask, full, site, kind, counted):
    """A request: line 30 bits, granule mask 8, fully written granules 8, site 15, kind 2, counted 1."""
    return (
        np.uint64(line)
        | np.uint64(mask) << np.uint64(30)
        | np.uint64(full) << np.uint64(38)
        | np.uint64(site) << np.uint64(46)
        | np.uint64(kind) << np.uint64(61)
        | np.uint64(counted) << np.uint64(63)
    )


@inner
def unpack(record):
    """(line, mask, full, site, kind, counted) of a record."""
    low = np.int64(record & np.uint64(0x7FFFFFFFFFFFFFFF))
    return (
        low & 0x3FFFFFFF,
        (low >> 30) & 0xFF,
        (low >> 38) & 0xFF,
        (low >> 46) & 0x7FFF,
        low >> 61,
        np.int64(record >> np.uint64(63)),
    )


@inner
def _emit(geometry, queue, line, mask, full, site, kind, counted):
    """Queue a request for the next level down, in the longer of the two levels' lines."""
    here, next_ = geometry.granules_per_line, geometry.down_granules
    if here < next_:
        ratio = next_ // here
        shift = (line % ratio) * here
        line, mask, full = line // ratio, mask << shift, full << shift
    queue.record[nth(queue.used[0])] = pack(line, mask, full, site, kind, counted)
    queue.used[0] += 1


@inner
def _writer(geometry, slot):
    return slot + TURNS + geometry.granules_per_line


@inner
def _bytes(geometry, slot):
    return slot + TURNS + geometry.granules_per_line + 1


@inner
def promote(cache, slot, bin_):
    """Make a slot the most recent of its set."""
    slots = cache.slots
    tail = np.int64(cache.sets[nth(2 * bin_)])
    if tail == slot:
        cache.sets[nth(2 * bin_)] = slots[nth(slot + PREV)]
        return
    front = np.int64(slots[nth(tail + NEXT)])
    if front != slot:
        before, after = np.int64(slots[nth(slot + PREV)]), np.int64(slots[nth(slot + NEXT)])
        slots[nth(before + NEXT)] = after
        slots[nth(after + PREV)] = before
        slots[nth(tail + NEXT)] = slot
        slots[nth(slot + PREV)] = tail
        slots[nth(slot + NEXT)] = front
        slots[nth(front + PREV)] = slot


@inner
def where(cache, line, at):
    """The slot that a line is in, -1 where it is absent; at : index of its entry in `lines`."""
    slot = np.int64(cache.lines[nth(at)])
    return slot if cache.slots[nth(slot + LINE)] == line else np.int64(-1)


@inner
def drop(geometry, cache, slot, bin_):
    """Invalidate a slot: it is the next to be filled."""
    cache.slots[nth(slot + LINE)] = -1
    cache.slots[nth(slot + META)] = 0
    if geometry.replacement <= FIFO:
        promote(cache, slot, bin_)
        cache.sets[nth(2 * bin_)] = slot
    else:
        cache.slots[nth(slot + NEXT)] = cache.sets[nth(2 * bin_)]
        cache.sets[nth(2 * bin_)] = slot
        cache.sets[nth(2 * bin_ + 1)] -= 1


@inner
def _tree_touch(geometry, cache, way, bin_):
    """Point every node on the way's path away from it."""
    node, span, base = 1, geometry.ways, bin_ * geometry.ways
    while span > 1:
        span //= 2
        right = way // span & 1
        cache.tree[nth(base + node)] = 1 - right
        node = 2 * node + right


@inner
def touch(geometry, cache, slot, bin_):
    """A hit, as the replacement policy sees it."""
    if geometry.replacement == LRU:
        promote(cache, slot, bin_)
    elif geometry.replacement == PLRU:
        _tree_touch(geometry, cache, slot // geometry.stride - bin_ * geometry.ways, bin_)


@inner
def _victim(geometry, cache, rng, bin_):
    """The slot to fill: an empty one, else the policy's choice."""
    if geometry.replacement <= FIFO:
        slot = np.int64(cache.sets[nth(2 * bin_)])
        cache.sets[nth(2 * bin_)] = cache.slots[nth(slot + PREV)]
        return slot
    base = bin_ * geometry.ways
    if cache.sets[nth(2 * bin_ + 1)] < geometry.ways:
        slot = np.int64(cache.sets[nth(2 * bin_)])
        way = slot // geometry.stride - base
        cache.sets[nth(2 * bin_)] = cache.slots[nth(slot + NEXT)]
        cache.sets[nth(2 * bin_ + 1)] += 1
    elif geometry.replacement == RANDOM:
        way = below(rng, geometry.ways)
    else:
        node, span, way = 1, geometry.ways, np.int64(0)
        while span > 1:
            span //= 2
            right = np.int64(cache.tree[nth(base + node)])
            way += right * span
            node = 2 * node + right
    if geometry.replacement == PLRU:
        _tree_touch(geometry, cache, way, bin_)
    return (base + way) * geometry.stride


@inner
def _complete(geometry, tables, cache, counts, queue, n_site, slot, partly, counted):
    """Read the rest of sectors that were written in part, and write them back: valid from now on."""
    site = np.int64(cache.slots[nth(_writer(geometry, slot))])
    line = np.int64(cache.slots[nth(slot + LINE)])
    row = site + (0 if counted else n_site)
    n = tables.n_granules[nth(partly)]
    counts[nth(row), nth(READ_GRANULES)] += n
    counts[nth(row), nth(WRITE_GRANULES)] += n
    _emit(geometry, queue, line, partly, 0, site, LOAD, counted)
    _emit(geometry, queue, line, partly, partly, site, STORE, counted)
    meta = np.int64(cache.slots[nth(slot + META)])
    cache.slots[nth(slot + META)] = (meta | partly) & ~(partly << 16 | partly << 8)
    for g in range(geometry.granules_per_line):
        if partly >> g & 1:
            cache.slots[nth(slot + TURNS + g)] = LONG_AGO


@inner
def complete_early(geometry, tables, cache, counts, queue, rng, n_site, slot, need, counted, core):
    """What has become of sectors in need that another core wrote in part: chance says which were
    completed meanwhile. The others are this core's from now on."""
    meta = np.int64(cache.slots[nth(slot + META)])
    partly = (meta >> 16) & need & ~meta
    if not partly:
        return
    for g in range(geometry.granules_per_line):
        sector = np.int64(tables.sectors[nth(1 << g)])
        if partly & sector & -sector != 1 << g:  # a sector's first granule has its turn
            continue
        if cache.slots[nth(slot + TURNS + g)] != core:
            cache.slots[nth(slot + TURNS + g)] = core
            if below(rng, 1 << 16) < geometry.completes_of_65536:
                _complete(geometry, tables, cache, counts, queue, n_site, slot, sector, counted)


@inner
def write_back(geometry, tables, cache, counts, queue, n_site, slot, counted):
    """Send a slot's dirty sectors down, on behalf of the site that wrote last."""
    meta = np.int64(cache.slots[nth(slot + META)])
    dirty = (meta >> 8) & 0xFF
    if not dirty:
        return
    if geometry.completes is not None:
        partly = (meta >> 16) & 0xFF & ~meta
        if partly:
            _complete(geometry, tables, cache, counts, queue, n_site, slot, partly, counted)
            meta = np.int64(cache.slots[nth(slot + META)])
            dirty = (meta >> 8) & 0xFF
            if not dirty:
                return
    site = np.int64(cache.slots[nth(_writer(geometry, slot))])
    partly = (meta >> 16) & 0xFF & ~meta
    full = dirty & ~partly
    if partly:
        bytes_at = _bytes(geometry, slot)
        for g in range(geometry.granules_per_line):
            if partly >> g & 1:
                written = np.uint32(cache.slots[nth(bytes_at + g)])
                if written == np.uint32(0xFFFFFFFF):
                    full |= 1 << g
                elif written == 0:
                    dirty &= ~(1 << g)
                else:
                    queue.partial[nth(queue.used[1])] = written
                    queue.used[1] += 1
        full &= dirty
    row = site + (0 if counted else n_site)
    counts[nth(row), nth(WRITE_GRANULES)] += tables.n_granules[nth(tables.sectors[nth(dirty)])]
    _emit(
        geometry, queue, np.int64(cache.slots[nth(slot + LINE)]), dirty, full, site, STORE, counted
    )


@inner
def _allocate(geometry, tables, cache, counts, queue, rng, n_site, instance, line, bin_, counted):
    """A slot for an absent line; what it held is evicted, and written back where dirty."""
    slot = _victim(geometry, cache, rng, bin_)
    old = np.int64(cache.slots[nth(slot + LINE)])
    if old >= 0:
        write_back(geometry, tables, cache, counts, queue, n_site, slot, counted)
    cache.slots[nth(slot + LINE)] = line
    cache.slots[nth(slot + META)] = 0
    cache.lines[nth(2 * (instance * geometry.n_lines + line))] = slot
    if geometry.write_allocate != PASS:
        # A store makes sectors valid that nothing asked for: the old line's turns must not count.
        for g in range(geometry.granules_per_line):
            cache.slots[nth(slot + TURNS + g)] = LONG_AGO
    return slot


@inner
def _fill(geometry, cache, slot, fetched, now):
    """Mark sectors valid that were asked for from below just now; what was valid is there already."""
    meta = np.int64(cache.slots[nth(slot + META)])
    fresh = fetched & ~meta
    cache.slots[nth(slot + META)] = (meta | fetched) & ~(fetched << 16)
    base = slot + TURNS
    for g in range(geometry.granules_per_line):
        was = cache.slots[nth(base + g)]
        cache.slots[nth(base + g)] = now if fresh >> g & 1 else was


@inner
def _land_first(geometry, tables, cache, counts, queue, rng, n_site):
    """The data that were asked for first are there: their line takes a slot, where it has none.

    Such a level keeps no stores, so what has to go is clean.
    """
    flights = cache.flights
    first = flights[0]
    which = flights[nth(2 + 2 * first)]
    flights[0] = first + 1 if 2 * first + 4 < len(flights) else 0
    flights[1] -= 1
    index, mask = which & ((1 << 40) - 1), which >> 40
    cache.aloft[nth(index)] &= np.uint8(~mask & 0xFF)
    instance = index // geometry.n_lines
    line = index - instance * geometry.n_lines
    slot = where(cache, line, 2 * index)
    if slot < 0:
        bin_ = instance * geometry.n_sets + cache.lines[nth(2 * index + 1)]
        slot = _allocate(
            geometry, tables, cache, counts, queue, rng, n_site, instance, line, bin_, 0
        )
    _fill(geometry, cache, slot, mask, LONG_AGO)


@inner
def land(geometry, tables, cache, counts, queue, rng, n_site, now):
    """All that is there by now takes its slots, in the order in which it was asked for."""
    while cache.flights[1] > 0 and cache.flights[nth(3 + 2 * cache.flights[0])] <= now:
        _land_first(geometry, tables, cache, counts, queue, rng, n_site)


@inner
def _take_off(geometry, tables, cache, counts, queue, rng, n_site, index, fetched, there_at):
    """Note what was asked for; where no more can be under way, the first of it is waited for."""
    flights = cache.flights
    most = len(flights) // 2 - 1
    if flights[1] == most:
        _land_first(geometry, tables, cache, counts, queue, rng, n_site)
    last = flights[0] + flights[1]
    if last >= most:
        last -= most
    flights[nth(2 + 2 * last)] = index | fetched << 40
    flights[nth(3 + 2 * last)] = there_at
    flights[1] += 1
    cache.aloft[nth(index)] |= np.uint8(fetched)


@inner
def pending(geometry, tables, cache, slot, hit, now, window):
    """How many of the hit sectors were asked for less than `window` turns ago."""
    base = slot + TURNS
    slots = cache.slots
    oldest = np.int32(now - window)
    if geometry.granules_per_line == 4:
        young = (
            np.int64(slots[nth(base)] > oldest)
            | np.int64(slots[nth(base + 1)] > oldest) << 1
            | np.int64(slots[nth(base + 2)] > oldest) << 2
            | np.int64(slots[nth(base + 3)] > oldest) << 3
        )
    else:
        young = np.int64(0)
        for g in range(geometry.granules_per_line):
            young |= np.int64(slots[nth(base + g)] > oldest) << g
    young &= hit
    return np.int64(tables.n_sectors[nth(young)])


@inner
def read(
    geometry, tables, cache, counts, queue, rng, n_site,
    instance, line, mask, site, kind, counted, now, window,
):  # fmt: skip
    """A load, or the read half of an atomic; returns the slot, -1 where the level is passed by."""
    row = site + (0 if counted else n_site)
    need = np.int64(tables.sectors[nth(mask)])
    counts[nth(row), nth(ACCESSES)] += tables.n_sectors[nth(need)]
    if kind == BYPASS or (kind == LOAD and not geometry.caches_loads):
        counts[nth(row), nth(READ_GRANULES)] += tables.n_granules[nth(mask)]
        _emit(geometry, queue, line, mask, 0, site, LOAD, counted)
        return np.int64(-1)
    at = 2 * (instance * geometry.n_lines + line)
    slot, bin_ = where(cache, line, at), instance * geometry.n_sets + cache.lines[nth(at + 1)]
    if slot >= 0:
        hit = need & np.int64(cache.slots[nth(slot + META)])
        touch(geometry, cache, slot, bin_)
        if hit:
            young = pending(geometry, tables, cache, slot, hit, now, window)
            counts[nth(row), nth(HITS)] += np.int64(tables.n_sectors[nth(hit)]) - young
            counts[nth(row), nth(PENDING)] += young
        missing = need & ~hit
        if not missing:
            return slot
    else:
        if geometry.on_fill is None:
            slot = _allocate(
                geometry, tables, cache, counts, queue, rng, n_site, instance, line, bin_, counted
            )
        missing = need
    if geometry.on_fill is not None:
        merged = missing & np.int64(cache.aloft[nth(at // 2)])
        counts[nth(row), nth(PENDING)] += tables.n_sectors[nth(merged)]
        missing &= ~merged
        if not missing:
            return slot
    fetched = np.int64(tables.fill[nth(missing)])
    counts[nth(row), nth(READ_GRANULES)] += tables.n_granules[nth(fetched)]
    _emit(geometry, queue, line, fetched, 0, site, LOAD, counted)
    if geometry.on_fill is not None:
        _take_off(
            geometry, tables, cache, counts, queue, rng, n_site, at // 2, fetched, now + window
        )
    else:
        _fill(geometry, cache, slot, fetched, now)
    return slot


@inner
def _pass_store(geometry, tables, counts, queue, row, line, mask, full, site, kind, counted, bytes_, n_bytes):  # fmt: skip
    """Send a store on to the next level as it came."""
    counts[nth(row), nth(WRITE_GRANULES)] += tables.n_granules[nth(mask)]
    for k in range(n_bytes):
        queue.partial[nth(queue.used[1])] = bytes_[nth(k)]
        queue.used[1] += 1
    _emit(geometry, queue, line, mask, full, site, kind, counted)


@inner
def _merge_bytes(geometry, tables, cache, slot, need, mask, full, bytes_, core):
    """Lay partly written granules over a slot; a sector whose bytes are all written is valid."""
    bytes_at = _bytes(geometry, slot)
    meta = np.int64(cache.slots[nth(slot + META)])
    fresh = need & ~meta & ~(meta >> 16)
    taken = 0
    complete = 0
    for g in range(geometry.granules_per_line):
        if fresh >> g & 1:
            cache.slots[nth(bytes_at + g)] = 0
        if mask >> g & 1:
            if full >> g & 1:
                cache.slots[nth(bytes_at + g)] = -1
            else:
                cache.slots[nth(bytes_at + g)] |= np.int32(bytes_[nth(taken)])
                taken += 1
        if cache.slots[nth(bytes_at + g)] == -1:
            complete |= 1 << g
    incomplete = np.int64(tables.sectors[nth(need & ~complete)]) & ~meta
    whole = need & ~incomplete
    if geometry.completes is not None:
        for g in range(geometry.granules_per_line):
            if (incomplete & ~(meta >> 16)) >> g & 1:
                cache.slots[nth(slot + TURNS + g)] = core
            elif (whole & meta >> 16) >> g & 1:
                cache.slots[nth(slot + TURNS + g)] = LONG_AGO
    meta = (meta | whole) & ~(whole << 16)
    cache.slots[nth(slot + META)] = meta | incomplete << 16


@inner
def write(
    geometry, tables, cache, counts, queue, rng, n_site,
    instance, line, mask, full, site, counted, now, core, bytes_, n_bytes,
):  # fmt: skip
    """A store; `bytes_` holds the byte masks of the granules in mask that are not in full."""
    row = site + (0 if counted else n_site)
    need = np.int64(tables.sectors[nth(mask)])
    counts[nth(row), nth(ACCESSES)] += tables.n_sectors[nth(need)]
    at = 2 * (instance * geometry.n_lines + line)
    slot, bin_ = where(cache, line, at), instance * geometry.n_sets + cache.lines[nth(at + 1)]
    present = 0
    if slot >= 0:
        if geometry.completes is not None:
            complete_early(geometry, tables, cache, counts, queue, rng, n_site, slot, need, counted, core)  # fmt: skip
        meta = np.int64(cache.slots[nth(slot + META)])
        present = need & (meta | meta >> 16)
        counted_hits = present & meta >> 24 if geometry.written_hits_only else present
        counts[nth(row), nth(HITS)] += tables.n_sectors[nth(counted_hits)]
        if present and geometry.evict_on_write:
            write_back(geometry, tables, cache, counts, queue, n_site, slot, counted)
            drop(geometry, cache, slot, bin_)
            slot, present = np.int64(-1), 0
        elif present:
            touch(geometry, cache, slot, bin_)
    missing = need & ~present
    if not geometry.write_back:
        _pass_store(geometry, tables, counts, queue, row, line, mask, full, site, STORE, counted, bytes_, n_bytes)  # fmt: skip
        if geometry.write_allocate == PASS:
            return
    if geometry.write_allocate == PASS and missing:
        # What is absent goes by; a request that straddles both is sent down whole.
        _pass_store(geometry, tables, counts, queue, row, line, mask, full, site, STORE, counted, bytes_, n_bytes)  # fmt: skip
        return
    if slot < 0:
        slot = _allocate(
            geometry, tables, cache, counts, queue, rng, n_site, instance, line, bin_, counted
        )
    elif not present:
        touch(geometry, cache, slot, bin_)
    cache.slots[nth(_writer(geometry, slot))] = site
    if missing and geometry.write_allocate == UPDATE_AND_FETCH:
        # The C2050 (seed 001, section 2.1): memory is updated, then the block is brought in.
        if geometry.write_back:
            _pass_store(geometry, tables, counts, queue, row, line, mask, full, site, STORE, counted, bytes_, n_bytes)  # fmt: skip
        else:
            present = 0  # nothing is dirty here
        fetched = np.int64(tables.fill[nth(missing)])
        counts[nth(row), nth(READ_GRANULES)] += tables.n_granules[nth(fetched)]
        _emit(geometry, queue, line, fetched, 0, site, LOAD, counted)
        _fill(geometry, cache, slot, fetched, now)
        cache.slots[nth(slot + META)] |= np.int32(present << 8 | need << 24)
        return
    if geometry.write_allocate == LAZY_FETCH:
        _merge_bytes(geometry, tables, cache, slot, need, mask, full, bytes_, core)
    elif missing:
        if geometry.write_allocate == FETCH_ON_WRITE:
            wanted = missing & np.int64(tables.sectors[nth(missing & ~full)])
            if wanted:
                fetched = np.int64(tables.fill[nth(wanted)])
                counts[nth(row), nth(READ_GRANULES)] += tables.n_granules[nth(fetched)]
                _emit(geometry, queue, line, fetched, 0, site, LOAD, counted)
                _fill(geometry, cache, slot, fetched, now)
        cache.slots[nth(slot + META)] |= np.int32(missing)
    dirty = need if geometry.write_back else 0
    cache.slots[nth(slot + META)] |= np.int32(dirty << 8 | need << 24)


@inner
def update(
    geometry, tables, cache, counts, queue, rng, n_site,
    instance, line, mask, site, counted, now, window, bytes_,
):  # fmt: skip
    """An atomic: performed where stores are kept, so a write-through level is passed by."""
    if not geometry.write_back:
        row = site + (0 if counted else n_site)
        counts[nth(row), nth(ACCESSES)] += tables.n_sectors[nth(mask)]
        at = 2 * (instance * geometry.n_lines + line)
        slot, bin_ = where(cache, line, at), instance * geometry.n_sets + cache.lines[nth(at + 1)]
        if slot >= 0:
            drop(geometry, cache, slot, bin_)
        _pass_store(geometry, tables, counts, queue, row, line, mask, 0, site, ATOMIC, counted, bytes_, 0)  # fmt: skip
        return
    slot = read(
        geometry, tables, cache, counts, queue, rng, n_site,
        instance, line, mask, site, ATOMIC, counted, now, window,
    )  # fmt: skip
    need = np.int64(tables.sectors[nth(mask)])
    cache.slots[nth(_writer(geometry, slot))] = site
    cache.slots[nth(slot + META)] |= np.int32(need << 8 | need << 24)
