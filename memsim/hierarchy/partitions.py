"""A cache in partitions: each line has a home among them, and the others keep copies of it.

A core asks the partition that it is attached to. A line whose home is there is served as by any cache.
Of another, its own partition looks for a copy; what is missing the home serves, and fetches where it
has to, and the copy is kept for the next time. Stores and atomics are done at home, and drop copies.
So what all cores read is kept once a partition, and memory is read once.

NVIDIA A100 Tensor Core GPU Architecture, whitepaper: "Each L2 partition caches data for memory accesses
from SMs in the GPCs directly connected to the partition". The readable twin is
ReferenceCache._in_partitions.
"""

from __future__ import annotations

import numpy as np

from memsim.compile import inner, nth
from memsim.hierarchy.cache import (
    ACCESSES,
    FAR,
    HITS,
    META,
    PENDING,
    _allocate,
    _fill,
    drop,
    pending,
    touch,
    where,
)


@inner
def home_of(geometry, cache, instance, line):
    """The instance that a line belongs to, of those that the nearest one is a partition of."""
    return instance // geometry.partitions * geometry.partitions + np.int64(cache.home[nth(line)])


@inner
def drop_copies(geometry, cache, home, line):
    """Drop every copy of a line; they are clean."""
    first = home // geometry.partitions * geometry.partitions
    for instance in range(first, first + geometry.partitions):
        at = 2 * (instance * geometry.n_lines + line)
        slot = where(cache, line, at)
        if instance != home and slot >= 0:
            bin_ = instance * geometry.n_sets + cache.lines[nth(at + 1)]
            drop(geometry, cache, slot, bin_)


@inner
def read_copy(geometry, tables, cache, counts, n_site, near, line, mask, site, counted, now, window):  # fmt: skip
    """What a copy serves of a load; returns the sectors that the home has to."""
    need = np.int64(tables.sectors[nth(mask)])
    at = 2 * (near * geometry.n_lines + line)
    slot = where(cache, line, at)
    if slot < 0:
        return need
    touch(geometry, cache, slot, near * geometry.n_sets + cache.lines[nth(at + 1)])
    hit = need & np.int64(cache.slots[nth(slot + META)])
    if hit:
        row = site + (0 if counted else n_site)
        young = pending(geometry, tables, cache, slot, hit, now, window)
        served = np.int64(tables.n_sectors[nth(hit)])
        counts[nth(row), nth(ACCESSES)] += served
        counts[nth(row), nth(HITS)] += served - young
        counts[nth(row), nth(PENDING)] += young
    return need & ~hit


@inner
def served_by(counts, n_site, site, counted):
    """Hits of a site so far, pending ones included."""
    row = site + (0 if counted else n_site)
    return counts[nth(row), nth(HITS)] + counts[nth(row), nth(PENDING)]


@inner
def keep_copy(
    geometry, tables, cache, counts, queue, rng, n_site, near, line, sectors, site, counted, now, hits_before,
):  # fmt: skip
    """After the home has served `sectors`: count its hits as far, and keep the copy."""
    row = site + (0 if counted else n_site)
    counts[nth(row), nth(FAR)] += served_by(counts, n_site, site, counted) - hits_before
    at = 2 * (near * geometry.n_lines + line)
    slot = where(cache, line, at)
    if slot < 0:
        bin_ = near * geometry.n_sets + cache.lines[nth(at + 1)]
        slot = _allocate(
            geometry, tables, cache, counts, queue, rng, n_site, near, line, bin_, counted
        )
    _fill(geometry, cache, slot, sectors, now)
