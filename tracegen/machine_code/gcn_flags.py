"""Where the flag scc that an instruction writes is read: elsewhere it need not be computed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tracegen.compiled.model import BasicBlock, Instruction

_READS = re.compile(
    r"s_(addc|subb|cselect|cmov|cmovk|cbranch_scc[01]|add_co_ci|sub_co_ci)(_|$|\d)|.*\bscc\b"
)
_WRITES = re.compile(
    r"s_(add|sub|addc|subb|and|or|xor|nand|nor|xnor|andn[12]|orn[12]|and_not[01]|or_not[01]|not|lshl\d?|lshr|ashr|bfe|abs"
    r"|absdiff|min|max|cmp|cmpk|bitcmp[01]|bcnt[01]|addk|wqm|quadmask)_(?!f)"
)


def live_flags(blocks: Sequence[BasicBlock]) -> list[list[bool]]:
    """Of each instruction of each block whether scc is read behind it before it is written again."""
    live_in = [False] * len(blocks)
    result: list[list[bool]] = [[] for _ in blocks]
    changed = True
    while changed:
        changed = False
        for index in reversed(range(len(blocks))):
            live = any(live_in[successor] for successor in blocks[index].successors)
            result[index] = list(_backwards(blocks[index].instructions, live))
            before = result[index].pop()
            result[index].reverse()
            changed |= before != live_in[index]
            live_in[index] = before
    return result


def _backwards(instructions: Sequence[Instruction], live: bool) -> Iterator[bool]:
    """What is live behind each instruction, the last one first, and at the end what is live before the first one."""
    for instruction in reversed(instructions):
        yield live
        if _READS.match(instruction.text):
            live = True
        elif _WRITES.match(instruction.opcode):
            live = False
    yield live
