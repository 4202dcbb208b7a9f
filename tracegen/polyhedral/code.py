"""The instruction set of the walk, and the program of a launch as rows of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

# A mask is a set of lanes, one bit each; mask 0 is all lanes of the sub-group. A value has 64 bits in each lane. Operands in order:
END, JUMP, JUMP_IF_EMPTY = range(3)  # -; target; mask, target
COMPARE, MINUS, JOIN = range(3, 6)  # mask, of mask, value, relation; mask, a, b; mask, a, b
COMPUTE, SELECT = range(6, 8)  # value, operation, a, b; value, mask, a, b
WITHIN, ACCESS, EVENT = range(8, 11)
# WITHIN: position, mask, value, extent, axis. ACCESS: position, mask, value, elements.
# EVENT (back-edge or barrier): position, mask
NOT_NEGATIVE, IS_ZERO, IS_NOT_ZERO = range(3)
ADD, SUBTRACT, MULTIPLY, DIVIDE, REMAINDER, FLOOR_DIVIDE, MODULO, LEAST, GREATEST = range(9)
N_OPERAND = 5
GROUP, LANE, FIRST_VALUE = 0, 3, 6
"""Values GROUP + d and LANE + d are the group's and the work-item's ids along axis d."""


class Code(NamedTuple):
    """A launch's program: rows of an instruction and its operands; numbers of masks.

    values : (n_value, 64) with constants in place
    items : (3, n_subgroup, 64) the work-item ids of the lanes of each sub-group of a group
    """

    rows: npt.NDArray[np.int64]
    values: npt.NDArray[np.int64]
    items: npt.NDArray[np.int64]
    n_mask: int


@dataclass
class CodeWriter:
    """Collects instructions. constants : value -> its number in all lanes"""

    rows: list[list[int]] = field(default_factory=list)
    constants: dict[int, int] = field(default_factory=dict)
    n_mask: int = 1
    n_value: int = FIRST_VALUE

    def write(self, instruction: int, *operands: int) -> int:
        """Appends an instruction; returns the number of its row."""
        self.rows.append([instruction, *operands, *([0] * (N_OPERAND - len(operands)))])
        return len(self.rows) - 1

    def land(self, row: int) -> None:
        """Makes a jump go to the next instruction that is written."""
        self.rows[row][1 if self.rows[row][0] == JUMP else 2] = len(self.rows)

    def mask(self, instruction: int, *operands: int) -> int:
        """A new mask, as an instruction sets it."""
        self.n_mask += 1
        self.write(instruction, self.n_mask - 1, *operands)
        return self.n_mask - 1

    def value(self, instruction: int, *operands: int) -> int:
        """A new value, as an instruction sets it."""
        self.n_value += 1
        self.write(instruction, self.n_value - 1, *operands)
        return self.n_value - 1

    def constant(self, number: int) -> int:
        for value, known in self.constants.items():
            if known == number:
                return value
        self.constants[self.n_value] = number
        self.n_value += 1
        return self.n_value - 1

    def finish(self, group_shape: Sequence[int], subgroup_size: int) -> Code:
        values = np.zeros((self.n_value, 64), np.int64)
        for value, number in self.constants.items():
            values[value] = number
        extents = (*group_shape, 1, 1, 1)[:3]
        n_items = int(np.prod(extents))
        items = np.zeros((3, -(-n_items // subgroup_size), 64), np.int64)
        at = np.arange(n_items)
        for axis, ids in enumerate(np.unravel_index(at, extents, order="F")):
            items[axis, at // subgroup_size, at % subgroup_size] = ids
        rows = np.array(self.rows, np.int64).reshape(-1, 1 + N_OPERAND)
        return Code(rows, values, items, self.n_mask)
