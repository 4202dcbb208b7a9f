"""A cache in partitions: each line has a home partition, and the others keep copies of it.

A core sends its requests to the partition that it is attached to. If that partition is the line's
home, it serves the request like any cache. If not, it serves the sectors of a load of which it has a
copy; the home serves the others, and fetches them if necessary, and the partition keeps a copy of
them. Stores and atomics are performed at home and drop all copies. So data that all cores read is
cached once in each partition, and read from memory once.

NVIDIA A100 Tensor Core GPU Architecture, whitepaper: "Each L2 partition caches data for memory accesses
from SMs in the GPCs directly connected to the partition". The readable twin is
ReferenceCache._in_partitions.
"""

from __future__ import annotations

import numpy as np

from memsim.compile import inner, nth
from memsim.hierarchy.cache import (
    ACCESSES,
    DOUBTED,
    FAR,
    HITS,
    META,
    PENDING,
    count_doubtful,
    entry_of,
    row_of,
    set_of,
    slot_of,
)
from memsim.hierarchy.loads import count_hits, fill
from memsim.hierarchy.replacement import allocate, drop, used


@inner
def home_of(geometry, cache, instance, line):
    """The home of a line, among the instances that are partitions of the same cache as `instance`."""
    n = geometry.partitions
    return instance // n * n + np.int64(cache.home[nth(line)])


@inner
def drop_copies(geometry, cache, home, line):
    """Drop every copy of a line; copies are clean."""
    first = home // geometry.partitions * geometry.partitions
    for instance in range(first, first + geometry.partitions):
        entry = entry_of(geometry, instance, line)
        slot = slot_of(cache, line, entry)
        if instance != home and slot >= 0:
            drop(geometry, cache, slot, set_of(geometry, cache, instance, entry))


@inner
def read_copy(stage, near, line, mask, sure, site, counted, now, window):
    """Serve a load from the copy near the core; returns the sectors that the home must serve.

    sure : granules of sectors that are surely asked for, see `cache.pack`
    """
    geometry, cache = stage.geometry, stage.cache
    need = np.int64(stage.tables.sectors[nth(mask)])
    entry = entry_of(geometry, near, line)
    slot = slot_of(cache, line, entry)
    if slot < 0:
        return need
    used(geometry, cache, slot, set_of(geometry, cache, near, entry))
    hit = need & np.int64(cache.slots[nth(slot + META)])
    row = row_of(stage.n_site, site, counted)
    if len(cache.traces) > 0:
        count_doubtful(stage, entry, row, slot, hit, sure)
    stage.counts[nth(row), nth(ACCESSES)] += stage.tables.n_sectors[nth(hit)]
    count_hits(stage, row, slot, hit, now, window)
    return need & ~hit


@inner
def hits_so_far(counts, n_site, site, counted):
    """Hits of a site so far, pending ones included."""
    row = row_of(n_site, site, counted)
    return counts[nth(row), nth(HITS)] + counts[nth(row), nth(PENDING)]


@inner
def keep_copy(stage, near, line, sectors, sure, site, counted, now, window, hits_before):
    """After the home has served `sectors`: count its hits as far, and keep a copy; sure : see `read_copy`"""
    row = row_of(stage.n_site, site, counted)
    stage.counts[nth(row), nth(FAR)] += (
        hits_so_far(stage.counts, stage.n_site, site, counted) - hits_before
    )
    entry = entry_of(stage.geometry, near, line)
    slot = slot_of(stage.cache, line, entry)
    if slot < 0:
        set_ = set_of(stage.geometry, stage.cache, near, entry)
        slot = allocate(stage, near, line, set_, counted, now - window)
        if len(stage.cache.traces) > 0:
            stage.cache.traces[nth(entry // 2)] &= np.uint32(~(0xFF << DOUBTED) & 0xFFFFFFFF)
    if len(stage.cache.traces) > 0:
        valid = np.int64(stage.cache.slots[nth(slot + META)])
        stage.cache.traces[nth(entry // 2)] |= np.uint32((sectors & ~sure & ~valid) << DOUBTED)
    fill(stage, slot, sectors, now)
