"""The addresses of one sub-group access as granules: ascending, unique, with what accesses each."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from memsim.compile import compiled, inner


@inner
def _append_consecutive(address, first_lane, n_active, size, n_granule, columns):  # type: ignore[no-untyped-def]
    """Appends the granules of neighbouring lanes that access neighbouring elements."""
    granules, masks, groups, hits = columns
    begin = address[0]
    end = begin + n_active * size
    for granule in range(begin >> 5, ((end - 1) >> 5) + 1):
        low = max(begin, granule * 32)
        high = min(end, granule * 32 + 32)
        first = (low - begin) // size
        last = (high - 1 - begin) // size
        low_group = (first_lane + first) >> 3
        high_group = (first_lane + last) >> 3
        granules[n_granule] = granule
        masks[n_granule] = ((1 << (high - low)) - 1) << (low & 31)
        groups[n_granule] = ((2 << (high_group - low_group)) - 1) << low_group
        hits[n_granule] = last - first + 1
        n_granule += 1
    return n_granule


@inner
def _append(columns, n_granule, before, granule, mask, group):  # type: ignore[no-untyped-def]
    """Appends a granule, or adds to the last one if that is the same; returns the new number."""
    granules, masks, groups, hits = columns
    if granule == before:
        masks[n_granule - 1] |= mask
        groups[n_granule - 1] |= group
        hits[n_granule - 1] += np.uint8(1)
        return n_granule
    granules[n_granule] = granule
    masks[n_granule] = mask
    groups[n_granule] = group
    hits[n_granule] = 1
    return n_granule + 1


@inner
def _append_ordered(address, lanes, row, n_active, size, n_granule, columns):  # type: ignore[no-untyped-def]
    """Appends the granules of lanes with ascending addresses, whose elements lie in one granule each.

    Returns -1 if these are not so; the columns beyond n_granule are then undefined.
    """
    whole = np.int64((1 << min(size, 32)) - 1)
    before = np.int64(-1)
    for k in range(n_active):
        granule = address[k] >> 5
        low = address[k] & 31
        if granule < before or low + size > 32:
            return -1
        group = np.uint8(1 << (lanes[row, k] >> 3))
        n_granule = _append(columns, n_granule, before, granule, np.uint32(whole << low), group)
        before = granule
    return n_granule


@inner
def _sorted_granules(address, n_active, size, scratch):  # type: ignore[no-untyped-def]
    """Sorts `granule << 6 | k` of every granule of every lane k into scratch; returns their number."""
    n = 0
    for k in range(n_active):
        last = (address[k] + size - 1) >> 5
        for granule in range(address[k] >> 5, last + 1):
            this = granule << 6 | k
            slot = n
            while slot > 0 and scratch[slot - 1] > this:
                scratch[slot] = scratch[slot - 1]
                slot -= 1
            scratch[slot] = this
            n += 1
    return n


@inner
def _append_sorted(address, lanes, row, size, scratch, n_scratch, n_granule, columns):  # type: ignore[no-untyped-def]
    """Appends the granules of `_sorted_granules`."""
    before = np.int64(-1)
    for m in range(n_scratch):
        granule = scratch[m] >> 6
        k = scratch[m] & 63
        low = max(address[k] - granule * 32, 0)
        high = min(address[k] + size - granule * 32, 32)
        mask = np.uint32(((1 << (high - low)) - 1) << low)
        group = np.uint8(1 << (lanes[row, k] >> 3))
        n_granule = _append(columns, n_granule, before, granule, mask, group)
        before = granule
    return n_granule


@compiled
def coalesce(
    address: npt.NDArray[np.int64],
    lanes: npt.NDArray[np.int64],
    row: int,
    n_active: int,
    size: int,
    scratch: npt.NDArray[np.int64],
    n_granule: int,
    granules: npt.NDArray[np.int64],
    masks: npt.NDArray[np.uint32],
    groups: npt.NDArray[np.uint8],
    hits: npt.NDArray[np.uint8],
) -> int:
    """Appends the granules of one access, ascending and unique; returns their new number.

    address : (n_active,) bytes;  lanes : [row, :n_active] the active lanes
    size : bytes of an element
    scratch : room for `granule << 6 | k` of every granule of every lane k
    granules, masks, groups, hits : columns granule, byte_mask, lane_groups and lane_hits of a Trace
    """
    consecutive = lanes[row, n_active - 1] - lanes[row, 0] == n_active - 1
    for k in range(1, n_active):
        consecutive &= address[k] - address[k - 1] == size
    columns = (granules, masks, groups, hits)
    if consecutive:
        end: int = _append_consecutive(address, lanes[row, 0], n_active, size, n_granule, columns)
        return end
    ordered: int = _append_ordered(address, lanes, row, n_active, size, n_granule, columns)
    if ordered >= 0:
        return ordered
    n_scratch = _sorted_granules(address, n_active, size, scratch)
    end = _append_sorted(address, lanes, row, size, scratch, n_scratch, n_granule, columns)
    return end
