"""Counts how often each basic block of a workload's machine code runs, by sub-groups and by work-items.

The code that is run for that has only what decides where lanes go, and an addition for the lanes of each block.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from memsim.errors import KernelError
from memsim.machine import Machine, load_machine
from tracegen.blocks.model import Block, BlockCounts, Counts, LaunchCounts, blocks_of
from tracegen.executed.faults import sentence
from tracegen.executed.targets import Target, lowered, target_of
from tracegen.execution import operations as o
from tracegen.execution.code import Code
from tracegen.execution.operations import MicroOperation
from tracegen.execution.run import STEPS_BETWEEN, Execution, Fault
from tracegen.execution.slicing import sliced
from tracegen.machine_code.binding import bind
from tracegen.machine_code.bound import BoundKernel
from tracegen.options import Compiler, TraceOptions
from tracegen.workloads.load import AnyWorkload

_STEPS_OF_LAUNCH = 1 << 14
"""Basic blocks that take as long as it takes to begin a launch."""


class TooLong(KernelError):
    """A workload runs more basic blocks than it may."""


class _ValuesNeeded(Exception):
    """What launches store decides where lanes go."""


class _Spent(Exception):
    """No basic blocks are left."""


def count_blocks(
    workload: AnyWorkload,
    machine: Machine | str | None = None,
    *,
    subgroup_size: int | None = None,
    compiler: Compiler = "auto",
    most_steps: int | None = None,
) -> BlockCounts:
    """How often each basic block of a workload's machine code runs.

    Only what branches and predicates depend on is computed; accesses are not checked. Where that includes values that
    the workload itself has stored, everything is computed.

    machine : whose code it is; without one, that of sm_75
    subgroup_size : lanes, by default the machine's, or 32
    most_steps : basic blocks of all sub-groups together, after about which TooLong is raised

    Raises KernelError as `tracegen.trace` does.
    """
    machine = machine if machine is None else load_machine(machine)
    options = TraceOptions(subgroup_size=subgroup_size, compiler=compiler)
    target = target_of(machine, options)
    lanes = options.lanes(machine)
    if lanes not in (8, 16, 32, 64):
        raise KernelError(f"subgroup_size must be 8, 16, 32 or 64, got {lanes}")
    for values in (False, True):
        counter = _Counter(workload, lanes, values, math.inf if most_steps is None else most_steps)
        try:
            return counter.counts(target, compiler)
        except _ValuesNeeded:
            continue
    raise AssertionError("values were there")


@dataclass(frozen=True)
class _Kernel:
    """A kernel with its counters. first : number of its first block;  counters : first row of counters"""

    first: int
    code: Code
    counters: int


class _Counter:
    def __init__(self, workload: AnyWorkload, lanes: int, values: bool, most_steps: float) -> None:
        self.workload, self.lanes, self.values = workload, lanes, values
        self.most_steps = self.left = most_steps
        self.blocks: list[Block] = []
        self.kernels: dict[int, _Kernel] = {}
        self.reads_memory = False

    def counts(self, target: Target, compiler: Compiler) -> BlockCounts:
        counted = list(self._counted(target, compiler))
        n = len(self.blocks)
        launches = []
        for bound, first, items, subgroups in counted:
            spread = np.zeros((2, n), np.int64)
            spread[:, first : first + len(items)] = items, subgroups
            launches.append(
                LaunchCounts(
                    index=bound.index,
                    kernel=bound.name,
                    settings=bound.settings,
                    grid=tuple(bound.grid),
                    group_shape=tuple(bound.group_shape),
                    by_items=spread[0],
                    by_subgroups=spread[1],
                )
            )
        return BlockCounts(
            blocks=tuple(self.blocks),
            launches=tuple(launches),
            subgroup_size=self.lanes,
            target=target.name,
            note=target.note,
            reads_memory=self.reads_memory,
        )

    def _counted(
        self, target: Target, compiler: Compiler
    ) -> Iterator[tuple[BoundKernel, int, Counts, Counts]]:
        for bound in bind(self.workload, target.name, compiler):
            kernel = self.kernels.get(id(bound.code))
            if kernel is None:
                code = counting(lowered(bound.code, self.lanes), values=self.values)
                kernel = self.kernels[id(bound.code)] = _Kernel(len(self.blocks), *code)
                self.blocks += blocks_of(bound, kernel.first)
            try:
                yield bound, kernel.first, *self._launch(bound, kernel)
            except _Spent:
                raise TooLong(
                    f"kernel {bound.name} runs more than {self.most_steps} basic blocks"
                ) from None

    def _launch(self, bound: BoundKernel, kernel: _Kernel) -> tuple[Counts, Counts]:
        execution = Execution(kernel.code, bound.launch)
        groups = np.arange(math.prod(bound.grid), dtype=np.int64)
        try:
            recorded = execution.run(groups, record=False, progress=self._spend)
        except Fault as fault:
            raise sentence(bound, kernel.code, fault) from None
        used = execution.state.region_use[~execution.state.hidden]
        reads = bool(np.any(used & 1))
        self.reads_memory |= reads
        if not self.values and (recorded.needs_values or (reads and bound.index > 0)):
            raise _ValuesNeeded
        n = len(bound.code.blocks)
        subgroups = np.zeros(n, np.int64)
        for number, segment in reversed(list(enumerate(kernel.code.segments))):
            subgroups[segment.block] = recorded.segment_count[number]
        self._spend(0, int(subgroups.sum()) + _STEPS_OF_LAUNCH)
        return _items(execution, kernel.counters, n), subgroups

    def _spend(self, _: int, steps: int = STEPS_BETWEEN) -> None:
        self.left -= steps
        if self.left < 0:
            raise _Spent


def _items(execution: Execution, first: int, n: int) -> Counts:
    """(n,) the sums over lanes and sub-groups of counters in n rows."""
    return np.asarray(execution.rows(first, n).sum(axis=(0, 2), dtype=np.int64))


_BLOCK, _BRANCH, _ADD = o.numbers("BLOCK", "BRANCH", "ADD3")


def counting(code: Code, *, values: bool) -> tuple[Code, int]:
    """The code, and the first of its rows with a counter for each basic block.

    Each lane adds to its own counters; they keep what groups that ran before have added. Segments of a block that
    accesses alone divide are joined.

    values : whether everything else is computed, too, for launches that follow
    """
    code = code if values else sliced(code, accesses=False)
    first_segments: dict[int, int] = {}
    for number, segment in enumerate(code.segments):
        first_segments.setdefault(segment.block, number)
    one, counters = code.n_rows, code.n_rows + 1
    guard = 2 * next((mask for mask, name in code.masks.items() if name == "exec"), o.ALWAYS // 2)
    rows: list[list[int]] = []
    place = []
    for row in code.table.tolist():
        place.append(len(rows))
        if row[0] == _BLOCK:
            block = code.segments[row[o.COLUMNS["y"]]].block
            begins = first_segments[block] == row[o.COLUMNS["y"]]
            if not begins and rows[-1][0] not in o.GATHERING:
                continue
            rows.append(row)
            if begins:
                at = counters + block
                add = MicroOperation(_ADD, guard, d=at, a=at, b=one, c=o.ZERO_ROW, z=row[-1])
                rows.append(list(add))
            continue
        rows.append(row)
    place.append(len(rows))
    for row in rows:
        if row[0] == _BRANCH:
            row[o.COLUMNS["y"]] = place[row[o.COLUMNS["y"]]]
    changed = dataclasses.replace(
        code,
        table=np.array(rows, np.int32).reshape(-1, len(MicroOperation._fields)),
        n_rows=counters + max(first_segments, default=-1) + 1,
        constants={**code.constants, one: 1},
        places={address: place[at] for address, at in code.places.items()},
    )
    return changed, counters
