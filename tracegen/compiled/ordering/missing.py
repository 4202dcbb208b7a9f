"""Which accesses without an instruction the compiler cannot have dropped.

A compiler drops a load if it has the value: from another load, or from the store that wrote it. It drops a
store if another one overwrites it. So what a dropped access reads or writes, its sub-group accesses
elsewhere, not long before or after.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from tracegen.compiled.ordering.gather import Source

MOST_SUBGROUPS = 16
"""Sub-groups that are looked at."""
MOST_BETWEEN = 1024
"""Accesses over which many values may stay in registers: these are fewer, but a loop whose loads are
dropped may have others."""
FEW = 64
"""So many values of an access may stay in registers for as long as the kernel runs."""
NEIGHBOURS = (-1, 0, -2, 1)
"""Of the accesses of a granule, in order: two before a dropped one, and two behind it."""


def missing(
    position: npt.NDArray[np.int32],
    subgroup_offset: npt.NDArray[np.int64],
    source: Source,
    dropped: Collection[int],
    among: Collection[int] | None = None,
) -> frozenset[int]:
    """The dropped positions that read or write what their sub-group does not access elsewhere.

    position : of each access, beyond all others for a barrier
    among : the positions whose accesses count; by default all that are not dropped
    """
    if not dropped:
        return frozenset()
    is_dropped = np.isin(position, sorted(dropped))
    n_dropped = np.diff(np.concatenate([[0], np.cumsum(is_dropped)])[subgroup_offset])
    having = np.flatnonzero(n_dropped)
    if not len(having):
        return frozenset()
    counts = ~is_dropped
    if among is not None:
        counts &= np.isin(position, sorted(among))
    spread = having[np.linspace(0, len(having) - 1, MOST_SUBGROUPS).astype(np.int64)]
    found: set[int] = set()
    for subgroup in {int(np.argmax(n_dropped)), *spread.tolist()}:
        mine = slice(subgroup_offset[subgroup], subgroup_offset[subgroup + 1])
        few = np.bincount(position[mine])[position[mine]] <= FEW
        unknown = _unknown(mine, is_dropped[mine], counts[mine], few, source)
        found.update(position[mine][unknown].tolist())
    return frozenset(found)


def _unknown(
    mine: slice,
    is_dropped: npt.NDArray[np.bool_],
    counts: npt.NDArray[np.bool_],
    few: npt.NDArray[np.bool_],
    source: Source,
) -> npt.NDArray[np.int64]:
    """The dropped ones of a sub-group's accesses of which bytes are in no access that counts.

    few : accesses whose values may stay in registers all the time
    """
    n_access = len(is_dropped)
    offset = source.granule_offset[mine.start : mine.stop + 1]
    mask = source.byte_mask[offset[0] : offset[-1]]
    access = np.repeat(np.arange(n_access), np.diff(offset))
    _, number = np.unique(source.granule[offset[0] : offset[-1]], return_inverse=True)
    # A key for each granule of each access, by granules, and those of one granule by accesses.
    key = number.reshape(-1) * n_access + access
    known = np.flatnonzero(counts[access])
    known = known[np.argsort(key[known])]
    wanted = np.flatnonzero(is_dropped[access])
    left = mask[wanted].copy()
    at = np.searchsorted(key[known], key[wanted])
    for step in NEIGHBOURS:
        there = np.flatnonzero((at + step >= 0) & (at + step < len(known)))
        one, other = wanted[there], known[at[there] + step]
        near = few[access[one]] | (np.abs(access[one] - access[other]) <= MOST_BETWEEN)
        same = near & (number.reshape(-1)[one] == number.reshape(-1)[other])
        left[there[same]] &= ~mask[other[same]]
    return np.unique(access[wanted[left != 0]])
