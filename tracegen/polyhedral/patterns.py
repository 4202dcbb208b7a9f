"""Granules of accesses of one shape: coalesced once as a pattern, then shifted.

Lanes whose addresses differ by fixed amounts request the same granules, up to a shift. The pattern
depends on the shape (lane part, stride and size), the sub-group, the active lanes and the byte of a
granule at which it begins. Patterns are made by `memsim.trace.coalesce` and cached.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from memsim.compile import hot, inner
from memsim.trace import Columns, coalesce

N_PATTERN = 1 << 12
PATTERN_ROOM = 1 << 17
_ABOVE = 1 << 30
"""Added to the granules of a pattern: `coalesce` takes no negative addresses."""


class Patterns(NamedTuple):
    """Cached patterns, in the slot that is the remainder of their key.

    first, last : rows of a slot's pattern in the flat arrays, of which used[0] rows are in use
    address, lanes, requested : scratch of `coalesce`
    """

    key: npt.NDArray[np.int64]
    mask: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64]
    last: npt.NDArray[np.int64]
    granule: npt.NDArray[np.int64]
    byte_mask: npt.NDArray[np.uint32]
    lane_groups: npt.NDArray[np.uint8]
    lane_hits: npt.NDArray[np.uint8]
    used: npt.NDArray[np.int64]
    address: npt.NDArray[np.int64]
    lanes: npt.NDArray[np.int64]
    requested: npt.NDArray[np.int64]


def room(most_granules: int) -> Patterns:
    """An empty cache. most_granules : of one lane's access"""
    rows = max(PATTERN_ROOM, 256 * most_granules)
    return Patterns(
        np.full(N_PATTERN, -1, np.int64),
        np.zeros(N_PATTERN, np.int64),
        np.zeros(N_PATTERN, np.int64),
        np.zeros(N_PATTERN, np.int64),
        np.empty(rows, np.int64),
        np.empty(rows, np.uint32),
        np.empty(rows, np.uint8),
        np.empty(rows, np.uint8),
        np.zeros(1, np.int64),
        np.zeros(64, np.int64),
        np.zeros((1, 64), np.int64),
        np.zeros(64 * most_granules, np.int64),
    )


@hot
def append_lanes(
    patterns: Patterns,
    issued: int,
    index: npt.NDArray[np.int64],
    stride: int,
    size: int,
    base: int,
    n_granule: int,
    out: Columns,
) -> int:
    """Appends the granules of elements index[lane]; returns the number of granules."""
    n_active = 0
    for lane in range(64):
        if issued >> lane & 1:
            patterns.lanes[0, n_active] = lane
            patterns.address[n_active] = index[lane] * stride + base
            n_active += 1
    end: int = coalesce(
        patterns.address, patterns.lanes, 0, n_active, size, patterns.requested, n_granule,
        out.granule, out.byte_mask, out.lane_groups, out.lane_hits,
    )  # fmt: skip
    return end


@hot
def _make(
    patterns: Patterns,
    slot: int,
    issued: int,
    within: int,
    stride: int,
    size: int,
    part: npt.NDArray[np.int64],
) -> None:
    """Caches the pattern of an access that begins at byte `within` of granule 0."""
    n_active = 0
    for lane in range(64):
        if issued >> lane & 1:
            patterns.lanes[0, n_active] = lane
            patterns.address[n_active] = part[lane] * stride + within + 32 * _ABOVE
            n_active += 1
    if patterns.used[0] + len(patterns.requested) > len(patterns.granule):
        patterns.key[:] = -1
        patterns.used[0] = 0
    first = patterns.used[0]
    last = coalesce(
        patterns.address, patterns.lanes, 0, n_active, size, patterns.requested, first,
        patterns.granule, patterns.byte_mask, patterns.lane_groups, patterns.lane_hits,
    )  # fmt: skip
    patterns.first[slot] = first
    patterns.last[slot] = last
    patterns.used[0] = last


@inner
def append_pattern(
    patterns: Patterns,
    shape: int,
    issued: int,
    begin: int,
    stride: int,
    size: int,
    part: npt.NDArray[np.int64],
    n_granule: int,
    out: Columns,
) -> int:
    """Appends the granules of elements part[lane] behind byte address `begin`.

    shape : number of the shape and sub-group
    """
    key = shape << 5 | (begin & 31)
    slot = key % N_PATTERN
    if patterns.key[slot] != key or patterns.mask[slot] != issued:
        patterns.key[slot] = -1
        _make(patterns, slot, issued, begin & 31, stride, size, part)
        patterns.key[slot] = key
        patterns.mask[slot] = issued
    first = patterns.first[slot]
    n = patterns.last[slot] - first
    granule = (begin >> 5) - _ABOVE
    for k in range(n):
        out.granule[n_granule + k] = patterns.granule[first + k] + granule
    for k in range(n):
        out.byte_mask[n_granule + k] = patterns.byte_mask[first + k]
    for k in range(n):
        out.lane_groups[n_granule + k] = patterns.lane_groups[first + k]
    for k in range(n):
        out.lane_hits[n_granule + k] = patterns.lane_hits[first + k]
    end: int = n_granule + n
    return end
