"""Steps 4 and 5 of a trial: queues meet a cache that they share, in a random valid order.

Each queue is first in, first out; between queues the choice is random, weighted by the requests
waiting in each, which the machine's pending capacity bounds. What the queues held before counting
began goes first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from memsim.compile import hot, inner, nth, prefetch
from memsim.hierarchy.cache import (
    I32,
    I64,
    LOAD,
    STORE,
    U32,
    U64,
    land,
    read,
    unpack,
    update,
    write,
)
from memsim.hierarchy.narrow_lines import has_narrow_lines, read_narrow
from memsim.hierarchy.partitions import drop_copies, home_of, keep_copy, read_copy, served_by
from memsim.hierarchy.rng import below


@inner
def _next_queue(rng, active, n_active, head, stop, capacity):
    """Index into `active` of a queue drawn with weight min(waiting, capacity)."""
    while n_active > 1:
        k = below(rng, n_active)
        q = active[nth(k)]
        waiting = stop[nth(q)] - head[nth(q)]
        if waiting >= capacity or below(rng, capacity) < waiting:
            return k
    return np.int64(0)


@inner
def _shuffled_interleave(rng, head, stop, order):
    """A uniformly random interleaving of the queues: weights are all that waits, unbounded."""
    total = np.int64(0)
    for q in range(len(head)):
        for _ in range(stop[nth(q)] - head[nth(q)]):
            order[nth(total)] = q
            total += 1
    for i in range(total - 1, 0, -1):
        j = below(rng, i + 1)
        order[nth(i)], order[nth(j)] = order[nth(j)], order[nth(i)]
    return total


@inner
def _serve(
    geometry, tables, cache, counts, queue, rng, n_site, source, pieces, record, partial_at,
    instance, core, now, window, bytes_,
):  # fmt: skip
    """One record, which spans `pieces` lines."""
    first, masks, fulls, site, kind, counted = unpack(record)
    if kind == LOAD and has_narrow_lines(geometry):
        read_narrow(
            geometry, tables, cache, counts, queue, n_site,
            instance, first * pieces, masks, pieces, site, counted, now, window,
        )  # fmt: skip
        return
    width = geometry.granules_per_line
    part = (1 << width) - 1
    taken = partial_at
    near = instance
    if geometry.on_fill is not None:
        land(geometry, tables, cache, counts, queue, rng, n_site, now)
    for k in range(pieces):
        line, mask = first * pieces + k, (masks >> k * width) & part
        if mask == 0:
            continue
        hits_before = np.int64(0)
        if geometry.in_partitions is not None:
            instance = home_of(geometry, cache, near, line)
            if kind != LOAD:
                drop_copies(geometry, cache, instance, line)
            elif instance != near:
                mask = read_copy(
                    geometry, tables, cache, counts, n_site, near, line, mask, site, counted, now, window,
                )  # fmt: skip
                if mask == 0:
                    continue
                hits_before = served_by(counts, n_site, site, counted)
        if kind == LOAD:
            read(
                geometry, tables, cache, counts, queue, rng, n_site,
                instance, line, mask, site, LOAD, counted, now, window,
            )  # fmt: skip
            if geometry.in_partitions is not None and instance != near:
                keep_copy(
                    geometry, tables, cache, counts, queue, rng, n_site,
                    near, line, mask, site, counted, now, hits_before,
                )  # fmt: skip
        elif kind == STORE:
            full = (fulls >> k * width) & part
            n_bytes = np.int64(tables.n_granules[nth(mask & ~full)])
            for i in range(n_bytes):
                bytes_[nth(i)] = source.partial[nth(taken + i)]
            taken += n_bytes
            write(
                geometry, tables, cache, counts, queue, rng, n_site,
                instance, line, mask, full, site, counted, now, core, bytes_, n_bytes,
            )  # fmt: skip
        else:
            update(
                geometry, tables, cache, counts, queue, rng, n_site,
                instance, line, mask, site, counted, now, window, bytes_,
            )  # fmt: skip


BLOCK = 64
"""Requests drawn ahead of being served, so that what they will touch can be fetched meanwhile."""
RECORDS_AHEAD, SLOTS_AHEAD = 16, 8
"""How far ahead of use a queue's records and a cache's slots are fetched, in records and in lines. A slot
further ahead would often be another one by the time it is used, the next victim of a set that was
filled meanwhile."""


class Scratch(NamedTuple):
    """order (n_warm,) int32; active (n_queue,) int64; bytes_ (8,) uint32; and of a block: records
    (BLOCK,) uint64, at (index of the line), partial_at, instance and core (BLOCK,) int64."""

    order: I32
    active: I64
    bytes_: U32
    records: U64
    at: I64
    partial_at: I64
    instance: I64
    core: I64


@hot
def replay_shared(
    geometry, tables, cache, counts, queue, rngs, n_site, source, pieces,
    head, warm, last, partial_head, instance_of, capacity, window, scratch,
):  # fmt: skip
    """Replay queued requests through a level; returns the records queued below by the warm-up.

    rngs : (2,) uint64, one stream draws queues, the other victims
    source : the Queue of the level above, in which queue q holds records head[q]..last[q], those
        before warm[q] from before counting began, and partial masks from partial_head[q] on; both
        heads are advanced
    pieces : lines of this level that a record of the source spans
    instance_of : (n_queue,) int64, which instance of the level a queue leads to
    capacity : requests that can wait in one queue
    window : requests of this level during which a sector stays pending
    """
    draws, victims = rngs[:1], rngs[1:]
    active = scratch.active
    n_warm = _shuffled_interleave(draws, head, warm, scratch.order)
    n_active = 0
    for q in range(len(head)):
        if warm[nth(q)] < last[nth(q)]:
            active[nth(n_active)] = q
            n_active += 1
    drawn = np.int64(0)
    now = np.int64(0)
    warm_below = queue.used[0]
    ahead = max(1, SLOTS_AHEAD // pieces)
    while drawn < n_warm or n_active > 0:
        if drawn == n_warm:
            warm_below = queue.used[0]
        n = 0
        # A block ends where the warm-up ends.
        while n < BLOCK and (drawn < n_warm or (n_active > 0 and drawn - n >= n_warm)):
            if drawn < n_warm:
                q = np.int64(scratch.order[nth(drawn)])
            else:
                k = _next_queue(draws, active, n_active, head, last, capacity)
                q = active[nth(k)]
            record = source.record[nth(head[nth(q)])]
            head[nth(q)] += 1
            if drawn >= n_warm and head[nth(q)] == last[nth(q)]:
                n_active -= 1
                active[nth(k)] = active[nth(n_active)]
            # Queues are read at a place each: what comes next in this one is fetched now.
            prefetch(source.record, min(head[nth(q)] + RECORDS_AHEAD, last[nth(q)] - 1))
            line, mask, full, _, kind, _ = unpack(record)
            at = 2 * (instance_of[nth(q)] * geometry.n_lines + line * pieces)
            prefetch(cache.lines, at)
            scratch.records[nth(n)] = record
            scratch.at[nth(n)] = at
            scratch.partial_at[nth(n)] = partial_head[nth(q)]
            scratch.instance[nth(n)] = instance_of[nth(q)]
            scratch.core[nth(n)] = q
            if kind == STORE:
                partial_head[nth(q)] += tables.n_granules[nth(mask & ~full)]
            n += 1
            drawn += 1
        for i in range(n + ahead):
            if i < n:  # where the line was last, and what would have to go
                first_bin = scratch.instance[nth(i)] * geometry.n_sets
                for k in range(scratch.at[nth(i)], scratch.at[nth(i)] + 2 * pieces, 2):
                    prefetch(cache.slots, cache.lines[nth(k)])
                    prefetch(
                        cache.slots, cache.sets[nth(2 * (first_bin + cache.lines[nth(k + 1)]))]
                    )
            if i < ahead:
                continue
            j = i - ahead
            _serve(
                geometry, tables, cache, counts, queue, victims, n_site, source, pieces,
                scratch.records[nth(j)], scratch.partial_at[nth(j)], scratch.instance[nth(j)],
                scratch.core[nth(j)], now, window, scratch.bytes_,
            )  # fmt: skip
            now += 1
    if geometry.on_fill is not None:  # nothing stays under way for the launch after this one
        land(geometry, tables, cache, counts, queue, victims, n_site, now + window)
    return warm_below if drawn > n_warm else queue.used[0]
