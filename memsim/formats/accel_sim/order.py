"""Sub-groups in order: a Trace has them by group, other tools write them in any order."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

from memsim.trace.columns import ACCESS, GRANULE, Columns, GrowingColumns

_PIECE = 1 << 16
"""Accesses that are moved together."""


def in_order(
    columns: dict[str, Any], key: npt.NDArray[np.int64], memory_bytes: int
) -> tuple[dict[str, Any], npt.NDArray[np.int64]]:
    """(columns of a Trace by ascending key, the keys); the same arrays where they ascend already.

    key : (n_subgroup,);  memory_bytes : as of GrowingColumns
    """
    if not np.any(key[1:] < key[:-1]):
        return columns, key
    order = np.argsort(key, kind="stable")
    keep_hits = "lane_hits" in columns
    moved = GrowingColumns(memory_bytes=memory_bytes, keep_hits=keep_hits)
    start, granule_offset = columns["subgroup_offset"], columns["granule_offset"]
    lengths = (start[1:] - start[:-1])[order]
    pieces = np.searchsorted(np.cumsum(lengths), np.arange(_PIECE, lengths.sum() + 1, _PIECE))
    bounds = np.unique(np.concatenate([[0], pieces + 1, [len(order)]]))
    for low, high in itertools.pairwise(bounds.tolist()):
        access = _ranges(start[order[low:high]], lengths[low:high])
        n_granule = granule_offset[access + 1] - granule_offset[access]
        granule = _ranges(granule_offset[access], n_granule)
        values = {name: columns[name][access] for name in ACCESS}
        values |= {name: columns[name][granule] for name in GRANULE if name in columns}
        values.setdefault("lane_hits", np.empty(0, np.uint8))
        batch = Columns(
            subgroup_accesses=lengths[low:high], granule_end=np.cumsum(n_granule), **values
        )
        moved.append(batch, high - low, len(access), len(granule))
    return moved.finish(), key[order]


def _ranges(start: npt.NDArray[Any], length: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The numbers start[i] .. start[i] + length[i] - 1, one range after the other."""
    end = np.cumsum(length)
    shift = np.repeat(start - (end - length), length)
    numbers: npt.NDArray[np.int64] = np.arange(int(end[-1]) if len(end) else 0, dtype=np.int64)
    return np.asarray(numbers + shift, np.int64)
