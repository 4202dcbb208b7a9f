"""Which address each lane of a sub-group knows for a key, that is, for one text of an access.

While all lanes that know a key's address computed it from the same level and lane part, only those
two numbers are stored, and no loop over lanes is needed. Otherwise it is stored lane by lane.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from memsim.compile import inner
from tracegen.polyhedral.arithmetic import Index
from tracegen.recording.subgroup import ProbeTables


class Known(NamedTuple):
    """By key: mask of the lanes that know its address, whether it is stored by lane, and the address."""

    mask: npt.NDArray[np.int64]
    by_lane: npt.NDArray[np.bool_]
    part: npt.NDArray[np.int64]
    level: npt.NDArray[np.int64]
    element: npt.NDArray[np.int64]


def room(n_key: int) -> Known:
    """The state in which no lane knows any key."""
    n = max(n_key, 1)
    return Known(
        np.zeros(n, np.int64),
        np.zeros(n, np.bool_),
        np.zeros(n, np.int64),
        np.zeros(n, np.int64),
        np.zeros((n, 64), np.int64),
    )


@inner
def known_hits(
    known: Known,
    key: int,
    lanes: int,
    index: Index,
    element: npt.NDArray[np.int64],
    part_value: npt.NDArray[np.int64],
    subgroup: int,
) -> np.int64:
    """Those of `lanes` that know the address: index.level + lane part where alike, else `element`."""
    hits = np.int64(0)
    candidates = lanes & known.mask[key]
    if candidates == 0:
        return hits
    if index.alike and not known.by_lane[key] and known.part[key] == index.part:
        return candidates if known.level[key] == index.level else hits
    for lane in range(64):
        if candidates >> lane & 1:
            this = (
                index.level + part_value[index.part, subgroup, lane]
                if index.alike
                else element[lane]
            )
            known_element = (
                known.element[key, lane]
                if known.by_lane[key]
                else known.level[key] + part_value[known.part[key], subgroup, lane]
            )
            hits |= np.int64(this == known_element) << lane
    return hits


@inner
def forget(known: Known, tables: ProbeTables, position: int, lanes: int) -> None:
    """The lanes pass a position that makes some keys unknown to them."""
    for k in range(tables.kill_offset[position], tables.kill_offset[position + 1]):
        known.mask[tables.kill[k]] &= ~lanes


@inner
def make_known(
    known: Known,
    key: int,
    lanes: int,
    index: Index,
    element: npt.NDArray[np.int64],
    part_value: npt.NDArray[np.int64],
    subgroup: int,
) -> None:
    """From now on all of `lanes` know the address."""
    others = known.mask[key] & ~lanes
    same = (
        not known.by_lane[key] and known.part[key] == index.part and known.level[key] == index.level
    )
    known.mask[key] |= lanes
    if index.alike and (others == 0 or same):
        known.by_lane[key] = False
        known.part[key] = index.part
        known.level[key] = index.level
        return
    for lane in range(64):
        if others >> lane & 1 and not known.by_lane[key]:
            known.element[key, lane] = (
                known.level[key] + part_value[known.part[key], subgroup, lane]
            )
        if lanes >> lane & 1:
            known.element[key, lane] = (
                index.level + part_value[index.part, subgroup, lane]
                if index.alike
                else element[lane]
            )
    known.by_lane[key] = True
