"""What a kernel cut into basic blocks is made of: blocks, the branches and loops around them, events."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tracegen.c_source.statements import Function

ControlKind = Literal["then", "else", "loop", "after"]
BlockKind = Literal["entry", "then", "else", "body", "test", "next"]
EVERYONE = -1
"""The event of a kernel's beginning: each work-item's, once."""


@dataclass(frozen=True)
class Control:
    """A branch or a loop around a block.

    text : a branch's condition; a loop's header between its parentheses
    event : of each time that it is taken: of a loop, of each trip
    """

    kind: ControlKind
    text: str
    event: int


@dataclass(frozen=True)
class Access:
    """A static access to memory in a block's text."""

    memory: Literal["global", "local"]
    direction: Literal["load", "store", "atomic"]
    array: str


@dataclass
class Block:
    """One basic block.

    number : among all of a workload's kernels; launch : the kernel function
    line : 1-based, in the text without marks; text : how it begins
    controls : around it, from the outermost
    events : those whose numbers add up to the block's count, EVERYONE among them
    marks : numbers of Loopy's instructions in it; accesses : by the marks of the subscripts
    followers : numbers of the blocks that may come next, -1 for the kernel's end
    jumps : a return, break or continue before it decides too whether it runs
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
    """What counting puts in place of text[start:end]; `{event}` stands for the event's statement."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Cut:
    """A kernel function cut into blocks.

    n_events : numbered in the order in which lanes that diverge are lined up
    """

    function: Function
    blocks: tuple[Block, ...]
    n_events: int
    insertions: tuple[Insertion, ...]
