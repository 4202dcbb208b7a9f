"""One cache level in numba: lookup, replacement, fills, stores, write-backs, pending hits.

Arrays and scalars in, arrays out; the readable twin is tests/twins/replay/cache.py.

Addresses are dense: the 256-byte chunks that a trace touches are numbered in address order, so a
line is an index. A table holds the slot that each line was last put into. If that slot holds another
line by now, the line is absent. A lookup therefore takes two loads for any associativity. Within a
line, a uint8 mask has one bit per 32-byte granule.

A request to the next level is one uint64 record; see `pack`. The byte masks of partly written
granules are queued beside the records in `partial`, in the same order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from memsim.compile import hot, inner, nth
from memsim.hierarchy.rng import below
from memsim.hierarchy.turns import later_than, put

U8 = npt.NDArray[np.uint8]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

LRU, LRU_LOADS, FIFO, RANDOM, PLRU = range(5)
"""Replacement. Up to FIFO, the lines of a set form a ring."""
PASS, NO_FETCH, FETCH_ON_WRITE, LAZY_FETCH, UPDATE_AND_FETCH = range(5)
LOAD, STORE, ATOMIC, BYPASS = range(4)
"""Kinds of requests. BYPASS is a load that bypasses the first level; below it, it is a LOAD."""
ROUND_ROBIN, LOOSE_ROUND_ROBIN, UNIFORM = range(3)

ACCESSES, HITS, PENDING, READ_GRANULES, WRITE_GRANULES, FAR, OPEN, LIKELY = range(8)
DIRTIED, OPEN_DIRTIED, LIKELY_DIRTIED, DOUBTFUL = range(8, 12)
N_COUNTS = 12
"""Columns of the counts. There are two rows a site: row s for site s, and row n_site + s for its
requests in the warm-up. FAR counts those hits, pending ones included, that another partition served
(see memsim.hierarchy.partitions). OPEN counts those misses that are hits if groups before the
snapshot left their sectors in the cache (see `Cache.traces`), LIKELY those of them whose sectors such a group
is known to have touched. DIRTIED counts granules that become dirty, and those that are passed on: all of
them are written to the next level, but for those that are dirty at the end. OPEN_DIRTIED and LIKELY_DIRTIED
count those of them that are dirty already if such a group left them so. DOUBTFUL counts hits on sectors that
are present only because of a possible hit in the level above (see `Cache.traces`)."""

MAX_SITES = 1 << 15
MAX_LINES = 1 << 30


class Geometry(NamedTuple):
    """The parameters of one cache level; see memsim.machine.parts.Level.

    n_sets : of a whole instance, all slices;  ways : associativity
    touched_lines : lines in the dense address space of the trace
    stride : int32 words of a slot
    partitions : neighbouring instances that are partitions of one cache
    in_partitions : True if there is more than one, else None
    on_fill : True if a line takes its slot when its data arrive, None if it does when requested
    completes : True if partly written sectors can be completed before their eviction, else None
    completion_probability_x65536 : the probability of it (see Level.partial_write_back_percent)
    has_dataless : True if more lines have tags than have room for data, else None
    data_lines : lines of an instance that have room for data

    None is a type of its own: loops are compiled without the features that a machine does not have.
    """

    granules_per_line: int
    n_sets: int
    ways: int
    touched_lines: int
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
    completion_probability_x65536: int
    has_dataless: bool | None
    data_lines: int


class Tables(NamedTuple):
    """Functions of a granule mask, as tables (256,) uint8.

    sectors : the mask widened to whole sectors;  n_sectors : number of sectors in a widened mask
    fill : the granules that a miss of these sectors fetches;  n_granules : number of bits
    """

    sectors: U8
    n_sectors: U8
    fill: U8
    n_granules: U8


class Cache(NamedTuple):
    """The state of all instances of one level, laid out so that a request touches few cache lines of
    the CPU that runs the replay.

    lines : (n_instance * touched_lines * 2,) int32. For each line, the slot that it was put into
        last (another line may be there by now, see `slot_of`), and its set. An eviction need not
        update the entry of the evicted line
    slots : (n_instance * n_sets * ways * stride,) int32. A slot is identified by the index of its
        first word. Words: LINE (negative: see UNKNOWN); META (granule masks: valid | dirty << 8 | partly
        written << 16 | stored to << 24); PREV and NEXT in the set's recency ring; then for each
        granule the turn of its fill, or the core that wrote its sector in part
    stores : int32, as long as slots, or (1,) where no stores are kept. Words of a slot, from the same index on:
        WRITER, the site of the last store, and BYTES, for each granule the bytes written
    sets : (n_instance * n_sets * 2,) int32. LRU and FIFO: the least recent slot of the recency ring,
        and an unused word. Other policies: the first empty slot, which is linked to the others
        through NEXT, and the number of slots in use
    tree : (n_instance * n_sets * ways,) uint8, nodes of tree-PLRU, or (1,)
    data : (n_instance * 2,) int32, lines that have room, and the set whose turn it is to give one up, or (1,)
    home : (touched_lines,) uint8, the home partition of each line, or (1,)
    in_flight : (n_instance * touched_lines,) uint8, granules that are requested and have not
        arrived, or (1,); only with on_fill
    fills : (2 + 2 * capacity,) int64, or (2,): a ring of the fills in flight, [first, number], and
        for each fill its line (over all instances) | granules << 40, and its turn of arrival
    past : (touched_lines,) uint32, `traces` as they are when a replay begins, or (0,) where no group is before it
    unknown : (n_instance * n_sets,) int32, slots of each set that may still hold what those groups
        left, or (0,)
    traces : (n_instance * touched_lines,) uint32, four masks of the granules of each line, or (0,):
        open, from bit 0 : it is not known whether those groups left them in the cache. A line in a set whose
            slots have all been filled since is known to be absent, whatever was there before: under LRU, lines
            of the snapshot are in the cache in the same order with and without them. The same is assumed of
            other policies
        UNCLEAN : it is not known whether those groups left them dirty
        DOUBTED : they are present only because of a possible hit in the level above, treated as a miss. In the launch
            that hit may not have sent the request, and this level may have lost the line
        TOUCHED : those groups are known to have touched them
    """

    lines: I32
    slots: I32
    stores: I32
    sets: I32
    tree: U8
    data: I32
    home: U8
    in_flight: U8
    fills: I64
    past: U32
    unknown: I32
    traces: U32


UNCLEAN, DOUBTED, TOUCHED = 8, 16, 24
"""The first bit of each mask but the first in `Cache.traces`."""


UNKNOWN, EMPTY = -1, -2
"""In place of a slot's line: the slot has not been filled since counting or warming up began, or its
line was dropped."""
LINE, META, PREV, NEXT, TURNS = range(5)
"""Words of a slot. Eight suffice with four granules a line: the state of a V100's L1 is then 32 KiB, which
fits the CPU's L1."""
FREED_SETS = 4
"""Sets that give up a line each when all room is taken, as an H200's L1 does (measured for memsim)."""
WRITER, BYTES = range(2)
"""Words of a slot in `Cache.stores`, which loads do not touch."""
LONG_AGO = -(1 << 30)
"""A turn before all others."""


