"""Runs a launch of SASS group by group, and tells which instructions each sub-group executes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from memsim.errors import KernelError
from memsim.trace import ArrayExtent
from tracegen.executed.faults import sentence
from tracegen.execution.code import Code
from tracegen.execution.run import STEPS_BETWEEN, Execution, Fault, Region
from tracegen.machine_code.bound import BoundKernel
from tracegen.machine_code.sass_log import ADDRESSES_BYTES, ENTRY_BYTES, LOG_BASE, SassLog
from tracegen.machine_code.sass_lower import lower

_WARP = 32


class Executed(NamedTuple):
    """Instructions that a sub-group has executed one after another.

    number : (n,) uint32;  lanes : (n,) uint32, a bit a lane
    addresses : (n_access, 32) uint64, of those that have an address, in order; arbitrary where a lane does not take part
    """

    number: npt.NDArray[np.uint32]
    lanes: npt.NDArray[np.uint32]
    addresses: npt.NDArray[np.uint64]


Listener = Callable[[int, Executed], None]
"""Called with the number of a sub-group in its group, and what it has done next."""


class SassRun:
    """A launch whose groups are run with all their values, one after another, on the memory of the bound kernel."""

    def __init__(self, bound: BoundKernel, code: Code) -> None:
        """code : as it is lowered without a log"""
        self.bound, self.code = bound, code
        self.n_subgroup = -(-math.prod(bound.group_shape) // _WARP)
        self.log = SassLog.of(bound.code, self.n_subgroup)
        self.memory = np.zeros(self.n_subgroup * self.log.part_bytes, np.uint8)
        extent = ArrayExtent(name="log", base_bytes=LOG_BASE, size_bytes=len(self.memory))
        launch = bound.launch
        regions = [*launch.regions, Region(extent=extent, content=self.memory, hidden=True)]
        if math.prod(bound.cluster) > 1:
            raise KernelError(
                f"kernel {bound.name} runs in clusters of blocks, which an Accel-Sim trace cannot have here"
            )
        self.noting = Execution(
            lower(bound.code, note=self.log.note), dataclasses.replace(launch, regions=regions)
        )

    def group(self, group: int, listener: Listener) -> None:
        """Runs one group, and passes on what its sub-groups do while it runs. Raises KernelError."""
        self._run(self.noting, group, group + 1, lambda _: self._read(listener))
        self._read(listener)

    def rest(self, first: int) -> None:
        """Runs the groups from one on without telling anything. Raises KernelError."""
        if first < (end := math.prod(self.bound.grid)):
            self._run(Execution(self.code, self.bound.launch), first, end, None)

    def _run(
        self, execution: Execution, first: int, end: int, progress: Callable[[int], None] | None
    ) -> None:
        groups = np.arange(first, end, dtype=np.int64)
        steps = STEPS_BETWEEN if progress is None else self.log.steps
        try:
            execution.run(groups, record=False, progress=progress, steps=steps)
        except Fault as fault:
            raise sentence(self.bound, self.code, fault) from None

    def _read(self, listener: Listener) -> None:
        """Empties the log."""
        for subgroup, part in enumerate(self.memory.reshape(self.n_subgroup, -1)):
            used = part[:8].view(np.uint32)
            if used[0]:
                # Unaligned views would be as right, and slower.
                entries = part[64:][: used[0]].view(np.uint32).reshape(-1, ENTRY_BYTES // 4)
                addresses = part[self.log.addresses_at :][: used[1]].view(np.uint64)
                done = Executed(
                    entries[:, 0], entries[:, 1], addresses.reshape(-1, ADDRESSES_BYTES // 8)
                )
                listener(subgroup, done)
                used[:] = 0
