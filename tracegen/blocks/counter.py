"""Counts how often each basic block of a workload runs, by running a copy with counters.

Blocks are counted per work-item and per sub-group: hardware issues a block once for all lanes in it.
Memory is bounded, because groups are counted in batches.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyopencl as cl

from memsim.errors import KernelError
from tracegen.blocks.local_accesses import local_accesses
from tracegen.blocks.model import EVERYONE, Block, BlockAccess, Cut
from tracegen.blocks.probe import counting_source
from tracegen.blocks.run import CountingRun, Counts
from tracegen.blocks.text import cut_text
from tracegen.devices.buffers import Buffers, buffers
from tracegen.devices.program import built
from tracegen.instrumented.host import PreparedLoopy
from tracegen.instrumented.mark_table import MarkTable
from tracegen.options import MOST_SUBGROUP_SIZE
from tracegen.record import AnyWorkload, chosen_context, instrumented
from tracegen.recording.launch import DeviceLaunch, Prepared
from tracegen.workloads.workload import Workload

MOST_EVENTS = 1 << 16


@dataclass(frozen=True)
class LaunchCounts:
    """One launch.

    settings : values of its integer arguments and of the counters of the host's loops
    by_items, by_subgroups : (n_block,) int64 over all blocks of the workload, 0 for blocks of other
        kernels; by_subgroups is None where sub-groups were not counted
    """

    index: int
    kernel: str
    settings: Mapping[str, int]
    n_items: int
    by_items: Counts
    by_subgroups: Counts | None


@dataclass(frozen=True)
class BlockCounts:
    """The counts of all launches in order; totals are over launches."""

    blocks: tuple[Block, ...]
    launches: tuple[LaunchCounts, ...]
    subgroup_size: int | None

    @property
    def by_items(self) -> Counts:
        return _sum(len(self.blocks), [launch.by_items for launch in self.launches])

    @property
    def by_subgroups(self) -> Counts:
        counts = [one.by_subgroups for one in self.launches if one.by_subgroups is not None]
        if len(counts) < len(self.launches):
            raise KernelError("sub-groups were not counted: give subgroup_size")
        return _sum(len(self.blocks), counts)


class BlockCounter:
    """A workload's kernels with counters, built once for any number of sizes.

    text : the text that is divided into blocks
    blocks : of all kernels, numbered consecutively
    """

    def __init__(self, workload: AnyWorkload, context: Any = None) -> None:
        self.context = chosen_context(context)
        self.prepared = prepared = instrumented(workload, self.context)
        self.loopy = isinstance(prepared, PreparedLoopy)
        self.table: MarkTable | None = None
        self.text = prepared.source
        if isinstance(prepared, PreparedLoopy):
            self.text, self.table = prepared.marked_source, prepared.instrumented.table
        self.options = prepared.build_options
        self.cuts = {cut.function.name: cut for cut in self._cut()}
        self.blocks = tuple(block for cut in self.cuts.values() for block in cut.blocks)
        source = counting_source(self.text, list(self.cuts.values()), by_batches=self.loopy)
        self.counting = self._built(source, [])
        self.source = source
        self._recording: Any = None
        self.buffers: Buffers = buffers(self.context)

    @property
    def scheduled(self) -> Any:
        """The scheduled loopy.TranslationUnit; only of a Loopy kernel."""
        assert isinstance(self.prepared, PreparedLoopy)
        return self.prepared.executor.scheduled

    @property
    def recording(self) -> Any:
        if self._recording is None:
            self._recording = self._built(self.source, ["-DBC_RECORD"])
        return self._recording

    def accesses(self, block: Block) -> tuple[BlockAccess, ...]:
        """The static accesses to arrays in a block; none are known in OpenCL C."""
        if self.table is None:
            return ()
        global_accesses = [
            BlockAccess("global", mark.kind, mark.array)  # type: ignore[arg-type]
            for mark in (self.table.marks[number] for number in block.accesses)
        ]
        return (*global_accesses, *local_accesses(self.text, self.cuts[block.launch], block))

    def instructions(self, block: Block) -> tuple[str, ...]:
        """Ids of the Loopy instructions in a block."""
        if self.table is None:
            return ()
        return tuple(self.table.instructions[number] for number in block.marks)

    def count(
        self, workload: AnyWorkload | None = None, subgroup_size: int | None = None
    ) -> tuple[BlockCounts, dict[str, Any]]:
        """Counts of a workload of the same kernel, and the outputs that it computed.

        workload : by default the one that the counter was made from
        subgroup_size : also count sub-groups of this number of lanes, by a second run
        """
        if subgroup_size is not None and not 1 <= subgroup_size <= MOST_SUBGROUP_SIZE:
            raise KernelError(
                f"subgroup_size must be 1 to {MOST_SUBGROUP_SIZE}, got {subgroup_size}"
            )
        prepared = self._with(workload)
        launches: list[LaunchCounts] = []

        def observer(launch: DeviceLaunch) -> None:
            launches.append(self._launch(launch, subgroup_size))

        outputs = prepared.run(observer)
        return BlockCounts(self.blocks, tuple(launches), subgroup_size), outputs

    def _with(self, workload: AnyWorkload | None) -> Prepared:
        if workload is None:
            return self.prepared
        if isinstance(self.prepared, PreparedLoopy):
            assert isinstance(workload, Workload)
            return dataclasses.replace(self.prepared, workload=workload)
        return instrumented(workload, self.context)

    def _cut(self) -> list[Cut]:
        cuts = cut_text(self.text, None if self.loopy else self.prepared.name)
        for cut in cuts:
            if cut.n_events >= MOST_EVENTS:
                raise KernelError(
                    f"kernel {cut.function.name} has {cut.n_events} branches and loops; at most"
                    f" {MOST_EVENTS} can be counted"
                )
        return cuts

    def _built(self, source: str, options: list[str]) -> Any:
        try:
            return built(self.context, source, self.cuts, [*self.options, *options])
        except cl.Error as error:
            text = " ".join(str(error).split())
            raise KernelError(f"counting kernels do not build: {text}") from error

    def _launch(self, launch: DeviceLaunch, subgroup_size: int | None) -> LaunchCounts:
        cut = self.cuts[launch.name]
        kernels = {
            "counting": self.counting[launch.name],
            # Built when first needed.
            "recording": None if subgroup_size is None else self.recording[launch.name],
        }
        run = CountingRun(self.buffers, launch, cut, kernels, self.loopy)
        items, subgroups = run.counted(subgroup_size)
        n_items = launch.n_groups * launch.group_items
        n_subgroups = launch.n_groups * -(-launch.group_items // (subgroup_size or 1))
        by_items = self._by_block(cut, items, n_items)
        by_subgroups = None
        if subgroups is not None:
            by_subgroups = self._by_block(cut, subgroups, n_subgroups)
        return LaunchCounts(
            launch.index, launch.name, launch.settings, n_items, by_items, by_subgroups
        )

    def _by_block(self, cut: Cut, events: Counts, everyone: int) -> Counts:
        counts = np.zeros(len(self.blocks), np.int64)
        for block in cut.blocks:
            counts[block.number] = sum(
                everyone if event == EVERYONE else int(events[event]) for event in block.events
            )
        return counts


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
