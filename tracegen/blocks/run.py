"""Runs one launch of a counting kernel, and of a recording one where sub-groups are counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyopencl as cl

from memsim.errors import KernelError
from tracegen.blocks.merge import subgroup_events
from tracegen.blocks.model import Cut
from tracegen.devices.buffers import Buffers
from tracegen.instrumented.launch import BoundLaunch

BATCH_BYTES = 16 << 20
"""Of work-items' numbers at a time."""
TOKEN_BATCH_BYTES = 64 << 20
"""Of work-items' events at a time, where sub-groups are counted."""

Counts = npt.NDArray[np.int64]


class LaunchRun:
    """Both runs of one launch.

    kernels : `counting`, and `recording` where sub-groups are counted
    loopy : group ids come from a macro, so that a launch can be run in parts
    """

    def __init__(
        self,
        held: Buffers,
        launch: BoundLaunch,
        cut: Cut,
        kernels: Mapping[str, Any],
        loopy: bool,
    ) -> None:
        self.held, self.launch, self.cut = held, launch, cut
        self.kernels, self.loopy = kernels, loopy
        self.queue = launch.queue
        self.per_group = launch.group_items
        self.set_own, self.n_own = self._own_arguments()
        self.scalars = self._scalars()

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
            with self.held.mapped(
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
        for buffer, copy in saved:
            cl.enqueue_copy(self.queue, buffer, copy, byte_count=buffer.size)
        return total, self._subgroups(subgroup_size, np.concatenate(offsets), per_group, total)

    def _subgroups(
        self, width: int, lanes: npt.NDArray[np.uint32], per_group: Counts, items: Counts
    ) -> Counts:
        """Records each work-item's events, batch by batch, and lines lanes up."""
        n_groups, found = self.launch.n_groups, np.zeros(self.cut.n_events, np.int64)
        ends = np.cumsum(per_group)
        first = 0
        while first < n_groups:
            last = n_groups
            if self.loopy:
                before = int(ends[first - 1]) if first else 0
                limit = before + TOKEN_BATCH_BYTES // 2
                last = max(int(np.searchsorted(ends, limit, side="right")), first + 1)
            own = lanes[first * self.per_group : last * self.per_group]
            offset = np.zeros(len(own) + 1, np.int64)
            np.cumsum(own, out=offset[1:])
            n_token = int(offset[-1])
            self.held.get("tokens", (n_token + 1) * 2)
            self._enqueue(self.kernels["recording"], first, last - first, offset)
            with self.held.mapped(self.queue, "tokens", n_token + 1, np.uint16) as tokens:
                seen = np.bincount(tokens[:n_token], minlength=self.cut.n_events)
                items = items - seen
                found += subgroup_events(
                    tokens[:n_token], offset, self.per_group, width, self.cut.n_events
                )
            first = last
        if items.any():
            raise KernelError(
                f"launch {self.launch.index} ({self.launch.name}) took other paths when it was run"
                " again: it has a data race"
            )
        return found

    def _enqueue(self, kernel: Any, first: int, n: int, offset: Counts | None) -> None:
        launch = self.launch
        n_items = n * self.per_group
        self.set_own(kernel)
        grid = (*launch.grid, 1, 1)
        extra = [
            self.held.get("counts", max(n_items * self.cut.n_events, 1) * 4),
            self.held.get("tokens", 64),
            self.held.put(
                self.queue, "offsets", np.zeros(1, np.int64) if offset is None else offset
            ),
            np.uint32(n_items),
            np.uint32(first),
            np.uint32(grid[0]),
            np.uint32(grid[1]),
        ]
        for position, value in enumerate(extra):
            kernel.set_arg(self.n_own + position, value)
        shape = launch.group_shape or (1,)
        if self.loopy:
            items: tuple[int, ...] = (n * shape[0], *shape[1:])
        else:
            items = tuple(a * b for a, b in zip(launch.grid, shape, strict=True))
        try:
            cl.enqueue_nd_range_kernel(self.queue, kernel, items, shape)
        except cl.Error as error:
            raise KernelError(
                f"kernel {launch.name} cannot be run: {' '.join(str(error).split())}"
            ) from error

    def _own_arguments(self) -> tuple[Callable[[Any], None], int]:
        """What sets the kernel's own arguments, and how many they are."""
        if not self.loopy:
            values = self.launch._own()  # type: ignore[attr-defined]

            def set_values(kernel: Any) -> None:
                for position, value in enumerate(values):
                    kernel.set_arg(position, value)

            return set_values, len(values)
        proxy = self.launch.proxy
        dummy = self.held.get("dummy", 64)

        def set_proxied(kernel: Any) -> None:
            for index, (kind, value) in proxy.arguments.items():
                if kind == "object":
                    kernel._set_arg_multi((index, dummy if value is None else value))
                elif kind == "bytes":
                    kernel._set_arg_buf_multi((index, value))
                else:
                    kernel._set_arg_buf_pack_multi((index, *value))

        return set_proxied, proxy.num_args

    def _scalars(self) -> dict[str, int]:
        """The host's loop counters, which a kernel takes beside its own arguments."""
        if not self.loopy:
            return {}
        proxy = self.launch.proxy
        loops = set(proxy.info.passed_inames)
        found = {}
        for index, name in enumerate(proxy.info.passed_names):
            if name in loops:
                kind, value = proxy.arguments[index]
                number = value[1] if kind == "pack" else value
                if isinstance(number, (bytes, bytearray, memoryview, np.ndarray)):
                    number = np.frombuffer(number, np.int32)[0]
                found[name] = int(number)
        return found

    def _saved(self) -> list[tuple[Any, Any]]:
        """Copies of the buffers whose old content a second run needs."""
        saved = []
        for k, buffer in enumerate(self.launch.written_and_read()):
            copy = self.held.get(f"saved {k}", buffer.size)
            cl.enqueue_copy(self.queue, copy, buffer, byte_count=buffer.size)
            saved.append((buffer, copy))
        return saved