class Queue(NamedTuple):
    """Requests to the next level: records, byte masks of partial granules, and the number of each."""

    record: U64
    partial: U32
    used: I64


class Stage(NamedTuple):
    """A level during a replay: what its loops read and write.

    counts : (2 * n_site, N_COUNTS) int64, added to
    queue : requests to the next level are appended
    rng : (1,) uint64, the stream of the replacement policy and of early completions
    store_bytes : (8,) uint32 scratch, byte masks of the partial granules of the store being served
    nontemporal : (n_row,) uint8, 1 for sites whose stores go first, or (0,) where there is no such site
    """

    geometry: Geometry
    tables: Tables
    cache: Cache
    counts: I64
    queue: Queue
    rng: U64
    n_site: int
    store_bytes: U32
    nontemporal: U8


@inner
def pack(line, mask, full, site, kind, counted):
    """A request: line 30 bits, granule mask 8, fully written granules 8, site 15, kind 2, counted 1.

    In a load, `full` are the granules requested only because a possible hit above was treated as a miss.
    """
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
def row_of(n_site, site, counted):
    """The row of the counts for a request of a site."""
    return site + (0 if counted else n_site)


@inner
def _emit(geometry, queue, line, mask, full, site, kind, counted):
    """Queue a request for the next level, in the longer of the two levels' lines."""
    here, next_ = geometry.granules_per_line, geometry.down_granules
    if here < next_:
        ratio = next_ // here
        shift = (line % ratio) * here
        line, mask, full = line // ratio, mask << shift, full << shift
    queue.record[nth(queue.used[0])] = pack(line, mask, full, site, kind, counted)
    queue.used[0] += 1


@inner
def _fetch(stage, line, granules, unsure, site, counted):
    """Request granules of a line from the next level; unsure : see `pack`"""
    n = stage.tables.n_granules[nth(granules)]
    stage.counts[nth(row_of(stage.n_site, site, counted)), nth(READ_GRANULES)] += n
    _emit(stage.geometry, stage.queue, line, granules, unsure, site, LOAD, counted)


