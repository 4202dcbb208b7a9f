"""The columns of a growing trace, in memory and in files beyond a limit, and in the order of their groups."""

from __future__ import annotations

import itertools
import os
import tempfile
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

ACCESS = ("site", "starts_sequence", "waits", "lanes")
GRANULE = ("granule", "byte_mask", "lane_groups", "lane_hits")


class Columns(NamedTuple):
    """Buffers for the columns of a trace; granule_end is the end of each access' granules."""

    subgroup_accesses: npt.NDArray[np.int64]
    site: npt.NDArray[np.int32]
    starts_sequence: npt.NDArray[np.bool_]
    waits: npt.NDArray[np.int32]
    lanes: npt.NDArray[np.uint8]
    granule_end: npt.NDArray[np.int64]
    granule: npt.NDArray[np.int64]
    byte_mask: npt.NDArray[np.uint32]
    lane_groups: npt.NDArray[np.uint8]
    lane_hits: npt.NDArray[np.uint8]


def room(n_subgroup: int, n_access: int, n_granule: int) -> Columns:
    """Buffers of the given lengths; memory is committed page by page when it is written."""
    return Columns(
        np.empty(n_subgroup, np.int64),
        np.empty(n_access, np.int32),
        np.empty(n_access, np.bool_),
        np.empty(n_access, np.int32),
        np.empty(n_access, np.uint8),
        np.empty(n_access, np.int64),
        np.empty(n_granule, np.int64),
        np.empty(n_granule, np.uint32),
        np.empty(n_granule, np.uint8),
        np.empty(n_granule, np.uint8),
    )


class GrowingColumns:
    """Collects batches of merged sub-groups; `finish` returns the arrays of a Trace.

    memory_bytes : beyond this size, the collected data are moved to an unnamed file for each column,
        and the finished columns are memory maps of these. A file is deleted with its last map
    """

    def __init__(self, *, memory_bytes: int, keep_hits: bool) -> None:
        self.memory_bytes = memory_bytes
        names = [*ACCESS, "granule_end", *GRANULE, "subgroup_accesses"]
        self.names = [name for name in names if keep_hits or name != "lane_hits"]
        self.pieces: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in self.names}
        self.pieces["granule_end"].append(np.zeros(1, np.int64))
        self.files: dict[str, Any] = {}
        self.dtypes: dict[str, Any] = {}
        self.collected_bytes = 0
        self.n_granule = 0

    def append(self, batch: Columns, n_subgroup: int, n_access: int, n_granule: int) -> None:
        """Append a copy of the filled part of a batch."""
        lengths = dict.fromkeys(ACCESS, n_access) | dict.fromkeys(GRANULE, n_granule)
        lengths |= {"granule_end": n_access, "subgroup_accesses": n_subgroup}
        for name in self.names:
            piece = getattr(batch, name)[: lengths[name]].copy()
            if name == "granule_end":
                piece += self.n_granule
            self.dtypes[name] = piece.dtype
            self.pieces[name].append(piece)
            self.collected_bytes += piece.nbytes
        self.n_granule += n_granule
        if self.collected_bytes > self.memory_bytes:
            self._spill()

    def finish(self) -> dict[str, Any]:
        """Column name of a Trace -> array."""
        columns = {name: self._column(name) for name in self.names}
        columns["subgroup_offset"] = _offsets(columns.pop("subgroup_accesses"))
        columns["granule_offset"] = columns.pop("granule_end")
        return columns

    def _column(self, name: str) -> npt.NDArray[Any]:
        pieces = self.pieces.pop(name)
        if name not in self.files:
            return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        file = self.files[name]
        for piece in pieces:
            piece.tofile(file)
        file.flush()
        # A map stays valid when its file is closed.
        with self.files.pop(name):
            if os.fstat(file.fileno()).st_size == 0:
                return np.empty(0, self.dtypes[name])
            return np.memmap(file, dtype=self.dtypes[name], mode="r")

    def close(self) -> None:
        """Discard everything that was collected."""
        for file in self.files.values():
            file.close()
        self.files.clear()
        self.pieces.clear()

    def _spill(self) -> None:
        for name, pieces in self.pieces.items():
            if name not in self.files:
                # Deleted when it is closed and has no memory map.
                self.files[name] = tempfile.TemporaryFile(prefix="memsim-trace-")  # noqa: SIM115
            for piece in pieces:
                piece.tofile(self.files[name])
            pieces.clear()
        self.collected_bytes = 0


def _offsets(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    offset = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offset[1:])
    return offset


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
