"""Loads: hits, and what is fetched, which takes a slot when it is requested or when it arrives (`Level.allocate`)."""

from __future__ import annotations

import numpy as np

from memsim.compile import inner, nth
from memsim.hierarchy.cache import (
    ACCESSES,
    BYPASS,
    HITS,
    LOAD,
    LONG_AGO,
    META,
    PENDING,
    count_doubtful,
    count_open_load,
    entry_of,
    fetch,
    forget_past,
    requested_after,
    row_of,
    set_of,
    set_turns,
    slot_of,
)
from memsim.hierarchy.replacement import allocate, used


@inner
def fill(stage, slot, fetched, now):
    """Mark fetched sectors valid, requested at turn `now`; sectors already valid keep their turn."""
    slots = stage.cache.slots
    meta = np.int64(slots[nth(slot + META)])
    fresh = fetched & ~meta
    slots[nth(slot + META)] = (meta | fetched) & ~(fetched << 16)
    set_turns(stage.geometry, slots, slot, fresh, now)


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
        set_ = set_of(geometry, cache, instance, 2 * index)
        slot = allocate(stage, instance, line, set_, 0, 0)
    fill(stage, slot, mask, LONG_AGO)


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
def pending(stage, slot, hit, now, window):
    """Number of the hit sectors that were requested less than `window` turns ago."""
    young = hit & requested_after(stage.geometry, stage.cache.slots, slot, now - window)
    return np.int64(stage.tables.n_sectors[nth(young)])


@inner
def count_hits(stage, row, slot, hit, now, window):
    """Count the hit sectors, of which those are pending that were requested less than `window` turns ago."""
    if hit:
        young = pending(stage, slot, hit, now, window)
        stage.counts[nth(row), nth(HITS)] += np.int64(stage.tables.n_sectors[nth(hit)]) - young
        stage.counts[nth(row), nth(PENDING)] += young


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
        fetch(stage, line, mask, unsure, site, counted)
        return np.int64(-1)
    entry = entry_of(geometry, instance, line)
    slot, set_ = slot_of(cache, line, entry), set_of(geometry, cache, instance, entry)
    sure = np.int64(tables.sectors[nth(mask & ~unsure)])
    missing = need
    if slot >= 0:
        hit = need & np.int64(cache.slots[nth(slot + META)])
        used(geometry, cache, slot, set_)
        count_hits(stage, row, slot, hit, now, window)
        if len(cache.traces) > 0:
            count_doubtful(stage, entry, row, slot, hit, sure)
        missing = need & ~hit
        if not missing:
            return slot
    else:
        forget_past(cache, entry, set_)
        if geometry.on_fill is None:
            slot = allocate(stage, instance, line, set_, counted, now - window)
    if geometry.on_fill is not None:
        merged = missing & np.int64(cache.in_flight[nth(entry // 2)])
        counts[nth(row), nth(PENDING)] += tables.n_sectors[nth(merged)]
        if len(cache.traces) > 0:
            count_doubtful(stage, entry, row, slot, merged, sure)
        missing &= ~merged
        if not missing:
            return slot
    fetched = np.int64(tables.fill[nth(missing)])
    if len(cache.traces) > 0:
        unsure = count_open_load(stage, entry, row, slot, missing, fetched, sure)
    fetch(stage, line, fetched, unsure, site, counted)
    if geometry.on_fill is not None:
        _start_fill(stage, entry // 2, fetched, now + window)
    else:
        fill(stage, slot, fetched, now)
    return slot
