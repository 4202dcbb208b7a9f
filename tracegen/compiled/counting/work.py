"""What a sub-group issues, counted by the unit that executes it.

The counts are rows of a table (n_row, n_kind). Row 0 is empty.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from tracegen.compiled.model import PIPES, Instruction

Counts = npt.NDArray[np.float64]

_ACCESS, _CONSTANT = "access", "constant"
_LOCAL_BITS = (32, 64, 128)
KINDS: tuple[str, ...] = (
    *(pipe for pipe in PIPES if pipe != "load_store"),
    _ACCESS,
    _CONSTANT,
    *(f"local_{bits}" for bits in _LOCAL_BITS),
    *(f"paired_{bits}" for bits in _LOCAL_BITS[1:]),
    "exchange",
    "conflict",
    "stalled",
    "operands",
)
"""The pipes (`tracegen.compiled.model.PIPES`), with `load_store` divided by what is accessed:

access : global and private memory, whose further costs a replay gives;  constant : constant memory
local_32, local_64, local_128 : local memory, by the bits that each work-item accesses
paired_64, paired_128 : the same where lanes are paired, which takes half as long (see tracegen.execution.banks)
exchange : other instructions of the load/store unit, such as `SHFL`
conflict : no instructions, but further passes of local memory's banks, which conflicts cause
stalled : no instructions, but cycles until the next one of a sub-group that has a core to itself
operands : no instructions, but further cycles in which operands are read, and nothing is issued
"""
_NUMBER = {kind: number for number, kind in enumerate(KINDS)}


def kind_of(instruction: Instruction) -> str:
    """The kind under which an instruction is counted."""
    if instruction.pipe != "load_store":
        return instruction.pipe
    memory = instruction.memory
    if memory is None:
        return "exchange"
    if memory.space == "local":
        bits = 8 * memory.bytes_per_item
        return f"local_{next((width for width in _LOCAL_BITS if bits <= width), 128)}"
    return _CONSTANT if memory.space == "constant" else _ACCESS


def counted(instructions: Iterable[Instruction]) -> Counts:
    """(n_kind,) how many instructions there are of each kind, passes due to conflicts, and cycles."""
    counts = np.zeros(len(KINDS))
    for instruction in instructions:
        kind, memory = kind_of(instruction), instruction.memory
        counts[_NUMBER[kind]] += 1
        counts[_NUMBER["stalled"]] += instruction.stall_cycles
        counts[_NUMBER["operands"]] += instruction.read_cycles - 1
        if memory is None:
            continue
        counts[_NUMBER["conflict"]] += max(memory.conflict_passes, 0.0)
        if memory.conflict_passes < 0:  # where lanes are paired, half of the passes are saved
            bits = kind.removeprefix("local_")
            share = -memory.conflict_passes / (int(bits) / 64)
            counts[_NUMBER[kind]] -= share
            counts[_NUMBER[f"paired_{bits}"]] += share
    return counts


class WorkTable:
    """Rows of counts; equal rows share a number. n_kind : columns, those of KINDS and further ones"""

    def __init__(self, n_kind: int = len(KINDS)) -> None:
        self.rows: list[Counts] = [np.zeros(n_kind)]
        self._number = {self.rows[0].tobytes(): 0}

    def add(self, counts: Counts) -> int:
        """The number of a row."""
        key = counts.tobytes()
        if key not in self._number:
            self._number[key] = len(self.rows)
            self.rows.append(counts.copy())
        return self._number[key]
