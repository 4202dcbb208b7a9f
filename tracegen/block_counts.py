"""Counts how often each basic block of a workload runs, by running a copy that counts.

Per work-item and per sub-group, as hardware issues a block for all lanes that are in it. Memory is bounded:
groups are counted in batches, whose numbers are added up.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyopencl as cl

from memsim.errors import KernelError
from tracegen.block_counts_merge import subgroup_events
from tracegen.block_counts_probe import counting_source
from tracegen.block_counts_text import EVERYONE, Access, Block, Cut, cut_text, local_accesses
from tracegen.buffers import Buffers, buffers
from tracegen.host import Prepared, prepare
from tracegen.launch import BoundLaunch
from tracegen.mark_table import MarkTable
from tracegen.opencl_c.workload import OpenCLWorkload
from tracegen.record import AnyWorkload, chosen_context
from tracegen.workload import Workload

BATCH_BYTES = 16 << 20
"""Of work-items' numbers at a time."""
TOKEN_BATCH_BYTES = 64 << 20
"""Of work-items' events at a time, where sub-groups are counted."""
MOST_EVENTS = 1 << 16

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class LaunchCounts:
    """One launch.

    settings : values of its integer arguments, the host's loops among them
    by_items, by_subgroups : (n_block,) int64 over all blocks of the workload, 0 for other kernels';
        by_subgroups is None where they were not counted
    """

    index: int
    kernel: str
    settings: Mapping[str, int]
    n_items: int
    by_items: Counts
    by_subgroups: Counts | None


@dataclass(frozen=True)
class BlockCounts:
    """What `count_blocks` finds; totals are over launches.

    launches : each of them, in order
    """

    blocks: tuple[Block, ...]
    launches: tuple[LaunchCounts, ...]
    subgroup_size: int | None

    @property
    def by_items(self) -> Counts:
        return _sum(len(self.blocks), [launch.by_items for launch in self.launches])

    @property
    def by_subgroups(self) -> Counts:
        found = [each.by_subgroups for each in self.launches if each.by_subgroups is not None]
        if len(found) < len(self.launches):
            raise KernelError("sub-groups were not counted: give subgroup_size")
        return _sum(len(self.blocks), found)


