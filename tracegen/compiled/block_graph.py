"""Cuts a list of machine instructions into basic blocks, and links the blocks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tracegen.compiled.model import BasicBlock, Instruction


@dataclass(frozen=True)
class Line:
    """An instruction in its place.

    labels : the labels before it
    targets : labels of the instructions that may run next, apart from the following one
    falls_through : whether the following instruction may run next
    ends_block : True also for an exit under a predicate, after which fewer items run
    function : the function that the instruction belongs to, by the label of its first instruction
    callee : of a call, the function that it calls, "" if it is unknown; None of other instructions
    returns : whether it returns from its function
    named : the labels among its operands, or those of its table
    """

    instruction: Instruction
    labels: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    falls_through: bool = True
    ends_block: bool = False
    function: str = ""
    callee: str | None = None
    returns: bool = False
    named: tuple[str, ...] = ()


def basic_blocks(lines: Sequence[Line]) -> tuple[tuple[BasicBlock, ...], tuple[str, ...]]:
    """The blocks that can be reached from the first line, and the targets that are not in the code.

    Only targets start a block: other labels serve debuggers. A call goes on in the called function,
    and that function returns to all its calls; a function that is not in the code is passed over.
    """
    lines = _with_calls(lines)
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


def _with_calls(lines: Sequence[Line]) -> list[Line]:
    """The lines with the targets of calls and of returns."""
    linked = list(lines)
    after: dict[str, list[str]] = defaultdict(list)
    functions = _functions(lines)
    for index, line in enumerate(lines):
        if line.callee in functions:
            label = f"after call {index}"
            after[line.callee].append(label)
            falls_through = line.instruction.predicated
            linked[index] = replace(
                linked[index], targets=(line.callee,), falls_through=falls_through
            )
            if index + 1 < len(lines):
                labels = (*linked[index + 1].labels, label)
                linked[index + 1] = replace(linked[index + 1], labels=labels)
    return [
        replace(line, targets=tuple(after[line.function])) if line.returns else line
        for line in linked
    ]


_GUARD = "__cuda_sm10x_tcgen05_guardrail_trap"
"""Functions that ptxas adds: they trap where tensor memory is misused."""


def call_notes(lines: Sequence[Line]) -> Iterator[str]:
    """Which functions are part of the code, and which are not."""
    called = {line.callee for line in lines if line.callee and _GUARD not in line.callee}
    functions = _functions(lines)
    if known := sorted(called & functions):
        yield f"Called functions are part of the code: {', '.join(known)}."
    if missing := sorted(called - functions):
        yield f"Called functions are left out: {', '.join(missing)}."
    if any(line.callee == "" for line in lines):
        yield "Functions that are called through pointers are left out."


def _functions(lines: Sequence[Line]) -> set[str]:
    """The functions whose first instruction is there."""
    labels = {label for line in lines for label in line.labels}
    return labels & {line.function for line in lines}


def _starts(lines: Sequence[Line], targets: Iterable[str]) -> Iterator[int]:
    wanted = frozenset(targets)
    ended = True
    for index, line in enumerate(lines):
        if ended or not wanted.isdisjoint(line.labels):
            yield index
        ended = line.ends_block or bool(line.targets) or not line.falls_through


def reachable(blocks: Sequence[BasicBlock]) -> tuple[BasicBlock, ...]:
    """The blocks that can be reached from the first one, in the same order."""
    reached, waiting = {0}, [0] if blocks else []
    while waiting:
        new = set(blocks[waiting.pop()].successors) - reached
        reached |= new
        waiting.extend(new)
    kept = {old: new for new, old in enumerate(sorted(reached))} if blocks else {}
    return tuple(
        BasicBlock(
            label=blocks[old].label,
            instructions=blocks[old].instructions,
            successors=tuple(kept[successor] for successor in blocks[old].successors),
        )
        for old in kept
    )
