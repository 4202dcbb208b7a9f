"""One cache level in numba: its state, lookups and write-backs, and what may be left from before a snapshot.

What it does with requests is in `loads` and `stores`, which line goes is in `replacement`, beside this file.
Arrays and scalars in, arrays out; the readable twin is tests/twins/replay/cache.py.

Addresses are dense: the 256-byte chunks that a trace touches are numbered in address order, so a
line is an index. A table holds the slot that each line was last put into. If that slot holds another
line by now, the line is absent. A lookup therefore takes two loads for any associativity. Within a
line, a uint8 mask has one bit per 32-byte granule.

A request to the next level is one uint64 record; see `pack`. The byte masks of partly written
granules are queued beside the records in `partial`, in the same order.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from memsim.compile import hot, inner, nth
from memsim.hierarchy.turns import later_than, put

U8 = npt.NDArray[np.uint8]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

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
    """The parameters of one cache level, by default of one that caches nothing; see memsim.machine.parts.Level.

    n_sets : of a whole instance, all slices;  ways : associativity
    replacement, write_allocate : numbers in memsim.hierarchy.replacement.POLICIES and memsim.hierarchy.stores.POLICIES
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
    touched_lines: int
    down_granules: int
    stride: int
    n_sets: int = 1
    ways: int = 1
    data_lines: int = 1
    replacement: int = 0
    write_back: bool = False
    write_allocate: int = 0
    evict_on_write: bool = False
    caches_loads: bool = False
    written_hits_only: bool = False
    partitions: int = 1
    in_partitions: bool | None = None
    on_fill: bool | None = None
    completes: bool | None = None
    completion_probability_x65536: int = 0
    has_dataless: bool | None = None


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
        written << 16 | stored to << 24); PREV and NEXT in the set's ring; then for each
        granule the turn of its fill, or the core that wrote its sector in part
    stores : int32, as long as slots, or (1,) where no stores are kept. Words of a slot, from the same index on:
        WRITER, the site of the last store, and BYTES, for each granule the bytes written
    sets : (n_instance * n_sets,) int32, the last slot of the set's ring, see memsim.hierarchy.replacement
    ways : (n_instance * n_sets * ways,) uint8, of the replacement policy, or (1,)
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
    ways: U8
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
def emit(stage, line, mask, full, site, kind, counted):
    """Queue a request for the next level, in the longer of the two levels' lines."""
    here, next_ = stage.geometry.granules_per_line, stage.geometry.down_granules
    if here < next_:
        ratio = next_ // here
        shift = (line % ratio) * here
        line, mask, full = line // ratio, mask << shift, full << shift
    stage.queue.record[nth(stage.queue.used[0])] = pack(line, mask, full, site, kind, counted)
    stage.queue.used[0] += 1


@inner
def fetch(stage, line, granules, unsure, site, counted):
    """Request granules of a line from the next level; unsure : see `pack`"""
    n = stage.tables.n_granules[nth(granules)]
    stage.counts[nth(row_of(stage.n_site, site, counted)), nth(READ_GRANULES)] += n
    emit(stage, line, granules, unsure, site, LOAD, counted)


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
def set_of(geometry, cache, instance, entry):
    """The set of a line, numbered over all instances; entry : see `entry_of`."""
    return instance * geometry.n_sets + cache.lines[nth(entry + 1)]


@inner
def requested_after(geometry, slots, slot, turn):
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
def is_awaited(geometry, slots, slot, oldest):
    """Whether data of the line in a slot were requested after turn `oldest`, and so are on their way."""
    valid = np.int64(slots[nth(slot + META)]) & 0xFF
    return requested_after(geometry, slots, slot, oldest) & valid != 0


