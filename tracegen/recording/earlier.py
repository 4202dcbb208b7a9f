"""What the groups before a snapshot have touched, from the latest of them backwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from memsim.compile import compiled
from memsim.trace import GRANULE_BYTES

BUDGET_GRANULES = 16_000_000
"""Granules of earlier groups that are looked at for one snapshot."""

MARKS = 16
"""Marks of a granule that take as long as to look at one."""

Granules = npt.NDArray[np.int64]


class Moved(NamedTuple):
    """granules : that a group touches, in any order and number
    shifts : by how many granules each group moves them that touches the same
    """

    granules: Granules
    shifts: npt.NDArray[np.int64] = np.zeros(1, np.int64)

    @property
    def cost(self) -> int:
        """Granules that are looked at."""
        return len(self.granules) * (MARKS + len(self.shifts) - 1) // MARKS


class Touched(NamedTuple):
    """ranges, n_groups : see `earlier` and `earlier_groups` of memsim.trace.Trace"""

    ranges: npt.NDArray[np.int64]
    n_groups: int


class TouchedGranules:
    """A set of granules, a bit each."""

    def __init__(self) -> None:
        self._bits = np.zeros(1 << 16, np.uint8)
        self._n = 0

    @property
    def n_bytes(self) -> int:
        return self._n * GRANULE_BYTES

    def add(self, moved: Moved) -> None:
        granules, shifts = moved
        if len(granules):
            end = int(granules.max()) + int(shifts.max()) + 1
            if end >= 8 * len(self._bits):
                bits = np.zeros(2 * (end // 8 + 1), np.uint8)
                bits[: len(self._bits)] = self._bits
                self._bits = bits
            self._n += sum(_mark(self._bits, granules, shift) for shift in shifts)

    @property
    def ranges(self) -> npt.NDArray[np.int64]:
        """(n, 2) the runs of consecutive granules, [first, end)."""
        edges = np.zeros(_edges(self._bits, np.zeros(0, np.int64)), np.int64)
        _edges(self._bits, edges)
        return edges.reshape(-1, 2)


@compiled
def _mark(bits, granules, shift):  # type: ignore[no-untyped-def]
    """Sets bits; how many were not set."""
    new = 0
    for k in range(len(granules)):
        granule = granules[k] + shift
        bit = np.uint8(1 << (granule & 7))
        if not bits[granule >> 3] & bit:
            bits[granule >> 3] |= bit
            new += 1
    return new


@compiled
def _edges(bits, edges):  # type: ignore[no-untyped-def]
    """Writes where runs of bits begin and end, as far as there is room; how many there are. The last bit is not set."""
    n, inside = 0, 0
    for at in range(len(bits)):
        if bits[at] == 255 * inside:
            continue
        for k in range(8):
            if bits[at] >> k & 1 != inside:
                if n < len(edges):
                    edges[n] = 8 * at + k
                n, inside = n + 1, 1 - inside
    return n


def touched_before(
    first: int, wave: int, enough_bytes: int, touched_by: Callable[[Granules], list[Moved]]
) -> Touched:
    """The granules that the groups before group `first` touch.

    Groups are looked at from the latest backwards, a wave at first and then twice as many as before,
    until they have touched `enough_bytes` different bytes, or there is none left, or the budget ends.

    touched_by : ids of groups -> what they touch
    """
    touched = TouchedGranules()
    begin, step, looked_at = first, wave, 0
    while begin > 0 and touched.n_bytes < enough_bytes:
        if looked_at and looked_at / (first - begin) * step > BUDGET_GRANULES - looked_at:
            break
        ids = np.arange(max(begin - step, 0), begin, dtype=np.int64)
        for moved in touched_by(ids):
            looked_at += moved.cost
            touched.add(moved)
        begin, step = int(ids[0]), 2 * step
    return Touched(touched.ranges, first - begin)
