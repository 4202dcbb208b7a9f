"""Steps 4 and 5 of a trial: a shared cache serves the queues of several cores in a random valid order.

Each queue is first in, first out. The next queue is drawn at random, weighted by the number of
requests that wait in it, which the machine's pending capacity bounds. Time is cut into slices, whose
requests are served slice by slice: this keeps the cores in time with each other. The requests from
before counting began are served first, as a slice without that bound.
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
    U64,
    Queue,
    entry_of,
    unpack,
)
from memsim.hierarchy.loads import complete_fills, read
from memsim.hierarchy.narrow_lines import has_narrow_lines, read_narrow
from memsim.hierarchy.partitions import drop_copies, hits_so_far, home_of, keep_copy, read_copy
from memsim.hierarchy.rng import below
from memsim.hierarchy.stores import Store, update, write


@inner
def _next_queue(rng, active, n_active, head, stop, capacity):
    """Draw a queue with weight min(waiting, capacity); returns its index in `active`."""
    while n_active > 1:
        k = below(rng, n_active)
        q = active[nth(k)]
        waiting = stop[nth(q)] - head[nth(q)]
        if waiting >= capacity or below(rng, capacity) < waiting:
            return k
    return np.int64(0)


@inner
def _shuffled_interleave(rng, head, stop, order):
    """A uniformly random interleaving of the queues [head, stop); returns its length.

    To draw each queue with a weight of all that wait in it comes to the same, but takes longer.
    """
    total = np.int64(0)
    for q in range(len(head)):
        for _ in range(stop[nth(q)] - head[nth(q)]):
            order[nth(total)] = q
            total += 1
    for i in range(total - 1, 0, -1):
        j = below(rng, i + 1)
        order[nth(i)], order[nth(j)] = order[nth(j)], order[nth(i)]
    return total


class Sources(NamedTuple):
    """The queues of the level above, whose requests a shared level serves.

    queue : the records of all of them
    span : lines of the shared level in one record
    head : (n_queue,) int64, the next record of each queue; advanced
    warm : (n_queue,) int64, the end of the records from before counting began
    last : (n_slice, n_queue) int64, the end of its records in each slice of time; never descending
    partial_head : (n_queue,) int64, its next partial mask; advanced
    instance : (n_queue,) int64, the instance of the shared level that it leads to
    capacity : requests that can wait in one queue
    """

    queue: Queue
    span: int
    head: I64
    warm: I64
    last: I64
    partial_head: I64
    instance: I64
    capacity: int


@inner
def _serve(stage, sources, record, partial_at, near, core, now, window):
    """Serve one record. The lines of a store's partial masks begin at partial_at."""
    first, masks, fulls, site, kind, counted = unpack(record)
    span = sources.span
    if kind == LOAD and has_narrow_lines(stage.geometry):
        read_narrow(stage, near, first * span, masks, fulls, span, site, counted, now, window)
        return
    width = stage.geometry.granules_per_line
    part = (1 << width) - 1
    taken = partial_at
    instance = near
    if stage.geometry.on_fill is not None:
        complete_fills(stage, now)
    for k in range(span):
        line, mask = first * span + k, (masks >> k * width) & part
        if mask == 0:
            continue
        full = (fulls >> k * width) & part
        sure, hits_before = np.int64(0), np.int64(0)
        if stage.geometry.in_partitions is not None:
            instance = home_of(stage.geometry, stage.cache, near, line)
            if kind != LOAD:
                drop_copies(stage.geometry, stage.cache, instance, line)
            elif instance != near:
                sure = np.int64(stage.tables.sectors[nth(mask & ~full)])
                mask = read_copy(stage, near, line, mask, sure, site, counted, now, window)
                if mask == 0:
                    continue
                full = mask & ~sure
                hits_before = hits_so_far(stage.counts, stage.n_site, site, counted)
        if kind == LOAD:
            read(stage, instance, line, mask, full, site, LOAD, counted, now, window)
            if stage.geometry.in_partitions is not None and instance != near:
                keep_copy(stage, near, line, mask, sure, site, counted, now, window, hits_before)
        elif kind == STORE:
            n_bytes = np.int64(stage.tables.n_granules[nth(mask & ~full)])
            for i in range(n_bytes):
                stage.store_bytes[nth(i)] = sources.queue.partial[nth(taken + i)]
            taken += n_bytes
            write(stage, instance, Store(line, mask, full, site, counted, core, now), window)
        else:
            update(stage, instance, Store(line, mask, 0, site, counted, core, now), window)


BATCH = 64
"""Requests drawn before they are served, so that the state they will touch can be prefetched."""
RECORDS_AHEAD, SLOTS_AHEAD, PARTIAL_AHEAD = 16, 8, 16
"""Distance of prefetching, in records of a queue, in lines of a cache and in partial masks of a queue. A
slot prefetched further ahead would often be another one by the time it is used: the next victim of a set
that was filled meanwhile."""

STORES_WORTH = 16
"""Where one request in so many is a store, victims are dirty so often that it is worth to prefetch who wrote."""


class Scratch(NamedTuple):
    """Scratch memory for a pass over a level.

    order : int32, the queue of each record of the warm-up, or of what is left of a slice when no queue has
        more than can wait;  active : (n_queue,) int64, the queues that are not empty
    Of each request of a batch (BATCH,): record uint64; entry of its first line, partial_at, instance and
        core, int64
    """

    order: I32
    active: I64
    record: U64
    entry: I64
    partial_at: I64
    instance: I64
    core: I64


