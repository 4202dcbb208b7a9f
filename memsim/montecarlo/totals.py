"""What each static access requests, and how often a group requests an array, counted from the trace alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from memsim.compile import hot
from memsim.hierarchy.core_stage import (
    COUNT_SHIFT,
    MAX_REQUESTS_OF_ACCESS,
    SITE_SHIFT,
    Requests,
)
from memsim.hierarchy.levels import mask_tables
from memsim.machine.parts import Level
from memsim.trace.model import GRANULE_BYTES, Trace


@hot
def _site_totals(site, lanes, granule_offset, byte_mask, accesses, n_lanes, sectors, useful, ideal):  # type: ignore[no-untyped-def]  # fmt: skip
    for p in range(len(site)):
        s = site[p]
        if s < 0:
            continue
        bytes_ = np.int64(0)
        for i in range(granule_offset[p], granule_offset[p + 1]):
            mask = byte_mask[i]
            mask = mask - ((mask >> np.uint32(1)) & np.uint32(0x55555555))
            mask = (mask & np.uint32(0x33333333)) + ((mask >> np.uint32(2)) & np.uint32(0x33333333))
            mask = (mask + (mask >> np.uint32(4))) & np.uint32(0x0F0F0F0F)
            bytes_ += np.int64((mask * np.uint32(0x01010101)) & np.uint32(0xFFFFFFFF)) >> 24
        accesses[s] += 1
        n_lanes[s] += lanes[p]
        sectors[s] += granule_offset[p + 1] - granule_offset[p]
        useful[s] += bytes_
        ideal[s] += (bytes_ + 31) // 32


def site_totals(trace: Trace) -> dict[str, npt.NDArray[Any]]:
    """Per site (n_site,): sub-group accesses, lanes, 32-byte sectors, useful bytes, ideal sectors; of whole groups, where these are
    traced in windows."""
    n = len(trace.sites)
    totals = [np.zeros(n, np.int64) for _ in range(5)]
    _site_totals(trace.site, trace.lanes, trace.granule_offset, trace.byte_mask, *totals)
    totals = [whole_groups(trace, total) for total in totals]
    names = ("site_accesses", "site_lanes", "site_sectors", "site_useful_bytes")
    return {**dict(zip(names, totals[:4], strict=True)), "site_ideal_sectors": totals[4] * 1.0}


def whole_groups(trace: Trace, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Counts of each site (n_site,) of a trace, for all that its groups do."""
    if trace.site_weight is None:
        return counts
    return np.asarray(np.rint(counts * trace.site_weight), np.int64)


@hot
def _lookups(access, request, n_sectors, lookups):  # type: ignore[no-untyped-def]
    r = 0
    for p in range(len(access)):
        word = np.int64(access[p])
        for _ in range((word >> COUNT_SHIFT) & MAX_REQUESTS_OF_ACCESS):
            lookups[word >> SITE_SHIFT] += n_sectors[np.int64(request[r] >> np.uint64(32)) & 0xFF]
            r += 1


def site_lookups(requests: Requests, first: Level, n_sites: int) -> npt.NDArray[np.int64]:
    """(n_sites,) sectors that all groups of a trace ask its machine's first level for."""
    lookups = np.zeros(n_sites, np.int64)
    tables = mask_tables(
        *(n // GRANULE_BYTES for n in (first.line_bytes, first.sector_bytes, first.fill_bytes))
    )
    _lookups(requests.access, requests.request, tables.n_sectors, lookups)
    return lookups


MOST_GROUPS, MOST_GRANULES = 16, 1 << 20
"""Groups, and granules, of a trace in which a group's repeated requests are counted."""


def requests_of_group(trace: Trace) -> dict[str, float]:
    """Array -> how many times one group loads each 32-byte sector that it loads of it, the mean of some groups.

    1 where every group loads a sector once, as for staging it in local memory; empty where groups have more
    than a million requests.
    """
    array_of = {name: k for k, name in enumerate(dict.fromkeys(site.array for site in trace.sites))}
    of_site = np.array(
        [array_of[one.array] if one.direction == "load" else -1 for one in trace.sites], np.int64
    )
    requested, distinct = (np.zeros(len(array_of), np.int64) for _ in range(2))
    first = np.flatnonzero(np.diff(trace.workgroup, prepend=-1))
    ends = np.append(first[1:], trace.n_subgroup)
    chosen = np.linspace(0, len(first) - 1, min(MOST_GROUPS, len(first))).astype(np.int64)
    left = MOST_GRANULES
    for group in chosen:
        accesses = slice(*trace.subgroup_offset[[first[group], ends[group]]])
        offset = trace.granule_offset[accesses.start : accesses.stop + 1]
        left -= int(offset[-1] - offset[0])
        if left < 0:
            break
        site = np.repeat(trace.site[accesses], np.diff(offset))  # a barrier has no granules
        array, granule = of_site[site], trace.granule[offset[0] : offset[-1]]
        array, granule = array[array >= 0], granule[array >= 0]
        order = np.lexsort((granule, array))
        array, granule = array[order], granule[order]
        new = np.diff(granule, prepend=-1) != 0
        new |= np.diff(array, prepend=-1) != 0
        requested += np.bincount(array, minlength=len(array_of))
        distinct += np.bincount(array[new], minlength=len(array_of))
    return {name: float(requested[k] / distinct[k]) for name, k in array_of.items() if distinct[k]}
