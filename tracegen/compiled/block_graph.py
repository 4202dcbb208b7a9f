"""Cuts a list of machine instructions into basic blocks, and links the blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tracegen.compiled.model import BasicBlock, Instruction


@dataclass(frozen=True)
class Line:
    """An instruction in its place.

    labels : the labels before it
    targets : labels of the instructions that may run next, apart from the following one
    falls_through : whether the following instruction may run next
    ends_block : True also for an exit under a predicate, after which fewer items run
    """

    instruction: Instruction
    labels: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    falls_through: bool = True
    ends_block: bool = False


def basic_blocks(lines: Sequence[Line]) -> tuple[tuple[BasicBlock, ...], tuple[str, ...]]:
    """The blocks that can be reached from the first line, and the targets that are not in the code.

    Only targets start a block: other labels serve debuggers.
    """
    targets = {target for line in lines for target in line.targets}
    starts = list(_starts(lines, targets))
    block_of = {
        label: index
        for index, start in enumerate(starts)
        for label in lines[start].labels
        if label in targets
    }
    blocks = []
    for index, (start, end) in enumerate(zip(starts, [*starts[1:], len(lines)], strict=True)):
        last = lines[end - 1]
        successors = [block_of[target] for target in last.targets if target in block_of]
        if last.falls_through and end < len(lines):
            successors.append(index + 1)
        label = next((label for label in lines[start].labels if label in targets), "")
        instructions = tuple(line.instruction for line in lines[start:end])
        blocks.append(
            BasicBlock(
                label=label,
                instructions=instructions,
                successors=tuple(dict.fromkeys(successors)),
            )
        )
    return reachable(blocks), tuple(sorted(targets - block_of.keys()))


def _starts(lines: Sequence[Line], targets: Iterable[str]) -> Iterator[int]:
    wanted = frozenset(targets)
    ended = True
    for index, line in enumerate(lines):
        if ended or not wanted.isdisjoint(line.labels):
            yield index
        ended = line.ends_block or bool(line.targets) or not line.falls_through


def reachable(blocks: Sequence[BasicBlock]) -> tuple[BasicBlock, ...]:
    """The blocks that can be reached from the first one, in the same order."""
    found, waiting = {0}, [0] if blocks else []
    while waiting:
        new = set(blocks[waiting.pop()].successors) - found
        found |= new
        waiting.extend(new)
    kept = {old: new for new, old in enumerate(sorted(found))} if blocks else {}
    return tuple(
        BasicBlock(
            label=blocks[old].label,
            instructions=blocks[old].instructions,
            successors=tuple(kept[successor] for successor in blocks[old].successors),
        )
        for old in kept
    )
