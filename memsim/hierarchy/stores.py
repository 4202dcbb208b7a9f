"""Stores and atomic operations. What a store does to sectors that are not there is a function, a line of `POLICIES`.

The readable twin is tests/twins/replay/cache.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from memsim.compile import choice, inner, nth
from memsim.hierarchy.cache import (
    ACCESSES,
    ATOMIC,
    BYTES,
    DIRTIED,
    DOUBTED,
    HITS,
    LIKELY_DIRTIED,
    LINE,
    LONG_AGO,
    META,
    OPEN_DIRTIED,
    STORE,
    TOUCHED,
    TURNS,
    UNCLEAN,
    WRITE_GRANULES,
    WRITER,
    complete,
    count_open,
    emit,
    entry_of,
    fetch,
    forget_past,
    row_of,
    set_of,
    slot_of,
    write_back,
)
from memsim.hierarchy.loads import fill, read
from memsim.hierarchy.replacement import STORES_FIRST, allocate, drop, used
from memsim.hierarchy.rng import below


class Store(NamedTuple):
    """A store to one line; `Stage.store_bytes` has the byte masks of the granules in mask that are not in full.

    mask : granules;  full : those that are written completely
    core : that sent it;  now : the turn
    """

    line: int
    mask: int
    full: int
    site: int
    counted: int
    core: int
    now: int


@inner
def _make_valid(stage, store, slot, need, missing):
    """What is stored is there."""
    stage.cache.slots[nth(slot + META)] |= np.int32(missing)
    return need


@inner
def _read_first(stage, store, slot, need, missing):
    """Sectors that the store does not cover are read first."""
    uncovered = missing & np.int64(stage.tables.sectors[nth(missing & ~store.full)])
    if uncovered:
        _fetch_at_once(stage, store, slot, uncovered)
    stage.cache.slots[nth(slot + META)] |= np.int32(missing)
    return need


@inner
def _fetch_at_once(stage, store, slot, missing):
    fetched = np.int64(stage.tables.fill[nth(missing)])
    fetch(stage, store.line, fetched, 0, store.site, store.counted)
    fill(stage, slot, fetched, store.now)


@inner
def _merge_bytes(stage, store, slot, need, missing):
    """The bytes are merged into the slot; a sector whose bytes are all written becomes valid."""
    geometry, slots, stores = stage.geometry, stage.cache.slots, stage.cache.stores
    meta = np.int64(slots[nth(slot + META)])
    fresh = need & ~meta & ~(meta >> 16)
    taken = 0
    whole = 0
    for g in range(geometry.granules_per_line):
        if fresh >> g & 1:
            stores[nth(slot + BYTES + g)] = 0
        if store.mask >> g & 1:
            if store.full >> g & 1:
                stores[nth(slot + BYTES + g)] = -1
            else:
                stores[nth(slot + BYTES + g)] |= np.int32(stage.store_bytes[nth(taken)])
                taken += 1
        if stores[nth(slot + BYTES + g)] == -1:
            whole |= 1 << g
    incomplete = np.int64(stage.tables.sectors[nth(need & ~whole)]) & ~meta
    whole = need & ~incomplete
    if geometry.completes is not None:
        for g in range(geometry.granules_per_line):
            if (incomplete & ~(meta >> 16)) >> g & 1:
                slots[nth(slot + TURNS + g)] = store.core
            elif (whole & meta >> 16) >> g & 1:
                slots[nth(slot + TURNS + g)] = LONG_AGO
    meta = (meta | whole) & ~(whole << 16)
    slots[nth(slot + META)] = meta | incomplete << 16
    return need


@inner
def _update_memory(stage, store, slot, need, missing):
    """The store goes to the next level, then the sectors are read, as a C2050 does (Baghsorkhi et al. 2012, section 2.1)."""
    if missing:
        if stage.geometry.write_back:
            pass_on(stage, store, STORE)
        _fetch_at_once(stage, store, slot, missing)
    return need & ~missing


POLICIES = {
    "none": _make_valid,  # where all sectors are there; else the store is passed on
    "no_fetch": _make_valid,
    "fetch_on_write": _read_first,
    "lazy_fetch_on_read": _merge_bytes,
    "update_memory_and_fetch": _update_memory,
}
"""Every policy by the name that machine files use; a new one is a line here. Each is a function of (stage, store, slot,
sectors of the store, those of them that are neither valid nor written in part), and returns the sectors that are dirty
from then on where the level writes back."""
NUMBERS = {name: number for number, name in enumerate(POLICIES)}
PASS = NUMBERS["none"]

_keep = choice(list(POLICIES.values()))


@inner
def pass_on(stage, store, kind):
    """Send a store or an atomic to the next level unchanged."""
    tables, queue = stage.tables, stage.queue
    row = row_of(stage.n_site, store.site, store.counted)
    stage.counts[nth(row), nth(WRITE_GRANULES)] += tables.n_granules[nth(store.mask)]
    stage.counts[nth(row), nth(DIRTIED)] += tables.n_granules[nth(store.mask)]
    if kind == STORE:
        for k in range(np.int64(tables.n_granules[nth(store.mask & ~store.full)])):
            queue.partial[nth(queue.used[1])] = stage.store_bytes[nth(k)]
            queue.used[1] += 1
    emit(stage, store.line, store.mask, store.full, store.site, kind, store.counted)


@inner
def _complete_early(stage, store, slot, need):
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
        if slots[nth(slot + TURNS + g)] != store.core:
            slots[nth(slot + TURNS + g)] = store.core
            if below(stage.rng, 1 << 16) < stage.geometry.completion_probability_x65536:
                complete(stage, slot, sector, store.counted)


@inner
def _make_dirty(stage, slot, entry, row, granules):
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
def write(stage, instance, store, window):
    """A store."""
    geometry, tables, cache = stage.geometry, stage.tables, stage.cache
    need = np.int64(tables.sectors[nth(store.mask)])
    row = row_of(stage.n_site, store.site, store.counted)
    stage.counts[nth(row), nth(ACCESSES)] += tables.n_sectors[nth(need)]
    entry = entry_of(geometry, instance, store.line)
    slot, set_ = slot_of(cache, store.line, entry), set_of(geometry, cache, instance, entry)
    present = np.int64(0)
    goes_first = STORES_FIRST[nth(geometry.replacement)]
    if len(stage.nontemporal) > 0:
        goes_first |= stage.nontemporal[nth(store.site)] != 0
    if slot >= 0:
        if geometry.completes is not None:
            _complete_early(stage, store, slot, need)
        meta = np.int64(cache.slots[nth(slot + META)])
        present = need & (meta | meta >> 16)
        hits = present & meta >> 24 if geometry.written_hits_only else present
        stage.counts[nth(row), nth(HITS)] += tables.n_sectors[nth(hits)]
        if present and geometry.evict_on_write:
            write_back(stage, slot, store.counted)
            drop(geometry, cache, slot, set_)
            slot, present = np.int64(-1), np.int64(0)
        elif not goes_first and (present or geometry.write_allocate != PASS):
            used(geometry, cache, slot, set_)
    missing = need & ~present
    passes = geometry.write_allocate == PASS and (missing or not geometry.write_back)
    if passes or not geometry.write_back:
        # Absent sectors are not allocated; a request with present and absent ones is sent down whole.
        pass_on(stage, store, STORE)
        if passes:
            return
    if slot < 0:
        forget_past(cache, entry, set_)
        slot = allocate(stage, instance, store.line, set_, store.counted, store.now - window)
        if goes_first:
            last = np.int64(cache.sets[nth(set_)])
            if STORES_FIRST[nth(geometry.replacement)] or cache.slots[nth(last + LINE)] >= 0:
                cache.sets[nth(set_)] = slot
    if len(cache.traces) > 0:
        # If a sector that is missing is there already, later loads of the rest of it hit: it stays open.
        traces = np.int64(cache.traces[nth(entry // 2)])
        count_open(stage, row, traces, missing)
        whole = need & ~np.int64(tables.sectors[nth(need & ~store.full)])
        cache.traces[nth(entry // 2)] = traces & ~(whole << DOUBTED)
    cache.stores[nth(slot + WRITER)] = store.site
    dirtied = _keep(geometry.write_allocate, stage, store, slot, need, missing)
    if geometry.write_back:
        _make_dirty(stage, slot, entry, row, dirtied)
    cache.slots[nth(slot + META)] |= np.int32(need << 24)


@inner
def update(stage, instance, store, window):
    """An atomic. It is performed at the first write-back level; a write-through level drops the line
    and passes the atomic on."""
    geometry, tables, cache = stage.geometry, stage.tables, stage.cache
    row = row_of(stage.n_site, store.site, store.counted)
    entry = entry_of(geometry, instance, store.line)
    need = np.int64(tables.sectors[nth(store.mask)])
    if not geometry.write_back:
        stage.counts[nth(row), nth(ACCESSES)] += tables.n_sectors[nth(need)]
        slot = slot_of(cache, store.line, entry)
        if slot >= 0:
            drop(geometry, cache, slot, set_of(geometry, cache, instance, entry))
        pass_on(stage, store, ATOMIC)
        return
    slot = read(
        stage,
        instance,
        store.line,
        store.mask,
        0,
        store.site,
        ATOMIC,
        store.counted,
        store.now,
        window,
    )
    cache.stores[nth(slot + WRITER)] = store.site
    _make_dirty(stage, slot, entry, row, need)
    cache.slots[nth(slot + META)] |= np.int32(need << 24)