@inner
def _begin_slice(sources, scratch, last):
    """List the queues that have records in a slice; returns (their number, those with more than can wait)."""
    n_active, n_over = 0, 0
    for q in range(len(sources.head)):
        waiting = last[nth(q)] - sources.head[nth(q)]
        if waiting > 0:
            scratch.active[nth(n_active)] = q
            n_active += 1
            n_over += waiting > sources.capacity
    return n_active, n_over


@inner
def _draw_batch(stage, draws, sources, scratch, last, drawn, n_shuffled, n_active, n_over):
    """Draw up to BATCH requests of a slice into scratch; returns (their number, n_active, n_over).

    Queues are drawn by weight until n_over, the queues with more records than can wait, is 0.

    last : (n_queue,) int64, the end of each queue in this slice
    n_shuffled : records of which the order is in scratch, 0 before;  drawn : those that were drawn already
    n_active : queues that are not empty, known before records are shuffled
    """
    head, active = sources.head, scratch.active
    stop = sources.last[nth(len(sources.last) - 1)]
    n = 0
    while n < BATCH and (n_over > 0 or drawn < n_shuffled):
        if n_over > 0:
            k = _next_queue(draws, active, n_active, head, last, sources.capacity)
            q = active[nth(k)]
            waiting = last[nth(q)] - head[nth(q)] - 1
            n_over -= waiting == sources.capacity
            if waiting == 0:
                n_active -= 1
                active[nth(k)] = active[nth(n_active)]
        else:
            q = np.int64(scratch.order[nth(drawn)])
            drawn += 1
        record = sources.queue.record[nth(head[nth(q)])]
        head[nth(q)] += 1
        # Each queue is read at its own position: prefetch what comes next in this one.
        prefetch(sources.queue.record, min(head[nth(q)] + RECORDS_AHEAD, stop[nth(q)] - 1))
        line, mask, full, _, kind, _ = unpack(record)
        entry = entry_of(stage.geometry, sources.instance[nth(q)], line * sources.span)
        prefetch(stage.cache.lines, entry)
        scratch.record[nth(n)] = record
        scratch.entry[nth(n)] = entry
        scratch.partial_at[nth(n)] = sources.partial_head[nth(q)]
        scratch.instance[nth(n)] = sources.instance[nth(q)]
        scratch.core[nth(n)] = q
        if len(stage.cache.traces) > 0:
            prefetch(stage.cache.traces, entry // 2)
        if kind == STORE:
            sources.partial_head[nth(q)] += stage.tables.n_granules[nth(mask & ~full)]
            prefetch(sources.queue.partial, sources.partial_head[nth(q)] + PARTIAL_AHEAD)
        n += 1
    return n, n_active, n_over


@inner
def _prefetch_slots(stage, scratch, i, span, with_stores):
    """Prefetch the slots that the i-th request's lines were last in, and the next victims; with_stores : and
    what is known of stores to them."""
    lines, sets, slots = stage.cache.lines, stage.cache.sets, stage.cache.slots
    first_set = scratch.instance[nth(i)] * stage.geometry.n_sets
    for k in range(scratch.entry[nth(i)], scratch.entry[nth(i)] + 2 * span, 2):
        slot, victim = lines[nth(k)], sets[nth(first_set + lines[nth(k + 1)])]
        prefetch(slots, slot)
        prefetch(slots, victim)
        if with_stores:
            prefetch(stage.cache.stores, slot)
            prefetch(stage.cache.stores, victim)


@hot
def replay_shared(stage, draws, sources, window, scratch):
    """Replay queued requests through a level; returns the records queued below by the warm-up.

    draws : (1,) uint64, the stream that selects queues
    window : requests of this level during which a sector stays pending
    """
    now, n_stores = np.int64(0), np.int64(0)
    warm_below = stage.queue.used[0]
    ahead = max(1, SLOTS_AHEAD // sources.span)
    for slice_ in range(-1, len(sources.last)):  # the first is the warm-up
        last = sources.warm if slice_ < 0 else sources.last[nth(slice_)]
        n_active, n_over = _begin_slice(sources, scratch, last)
        if slice_ < 0:
            n_over = 0
        drawn, n_shuffled = np.int64(0), np.int64(0)
        while True:
            if n_over == 0 and n_shuffled == 0:
                n_shuffled = _shuffled_interleave(draws, sources.head, last, scratch.order)
            n, n_active, n_over = _draw_batch(
                stage, draws, sources, scratch, last, drawn, n_shuffled, n_active, n_over
            )
            if n == 0:
                break
            if n_shuffled > 0:
                drawn += n
            for i in range(n + ahead):
                if i < n:
                    _, _, _, _, kind, _ = unpack(scratch.record[nth(i)])
                    n_stores += kind != LOAD
                    with_stores = n_stores * STORES_WORTH > now and stage.geometry.write_back
                    _prefetch_slots(stage, scratch, i, sources.span, with_stores)
                if i < ahead:
                    continue
                j = i - ahead
                _serve(
                    stage, sources, scratch.record[nth(j)], scratch.partial_at[nth(j)],
                    scratch.instance[nth(j)], scratch.core[nth(j)], now, window,
                )  # fmt: skip
                now += 1
        if slice_ < 0:
            warm_below = stage.queue.used[0]
    if stage.geometry.on_fill is not None:  # no fill stays in flight for the next launch
        complete_fills(stage, now + window)
    return warm_below
