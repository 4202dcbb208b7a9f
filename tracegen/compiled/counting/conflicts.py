"""Bank conflicts that were seen in a run, given to the machine instructions of their places."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tracegen.compiled.model import Instruction, Location, MachineCode

MOST_LINES = 3
"""Lines that a sentence names."""


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


def conflict_notes(conflicts: Mapping[Location, float]) -> list[str]:
    """A sentence on the lines whose accesses to local memory conflict most, the worst first."""
    by_line: dict[int, float] = {}
    for place, passes in conflicts.items():
        by_line[place.line] = max(by_line.get(place.line, 0.0), passes)
    worst = sorted((-passes, line) for line, passes in by_line.items() if passes > 0)
    if not worst:
        return []
    listed = ", ".join(f"{-passes:.3g} on line {line}" for passes, line in worst[:MOST_LINES])
    rest = f", less on {len(worst) - MOST_LINES} further lines" if len(worst) > MOST_LINES else ""
    return [f"Bank conflicts of shared memory add passes to each access: {listed}{rest}."]
