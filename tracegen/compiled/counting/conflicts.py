"""Bank conflicts, given to the machine instructions of the accesses that have them."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping, Sequence

from msgspec import structs

from tracegen.compiled.model import Instruction, Location, MachineCode
from tracegen.execution.banks import Conflicts
from tracegen.local_memory.accesses import LocalAccess

_TWO_PLACES = re.compile(r"ds_(?:read|write)2(?:st64)?_|ds_(?:load|store)_2addr_")
"""AMD's instructions that access two places of local memory."""

_NONE = Conflicts(0.0)

MOST_LINES = 3
"""Lines that a sentence names."""


def has_local_accesses(code: MachineCode) -> bool:
    return any(_is_local(one) for block in code.blocks for one in block.instructions)


def with_conflicts(
    code: MachineCode, conflicts: Callable[[int], Mapping[Location, Conflicts]]
) -> MachineCode:
    """The code, whose accesses to local memory know the conflicts at their places.

    conflicts : bytes that an instruction accesses of each work-item -> its conflicts by place
    """
    by_place = functools.cache(conflicts)
    if "nvrtc" in code.tools:
        return _known(code, _by_line(code, by_place))

    def found(instruction: Instruction, size_bytes: int) -> Conflicts:
        location = instruction.location
        return _NONE if location is None else by_place(size_bytes).get(location, _NONE)

    return _known(code, found)


def _by_line(
    code: MachineCode, by_place: Callable[[int], Mapping[Location, Conflicts]]
) -> Callable[[Instruction, int], Conflicts]:
    """The conflicts of an instruction of which only the line is known: the mean of its line's accesses. One that is
    wider than others of its line was merged from neighbours, which are those with fewest."""
    narrowest: dict[int, int] = {}
    for one in (one for block in code.blocks for one in block.instructions if _is_local(one)):
        if one.location is not None and one.memory is not None:
            size = narrowest.get(one.location.line, one.memory.bytes_per_item)
            narrowest[one.location.line] = min(size, one.memory.bytes_per_item)

    def of_line(instruction: Instruction, size_bytes: int) -> Conflicts:
        line = 0 if instruction.location is None else instruction.location.line
        found = [one for place, one in by_place(size_bytes).items() if place.line == line]
        if not found:
            return _NONE
        if size_bytes > narrowest.get(line, size_bytes):
            return min(found)
        passes, shares = zip(*found, strict=True)
        return Conflicts(sum(passes) / len(found), sum(shares) / len(found))

    return of_line


def with_conflicts_of_text(
    code: MachineCode, text: str, accesses: Sequence[LocalAccess]
) -> MachineCode:
    """The code, whose accesses to local memory know the conflicts of the nearest access of their statement.

    A note names the arrays of those whose conflicts are not known.
    """
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    unknown: dict[str, None] = {}

    def found(instruction: Instruction, size_bytes: int) -> Conflicts:
        access = _nearest(instruction, starts, accesses)
        known = None if access is None else access.conflicts(size_bytes)
        if known is None:
            unknown["some local memory" if access is None else access.array] = None
        return known or _NONE

    known = _known(code, found)
    if not unknown:
        return known
    note = (
        f"Accesses to local memory ({', '.join(unknown)}) count as free of bank conflicts: their addresses could not be"
        " derived from ids, loop counters and integer arguments."
    )
    return dataclasses.replace(known, notes=(*known.notes, note))


def _nearest(
    instruction: Instruction, starts: Sequence[int], accesses: Sequence[LocalAccess]
) -> LocalAccess | None:
    """The access of the text that an instruction performs: of its statement and direction, the nearest."""
    location, memory = instruction.location, instruction.memory
    if location is None or memory is None or not 1 <= location.line < len(starts):
        return None
    at = starts[location.line - 1] + max(location.column - 1, 0)
    same = [a for a in accesses if a.direction == memory.direction and a.start <= at < a.end]
    return min(same, key=lambda access: abs(access.at - at), default=None)


def _known(code: MachineCode, found: Callable[[Instruction, int], Conflicts]) -> MachineCode:
    """found : instruction, bytes of each place that it accesses -> the conflicts of each"""

    def known(one: Instruction) -> Instruction:
        if one.memory is None or not _is_local(one):
            return one
        places = 2 if _TWO_PLACES.match(one.opcode) else 1
        passes, share = found(one, one.memory.bytes_per_item // places)
        memory = structs.replace(one.memory, conflict_passes=places * passes, active_share=share)
        return structs.replace(one, memory=memory)

    blocks = (
        dataclasses.replace(block, instructions=tuple(map(known, block.instructions)))
        for block in code.blocks
    )
    return dataclasses.replace(code, blocks=tuple(blocks))


def conflict_notes(code: MachineCode) -> list[str]:
    """A sentence on the lines whose accesses to local memory conflict most, the worst first."""
    by_line: dict[int, float] = {}
    for one in (one for block in code.blocks for one in block.instructions):
        if one.location is not None and one.memory is not None:
            line, passes = one.location.line, one.memory.conflict_passes
            by_line[line] = max(by_line.get(line, 0.0), passes)
    worst = sorted((-passes, line) for line, passes in by_line.items() if passes > 0)
    if not worst:
        return []
    listed = ", ".join(f"{-passes:.3g} on line {line}" for passes, line in worst[:MOST_LINES])
    rest = f", less on {len(worst) - MOST_LINES} further lines" if len(worst) > MOST_LINES else ""
    return [f"Bank conflicts of shared memory add passes to each access: {listed}{rest}."]


def _is_local(instruction: Instruction) -> bool:
    return instruction.memory is not None and instruction.memory.space == "local"
