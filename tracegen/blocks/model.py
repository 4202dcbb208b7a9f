"""A kernel cut into basic blocks: the blocks, the branches and loops around them, and events."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tracegen.c_source.statements import Function

ControlKind = Literal["then", "else", "loop", "after"]
BlockKind = Literal["entry", "then", "else", "body", "test", "next"]
EVERYONE = -1
"""The event that happens once for each work-item: the kernel's beginning."""


@dataclass(frozen=True)
class Control:
    """A branch or a loop around a block.

    text : a branch's condition; a loop's header between its parentheses
    event : happens each time that a branch is taken, or a loop's body runs
    """

    kind: ControlKind
    text: str
    event: int


@dataclass(frozen=True)
class BlockAccess:
    """A static access to memory in a block's text."""

    memory: Literal["global", "local"]
    direction: Literal["load", "store", "atomic"]
    array: str


@dataclass
class Block:
    """One basic block.

    number : among the blocks of all kernels of a workload
    launch : the kernel function
    line : 1-based, in the text without marks; text : its beginning
    controls : the branches and loops around it, from the outermost
    events : the events, EVERYONE among them, whose counts add up to the block's count
    marks : numbers of Loopy's instructions in it
    accesses : numbers of the marks of its subscripts
    spans : of its text
    followers : numbers of the blocks that may come next, -1 for the kernel's end
    jumps : whether it may be skipped by an earlier return, break or continue
    """

    number: int
    launch: str
    kind: BlockKind
    line: int
    text: str
    controls: tuple[Control, ...]
    events: tuple[int, ...]
    marks: list[int] = field(default_factory=list)
    accesses: list[int] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    followers: list[int] = field(default_factory=list)
    jumps: bool = False

    @property
    def name(self) -> str:
        return f"{self.launch}:B{self.number}"


@dataclass(frozen=True)
class Insertion:
    """The text that replaces text[start:end] in the counting program."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Cut:
    """A kernel function cut into blocks.

    n_events : number of events; their numbers ascend in the order in which diverged lanes are aligned
    """

    function: Function
    blocks: tuple[Block, ...]
    n_events: int
    insertions: tuple[Insertion, ...]
