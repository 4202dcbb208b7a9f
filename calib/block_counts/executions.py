"""Counts of one kernel at many sizes, each executed once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from memsim.errors import KernelError
from memsim.machine import Machine
from tracegen import AnyWorkload
from tracegen.blocks import Block, BlockCounts, count_blocks

MOST_STEPS = 1 << 26
"""Basic blocks that sub-groups may run in an execution that serves only to find polynomials: a second or two."""

Load = Callable[[Mapping[str, Any]], AnyWorkload]


class Executions:
    """load : makes the workload at settings, name -> value"""

    def __init__(
        self,
        load: Load,
        machine: Machine | None = None,
        *,
        subgroup_size: int | None = None,
    ) -> None:
        self.load, self.machine, self.subgroup_size = load, machine, subgroup_size
        self._known: dict[tuple[Any, ...], BlockCounts] = {}

    @property
    def is_started(self) -> bool:
        return bool(self._known)

    @property
    def first(self) -> BlockCounts:
        """The first counts."""
        return next(iter(self._known.values()))

    @property
    def blocks(self) -> tuple[Block, ...]:
        return self.first.blocks

    def counts(
        self,
        settings: Mapping[str, Any],
        *,
        most_steps: int | None = None,
        workload: AnyWorkload | None = None,
    ) -> BlockCounts:
        """The counts at settings. workload : if it is there already

        Raises TooLong after most_steps, and KernelError where the code is not the same as at other sizes.
        """
        key = tuple(sorted((name, str(value)) for name, value in settings.items()))
        if key not in self._known:
            counts = count_blocks(
                self.load(settings) if workload is None else workload,
                self.machine,
                subgroup_size=self.subgroup_size,
                most_steps=most_steps,
            )
            if self._known and _texts(counts) != _texts(self.first):
                size = ", ".join(f"{name}={value}" for name, value in settings.items())
                raise KernelError(f"at {size} the kernel is compiled to other code")
            self._known[key] = counts
        return self._known[key]

    def period(self) -> int:
        """What sizes are taken modulo: the least common multiple of sub-groups and the extents of groups."""
        shapes = {one.group_shape for one in self.first.launches}
        extents = {extent for shape in shapes for extent in shape}
        return math.lcm(self.first.subgroup_size, *extents)


def both(counts: BlockCounts) -> npt.NDArray[np.int64]:
    """(2 n_block,) executions by sub-groups, then by work-items."""
    return np.concatenate([counts.by_subgroups, counts.by_items])


def _texts(counts: BlockCounts) -> list[str]:
    return [one.text for block in counts.blocks for one in block.instructions]
