"""What groups before a snapshot may have left in the caches: the granules that they touched.

A snapshot's first access to a sector misses in a replay, which begins with empty caches. In the launch
it may hit: a group that was not traced may have brought the sector, and it may still be there. It
cannot be there if no earlier group touched it, or if its set has been filled with other lines since.
What is left is counted as open (memsim.hierarchy.cache), and is part of every interval.

Where the same launch has run before with caches kept (`warm`), the levels behind the first may hold what it has left, too.
A level as large as all that the launch uses holds that: what is traced passes through it beforehand, as of a whole launch.
Another has nothing left if the groups before the snapshot alone have filled it; else that is open.
"""

from __future__ import annotations

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
