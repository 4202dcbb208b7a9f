"""The loops of a kernel without accesses, whose turns a run can count.

Loops with accesses are known by these. Quiet loops inside one another are a nest: its outermost loop says
when lanes are at the same place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from tracegen.cuda.flow_graph import FlowGraph, Loop
from tracegen.cuda.ir import Block, Function, Instruction, Module, Place

MOST_LOOPS = 256
"""Loops of a kernel that are counted."""
_START = re.compile(r"!llvm\.loop !(\d+)")
_TARGET = re.compile(r'label %("[^"]*"|[-\w.$]+)')

Position = tuple[int, int]
"""Line and column of the word that begins a loop."""


@dataclass(frozen=True)
class QuietLoop:
    """A loop without accesses and barriers.

    at : where it begins in the program's own text
    nest : number of the outermost loop without accesses around it, its own if that is itself
    """

    loop: Loop
    at: Position
    nest: int


@dataclass(frozen=True)
class Turns:
    """How often the end of a loop's body was passed.

    mean : turns of a sub-group each time that it reaches the outermost loop without accesses around it. Lanes
        wait for the slowest, so they are the largest of any lane; the mean over those times and sub-groups
    nest : where that outermost loop begins
    """

    mean: float
    nest: Position


def quiet_loops(
    module: Module,
    function: Function,
    graph: FlowGraph,
    loud: Collection[str],
    place: Callable[[Sequence[Place]], Place | None],
) -> tuple[QuietLoop, ...]:
    """The loops of which the text's position is known; each nest in a row, its outermost loop first.

    loud : the blocks that access memory, or have a barrier
    place : of an instruction's positions the innermost one in the program's own file
    """
    ends = {block.label: block.terminator for block in function.blocks}
    quiet = [loop for loop in graph.loops if loop.blocks.isdisjoint(loud)]
    found: list[QuietLoop] = []
    for outermost in quiet:
        if any(outermost.blocks < other.blocks for other in quiet):
            continue
        nest = len(found)
        for loop in quiet:
            at = _begin(module, [ends[latch] for latch in loop.latches], place)
            if at is not None and loop.blocks <= outermost.blocks:
                found.append(QuietLoop(loop, at, nest))
        if len(found) > MOST_LOOPS or (found[nest:] and found[nest].loop is not outermost):
            del found[nest:]
    return tuple(found)


def _begin(
    module: Module,
    latches: Sequence[Instruction],
    place: Callable[[Sequence[Place]], Place | None],
) -> Position | None:
    """Where a loop begins in the program's own text, as the compiler notes it at the jump back."""
    for latch in latches:
        note = _START.search(module.lines[latch.line])
        parts = re.findall(r"!(\d+)", module.metadata.get(int(note[1]), "")) if note else []
        chain = module.chain(int(parts[1])) if len(parts) > 1 else []
        if chain and place(chain) == chain[0] and chain[0].line:
            return chain[0].line, chain[0].column
    return None


def first_turn(function: Function, loop: Loop) -> str:
    """A `phi` of a loop's header: 1 where the loop is reached, 0 where it is repeated."""
    ways = [
        f"[ {int(block.label not in loop.blocks)}, %{block.label} ]"
        for block in function.blocks
        for target in _TARGET.findall(block.terminator.text)
        if target == loop.header
    ]
    return f"phi i64 {', '.join(ways)}"


def behind_phis(block: Block) -> Instruction:
    """The first instruction of a block that may be a call."""
    return next(one for one in block.instructions if one.opcode != "phi")


def turns_by_place(
    loops: Sequence[QuietLoop], counted: Sequence[Sequence[int]]
) -> Mapping[Position, Turns]:
    """By where a loop begins; the mean over all calls of the function that it is in.

    counted : of each loop its turns, and how often its nest was reached
    """
    sums: dict[Position, tuple[int, int, Position]] = {}
    for loop, (turns, reached) in zip(loops, counted, strict=True):
        if reached:
            before = sums.get(loop.at, (0, 0, loops[loop.nest].at))
            sums[loop.at] = before[0] + turns, before[1] + reached, before[2]
    return {at: Turns(turns / reached, nest) for at, (turns, reached, nest) in sums.items()}
