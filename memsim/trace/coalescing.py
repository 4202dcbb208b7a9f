"""The addresses of one sub-group access to granules: ascending, unique, with what was asked of each."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from memsim.compile import compiled


@compiled
def _in_a_row(
    address: npt.NDArray[np.int64],
    first_lane: int,
    n_active: int,
    size: int,
    n_granule: int,
    granules: npt.NDArray[np.int64],
    masks: npt.NDArray[np.uint32],
    groups: npt.NDArray[np.uint8],
    hits: npt.NDArray[np.uint8],
) -> int:
    """Appends the granules of neighbouring lanes that ask for neighbouring elements."""
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


@compiled
def coalesce(
    address: npt.NDArray[np.int64],
    lanes: npt.NDArray[np.int64],
    row: int,
    n_active: int,
    size: int,
    asked: npt.NDArray[np.int64],
    n_granule: int,
    granules: npt.NDArray[np.int64],
    masks: npt.NDArray[np.uint32],
    groups: npt.NDArray[np.uint8],
    hits: npt.NDArray[np.uint8],
) -> int:
    """Appends the granules of one access, ascending and unique; returns their new number.

    address : (n_active,) bytes; asked : scratch for `granule << 6 | k` of all that is asked for
    """
    in_a_row = lanes[row, n_active - 1] - lanes[row, 0] == n_active - 1
    for k in range(1, n_active):
        in_a_row &= address[k] - address[k - 1] == size
    if in_a_row:
        end: int = _in_a_row(
            address, lanes[row, 0], n_active, size, n_granule, granules, masks, groups, hits
        )
        return end
    whole = np.int64((1 << min(size, 32)) - 1)
    before = np.int64(-1)
    place = n_granule - 1
    k = 0
    while k < n_active:
        granule = address[k] >> 5
        low = address[k] & 31
        if granule < before or low + size > 32:
            break
        mask = np.uint32(whole << low)
        group = np.uint8(1 << (lanes[row, k] >> 3))
        if granule == before:
            masks[place] |= mask
            groups[place] |= group
            hits[place] += np.uint8(1)
        else:
            place += 1
            granules[place] = granule
            masks[place] = mask
            groups[place] = group
            hits[place] = 1
            before = granule
        k += 1
    if k == n_active:
        return place + 1
    # Lanes out of order, or elements across granules: sort what is asked for, then join.
    n_asked = 0
    for k in range(n_active):
        last = (address[k] + size - 1) >> 5
        for granule in range(address[k] >> 5, last + 1):
            this = granule << 6 | k
            slot = n_asked
            while slot > 0 and asked[slot - 1] > this:
                asked[slot] = asked[slot - 1]
                slot -= 1
            asked[slot] = this
            n_asked += 1
    before = np.int64(-1)
    place = n_granule - 1
    for m in range(n_asked):
        granule = asked[m] >> 6
        k = asked[m] & 63
        low = max(address[k] - granule * 32, 0)
        high = min(address[k] + size - granule * 32, 32)
        mask = np.uint32(((1 << (high - low)) - 1) << low)
        group = np.uint8(1 << (lanes[row, k] >> 3))
        if granule == before:
            masks[place] |= mask
            groups[place] |= group
            hits[place] += np.uint8(1)
        else:
            place += 1
            granules[place] = granule
            masks[place] = mask
            groups[place] = group
            hits[place] = 1
            before = granule
    return place + 1
