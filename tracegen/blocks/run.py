"""Runs one launch of a counting kernel, and of a recording one where sub-groups are counted."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyopencl as cl

from memsim.errors import PathsWarning
from tracegen.blocks.merge import subgroup_events
from tracegen.blocks.model import Cut
from tracegen.devices.buffers import Buffers
from tracegen.recording.device_run import enqueue
from tracegen.recording.launch import DeviceLaunch, check_size
from tracegen.recording.room import Lengths, offsets, recorded, written

BATCH_BYTES = 16 << 20
"""Counts of work-items that a batch may hold."""
TOKEN_BATCH_BYTES = 64 << 20
"""Events of work-items that a batch may hold, where sub-groups are counted."""

Counts = npt.NDArray[np.int64]


class CountingRun:
    """The counting and the recording run of one launch.

    kernels : `counting`, and `recording` where sub-groups are counted
    loopy : whether group ids come from Loopy's macro, so that a launch can run in parts
    """

    def __init__(
        self,
        pool: Buffers,
        launch: DeviceLaunch,
        cut: Cut,
        kernels: Mapping[str, Any],
        loopy: bool,
    ) -> None:
        check_size(launch)
        self.buffers, self.launch, self.cut = pool, launch, cut
        self.kernels, self.loopy = kernels, loopy
        self.queue = launch.queue
        self.per_group = launch.group_items

    def counted(self, subgroup_size: int | None) -> tuple[Counts, Counts | None]:
        n_events, n_groups = self.cut.n_events, self.launch.n_groups
        row = max(n_events, 1) * 4 * self.per_group
        batch = n_groups
        if self.loopy:
            batch = max(min(BATCH_BYTES // row, n_groups), 1)
        saved = self._saved() if subgroup_size is not None else []
        total = np.zeros(n_events, np.int64)
        per_group = np.zeros(n_groups, np.int64)
        offsets = []
        for first in range(0, n_groups, batch):
            n = min(batch, n_groups - first)
            self._enqueue(self.kernels["counting"], first, n, None)
            with self.buffers.mapped(
                self.queue, "counts", n * self.per_group * n_events, np.uint32
            ) as counts:
                table = counts.reshape(n_events, n * self.per_group)
                total += table.sum(axis=1, dtype=np.int64)
                if subgroup_size is not None:
                    lanes = table.sum(axis=0, dtype=np.int64)
                    per_group[first : first + n] = lanes.reshape(n, -1).sum(axis=1)
                    offsets.append(lanes.astype(np.uint32))
        if subgroup_size is None or n_events == 0:
            return total, None if subgroup_size is None else total.copy()
        self._paste(saved)
        items, subgroups = self._subgroups(subgroup_size, np.concatenate(offsets), per_group)
        if not np.array_equal(items, total):
            warnings.warn(
                f"launch {self.launch.index} ({self.launch.name}) took other paths when it was run"
                " again, by a data race or the order of its atomic operations: its counts are one of"
                " many",
                PathsWarning,
                stacklevel=2,
            )
        return items, subgroups

    def _subgroups(self, width: int, lanes: Lengths, per_group: Counts) -> tuple[Counts, Counts]:
        """Records the events of work-items, batch by batch, and merges the lanes.

        lanes : (n_item,) events of each work-item when they were counted

        Returns the events of work-items, and those of sub-groups.
        """
        n_groups, n_events = self.launch.n_groups, self.cut.n_events
        items, subgroups = np.zeros(n_events, np.int64), np.zeros(n_events, np.int64)
        ends = np.cumsum(per_group)
        first = 0
        while first < n_groups:
            last = n_groups
            if self.loopy:
                before = int(ends[first - 1]) if first else 0
                limit = before + TOKEN_BATCH_BYTES // 2
                last = max(int(np.searchsorted(ends, limit, side="right")), first + 1)
            counted = lanes[first * self.per_group : last * self.per_group]
            took, room = self._record(first, last - first, counted)
            n_token = int(room.sum(dtype=np.int64))
            with self.buffers.mapped(self.queue, "tokens", n_token + 1, np.uint16) as tokens:
                own = written(tokens[:n_token], took, room)
                items += np.bincount(own, minlength=n_events)
                subgroups += subgroup_events(own, offsets(took), self.per_group, width, n_events)
            first = last
        return items, subgroups

    def _record(self, first: int, n: int, room: Lengths) -> tuple[Lengths, Lengths]:
        """Records the events of groups, with more room and once more where it was too small.

        room : (n_item,) events that each work-item may write

        Returns how many each wrote, and the room that it had.
        """
        before = self._saved("before")

        def run(room: Lengths) -> Lengths:
            offset = offsets(room)
            self.buffers.get("tokens", (int(offset[-1]) + 1) * 2)
            self._enqueue(self.kernels["recording"], first, n, offset)
            with self.buffers.mapped(self.queue, "counts", len(room), np.uint32) as counts:
                took: Lengths = counts.copy()
            return took

        return recorded(self.launch, run, lambda: self._paste(before), room)

    def _enqueue(self, kernel: Any, first: int, n: int, offset: Counts | None) -> None:
        launch = self.launch
        n_items = n * self.per_group
        grid = (*launch.grid, 1, 1)
        further = [
            self.buffers.get("counts", max(n_items * self.cut.n_events, 1) * 4),
            self.buffers.get("tokens", 64),
            self.buffers.put(
                self.queue, "offsets", np.zeros(1, np.int64) if offset is None else offset
            ),
            np.uint32(n_items),
            np.uint32(first),
            np.uint32(grid[0]),
            np.uint32(grid[1]),
        ]
        shape = launch.group_shape or (1,)
        if self.loopy:
            items: tuple[int, ...] = (n * shape[0], *shape[1:])
        else:
            items = tuple(a * b for a, b in zip(launch.grid, shape, strict=True))
        enqueue(launch, kernel, further, items)

    def _saved(self, name: str = "saved") -> list[tuple[Any, Any]]:
        """Copies of the buffers whose content before the launch a second run needs."""
        saved = []
        for k, buffer in enumerate(self.launch.written_and_read()):
            copy = self.buffers.get(f"{name} {k}", buffer.size)
            cl.enqueue_copy(self.queue, copy, buffer, byte_count=buffer.size)
            saved.append((buffer, copy))
        return saved

    def _paste(self, saved: list[tuple[Any, Any]]) -> None:
        for buffer, copy in saved:
            cl.enqueue_copy(self.queue, buffer, copy, byte_count=buffer.size)
