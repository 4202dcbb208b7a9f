"""Loads of a level whose lines are single granules, LRU: what `memsim.hierarchy.cache.read` does, in fewer steps.

Such a level (Fermi's L2) gets four requests for every miss of a level with 128-byte lines, so here
most of a trial is spent. A line has nothing to widen, and what a request's lines have in common is
counted once.
"""

from __future__ import annotations

import numpy as np

from memsim.compile import inner, nth, prefetch
from memsim.hierarchy.cache import (
    ACCESSES,
    HITS,
    LINE,
    LOAD,
    LRU,
    META,
    PENDING,
    PREV,
    READ_GRANULES,
    TURNS,
    pack,
    promote,
    write_back,
)


@inner
def has_narrow_lines(geometry):
    """Whether `read_narrow` serves a level's loads."""
    return (
        geometry.granules_per_line == geometry.down_granules == 1
        and geometry.replacement == LRU
        and geometry.caches_loads
        and geometry.on_fill is None
        and geometry.in_partitions is None
        and geometry.completes is None
    )


@inner
def read_narrow(
    geometry, tables, cache, counts, queue, n_site,
    instance, first, mask, n_line, site, counted, now, window,
):  # fmt: skip
    """Load those of the n_line lines from `first` on that are in mask."""
    slots, sets, lines = cache.slots, cache.sets, cache.lines
    at = 2 * (instance * geometry.n_lines + first)
    record = pack(first, 1, 0, site, LOAD, counted)
    asked, hits, young, fetched = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    used = queue.used[0]
    for k in range(n_line):
        if not mask >> k & 1:
            continue
        asked += 1
        entry, line = at + 2 * k, first + k
        slot = np.int64(lines[nth(entry)])
        bin_ = instance * geometry.n_sets + lines[nth(entry + 1)]
        meta = np.int64(slots[nth(slot + META)])
        if slots[nth(slot + LINE)] == line:
            promote(cache, slot, bin_)
            if meta & 1:
                is_young = np.int64(slots[nth(slot + TURNS)] > now - window)
                young += is_young
                hits += 1 - is_young
                continue
        else:
            slot = np.int64(sets[nth(2 * bin_)])
            next_victim = slots[nth(slot + PREV)]
            sets[nth(2 * bin_)] = next_victim
            prefetch(slots, next_victim)
            if (slots[nth(slot + META)] >> 8) & 0xFF:
                queue.used[0] = used
                write_back(geometry, tables, cache, counts, queue, n_site, slot, counted)
                used = queue.used[0]
            slots[nth(slot + LINE)] = line
            lines[nth(entry)] = slot
            meta = np.int64(0)
        slots[nth(slot + META)] = (meta | 1) & ~(1 << 16)
        slots[nth(slot + TURNS)] = now
        queue.record[nth(used)] = record + np.uint64(k)
        used += 1
        fetched += 1
    queue.used[0] = used
    row = site + (0 if counted else n_site)
    counts[nth(row), nth(ACCESSES)] += asked
    counts[nth(row), nth(HITS)] += hits
    counts[nth(row), nth(PENDING)] += young
    counts[nth(row), nth(READ_GRANULES)] += fetched
