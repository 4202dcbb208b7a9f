"""Columns of what is recorded: in memory that later runs use again, or in files, and longer ones where they are full."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from memsim.compile import compiled
from tracegen.execution.state import N_STAGED, Counter, Recording, Size, Stage, State

FIRST_ACCESSES, FIRST_GRANULES, FIRST_ROWS = 1 << 20, 1 << 22, 1 << 12
"""Of buffers that are not touched before they are written, so that memory is taken page by page."""
KEPT_BYTES = 1 << 28
_LARGEST_COLUMNS = 4
"""All columns together are at most as large as so many of the largest, one of them while it is moved."""
OF_ACCESSES: dict[str, Any] = {
    "access": np.int32, "waits": np.int32, "lanes": np.uint8, "granule_end": np.int64, "work": np.int32,
}  # fmt: skip
OF_GRANULES: dict[str, Any] = {
    "granule": np.int64, "byte_mask": np.uint32, "lane_groups": np.uint8, "lane_hits": np.uint8,
}  # fmt: skip
_TELLING_GROUPS, _RESERVE = 2, 1.05
"""Groups from which on what all will need is told beforehand, and how much more than that is taken."""
_ALIKE = {
    "access": tuple(OF_ACCESSES),
    "order": ("order", "rows"),
    "granule": tuple(OF_GRANULES),
    "row_end": ("row_end",),
    "row_segment": ("row_segment", "row_count"),
}
"""Columns that grow together."""


def staging() -> Stage:
    n = 1 << 10
    of_granules = {name: np.empty(16 * n, kind) for name, kind in OF_GRANULES.items()}
    return Stage(np.empty(N_STAGED * n, np.int64), np.empty(n, np.int32), **of_granules)


def recording(n_subgroup: int, record: bool, memory_bytes: int) -> Recording:
    """Columns, without those of windows."""
    n_access, n_granule = (FIRST_ACCESSES, FIRST_GRANULES) if record else (16, 1024)
    return Recording(
        **{name: _room(n_access, kind, memory_bytes) for name, kind in OF_ACCESSES.items()},
        **{name: _room(n_granule, kind, memory_bytes) for name, kind in OF_GRANULES.items()},
        row_end=np.zeros(FIRST_ROWS, np.int64),
        row_segment=np.zeros(1 << 14, np.int32),
        row_count=np.zeros(1 << 14, np.int32),
        subgroup_accesses=np.zeros(n_subgroup, np.int64),
        tail=np.zeros(n_subgroup, np.int32),
        progress=np.zeros(n_subgroup, np.int64),
        runs=np.zeros(0, np.int64),
        windows=np.zeros((0, 2), np.int64),
        like=np.zeros(0, np.int64),
    )


def _room(length: int, dtype: Any, memory_bytes: int) -> npt.NDArray[Any]:
    """An empty column: in memory, or, where the columns together would need more, in a file that ends with it."""
    size = length * np.dtype(dtype).itemsize
    if _LARGEST_COLUMNS * size <= memory_bytes:
        return _block(size)[:size].view(dtype)
    # A map stays valid when its file is closed.
    with tempfile.TemporaryFile(prefix="memsim-trace-") as file:
        os.ftruncate(file.fileno(), size)
        return np.asarray(np.memmap(file, dtype, "r+", shape=(length,)))


_blocks: list[npt.NDArray[np.uint8]] = []
"""Memory of columns, which later runs use again: to get a page from the system takes as long as to fill it six times."""
_lock = threading.Lock()
_UNUSED = 3
"""References to a block that no array uses: the list's, the loop's and the question's."""


def _block(size: int) -> npt.NDArray[np.uint8]:
    """At least so many bytes that no array uses; at most KEPT_BYTES of them are kept when nobody uses them any more."""
    with _lock:
        free = [block for block in _blocks if sys.getrefcount(block) == _UNUSED]
        fitting = [block for block in free if size <= len(block) <= 4 * size]
        if fitting:
            return min(fitting, key=len)
        while free and sum(map(len, _blocks)) + size > KEPT_BYTES:
            dropped = free.pop(0)
            _blocks[:] = [block for block in _blocks if block is not dropped]
        block = np.empty(size, np.uint8)
        if sum(map(len, _blocks)) + size <= KEPT_BYTES:
            _blocks.append(block)
        return block


def grown(state: State, memory_bytes: int) -> State:
    """The state with larger buffers, where they are half full: for all groups if these are like those that have run, and four
    times as long at least; in files beyond memory_bytes."""
    counters = state.counters
    position = int(counters[Counter.POSITION])
    of_all = 1 if position < _TELLING_GROUPS else _RESERVE * len(state.groups) / position
    staged, granules = int(counters[Counter.STAGED]), int(counters[Counter.STAGED_GRANULES])
    done, done_granules = int(counters[Counter.N_ACCESS]), int(counters[Counter.N_GRANULE])
    more = int(counters[Counter.GROUP_GRANULES]) + 4
    ends = 2 * int(state.sizes[Size.ENDS])
    stage = _longer(
        state.stage,
        memory_bytes,
        order=(staged, staged + int(state.sizes[Size.ACCESSES])),
        granule=(granules, granules + 2 * int(state.sizes[Size.ROOM])),
    )
    out = _longer(
        state.out,
        memory_bytes,
        access=(done, done + staged, int(of_all * done)),
        granule=(done_granules, done_granules + more, int(of_all * done_granules)),
        row_end=(int(counters[Counter.N_ROW]), 0),
        row_segment=(int(counters[Counter.N_ROW_ENTRY]), 2 * ends * len(state.segment_count)),
    )
    state = state._replace(stage=stage, out=out)
    if 2 * len(out.row_end) > len(state.row_keys):
        n = 2 * len(out.row_end)
        keys, values = np.zeros(n, np.int64), np.zeros(n, np.int32)
        _rehash(state.row_keys, state.row_values, keys, values)
        state = state._replace(row_keys=keys, row_values=values)
    return state


def _longer(columns: Any, memory_bytes: int, **filled: tuple[int, ...]) -> Any:
    """Columns with room. filled : by the first of columns that grow together, what is used, what must fit at least, and what
    will be needed, if that is known"""
    changed = {}
    for first, (used, least, *expected) in filled.items():
        length = len(getattr(columns, first))
        if 2 * used < length and 2 * least < length:
            continue
        for name in _ALIKE[first]:
            if hasattr(columns, name):
                column = getattr(columns, name)
                each = len(column) // length
                room = _room(
                    each * max(4 * length, 4 * least, *expected), column.dtype, memory_bytes
                )
                room[: each * used] = column[: each * used]
                changed[name] = room
    return columns._replace(**changed)


@compiled
def _rehash(old_keys, old_values, keys, values):  # type: ignore[no-untyped-def]
    for k in range(len(old_keys)):
        if old_keys[k] != 0:
            slot = np.int64(np.uint64(old_keys[k]) >> np.uint64(40)) & len(keys) - 1
            while keys[slot] != 0:
                slot = slot + 1 & len(keys) - 1
            keys[slot], values[slot] = old_keys[k], old_values[k]
