"""A launch that runs on an OpenCL device with probes: once to count tokens, once to record them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyopencl as cl

from memsim.errors import KernelError, one_line
from memsim.trace import GrowingColumns
from tracegen.devices.buffers import Buffers, buffers
from tracegen.instrumented.launch import LoopyLaunch
from tracegen.instrumented.merge import merge
from tracegen.instrumented.source_run import GRANULE_ROW_BYTES, SourceRun
from tracegen.instrumented.tokens import FAULT_WORDS
from tracegen.recording.snapshot import Groups

WHOLE_ITEMS = 1 << 26
"""Work-items that are run at a time where nothing is recorded."""
MOST_TRIES = 8
"""How often work-items whose paths differ from run to run are given more room."""

Lengths = npt.NDArray[np.uint32]


class Batch(NamedTuple):
    """Tokens of groups that were recorded at once.

    tokens : of all work-items, and one of any value;  offset : (n_item + 1,) where the room of each begins
    took : (n_item,) how many there are
    """

    groups: Groups
    tokens: npt.NDArray[Any]
    offset: npt.NDArray[np.int64]
    took: Lengths


class DeviceRun(SourceRun):
    """The runs of one launch. took_others : whether a run took other paths than the one before it"""

    tracer = "instrumented run"
    libraries = ("loopy", "pyopencl", "numba", "numpy")

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.buffers: Buffers = buffers(self.prepared.context)
        self.queue = self.launch.queue
        self.saved: list[tuple[Any, Any]] | None = None
        self.changed = self.ran_all = self.took_others = False

    @property
    def chance(self) -> str:
        if not self.took_others:
            return ""
        # Atomic operations on local memory have no probes.
        in_local = self.launch.local_memory_bytes > 0 and "atomic" in self.source
        if self.keep_hits or in_local:
            why = "they depend on the order of its atomic operations"
        else:
            why = "it has a data race"
        name = f"launch {self.launch.index} ({self.launch.name})"
        return f"{name} took other paths when it was run again: {why}"

    def device(self) -> Mapping[str, Any]:
        device = self.prepared.context.devices[0]
        return {
            "platform": device.platform.name.strip(),
            "platform_version": device.platform.version.strip(),
            "device": device.name.strip(),
        }

    def whole(self) -> None:
        n_groups = self.launch.n_groups
        step = max(WHOLE_ITEMS // max(self.launch.group_items, 1), 1)
        for first in range(0, n_groups, step):
            self._run(np.arange(first, min(first + step, n_groups), dtype=np.int64))
        self.ran_all = True

    def complete(self) -> None:
        if not self.ran_all:
            self._from_start()
            self.whole()

    def columns(self, groups: Groups) -> dict[str, Any]:
        columns = GrowingColumns(
            memory_bytes=self.options.memory_bytes // 2, keep_hits=self.keep_hits
        )
        for _, tokens, offset, took in self.recorded(groups):
            merged = merge(
                tokens, offset, took, self.launch.group_items, self.subgroup_size,
                self.layout.encoding.position_shift, self.options.reduced, self.layout.tables,
            )  # fmt: skip
            columns.append(*merged)
        return columns.finish()

    def recorded(self, groups: Groups) -> Iterator[Batch]:
        """The tokens of groups as if no other had run before them; each batch is valid until the next."""
        self._from_start()
        counts = self._run(groups).reshape(len(groups), -1)
        self._from_start()
        ends = np.cumsum(counts.sum(axis=1, dtype=np.int64))
        token_bytes = self.layout.encoding.bytes
        token_bytes += GRANULE_ROW_BYTES * self.layout.tables.most_granules
        limit = max(self.options.memory_bytes // 4 // token_bytes, 1)
        first = 0
        while first < len(groups):
            before = int(ends[first - 1]) if first else 0
            last = max(int(np.searchsorted(ends, before + limit, side="right")), first + 1)
            yield from self._batch(groups[first:last], counts[first:last].reshape(-1))
            first = last
        self.ran_all = len(groups) == self.launch.n_groups

    def _batch(self, groups: Groups, counts: Lengths) -> Iterator[Batch]:
        """Work-items that take other paths than when they were counted are recorded once more, with more room."""
        saved = self.saved if self.saved is not None and not self.changed else None
        before, launch, room = saved or self._copies("before"), self.launch, counts
        for _ in range(MOST_TRIES):
            took = self._run(groups, room)
            if (took <= room).all():
                break
            self._paste(before)
            most = np.maximum(took, room).astype(np.int64)
            room = np.minimum(most + most // 4 + 16, np.iinfo(np.uint32).max).astype(np.uint32)
        else:
            raise KernelError(
                f"launch {launch.index} ({launch.name}) took longer paths each of the {MOST_TRIES} times that"
                " it was run: it has a data race"
            )
        self.took_others |= not np.array_equal(took, counts)
        offset, dtype = _offsets(room), self.layout.encoding.dtype
        with self.buffers.mapped(self.queue, "tokens", int(offset[-1]) + 1, dtype) as tokens:
            yield Batch(groups, tokens, offset, took)

    def _run(self, groups: Groups, room: Lengths | None = None) -> Lengths:
        """Runs groups, whose work-items write as many tokens as they have room for, or none.

        Returns how many tokens each work-item has.
        """
        self.changed = True
        n_item = len(groups) * self.launch.group_items
        if n_item == 0:
            return np.zeros(0, np.uint32)
        pool, queue, launch = self.buffers, self.queue, self.launch
        encoding = None if room is None else self.layout.encoding
        offset = _offsets(np.zeros(1) if room is None else room)
        token_bytes = 0 if encoding is None else encoding.bytes
        further = [
            pool.get("tokens", (int(offset[-1]) + 1) * token_bytes),
            pool.put(queue, "offsets", offset),
            pool.get("counts", n_item * 4),
            pool.put(queue, "groups", groups.astype(np.uint32)),
            pool.put(queue, "fault", np.zeros(FAULT_WORDS, np.int64)),
        ]
        shape = launch.group_shape or (1,)
        items = (len(groups) * shape[0], *shape[1:])
        _enqueue(launch, launch.kernel_for(encoding), launch.probe_arguments(further), items)
        with pool.mapped(queue, "fault", FAULT_WORDS, np.int64) as fault:
            if fault[0]:
                raise launch.fault_of(fault, int(groups[fault[5]]))
        with pool.mapped(queue, "counts", n_item, np.uint32) as counts:
            copied: Lengths = counts.copy()
        return copied

    def _from_start(self) -> None:
        """Gives the memory the content from before the launch.

        Runs leave what they changed, so whatever must not see it calls this first: the last run restores
        nothing, and the content is copied once.
        """
        if self.saved is None:
            self.saved = self._copies("saved")
        elif self.changed:
            self._paste(self.saved)
        self.changed = self.ran_all = False

    def _copies(self, name: str) -> list[tuple[Any, Any]]:
        """Copies of the memory whose content the launch changes and reads."""
        copies = []
        for k, buffer in enumerate(self.launch.written_and_read()):
            copy = self.buffers.get(f"{name} {k}", buffer.size)
            cl.enqueue_copy(self.queue, copy, buffer, byte_count=buffer.size)
            copies.append((buffer, copy))
        return copies

    def _paste(self, copies: list[tuple[Any, Any]]) -> None:
        for buffer, copy in copies:
            cl.enqueue_copy(self.queue, buffer, copy, byte_count=buffer.size)


def _offsets(lengths: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """(n + 1,) where each of n rows begins that lie one after another, and where the last ends."""
    offset = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offset[1:])
    return offset


def _enqueue(
    launch: LoopyLaunch, kernel: Any, further: Sequence[Any], global_size: tuple[int, ...]
) -> None:
    """Enqueues a kernel with the launch's arguments and further ones behind them."""
    try:
        n_own = launch.set_arguments(kernel)
        for position, value in enumerate(further, n_own):
            kernel.set_arg(position, value)
        shape = launch.group_shape or (1,)
        cl.enqueue_nd_range_kernel(launch.queue, kernel, global_size, shape)
    except cl.Error as error:
        raise KernelError(f"kernel {launch.name} cannot be run: {one_line(error)}") from error