@inner
def promote(cache, slot, set_):
    """Make a slot the most recent of its set."""
    slots = cache.slots
    tail = np.int64(cache.sets[nth(2 * set_)])
    if tail == slot:
        cache.sets[nth(2 * set_)] = slots[nth(slot + PREV)]
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
def entry_of(geometry, instance, line):
    """The index of a line's entry in `Cache.lines`."""
    return 2 * (instance * geometry.touched_lines + line)


@inner
def slot_of(cache, line, entry):
    """The slot that holds a line, -1 if the line is absent; entry : see `entry_of`."""
    slot = np.int64(cache.lines[nth(entry)])
    return slot if cache.slots[nth(slot + LINE)] == line else np.int64(-1)


@inner
def set_of(n_sets, lines, instance, entry):
    """The set of a line, numbered over all instances; entry : see `entry_of`."""
    return instance * n_sets + lines[nth(entry + 1)]


@inner
def drop(geometry, cache, slot, set_):
    """Invalidate a slot: it is the next to be filled."""
    if geometry.has_dataless is not None:
        cache.data[nth(set_ // geometry.n_sets * 2)] -= 1
    cache.slots[nth(slot + LINE)] = EMPTY
    cache.slots[nth(slot + META)] = 0
    if geometry.replacement <= FIFO:
        promote(cache, slot, set_)
        cache.sets[nth(2 * set_)] = slot
    else:
        cache.slots[nth(slot + NEXT)] = cache.sets[nth(2 * set_)]
        cache.sets[nth(2 * set_)] = slot
        cache.sets[nth(2 * set_ + 1)] -= 1


@inner
def _tree_touch(geometry, cache, way, set_):
    """Make every node on the path to a way point away from it."""
    node, span, base = 1, geometry.ways, set_ * geometry.ways
    while span > 1:
        span //= 2
        right = way // span & 1
        cache.tree[nth(base + node)] = 1 - right
        node = 2 * node + right


@inner
def _tree_victim(geometry, cache, set_):
    """The way that the nodes point to."""
    node, span, way = 1, geometry.ways, np.int64(0)
    while span > 1:
        span //= 2
        right = np.int64(cache.tree[nth(set_ * geometry.ways + node)])
        way += right * span
        node = 2 * node + right
    return way


@inner
def touch(geometry, cache, slot, set_):
    """Update the replacement policy after a hit."""
    if geometry.replacement <= LRU_LOADS:
        promote(cache, slot, set_)
    elif geometry.replacement == PLRU:
        _tree_touch(geometry, cache, slot // geometry.stride - set_ * geometry.ways, set_)


@inner
def _requested_after(geometry, slots, slot, turn):
    """The granules of a slot whose turn is after another."""
    later = later_than(slots, slot + TURNS, turn)
    if geometry.granules_per_line > 4:
        later |= later_than(slots, slot + TURNS + 4, turn) << 4
    return later


@inner
def set_turns(geometry, slots, slot, granules, turn):
    put(slots, slot + TURNS, granules, turn)
    if geometry.granules_per_line > 4:
        put(slots, slot + TURNS + 4, granules >> 4, turn)


@inner
def _is_awaited(geometry, slots, slot, oldest):
    """Whether data of the line in a slot were requested after turn `oldest`, and so are on their way."""
    valid = np.int64(slots[nth(slot + META)]) & 0xFF
    return _requested_after(geometry, slots, slot, oldest) & valid != 0


@inner
def _least_recent(geometry, cache, set_, oldest):
    """An empty slot if there is one, else the least recent one whose data are there, else the least recent one."""
    slots = cache.slots
    least = np.int64(cache.sets[nth(2 * set_)])
    slot, chosen = least, np.int64(-1)
    for _ in range(geometry.ways):
        if slots[nth(slot + LINE)] < 0:
            return slot
        if chosen < 0 and not _is_awaited(geometry, slots, slot, oldest):
            chosen = slot
        slot = np.int64(slots[nth(slot + PREV)])
    return chosen if chosen >= 0 else least


@inner
def _free_data(stage, instance, counted, oldest):
    """All room is taken: each of the next four sets in turn gives up its least recent line that is not awaited."""
    geometry, cache = stage.geometry, stage.cache
    for _ in range(FREED_SETS):
        set_ = np.int64(cache.data[nth(2 * instance + 1)])
        cache.data[nth(2 * instance + 1)] = set_ + 1 if set_ + 1 < geometry.n_sets else 0
        set_ += instance * geometry.n_sets
        slot = np.int64(cache.sets[nth(2 * set_)])
        for _ in range(geometry.ways):
            if cache.slots[nth(slot + LINE)] >= 0 and not _is_awaited(
                geometry, cache.slots, slot, oldest
            ):
                write_back(stage, slot, counted)
                drop(geometry, cache, slot, set_)
                break
            slot = np.int64(cache.slots[nth(slot + PREV)])


@inner
def _victim(stage, set_, oldest):
    """The slot to fill: an empty one if there is one, else the choice of the replacement policy.

    oldest : LRU_LOADS keeps lines that were requested after this turn
    """
    geometry, cache = stage.geometry, stage.cache
    if geometry.replacement == LRU_LOADS:
        slot = _least_recent(geometry, cache, set_, oldest)
        promote(cache, slot, set_)
        return slot
    if geometry.replacement <= FIFO:
        slot = np.int64(cache.sets[nth(2 * set_)])
        cache.sets[nth(2 * set_)] = cache.slots[nth(slot + PREV)]
        return slot
    base = set_ * geometry.ways
    if cache.sets[nth(2 * set_ + 1)] < geometry.ways:
        slot = np.int64(cache.sets[nth(2 * set_)])
        way = slot // geometry.stride - base
        cache.sets[nth(2 * set_)] = cache.slots[nth(slot + NEXT)]
        cache.sets[nth(2 * set_ + 1)] += 1
    elif geometry.replacement == RANDOM:
        way = below(stage.rng, geometry.ways)
    else:
        way = _tree_victim(geometry, cache, set_)
    if geometry.replacement == PLRU:
        _tree_touch(geometry, cache, way, set_)
    return (base + way) * geometry.stride


@inner
def _complete(stage, slot, partly, counted):
    """Read the rest of partly written sectors and write the sectors back: they become valid."""
    cache = stage.cache
    site = np.int64(cache.stores[nth(slot + WRITER)])
    line = np.int64(cache.slots[nth(slot + LINE)])
    row = row_of(stage.n_site, site, counted)
    n = stage.tables.n_granules[nth(partly)]
    stage.counts[nth(row), nth(READ_GRANULES)] += n
    stage.counts[nth(row), nth(WRITE_GRANULES)] += n
    _emit(stage.geometry, stage.queue, line, partly, 0, site, LOAD, counted)
    _emit(stage.geometry, stage.queue, line, partly, partly, site, STORE, counted)
    meta = np.int64(cache.slots[nth(slot + META)])
    cache.slots[nth(slot + META)] = (meta | partly) & ~(partly << 16 | partly << 8)
    set_turns(stage.geometry, cache.slots, slot, partly, LONG_AGO)


@inner
def complete_early(stage, slot, need, counted, core):
    """Sectors in `need` that another core wrote in part may have been completed in the meantime: a
    random draw decides. The others belong to this core from now on."""
    slots = stage.cache.slots
    meta = np.int64(slots[nth(slot + META)])
    partly = (meta >> 16) & need & ~meta
    if not partly:
        return
    for g in range(stage.geometry.granules_per_line):
        sector = np.int64(stage.tables.sectors[nth(1 << g)])
        if partly & sector & -sector != 1 << g:  # each sector once, at its first granule
            continue
        if slots[nth(slot + TURNS + g)] != core:
            slots[nth(slot + TURNS + g)] = core
            if below(stage.rng, 1 << 16) < stage.geometry.completion_probability_x65536:
                _complete(stage, slot, sector, counted)


@inner
def write_back(stage, slot, counted):
    """Send a slot's dirty sectors to the next level, on behalf of the site that wrote last."""
    geometry, tables, cache, queue = stage.geometry, stage.tables, stage.cache, stage.queue
    meta = np.int64(cache.slots[nth(slot + META)])
    dirty = (meta >> 8) & 0xFF
    if not dirty:
        return
    if geometry.completes is not None:
        partly = (meta >> 16) & 0xFF & ~meta
        if partly:
            _complete(stage, slot, partly, counted)
            meta = np.int64(cache.slots[nth(slot + META)])
            dirty = (meta >> 8) & 0xFF
            if not dirty:
                return
    site = np.int64(cache.stores[nth(slot + WRITER)])
    partly = (meta >> 16) & 0xFF & ~meta
    full = dirty & ~partly
    if partly:
        for g in range(geometry.granules_per_line):
            if partly >> g & 1:
                written = np.uint32(cache.stores[nth(slot + BYTES + g)])
                if written == np.uint32(0xFFFFFFFF):
                    full |= 1 << g
                elif written == 0:
                    dirty &= ~(1 << g)
                else:
                    queue.partial[nth(queue.used[1])] = written
                    queue.used[1] += 1
        full &= dirty
    row = row_of(stage.n_site, site, counted)
    stage.counts[nth(row), nth(WRITE_GRANULES)] += tables.n_granules[
        nth(tables.sectors[nth(dirty)])
    ]
    _emit(
        stage.geometry,
        stage.queue,
        np.int64(cache.slots[nth(slot + LINE)]),
        dirty,
        full,
        site,
        STORE,
        counted,
    )


@inner
def forget_past(cache, entry, set_):
    """A line is absent: no granule is doubtful, and if its set holds nothing from before the snapshot, none is
    open."""
    if len(cache.traces) > 0:
        kept = ~(0xFF << DOUBTED) if cache.unknown[nth(set_)] else 0xFF << TOUCHED
        cache.traces[nth(entry // 2)] &= np.uint32(kept & 0xFFFFFFFF)


@inner
def _count_open(stage, row, traces, missing):
    """Count the sectors of a miss that may be a hit; traces : of its line"""
    unsure = traces & missing & 0xFF
    stage.counts[nth(row), nth(OPEN)] += stage.tables.n_sectors[nth(unsure)]
    stage.counts[nth(row), nth(LIKELY)] += stage.tables.n_sectors[nth(unsure & traces >> TOUCHED)]


@inner
def _count_open_load(stage, entry, row, slot, missing, fetched, sure):
    """Count the open sectors of a load's miss; what is fetched is known from now on. Returns what is fetched for
    no sector that is surely missing.

    sure : granules of sectors that are surely asked for
    """
    fill, traces = stage.tables.fill, np.int64(stage.cache.traces[nth(entry // 2)])
    valid = np.int64(stage.cache.slots[nth(slot + META)]) if slot >= 0 else np.int64(0)
    sure &= missing
    doubtful = fetched & ~fill[nth(sure)] & ~valid
    _count_open(stage, row, traces, missing)
    stage.cache.traces[nth(entry // 2)] = (traces & ~fetched) | doubtful << DOUBTED
    return fetched & ~np.int64(fill[nth(sure & ~traces)])


@inner
def count_doubtful(stage, entry, row, slot, hit, sure):
    """Count the doubtful sectors among the hits that are surely asked for. They are in the cache from now on. If
    nothing of the line in the slot is, all of it is doubtful: in the launch it is not used now.

    sure : granules of sectors that are surely asked for
    """
    traces = np.int64(stage.cache.traces[nth(entry // 2)])
    if not sure and slot >= 0:
        traces |= (np.int64(stage.cache.slots[nth(slot + META)]) & 0xFF) << DOUBTED
    there = traces >> DOUBTED & sure & hit
    stage.counts[nth(row), nth(DOUBTFUL)] += stage.tables.n_sectors[nth(there)]
    there = np.int64(stage.tables.fill[nth(there)])
    stage.cache.traces[nth(entry // 2)] = traces & ~(there << DOUBTED)


@inner
def make_dirty(stage, slot, entry, row, granules):
    """Mark granules dirty, and count those that were not."""
    cache, counts, n_granules = stage.cache, stage.counts, stage.tables.n_granules
    meta = np.int64(cache.slots[nth(slot + META)])
    fresh = granules & ~(meta >> 8)
    counts[nth(row), nth(DIRTIED)] += n_granules[nth(fresh)]
    if len(cache.traces) > 0:
        traces = np.int64(cache.traces[nth(entry // 2)])
        unsure = traces >> UNCLEAN & fresh
        counts[nth(row), nth(OPEN_DIRTIED)] += n_granules[nth(unsure)]
        counts[nth(row), nth(LIKELY_DIRTIED)] += n_granules[nth(unsure & traces >> TOUCHED)]
        cache.traces[nth(entry // 2)] = traces & ~(granules << UNCLEAN)
    cache.slots[nth(slot + META)] |= np.int32(granules << 8)


@inner
def allocate(stage, instance, line, set_, counted, oldest):
    """Give an absent line a slot; the line in it is evicted, and written back if dirty; oldest : see `_victim`"""
    cache = stage.cache
    slot = _victim(stage, set_, oldest)
    old = np.int64(cache.slots[nth(slot + LINE)])
    if stage.geometry.has_dataless is not None and old < 0:
        # The slot is not among those that are freed, for it is empty.
        if cache.data[nth(2 * instance)] >= stage.geometry.data_lines:
            _free_data(stage, instance, counted, oldest)
        cache.data[nth(2 * instance)] += 1
    if old >= 0:
        write_back(stage, slot, counted)
    elif old == UNKNOWN and len(cache.traces) > 0:
        cache.unknown[nth(set_)] -= 1
    cache.slots[nth(slot + LINE)] = line
    cache.slots[nth(slot + META)] = 0
    cache.lines[nth(entry_of(stage.geometry, instance, line))] = slot
    if stage.geometry.write_allocate != PASS:
        # A store makes sectors valid without a fill: the old line's turns must not count for them.
        set_turns(stage.geometry, cache.slots, slot, 0xFF, LONG_AGO)
    return slot


@inner
def fill(geometry, slots, slot, fetched, now):
    """Mark fetched sectors valid, requested at turn `now`; sectors already valid keep their turn."""
    meta = np.int64(slots[nth(slot + META)])
    fresh = fetched & ~meta
    slots[nth(slot + META)] = (meta | fetched) & ~(fetched << 16)
    set_turns(geometry, slots, slot, fresh, now)


@inner
def _complete_oldest_fill(stage):
    """The data of the oldest fill arrive: its line takes a slot, unless it has one.

    A level that allocates on fill keeps no stores, so the evicted line is clean.
    """
    geometry, cache, fills = stage.geometry, stage.cache, stage.cache.fills
    first = fills[0]
    which = fills[nth(2 + 2 * first)]
    fills[0] = first + 1 if 2 * first + 4 < len(fills) else 0
    fills[1] -= 1
    index, mask = which & ((1 << 40) - 1), which >> 40
    cache.in_flight[nth(index)] &= np.uint8(~mask & 0xFF)
    instance = index // geometry.touched_lines
    line = index - instance * geometry.touched_lines
    slot = slot_of(cache, line, 2 * index)
    if slot < 0:
        slot = allocate(
            stage, instance, line, set_of(geometry.n_sets, cache.lines, instance, 2 * index), 0, 0
        )
    fill(stage.geometry, stage.cache.slots, slot, mask, LONG_AGO)


@inner
def complete_fills(stage, now):
    """Complete the fills whose data have arrived by turn `now`, in the order of their requests."""
    fills = stage.cache.fills
    while fills[1] > 0 and fills[nth(3 + 2 * fills[0])] <= now:
        _complete_oldest_fill(stage)


@inner
def _start_fill(stage, index, fetched, arrival):
    """Record a fill in flight; if there are as many as possible, wait for the oldest."""
    fills = stage.cache.fills
    capacity = len(fills) // 2 - 1
    if fills[1] == capacity:
        _complete_oldest_fill(stage)
    last = fills[0] + fills[1]
    if last >= capacity:
        last -= capacity
    fills[nth(2 + 2 * last)] = index | fetched << 40
    fills[nth(3 + 2 * last)] = arrival
    fills[1] += 1
    stage.cache.in_flight[nth(index)] |= np.uint8(fetched)


@inner
def pending(geometry, tables, slots, slot, hit, now, window):
    """Number of the hit sectors that were requested less than `window` turns ago."""
    young = hit & _requested_after(geometry, slots, slot, now - window)
    return np.int64(tables.n_sectors[nth(young)])


@inner
def read(stage, instance, line, mask, unsure, site, kind, counted, now, window):
    """A load, or the read half of an atomic; returns the slot, -1 where the level is bypassed.

    unsure : granules in mask, see `pack`
    """
    geometry, tables, cache, counts = stage.geometry, stage.tables, stage.cache, stage.counts
    row = row_of(stage.n_site, site, counted)
    need = np.int64(tables.sectors[nth(mask)])
    counts[nth(row), nth(ACCESSES)] += tables.n_sectors[nth(need)]
    if kind == BYPASS or (kind == LOAD and not geometry.caches_loads):
        _fetch(stage, line, mask, unsure, site, counted)
        return np.int64(-1)
    entry = entry_of(geometry, instance, line)
    slot, set_ = slot_of(cache, line, entry), set_of(geometry.n_sets, cache.lines, instance, entry)
    if slot >= 0:
        hit = need & np.int64(cache.slots[nth(slot + META)])
        touch(geometry, cache, slot, set_)
        if hit:
            young = pending(stage.geometry, stage.tables, stage.cache.slots, slot, hit, now, window)
            counts[nth(row), nth(HITS)] += np.int64(tables.n_sectors[nth(hit)]) - young
            counts[nth(row), nth(PENDING)] += young
        if len(cache.traces) > 0:
            sure = np.int64(tables.sectors[nth(mask & ~unsure)])
            count_doubtful(stage, entry, row, slot, hit, sure)
        missing = need & ~hit
        if not missing:
            return slot
    else:
        forget_past(cache, entry, set_)
        if geometry.on_fill is None:
            slot = allocate(stage, instance, line, set_, counted, now - window)
        missing = need
    if geometry.on_fill is not None:
        merged = missing & np.int64(cache.in_flight[nth(entry // 2)])
        counts[nth(row), nth(PENDING)] += tables.n_sectors[nth(merged)]
        if len(cache.traces) > 0:
            sure = np.int64(tables.sectors[nth(mask & ~unsure)])
            count_doubtful(stage, entry, row, slot, merged, sure)
        missing &= ~merged
        if not missing:
            return slot
    fetched = np.int64(tables.fill[nth(missing)])
    if len(cache.traces) > 0:
        sure = np.int64(tables.sectors[nth(mask & ~unsure)])
        unsure = _count_open_load(stage, entry, row, slot, missing, fetched, sure)
    _fetch(stage, line, fetched, unsure, site, counted)
    if geometry.on_fill is not None:
        _start_fill(stage, entry // 2, fetched, now + window)
    else:
        fill(stage.geometry, stage.cache.slots, slot, fetched, now)
    return slot


@inner
def _pass_on(stage, line, mask, full, site, kind, counted):
    """Send a store or an atomic to the next level unchanged."""
    tables, queue = stage.tables, stage.queue
    row = row_of(stage.n_site, site, counted)
    stage.counts[nth(row), nth(WRITE_GRANULES)] += tables.n_granules[nth(mask)]
    stage.counts[nth(row), nth(DIRTIED)] += tables.n_granules[nth(mask)]
    if kind == STORE:
        for k in range(np.int64(tables.n_granules[nth(mask & ~full)])):
            queue.partial[nth(queue.used[1])] = stage.store_bytes[nth(k)]
            queue.used[1] += 1
    _emit(stage.geometry, stage.queue, line, mask, full, site, kind, counted)


@inner
def _merge_bytes(stage, slot, need, mask, full, core):
    """Merge a store's bytes into a slot; a sector whose bytes are all written becomes valid."""
    geometry, slots, stores = stage.geometry, stage.cache.slots, stage.cache.stores
    meta = np.int64(slots[nth(slot + META)])
    fresh = need & ~meta & ~(meta >> 16)
    taken = 0
    complete = 0
    for g in range(geometry.granules_per_line):
        if fresh >> g & 1:
            stores[nth(slot + BYTES + g)] = 0
        if mask >> g & 1:
            if full >> g & 1:
                stores[nth(slot + BYTES + g)] = -1
            else:
                stores[nth(slot + BYTES + g)] |= np.int32(stage.store_bytes[nth(taken)])
                taken += 1
        if stores[nth(slot + BYTES + g)] == -1:
            complete |= 1 << g
    incomplete = np.int64(stage.tables.sectors[nth(need & ~complete)]) & ~meta
    whole = need & ~incomplete
    if geometry.completes is not None:
        for g in range(geometry.granules_per_line):
            if (incomplete & ~(meta >> 16)) >> g & 1:
                slots[nth(slot + TURNS + g)] = core
            elif (whole & meta >> 16) >> g & 1:
                slots[nth(slot + TURNS + g)] = LONG_AGO
    meta = (meta | whole) & ~(whole << 16)
    slots[nth(slot + META)] = meta | incomplete << 16


@inner
def write(stage, instance, line, mask, full, site, counted, now, window, core):
    """A store; `stage.store_bytes` has the byte masks of the granules in mask that are not in full."""
    geometry, tables, cache = stage.geometry, stage.tables, stage.cache
    need = np.int64(tables.sectors[nth(mask)])
    row = row_of(stage.n_site, site, counted)
    stage.counts[nth(row), nth(ACCESSES)] += tables.n_sectors[nth(need)]
    entry = entry_of(geometry, instance, line)
    slot, set_ = slot_of(cache, line, entry), set_of(geometry.n_sets, cache.lines, instance, entry)
    present = np.int64(0)
    goes_first = geometry.replacement == LRU_LOADS
    if len(stage.nontemporal) > 0:
        goes_first |= stage.nontemporal[nth(site)] != 0
    if slot >= 0:
        if geometry.completes is not None:
            complete_early(stage, slot, need, counted, core)
        meta = np.int64(cache.slots[nth(slot + META)])
        present = need & (meta | meta >> 16)
        hits = present & meta >> 24 if geometry.written_hits_only else present
        stage.counts[nth(row), nth(HITS)] += tables.n_sectors[nth(hits)]
        if present and geometry.evict_on_write:
            write_back(stage, slot, counted)
            drop(geometry, cache, slot, set_)
            slot, present = np.int64(-1), np.int64(0)
        elif present and not goes_first:
            touch(geometry, cache, slot, set_)
    missing = need & ~present
    if not geometry.write_back:
        _pass_on(stage, line, mask, full, site, STORE, counted)
        if geometry.write_allocate == PASS:
            return
    if geometry.write_allocate == PASS and missing:
        # Absent sectors are not allocated; a request with present and absent ones is sent down whole.
        _pass_on(stage, line, mask, full, site, STORE, counted)
        return
    if slot < 0:
        forget_past(cache, entry, set_)
        slot = allocate(stage, instance, line, set_, counted, now - window)
        if goes_first and geometry.replacement <= FIFO:
            next_victim = np.int64(cache.sets[nth(2 * set_)])
            if geometry.replacement == LRU_LOADS or cache.slots[nth(next_victim + LINE)] >= 0:
                cache.sets[nth(2 * set_)] = slot  # the least recent one
    elif not present and not goes_first:
        touch(geometry, cache, slot, set_)
    if len(cache.traces) > 0:
        # If a sector that is missing is there already, later loads of the rest of it hit: it stays open.
        traces = np.int64(cache.traces[nth(entry // 2)])
        _count_open(stage, row, traces, missing)
        whole = need & ~np.int64(tables.sectors[nth(need & ~full)])
        cache.traces[nth(entry // 2)] = traces & ~(whole << DOUBTED)
    cache.stores[nth(slot + WRITER)] = site
    if missing and geometry.write_allocate == UPDATE_AND_FETCH:
        # The C2050 updates memory, then fetches the block (Baghsorkhi et al. 2012, section 2.1).
        if geometry.write_back:
            _pass_on(stage, line, mask, full, site, STORE, counted)
        else:
            present = np.int64(0)  # no sector is dirty here
        fetched = np.int64(tables.fill[nth(missing)])
        _fetch(stage, line, fetched, 0, site, counted)
        fill(stage.geometry, stage.cache.slots, slot, fetched, now)
        make_dirty(stage, slot, entry, row, present)
        cache.slots[nth(slot + META)] |= np.int32(need << 24)
        return
    if geometry.write_allocate == LAZY_FETCH:
        _merge_bytes(stage, slot, need, mask, full, core)
    elif missing:
        if geometry.write_allocate == FETCH_ON_WRITE:
            uncovered = missing & np.int64(tables.sectors[nth(missing & ~full)])
            if uncovered:
                fetched = np.int64(tables.fill[nth(uncovered)])
                _fetch(stage, line, fetched, 0, site, counted)
                fill(stage.geometry, stage.cache.slots, slot, fetched, now)
        cache.slots[nth(slot + META)] |= np.int32(missing)
    if geometry.write_back:
        make_dirty(stage, slot, entry, row, need)
    cache.slots[nth(slot + META)] |= np.int32(need << 24)


@inner
def update(stage, instance, line, mask, site, counted, now, window):
    """An atomic. It is performed at the first write-back level; a write-through level drops the line
    and passes the atomic on."""
    geometry, tables, cache = stage.geometry, stage.tables, stage.cache
    if not geometry.write_back:
        row = row_of(stage.n_site, site, counted)
        stage.counts[nth(row), nth(ACCESSES)] += tables.n_sectors[nth(mask)]
        entry = entry_of(geometry, instance, line)
        slot = slot_of(cache, line, entry)
        if slot >= 0:
            drop(geometry, cache, slot, set_of(geometry.n_sets, cache.lines, instance, entry))
        _pass_on(stage, line, mask, 0, site, ATOMIC, counted)
        return
    slot = read(stage, instance, line, mask, 0, site, ATOMIC, counted, now, window)
    need = np.int64(tables.sectors[nth(mask)])
    cache.stores[nth(slot + WRITER)] = site
    entry, row = entry_of(geometry, instance, line), row_of(stage.n_site, site, counted)
    make_dirty(stage, slot, entry, row, need)
    cache.slots[nth(slot + META)] |= np.int32(need << 24)


@hot
def count_dirty(geometry, tables, cache, dirty):
    """Count the granules that would be written back if all lines were evicted.

    dirty : (n_row,) int64, by the site of the last store; added to

    Returns the slots that have not been filled since the replay began.
    """
    unfilled = np.int64(0)
    for slot in range(0, len(cache.slots), geometry.stride):
        if cache.slots[nth(slot + LINE)] == UNKNOWN:
            unfilled += 1
        mask = (np.int64(cache.slots[nth(slot + META)]) >> 8) & 0xFF
        if mask:
            site = np.int64(cache.stores[nth(slot + WRITER)])
            dirty[nth(site)] += tables.n_granules[nth(tables.sectors[nth(mask)])]
    return unfilled
