"""Bytes that groups before a snapshot read first, which scaling the snapshot's counts omits.

A snapshot's counts are scaled to the launch, as if all groups read as the counted ones do. But data that all
groups share are read from DRAM by the launch's first groups, and found in the last cache by those that are
counted: scaled, they are never read. With E distinct bytes that are loaded by all groups up to the end of the
counted ones, e bytes that the counted groups are the first to load, s times the requests of the counted groups that
all these groups have, and a ratio m of the counted groups' later loads that miss the last cache, the launch reads

    (1 - m) (E - e s)

more than the scaled counts, from cold caches: E, and m of the other requests. It is 0 for a stream, and for rows that a
later group reads again from DRAM, and the whole array for a shared table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from memsim.compile import hot
from memsim.trace.model import GRANULE_BYTES, Trace

MOST_ARRAY_GRANULES = 1 << 28
"""An array of more (8 GiB) is not looked at."""


class FirstLoads(NamedTuple):
    """Of one array, in bytes.

    omitted : E - e s;  first : e;  requested : by the counted groups, what one loads repeatedly once
    """

    omitted: float
    first: int
    requested: int

    def beyond(self, read_bytes: float) -> float:
        """Bytes that the launch reads beyond the scaled counts. read_bytes : from DRAM, by the counted groups"""
        later = self.requested - self.first
        missed = (read_bytes - self.first) / later if later else 1.0
        return self.omitted * (1 - min(max(missed, 0.0), 1.0))


def first_loads(trace: Trace, n_uncounted: int, n_counted: int) -> dict[str, FirstLoads]:
    """Array -> what was loaded first, where `omitted` is more than 0, of the arrays that are loaded and not written.

    trace : a snapshot; where it does not know what earlier groups touched, a lower bound
    n_uncounted : its first groups, which only warm the caches;  n_counted : the groups after them that are counted
    """
    earlier = np.zeros((0, 2), np.int64) if trace.earlier is None else trace.earlier
    new_group = np.diff(trace.workgroup, prepend=-1) != 0
    group = (np.cumsum(new_group) - 1).astype(np.int32)
    ends = np.append(np.flatnonzero(new_group), len(group))
    begin, end = int(ends[n_uncounted]), int(ends[n_uncounted + n_counted])
    n_groups = n_uncounted + n_counted
    written = {site.array for site in trace.sites if site.direction != "load"}
    found = {}
    for array in trace.arrays:
        of_site = np.array([site.array == array.name for site in trace.sites])
        first = array.base_bytes // GRANULE_BYTES
        n = -(-(array.base_bytes + array.size_bytes) // GRANULE_BYTES) - first
        if array.name in written or not of_site.any() or n > MOST_ARRAY_GRANULES:
            continue
        seen = np.zeros(n, np.int32)
        ranges = np.clip(earlier - first, 0, n)
        for low, high in ranges[ranges[:, 1] > ranges[:, 0]]:
            seen[low:high] = EARLIER
        before = int(np.count_nonzero(seen))
        columns = (trace.subgroup_offset, trace.site, trace.granule_offset, trace.granule)
        warm = _mark(0, begin, group, *columns, of_site, first, seen)
        new, requested = _mark(begin, end, group, *columns, of_site, first, seen)
        if not requested:
            continue
        times = (warm[1] + requested) / requested * (1 + trace.earlier_groups / n_groups)
        omitted = GRANULE_BYTES * (before + warm[0] + new - new * times)
        if omitted > 0:
            found[array.name] = FirstLoads(omitted, GRANULE_BYTES * new, GRANULE_BYTES * requested)
    return found


def first_reads(loads: Mapping[str, FirstLoads], read_bytes: Mapping[str, float]) -> dict[str, int]:
    """Array -> bytes beyond the scaled counts, where there are any; read_bytes : see FirstLoads.beyond, of each array"""
    beyond = {name: round(one.beyond(read_bytes[name])) for name, one in loads.items()}
    return {name: n for name, n in beyond.items() if n}


EARLIER = 1
"""In place of a group's number + 2: the granule was touched before the snapshot."""


@hot
def _mark(begin, end, group, subgroup_offset, site, granule_offset, granule, of_site, first, seen):  # type: ignore[no-untyped-def]
    """Marks the granules that the sub-groups from begin to end load; how many were not marked, and how many each group loads.

    group : (n_subgroup,) int32;  of_site : (n_site,) bool;  first : granule of seen[0]
    seen : (n,) int32, the last group that loaded each + 2, EARLIER or 0; written to
    """
    new = requested = 0
    for s in range(begin, end):
        for p in range(subgroup_offset[s], subgroup_offset[s + 1]):
            if site[p] < 0 or not of_site[site[p]]:
                continue
            for i in range(granule_offset[p], granule_offset[p + 1]):
                k = granule[i] - first
                if 0 <= k < len(seen) and seen[k] != group[s] + 2:
                    new += seen[k] == 0
                    requested += 1
                    seen[k] = group[s] + 2
    return new, requested
