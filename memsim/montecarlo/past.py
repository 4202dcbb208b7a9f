"""What groups before a snapshot may have left in the caches, and what they read first: the granules that they touched.

A snapshot's first access to a sector misses in a replay, which begins with empty caches. In the launch
it may hit: a group that was not traced may have brought the sector, and it may still be there. It
cannot be there if no earlier group touched it, or if its set has been filled with other lines since.
What is left is counted as open (memsim.hierarchy.cache), and is part of every interval.

Where the same launch has run before with caches kept (`warm`), the levels behind the first may hold what it has left, too.
A level as large as all that the launch uses holds that: what is traced passes through it beforehand, as of a whole launch.
Another has nothing left if the groups before the snapshot alone have filled it; else that is open.

A snapshot's counts are scaled to the launch, as if all groups read as the counted ones do. But data that all
groups share are read from DRAM by the launch's first groups, and found in the last cache by those that are
counted: scaled, they are never read. With E distinct bytes that are loaded by all groups up to the end of the
counted ones, e bytes that the counted groups are the first to load, s times the requests of the counted groups that
all these groups have, and a ratio m of the counted groups' later loads that miss the last cache, the launch reads

    (1 - m) (E - e s)

more than the scaled counts, from cold caches: E, and m of the other requests. It is 0 for a stream, and for rows that a
later group reads again from DRAM, and the whole array for a shared table (`first_reads`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from memsim.compile import hot
from memsim.hierarchy.levels import NO_PAST
from memsim.hierarchy.requests import CHUNK_GRANULES, DenseMap
from memsim.machine.model import Machine
from memsim.machine.parts import Level
from memsim.trace.model import GRANULE_BYTES, Trace

ENOUGH_CAPACITIES = 2
"""Groups before those that touched as many bytes as the largest cache holds, so many times, have left
nothing in it: under LRU once would be enough if all sets were filled alike."""


def past_of(
    trace: Trace, machine: Machine, space: DenseMap, *, warm: bool = False
) -> npt.NDArray[np.uint8]:
    """(1, 2, n_chunk) granules of each dense chunk that a group before the snapshot may have touched, and that
    one is known to have touched; (1, 2, 0) where there is no such group.

    warm : (n_level, 2, n_chunk), as far as a level may hold them, of groups of the launch before, too; a whole launch is
        repeated instead
    """
    own = _past_of(trace, machine, space)
    if not warm or trace.whole or len(machine.levels) < 2:
        return own[None]
    own = own if own.shape[1] else np.zeros((2, len(space.chunk)), np.uint8)
    return np.stack([own, *(_left(own, trace, level) for level in machine.levels[1:])])


def _left(own: npt.NDArray[np.uint8], trace: Trace, level: Level) -> npt.NDArray[np.uint8]:
    """(2, n_chunk) as `past_of`, of what a launch and this one up to the snapshot may have left in a level."""
    if repeated_bytes(trace) <= level.size_bytes:
        return np.zeros_like(own)
    earlier = 0 if trace.earlier is None else touched_bytes(trace.earlier)
    if earlier >= ENOUGH_CAPACITIES * level.size_bytes and _is_consecutive(trace):
        return own
    return np.stack([np.full_like(own[0], 0xFF), own[1]])


def repeated_bytes(trace: Trace) -> int:
    """The least size of a level in which a repeated launch leaves all that is traced of the next one, but for what the level
    itself evicts: 0 for a whole launch, else the bytes of the arrays that it accesses."""
    if trace.whole:
        return 0
    used = {site.array for site in trace.sites}
    return sum(array.size_bytes for array in trace.arrays if array.name in used)


def _past_of(trace: Trace, machine: Machine, space: DenseMap) -> npt.NDArray[np.uint8]:
    if trace.warming is None and (trace.whole or not has_past(trace)):
        return NO_PAST
    likely = np.zeros(len(space.chunk), np.uint8)
    if trace.earlier is not None:
        mark_touched(trace.earlier, space.chunk, likely)
    possible = likely if is_known(trace, machine) else np.full_like(likely, 0xFF)
    return np.stack([possible, likely])


def has_past(trace: Trace) -> bool:
    """Whether groups that were not traced may have run before one that was."""
    return int(trace.workgroup[-1]) >= trace.n_groups


def is_known(trace: Trace, machine: Machine) -> bool:
    """Whether the trace says what the groups before it may have left in this machine's caches."""
    if trace.earlier is None:
        return False
    if trace.earlier_groups == int(trace.workgroup[0]) and _is_consecutive(trace):
        return True
    return touched_bytes(trace.earlier) >= enough_bytes(machine) and _is_consecutive(trace)


def enough_bytes(machine: Machine) -> int:
    """How many distinct bytes of earlier groups determine what they have left in the caches."""
    return ENOUGH_CAPACITIES * max((level.size_bytes for level in machine.levels), default=0)


def touched_bytes(ranges: npt.NDArray[np.int64]) -> int:
    """Bytes in ranges of granules, see Trace.earlier."""
    return int((ranges[:, 1] - ranges[:, 0]).sum()) * GRANULE_BYTES


def _is_consecutive(trace: Trace) -> bool:
    return int(trace.workgroup[-1]) - int(trace.workgroup[0]) + 1 == trace.n_groups


@hot
def mark_touched(ranges, chunk, past):  # type: ignore[no-untyped-def]
    """Set the bits of the granules in `ranges`.

    ranges : (n_range, 2) int64, see Trace.earlier;  chunk : (n_chunk,) int64, ascending
    past : (n_chunk,) uint8, written to
    """
    r = 0
    for c in range(len(chunk)):
        first = chunk[c] * CHUNK_GRANULES
        while r < len(ranges) and ranges[r, 1] <= first:
            r += 1
        k = r
        while k < len(ranges) and ranges[k, 0] < first + CHUNK_GRANULES:
            low = max(ranges[k, 0] - first, 0)
            high = min(ranges[k, 1] - first, CHUNK_GRANULES)
            past[c] |= np.uint8(((1 << high) - 1) & ~((1 << low) - 1))
            k += 1


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
