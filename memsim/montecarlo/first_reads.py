"""Bytes that groups before a snapshot read first, which scaling the snapshot's counts omits.

A snapshot's counts are scaled to the launch, as if all groups read as the counted ones do. But data that all
groups share are read from DRAM by the launch's first groups, and found in the last cache by those that are
counted: scaled, they are never read. With E distinct bytes that are loaded by all groups up to the end of the
snapshot, N of them, and e bytes a group that counted groups are the first to load, the launch reads

    E - e N

more than the scaled counts, from cold caches. It is 0 for a stream and the whole array for a shared table.
"""

from __future__ import annotations

import numpy as np

from memsim.compile import hot
from memsim.trace.model import GRANULE_BYTES, Trace

MOST_ARRAY_GRANULES = 1 << 28
"""An array of more (8 GiB) is not looked at."""


def first_reads(trace: Trace, n_uncounted: int) -> dict[str, int]:
    """Array -> E - e N in bytes, where that is more than 0, of the arrays that are loaded and not written.

    trace : a snapshot; where it does not know what earlier groups touched, a lower bound
    n_uncounted : its first groups, which only warm the caches
    """
    earlier = np.zeros((0, 2), np.int64) if trace.earlier is None else trace.earlier
    n_counted = trace.n_groups - n_uncounted
    n_groups = trace.earlier_groups + trace.n_groups
    begin = np.flatnonzero(np.diff(trace.workgroup, prepend=-1))[n_uncounted]
    first_counted = int(trace.subgroup_offset[begin])
    written = {site.array for site in trace.sites if site.direction != "load"}
    found = {}
    for array in trace.arrays:
        of_site = np.array([site.array == array.name for site in trace.sites])
        first = array.base_bytes // GRANULE_BYTES
        n = -(-(array.base_bytes + array.size_bytes) // GRANULE_BYTES) - first
        if array.name in written or not of_site.any() or n > MOST_ARRAY_GRANULES:
            continue
        seen = np.zeros(n, np.bool_)
        ranges = np.clip(earlier - first, 0, n)
        for low, high in ranges[ranges[:, 1] > ranges[:, 0]]:
            seen[low:high] = True
        before = int(np.count_nonzero(seen))
        columns = (trace.site, trace.granule_offset, trace.granule, of_site, first, seen)
        before += _mark(0, first_counted, *columns)
        new = _mark(first_counted, trace.n_access, *columns)
        more = GRANULE_BYTES * (before + new - new / n_counted * n_groups)
        if more > 0:
            found[array.name] = round(more)
    return found


@hot
def _mark(begin, end, site, granule_offset, granule, of_site, first, seen):  # type: ignore[no-untyped-def]
    """Marks the granules that the accesses from begin to end touch, and counts those that were not marked.

    of_site : (n_site,) bool;  first : granule of seen[0];  seen : (n,) bool, written to
    """
    new = 0
    for p in range(begin, end):
        if site[p] < 0 or not of_site[site[p]]:
            continue
        for i in range(granule_offset[p], granule_offset[p + 1]):
            k = granule[i] - first
            if 0 <= k < len(seen) and not seen[k]:
                seen[k] = True
                new += 1
    return new
