"""Bank conflicts that were seen in a run, given to the machine instructions of their places."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tracegen.compiled.model import Instruction, Location, MachineCode


def with_conflicts(code: MachineCode, conflicts: Mapping[Location, float]) -> MachineCode:
    """The code, whose accesses to local memory know the passes that conflicts at their places add."""
    if not any(conflicts.values()):
        return code
    blocks = [
        dataclasses.replace(
            block, instructions=tuple(_known(one, conflicts) for one in block.instructions)
        )
        for block in code.blocks
    ]
    return dataclasses.replace(code, blocks=tuple(blocks))


def _known(instruction: Instruction, conflicts: Mapping[Location, float]) -> Instruction:
    memory = instruction.memory
    if memory is None or memory.space != "local" or instruction.location is None:
        return instruction
    passes = conflicts.get(instruction.location, 0.0)
    return dataclasses.replace(
        instruction, memory=dataclasses.replace(memory, conflict_passes=passes)
    )
