"""One compiled pass over the columns of a trace: everything that compiled loops index with."""

from __future__ import annotations

import numpy as np

from memsim.compile import hot

BARRIER_SITE = -1
KEPT, SITE, WAITS, LANES, BARRIER, ORDER, ARRAYS, MASK, GROUPS = range(9)
"""The rules by number; `memsim.trace.model` has their texts."""


@hot
def first_broken(  # type: ignore[no-untyped-def]
    subgroup_offset,
    site,
    waits,
    lanes,
    granule_offset,
    granule,
    byte_mask,
    lane_groups,
    covered,
    n_sites,
    subgroup_size,
):
    """(rule, sub-group, access) of the first access that breaks a rule; KEPT where none does."""
    all_groups = (1 << (subgroup_size // 8)) - 1
    inside = 0
    for s in range(len(subgroup_offset) - 1):
        first = subgroup_offset[s]
        for p in range(first, subgroup_offset[s + 1]):
            if site[p] < BARRIER_SITE or site[p] >= n_sites:
                return SITE, s, p
            if waits[p] < -1 or waits[p] >= p - first:
                return WAITS, s, p
            if lanes[p] > subgroup_size:
                return LANES, s, p
            begin, end = granule_offset[p], granule_offset[p + 1]
            if site[p] == BARRIER_SITE and (end > begin or lanes[p]):
                return BARRIER, s, p
            before = np.int64(-1)
            for i in range(begin, end):
                this = granule[i]
                if this <= before:
                    return ORDER, s, p
                before = this
                # Most granules lie in the same array as the one before.
                if len(covered) == 0:
                    return ARRAYS, s, p
                if this < covered[inside, 0] or this > covered[inside, 1]:
                    low, high = 0, len(covered) - 1
                    while low < high:
                        middle = (low + high) // 2
                        if covered[middle, 1] < this:
                            low = middle + 1
                        else:
                            high = middle
                    inside = low
                    if this < covered[inside, 0] or this > covered[inside, 1]:
                        return ARRAYS, s, p
                if byte_mask[i] == 0:
                    return MASK, s, p
                if lane_groups[i] == 0 or lane_groups[i] > all_groups:
                    return GROUPS, s, p
    return KEPT, 0, 0
