"""What the groups before a snapshot have touched, from the latest of them backwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from memsim.trace import GRANULE_BYTES

BUDGET_GRANULES = 16_000_000
"""Granules of earlier groups that are looked at for one snapshot."""

Granules = npt.NDArray[np.int64]


class Touched(NamedTuple):
    """ranges, n_groups : see `earlier` and `earlier_groups` of memsim.trace.Trace"""

    ranges: npt.NDArray[np.int64]
    n_groups: int


def touched_before(
    first: int, wave: int, enough_bytes: int, granules_of: Callable[[Granules], Granules]
) -> Touched:
    """The granules that the groups before group `first` touch.

    Groups are looked at from the latest backwards, a wave at first and then twice as many as before,
    until they have touched `enough_bytes` different bytes, or there is none left, or the budget ends.

    granules_of : ids of groups -> the granules that they touch, in any order and number
    """
    distinct = np.zeros(0, np.int64)
    begin, step, looked_at = first, wave, 0
    while begin > 0 and len(distinct) * GRANULE_BYTES < enough_bytes:
        if looked_at and looked_at / (first - begin) * step > BUDGET_GRANULES - looked_at:
            break
        ids = np.arange(max(begin - step, 0), begin, dtype=np.int64)
        granules = granules_of(ids)
        looked_at += len(granules)
        distinct = _distinct(np.concatenate([distinct, _distinct(granules)]))
        begin, step = int(ids[0]), 2 * step
    return Touched(_ranges(distinct), first - begin)


def _distinct(granules: Granules) -> Granules:
    """The different granules, ascending."""
    ordered = np.sort(granules)
    is_first = np.ones(len(ordered), np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    return np.asarray(ordered[is_first])


def _ranges(distinct: Granules) -> npt.NDArray[np.int64]:
    """(n, 2) the runs of consecutive granules, [first, end)."""
    breaks = np.flatnonzero(np.diff(distinct) != 1) + 1
    first = np.concatenate([distinct[:1], distinct[breaks]])
    last = np.concatenate([distinct[breaks - 1], distinct[-1:]])
    return np.stack([first, last + 1], axis=1)
