"""The loops of machine code.

Dominators: Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm", 2001.
"""

from __future__ import annotations

from dataclasses import dataclass

from tracegen.compiled.model import BasicBlock, MachineCode

_AMD_RETURN = "s_setpc_b64 s[30:31]"
"""The same instruction with other registers jumps far inside a function."""


@dataclass(frozen=True)
class Loop:
    """A natural loop.

    header : the block through which it is entered
    blocks : its blocks, those of inner loops and the header included
    """

    header: int
    blocks: frozenset[int]


def loops(code: MachineCode) -> tuple[Loop, ...]:
    """The natural loops by their headers, outer loops before inner ones of the same blocks.

    Back-edges to the same header make one loop. A cycle with two entries is no natural loop and is
    left out. A called function has the loops of its own body; that its call lies in a loop does not
    make it part of that loop.
    """
    successors = [flow(code.blocks, index) for index in range(len(code.blocks))]
    order = _reverse_postorder(successors)
    predecessors: list[list[int]] = [[] for _ in successors]
    for index in order:
        for successor in successors[index]:
            predecessors[successor].append(index)
    dominator = _dominators(order, predecessors)
    members: dict[int, set[int]] = {}
    for header in order:
        latches = [latch for latch in predecessors[header] if _dominates(header, latch, dominator)]
        if latches:
            members[header] = _body(header, latches, predecessors)
    return tuple(Loop(header, frozenset(blocks)) for header, blocks in members.items())


def depths(code: MachineCode) -> tuple[int, ...]:
    """For each block, the number of loops that contain it."""
    all_loops = loops(code)
    return tuple(
        sum(index in loop.blocks for loop in all_loops) for index in range(len(code.blocks))
    )


def flow(blocks: tuple[BasicBlock, ...], index: int) -> tuple[int, ...]:
    """Successors where a call goes on after itself, and a function does not return.

    Two calls of one function would else make a loop: out of the first and into the second.
    """
    last = blocks[index].instructions[-1]
    successors = blocks[index].successors
    if last.opcode.startswith("RET") or last.text == _AMD_RETURN:
        return (index + 1,) if last.predicated and index + 1 in successors else ()
    if last.opcode.startswith(("CALL", "s_swappc")) and index + 1 < len(blocks):
        return tuple(dict.fromkeys((*successors, index + 1)))
    return successors


def _reverse_postorder(successors: list[tuple[int, ...]]) -> list[int]:
    order: list[int] = []
    seen = {0}
    stack = [(0, iter(successors[0]))]
    while stack:
        index, rest = stack[-1]
        for successor in rest:
            if successor not in seen:
                seen.add(successor)
                stack.append((successor, iter(successors[successor])))
                break
        else:
            order.append(index)
            stack.pop()
    return order[::-1]


def _dominators(order: list[int], predecessors: list[list[int]]) -> dict[int, int]:
    """Block -> its immediate dominator; the entry's is itself."""
    position = {block: place for place, block in enumerate(order)}
    dominator = {order[0]: order[0]}
    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            known = [other for other in predecessors[block] if other in dominator]
            best = known[0]
            for other in known[1:]:
                while best != other:
                    if position[best] > position[other]:
                        best = dominator[best]
                    else:
                        other = dominator[other]
            if dominator.get(block) != best:
                dominator[block] = best
                changed = True
    return dominator


def _dominates(header: int, block: int, dominator: dict[int, int]) -> bool:
    while block != header and dominator[block] != block:
        block = dominator[block]
    return block == header


def _body(header: int, latches: list[int], predecessors: list[list[int]]) -> set[int]:
    """What reaches a latch without passing the header."""
    body = {header}
    waiting = list(latches)
    while waiting:
        block = waiting.pop()
        if block not in body:
            body.add(block)
            waiting.extend(predecessors[block])
    return body