@inner
def complete(stage, slot, partly, counted):
    """Read the rest of partly written sectors and write the sectors back: they become valid."""
    cache = stage.cache
    site = np.int64(cache.stores[nth(slot + WRITER)])
    line = np.int64(cache.slots[nth(slot + LINE)])
    row = row_of(stage.n_site, site, counted)
    n = stage.tables.n_granules[nth(partly)]
    stage.counts[nth(row), nth(READ_GRANULES)] += n
    stage.counts[nth(row), nth(WRITE_GRANULES)] += n
    emit(stage, line, partly, 0, site, LOAD, counted)
    emit(stage, line, partly, partly, site, STORE, counted)
    meta = np.int64(cache.slots[nth(slot + META)])
    cache.slots[nth(slot + META)] = (meta | partly) & ~(partly << 16 | partly << 8)
    set_turns(stage.geometry, cache.slots, slot, partly, LONG_AGO)


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
            complete(stage, slot, partly, counted)
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
    sectors = tables.sectors[nth(dirty)]
    stage.counts[nth(row), nth(WRITE_GRANULES)] += tables.n_granules[nth(sectors)]
    line = np.int64(cache.slots[nth(slot + LINE)])
    emit(stage, line, dirty, full, site, STORE, counted)


@inner
def forget_past(cache, entry, set_):
    """A line is absent: no granule is doubtful, and if its set holds nothing from before the snapshot, none is
    open."""
    if len(cache.traces) > 0:
        kept = ~(0xFF << DOUBTED) if cache.unknown[nth(set_)] else 0xFF << TOUCHED
        cache.traces[nth(entry // 2)] &= np.uint32(kept & 0xFFFFFFFF)


@inner
def count_open(stage, row, traces, missing):
    """Count the sectors of a miss that may be a hit; traces : of its line"""
    unsure = traces & missing & 0xFF
    stage.counts[nth(row), nth(OPEN)] += stage.tables.n_sectors[nth(unsure)]
    stage.counts[nth(row), nth(LIKELY)] += stage.tables.n_sectors[nth(unsure & traces >> TOUCHED)]


@inner
def count_open_load(stage, entry, row, slot, missing, fetched, sure):
    """Count the open sectors of a load's miss; what is fetched is known from now on. Returns what is fetched for
    no sector that is surely missing.

    sure : granules of sectors that are surely asked for
    """
    fill, traces = stage.tables.fill, np.int64(stage.cache.traces[nth(entry // 2)])
    valid = np.int64(stage.cache.slots[nth(slot + META)]) if slot >= 0 else np.int64(0)
    sure &= missing
    doubtful = fetched & ~fill[nth(sure)] & ~valid
    count_open(stage, row, traces, missing)
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


CACHE_LINE_BYTES, HUGE_PAGE_BYTES = 64, 1 << 21
MUCH_BYTES = HUGE_PAGE_BYTES // 4
"""From this size on, a huge page is worth the time of zeroing it."""


def aligned(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An uninitialised array that begins at a cache line of the CPU, so that no record of 32 or 64
    bytes straddles two. A large one begins at a huge page, so that few translations cover it.

    numpy's arrays begin 16 bytes after a cache line, and use huge pages from 4 MiB on only.
    """
    n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    unit = HUGE_PAGE_BYTES if n_bytes >= MUCH_BYTES else CACHE_LINE_BYTES
    raw = np.empty(-(-n_bytes // unit) * unit + unit, np.uint8)
    begin = -raw.ctypes.data % unit
    return raw[begin : begin + n_bytes].view(dtype).reshape(shape)


class Memory:
    """Arrays that one replay after another uses, for memory that was touched once is fast. As they are overwritten, a worker that
    takes plans in turn needs no more than the largest of them.

    use : a mark of what the arrays are in use for
    """

    def __init__(self) -> None:
        self.use: object = None
        self._held: dict[tuple[object, str], npt.NDArray[np.uint8]] = {}

    def array(
        self, owner: object, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike
    ) -> npt.NDArray[Any]:
        """An array with any contents, where the last one of this owner and name was, if it is not longer."""
        n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        held = self._held.get((owner, name))
        if held is None or len(held) < n_bytes:
            self._held.pop((owner, name), None)
            held = self._held[owner, name] = aligned((n_bytes + n_bytes // 8,), np.uint8)
        return held[:n_bytes].view(dtype).reshape(shape)
