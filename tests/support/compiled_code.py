"""What a listing says of instructions, block after block."""

from __future__ import annotations

from collections.abc import Iterable

from tracegen.compiled.model import BasicBlock, Instruction


def instructions_of(blocks: Iterable[BasicBlock]) -> list[Instruction]:
    return [instruction for block in blocks for instruction in block.instructions]


def opcodes(*blocks: BasicBlock) -> list[str]:
    return [instruction.opcode for instruction in instructions_of(blocks)]


def only(blocks: Iterable[BasicBlock], opcode: str) -> Instruction:
    """The one instruction whose opcode, up to its first dot, is this."""
    (found,) = (one for one in instructions_of(blocks) if one.opcode.split(".")[0] == opcode)
    return found


def access(instruction: Instruction) -> tuple[str, str, int]:
    """Space, direction and bytes for each work-item."""
    memory = instruction.memory
    assert memory is not None
    return memory.space, memory.direction, memory.bytes_per_item
