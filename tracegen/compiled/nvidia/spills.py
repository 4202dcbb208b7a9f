"""Distinguishes spilled registers from arrays in NVIDIA's private memory.

nvdisasm marks spills from version 13.5 on only. ptxas gives the access to a spill slot the line of the
instruction that needs the register, and an access to an array the line of that access.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from msgspec import structs

from tracegen.compiled.model import BasicBlock, Instruction
from tracegen.compiled.nvidia.ptx import Origin

_PRIVATE_ACCESS = re.compile(
    r"(?:@!?%?\w+ )?(?:ld|st|atom|red)\."
    r"(?:(?:volatile|relaxed|acquire|release|acq_rel|cta|cluster|gpu|sys)\.)*+"
    r"(?!global|shared|const)"
)
"""PTX that accesses private memory itself: `.local`, the parameters of a call, or a generic address."""


def mark_spills(blocks: Sequence[BasicBlock], origins: Sequence[Origin]) -> tuple[BasicBlock, ...]:
    """The blocks, with `MemoryOperation.spill` set for accesses to private memory that PTX has not.

    origins : of the PTX instructions, from `number_instructions`
    """
    return tuple(
        dataclasses.replace(
            block, instructions=tuple(_marked(one, origins) for one in block.instructions)
        )
        for block in blocks
    )


def _marked(instruction: Instruction, origins: Sequence[Origin]) -> Instruction:
    memory, number = instruction.memory, instruction.origin
    if memory is None or memory.space != "private" or memory.spill or number is None:
        return instruction
    if _PRIVATE_ACCESS.match(origins[number - 1].text):
        return instruction
    return structs.replace(instruction, memory=structs.replace(memory, spill=True))