class BlockCounter:
    """A workload's kernels with counters, built once for any number of sizes.

    text : what was cut into blocks; blocks : of all kernels, numbered through
    """

    def __init__(self, workload: AnyWorkload, context: Any = None) -> None:
        self.context = chosen_context(context)
        self.loopy = isinstance(workload, Workload)
        self.prepared: Prepared = self._prepared(workload)
        self.table: MarkTable | None = None
        if isinstance(workload, Workload):
            self.text = self.prepared.executor.result.device_code()
            self.table = self.prepared.instrumented.table
            options = self.prepared.kernel.options.build_options
            self.options = [options] if isinstance(options, str) else list(options)
        else:
            self.text = self.prepared.instrumented.plain
            self.options = list(self.prepared.launch.builds.options)  # type: ignore[attr-defined]
        self.cuts = {cut.function.name: cut for cut in self._cut()}
        self.blocks = tuple(block for cut in self.cuts.values() for block in cut.blocks)
        source = counting_source(self.text, list(self.cuts.values()), by_batches=self.loopy)
        self.counting = self._built(source, [])
        self.source = source
        self._recording: Any = None
        self.held: Buffers = buffers(self.context)

    @property
    def recording(self) -> Any:
        if self._recording is None:
            self._recording = self._built(self.source, ["-DBC_RECORD"])
        return self._recording

    def accesses(self, block: Block) -> tuple[Access, ...]:
        """The static accesses to arrays in a block; of OpenCL C none are known."""
        if self.table is None:
            return ()
        found = [
            Access("global", mark.kind, mark.array)  # type: ignore[arg-type]
            for mark in (self.table.marks[number] for number in block.accesses)
        ]
        return (*found, *local_accesses(self.text, self.cuts[block.launch], block))

    def instructions(self, block: Block) -> tuple[str, ...]:
        """Ids of the Loopy instructions in a block."""
        if self.table is None:
            return ()
        return tuple(self.table.instructions[number] for number in block.marks)

    def count(
        self, workload: AnyWorkload | None = None, subgroup_size: int | None = None
    ) -> tuple[BlockCounts, dict[str, Any]]:
        """Counts of a workload of the same kernel, and the outputs that it computed.

        workload : the one that the counter was made of, where None
        subgroup_size : counts sub-groups of so many lanes too, by a second run
        """
        if subgroup_size is not None and not 1 <= subgroup_size <= 1024:
            raise KernelError(f"subgroup_size must be 1 to 1024, got {subgroup_size}")
        prepared = self._with(workload)
        found: list[LaunchCounts] = []

        def observer(launch: BoundLaunch) -> None:
            found.append(self._launch(launch, subgroup_size))

        outputs = prepared.run(observer)
        return BlockCounts(self.blocks, tuple(found), subgroup_size), outputs

    def _with(self, workload: AnyWorkload | None) -> Prepared:
        if workload is None:
            return self.prepared
        if self.loopy:
            assert isinstance(workload, Workload)
            return dataclasses.replace(self.prepared, workload=workload)
        return self._prepared(workload)

    def _prepared(self, workload: AnyWorkload) -> Prepared:
        if isinstance(workload, OpenCLWorkload):
            from tracegen.opencl_c import run

            return run.prepare(workload, self.context)
        return prepare(workload, self.context)

    def _cut(self) -> list[Cut]:
        cuts = cut_text(self.text, None if self.loopy else self.prepared.kernel.name)
        for cut in cuts:
            if cut.n_events >= MOST_EVENTS:
                raise KernelError(
                    f"kernel {cut.function.name} has {cut.n_events} branches and loops; at most"
                    f" {MOST_EVENTS} can be counted"
                )
        return cuts

    def _built(self, source: str, options: list[str]) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                program = cl.Program(self.context, source).build(options=[*self.options, *options])
                return {name: cl.Kernel(program, name) for name in self.cuts}
        except cl.Error as error:
            text = " ".join(str(error).split())
            raise KernelError(f"counting kernels do not build: {text}") from error

    def _launch(self, launch: BoundLaunch, subgroup_size: int | None) -> LaunchCounts:
        cut = self.cuts[launch.name]
        run = _Run(self, launch, cut)
        items, subgroups = run.counted(subgroup_size)
        n_items = launch.n_groups * launch.group_items
        n_subgroups = launch.n_groups * -(-launch.group_items // (subgroup_size or 1))
        by_items = self._by_block(cut, items, n_items)
        by_subgroups = None
        if subgroups is not None:
            by_subgroups = self._by_block(cut, subgroups, n_subgroups)
        settings = launch.values if self.loopy else {}
        return LaunchCounts(
            launch.index, launch.name, settings | run.scalars, n_items, by_items, by_subgroups
        )

    def _by_block(self, cut: Cut, events: Counts, everyone: int) -> Counts:
        counts = np.zeros(len(self.blocks), np.int64)
        for block in cut.blocks:
            counts[block.number] = sum(
                everyone if event == EVERYONE else int(events[event]) for event in block.events
            )
        return counts


class _Run:
    """Both runs of one launch."""

    def __init__(self, counter: BlockCounter, launch: BoundLaunch, cut: Cut) -> None:
        self.counter, self.launch, self.cut = counter, launch, cut
        self.held, self.queue = counter.held, launch.queue
        self.per_group = launch.group_items
        self.set_own, self.n_own = self._own_arguments()
        self.scalars = self._scalars()

    def counted(self, subgroup_size: int | None) -> tuple[Counts, Counts | None]:
        n_events, n_groups = self.cut.n_events, self.launch.n_groups
        row = max(n_events, 1) * 4 * self.per_group
        batch = n_groups
        if self.counter.loopy:
            batch = max(min(BATCH_BYTES // row, n_groups), 1)
        saved = self._saved() if subgroup_size is not None else []
        total = np.zeros(n_events, np.int64)
        per_group = np.zeros(n_groups, np.int64)
        offsets = []
        for first in range(0, n_groups, batch):
            n = min(batch, n_groups - first)
            self._enqueue(self.counter.counting, first, n, None)
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
            if self.counter.loopy:
                before = int(ends[first - 1]) if first else 0
                limit = before + TOKEN_BATCH_BYTES // 2
                last = max(int(np.searchsorted(ends, limit, side="right")), first + 1)
            own = lanes[first * self.per_group : last * self.per_group]
            offset = np.zeros(len(own) + 1, np.int64)
            np.cumsum(own, out=offset[1:])
            n_token = int(offset[-1])
            self.held.get("tokens", (n_token + 1) * 2)
            self._enqueue(self.counter.recording, first, last - first, offset)
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

    def _enqueue(self, kernels: Any, first: int, n: int, offset: Counts | None) -> None:
        kernel, launch = kernels[self.launch.name], self.launch
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
        if self.counter.loopy:
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
        if not self.counter.loopy:
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
        if not self.counter.loopy:
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


def count_blocks(
    workload: AnyWorkload, subgroup_size: int | None = 32, context: Any = None
) -> BlockCounts:
    """How often each basic block of a workload runs.

    subgroup_size : lanes of a sub-group; None counts work-items only, which takes one run
    Raises KernelError where the kernel does not build or cannot be cut into blocks.
    """
    return BlockCounter(workload, context).count(subgroup_size=subgroup_size)[0]


def _sum(n: int, parts: list[Counts]) -> Counts:
    total = np.zeros(n, np.int64)
    for part in parts:
        total += part
    return total
