"""Steps 4 and 5 of a trial: queues meet a cache that they share, in a random valid order.

Each queue is first in, first out; between queues the choice is random, weighted by the requests
waiting in each, which the machine's pending capacity bounds. What the queues held before counting
began goes first.
"""

from __future__ import annotations

import numpy as np

from memsim.cache import LOAD, STORE, read, unpack, update, write
from memsim.compile import hot, inner
from memsim.rng import below


@inner
def _next_queue(rng, active, n_active, head, stop, capacity):  # type: ignore[no-untyped-def]
    """Index into `active` of a queue drawn with weight min(waiting, capacity)."""
    while True:
        k = below(rng, n_active)
        q = active[k]
        waiting = stop[q] - head[q]
        if waiting >= capacity or below(rng, capacity) < waiting:
            return k


@inner
def _shuffled_interleave(rng, head, stop, order):  # type: ignore[no-untyped-def]
    """A uniformly random interleaving of the queues: weights are all that waits, unbounded."""
    total = np.int64(0)
    for q in range(len(head)):
        for _ in range(stop[q] - head[q]):
            order[total] = q
            total += 1
    for i in range(total - 1, 0, -1):
        j = below(rng, i + 1)
        order[i], order[j] = order[j], order[i]
    return total


@inner
def _serve(  # type: ignore[no-untyped-def]
    geometry, tables, cache, counts, queue, rng, n_site, source, pieces, record_at, partial_at,
    instance, now, window, bytes_,
):  # fmt: skip
    """One record, which spans `pieces` lines; returns how many partial byte masks it took."""
    first, masks, fulls, site, kind, counted = unpack(source.record[record_at])
    width = geometry.granules_per_line
    part = (1 << width) - 1
    taken = np.int64(0)
    for k in range(pieces):
        line, mask = first * pieces + k, (masks >> k * width) & part
        if mask == 0:
            continue
        if kind == LOAD:
            read(
                geometry, tables, cache, counts, queue, rng, n_site,
                instance, line, mask, site, LOAD, counted, now, window,
            )  # fmt: skip
        elif kind == STORE:
            full = (fulls >> k * width) & part
            n_bytes = np.int64(tables.n_granules[mask & ~full])
            for i in range(n_bytes):
                bytes_[i] = source.partial[partial_at + taken + i]
            taken += n_bytes
            write(
                geometry, tables, cache, counts, queue, rng, n_site,
                instance, line, mask, full, site, counted, now, bytes_, n_bytes,
            )  # fmt: skip
        else:
            update(
                geometry, tables, cache, counts, queue, rng, n_site,
                instance, line, mask, site, counted, now, window, bytes_,
            )  # fmt: skip
    return taken


@hot
def replay_shared(  # type: ignore[no-untyped-def]
    geometry, tables, cache, counts, queue, rng, n_site, source, pieces,
    head, warm, last, partial_head, instance_of, capacity, window, order, active, bytes_,
):  # fmt: skip
    """Replay queued requests through a level; returns the records queued below by the warm-up.

    source : the Queue of the level above, in which queue q holds records head[q]..last[q], those
        before warm[q] from before counting began, and partial masks from partial_head[q] on; both
        heads are advanced
    pieces : lines of this level that a record of the source spans
    instance_of : (n_queue,) int64, which instance of the level a queue leads to
    capacity : requests that can wait in one queue
    window : requests of this level during which a sector stays pending
    order (n_warm,) int32, active (n_queue,) int64, bytes_ (8,) uint32 : scratch
    """
    n_queue = len(head)
    now = np.int64(0)
    n_warm = _shuffled_interleave(rng, head, warm, order)
    n_active = 0
    for q in range(n_queue):
        if warm[q] < last[q]:
            active[n_active] = q
            n_active += 1
    warm_below = queue.used[0]
    k = np.int64(0)
    while now < n_warm or n_active > 0:
        if now < n_warm:
            q = np.int64(order[now])
        else:
            if now == n_warm:
                warm_below = queue.used[0]
            k = _next_queue(rng, active, n_active, head, last, capacity) if n_active > 1 else 0
            q = active[k]
        partial_head[q] += _serve(
            geometry, tables, cache, counts, queue, rng, n_site, source, pieces, head[q],
            partial_head[q],
            instance_of[q], now, window, bytes_,
        )  # fmt: skip
        head[q] += 1
        if now >= n_warm and head[q] == last[q]:
            n_active -= 1
            active[k] = active[n_active]
        now += 1
    return warm_below if now > n_warm else queue.used[0]
