"""Basic blocks of machine code, and how often each launch of a workload runs them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tracegen.compiled.loops import depths
from tracegen.compiled.model import Instruction, MemoryOperation
from tracegen.executed.work import kind_of
from tracegen.machine_code.bound import BoundKernel

Counts = npt.NDArray[np.int64]
END = -1
_LENGTH = 60
"""Characters of its text that a block keeps."""
_ENDS = ("EXIT", "s_endpgm")


@dataclass(frozen=True, kw_only=True)
class Block:
    """Machine instructions that run one after another.

    number : among the blocks of all kernels of a workload;  kernel : the kernel function
    followers : numbers of the blocks that may run next, END for the kernel's end
    depth : loops around it
    lines : of the source that its instructions come from, where that is known: the user's lines, or those of the text
        that Loopy generates
    text : the beginning of the first of these lines
    """

    number: int
    kernel: str
    instructions: tuple[Instruction, ...]
    followers: tuple[int, ...]
    depth: int
    lines: tuple[int, ...]
    text: str

    @property
    def name(self) -> str:
        return f"{self.kernel}:B{self.number}"

    @cached_property
    def work(self) -> Mapping[str, int]:
        """Kind (see tracegen.executed.work.KINDS) -> instructions."""
        return Counter(kind_of(one) for one in self.instructions)

    @property
    def accesses(self) -> tuple[MemoryOperation, ...]:
        return tuple(one.memory for one in self.instructions if one.memory is not None)


@dataclass(frozen=True, kw_only=True)
class LaunchCounts:
    """One launch.

    settings : values of its integer arguments and of the counters of the host's loops
    by_items, by_subgroups : (n_block,) over all blocks of the workload, 0 for blocks of other kernels
    """

    index: int
    kernel: str
    settings: Mapping[str, int]
    grid: tuple[int, ...]
    group_shape: tuple[int, ...]
    by_items: Counts
    by_subgroups: Counts


@dataclass(frozen=True, kw_only=True)
class BlockCounts:
    """The counts of all launches in order; totals are over launches.

    target : of the machine code;  note : why that is not the machine's own, "" if it is
    reads_memory : whether it depends on the content of arrays where lanes go
    """

    blocks: tuple[Block, ...]
    launches: tuple[LaunchCounts, ...]
    subgroup_size: int
    target: str
    note: str
    reads_memory: bool

    @property
    def by_items(self) -> Counts:
        return sum((one.by_items for one in self.launches), np.zeros(len(self.blocks), np.int64))

    @property
    def by_subgroups(self) -> Counts:
        return sum(
            (one.by_subgroups for one in self.launches), np.zeros(len(self.blocks), np.int64)
        )


def blocks_of(bound: BoundKernel, first: int) -> list[Block]:
    """The blocks of a kernel. first : number of the first one"""
    texts = bound.text.splitlines()
    made = []
    for k, (block, depth) in enumerate(zip(bound.code.blocks, depths(bound.code), strict=True)):
        places = [one.location.line for one in block.instructions if one.location is not None]
        sources = [bound.source(line) for line in dict.fromkeys(places)]
        lines = {one.user_line or one.generated_line for one in sources}
        text = texts[places[0] - 1] if places and places[0] <= len(texts) else ""
        last = block.instructions[-1]
        ends = not block.successors or last.opcode.startswith(_ENDS)
        made.append(
            Block(
                number=first + k,
                kernel=bound.name,
                instructions=block.instructions,
                followers=(*(first + one for one in block.successors), *(END,) * ends),
                depth=depth,
                lines=tuple(sorted(line for line in lines if line is not None)),
                text=" ".join(text.split())[:_LENGTH],
            )
        )
    return made
