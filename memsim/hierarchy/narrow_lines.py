"""Loads of an LRU level whose lines are single granules, in fewer steps than `loads.read` takes.

Such a level (Fermi's L2) receives four requests for every miss of a level with 128-byte lines, so on
these machines most of a trial's time is spent here. A line is a single sector, and the values that
the lines of a request have in common are computed once.
"""

from __future__ import annotations

import numpy as np

from memsim.compile import inner, nth, prefetch
from memsim.hierarchy.cache import (
    ACCESSES,
    DOUBTED,
    DOUBTFUL,
    HITS,
    LIKELY,
    LINE,
    LOAD,
    META,
    OPEN,
    PENDING,
    PREV,
    READ_GRANULES,
    TOUCHED,
    TURNS,
    UNKNOWN,
    entry_of,
    forget_past,
    pack,
    row_of,
    set_of,
    write_back,
)
from memsim.hierarchy.replacement import LRU, promote


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
def read_narrow(stage, instance, first, mask, unsure_mask, n_line, site, counted, now, window):
    """Load the lines in mask among the n_line lines that begin at `first`; unsure_mask : see `pack`"""
    cache, queue, counts = stage.cache, stage.queue, stage.counts
    slots, sets, lines = cache.slots, cache.sets, cache.lines
    first_entry = entry_of(stage.geometry, instance, first)
    record = pack(first, 1, 0, site, LOAD, counted)
    accesses, hits, young = np.int64(0), np.int64(0), np.int64(0)
    fetched, open_, likely, doubtful = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    used = queue.used[0]
    for k in range(n_line):
        if not mask >> k & 1:
            continue
        accesses += 1
        entry, line, unsure = first_entry + 2 * k, first + k, unsure_mask >> k & 1
        slot = np.int64(lines[nth(entry)])
        set_ = set_of(stage.geometry, cache, instance, entry)
        meta = np.int64(slots[nth(slot + META)])
        if slots[nth(slot + LINE)] == line:
            promote(stage.geometry, cache, slot, set_)
            if meta & 1:
                is_young = np.int64(slots[nth(slot + TURNS)] > now - window)
                young += is_young
                hits += 1 - is_young
                if len(cache.traces) > 0:
                    traces = np.int64(cache.traces[nth(entry // 2)])
                    doubtful += traces >> DOUBTED & 1 & ~unsure
                    cache.traces[nth(entry // 2)] = (traces & ~(1 << DOUBTED)) | unsure << DOUBTED
                continue
        else:
            slot = np.int64(sets[nth(set_)])
            next_victim = slots[nth(slot + PREV)]
            sets[nth(set_)] = next_victim
            prefetch(slots, next_victim)
            forget_past(cache, entry, set_)
            if slots[nth(slot + LINE)] == UNKNOWN and len(cache.traces) > 0:
                cache.unknown[nth(set_)] -= 1
            if (slots[nth(slot + META)] >> 8) & 0xFF:
                queue.used[0] = used
                write_back(stage, slot, counted)
                used = queue.used[0]
            slots[nth(slot + LINE)] = line
            lines[nth(entry)] = slot
            meta = np.int64(0)
        slots[nth(slot + META)] = (meta | 1) & ~(1 << 16)
        slots[nth(slot + TURNS)] = now
        if len(cache.traces) > 0:
            traces = np.int64(cache.traces[nth(entry // 2)])
            was_open = traces & 1
            open_ += was_open
            likely += was_open & traces >> TOUCHED
            cache.traces[nth(entry // 2)] = (traces & ~(1 << DOUBTED | 1)) | unsure << DOUBTED
            unsure |= was_open
        queue.record[nth(used)] = record + np.uint64(k) | np.uint64(unsure) << np.uint64(38)
        used += 1
        fetched += 1
    queue.used[0] = used
    row = row_of(stage.n_site, site, counted)
    counts[nth(row), nth(ACCESSES)] += accesses
    counts[nth(row), nth(HITS)] += hits
    counts[nth(row), nth(PENDING)] += young
    counts[nth(row), nth(READ_GRANULES)] += fetched
    counts[nth(row), nth(OPEN)] += open_
    counts[nth(row), nth(LIKELY)] += likely
    counts[nth(row), nth(DOUBTFUL)] += doubtful
