"""The instruction set of the walk, and the program of a launch as flat arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tracegen.polyhedral.forms import FIRST_SLOT, GROUP, LANE, Affine

# A mask is a set of lanes, one bit each; mask 0 is all lanes of the sub-group. Operands in order:
END, JUMP, JUMP_IF_EMPTY = range(3)  # -; target; mask, target
COMPARE, MINUS, JOIN = range(3, 6)  # mask, of mask, form, relation; mask, a, b; mask, a, b
ZERO, NEXT = range(6, 8)  # slot; slot: a loop's counter
COMPUTE, SELECT = range(8, 10)  # slot, operation, a, b, by lane; slot, mask, a, b, by lane
WITHIN, ACCESS, EVENT = range(10, 13)
# WITHIN: position, mask, form, extent, axis. ACCESS: position, mask, form, elements.
# EVENT (back-edge or barrier): position, mask
NOT_NEGATIVE, IS_ZERO, IS_NOT_ZERO = range(3)
MULTIPLY, DIVIDE, REMAINDER, FLOOR_DIVIDE, MODULO, LEAST, GREATEST = range(7)
N_OPERAND = 5


class Forms(NamedTuple):
    """The affine forms, each split into a part that all lanes share and a part that they do not.

    Ragged lists are a flat array and offsets.
    term_symbol, term_coefficient : the terms that lanes share
    part : row of `Code.parts`, the contribution of the work-item ids
    lane_slot, lane_coefficient : terms whose symbol differs between lanes in a non-affine way
    """

    const: npt.NDArray[np.int64]
    term_offset: npt.NDArray[np.int64]
    term_symbol: npt.NDArray[np.int64]
    term_coefficient: npt.NDArray[np.int64]
    part: npt.NDArray[np.int64]
    lane_offset: npt.NDArray[np.int64]
    lane_slot: npt.NDArray[np.int64]
    lane_coefficient: npt.NDArray[np.int64]


class Code(NamedTuple):
    """A launch's program: rows of an instruction and its operands; numbers of masks and symbols.

    parts : (n_part, n_subgroup, 64) the contributions of the work-item ids
    """

    rows: npt.NDArray[np.int64]
    forms: Forms
    parts: npt.NDArray[np.int64]
    n_mask: int
    n_symbol: int


@dataclass
class CodeWriter:
    """Collects instructions and distinct forms.

    by_lane : the slots whose value differs between lanes in a non-affine way
    """

    rows: list[list[int]] = field(default_factory=list)
    forms: dict[Affine, int] = field(default_factory=dict)
    parts: dict[tuple[int, ...], int] = field(default_factory=lambda: {(0, 0, 0): 0})
    by_lane: set[int] = field(default_factory=set)
    n_mask: int = 1
    n_symbol: int = FIRST_SLOT

    def write(self, instruction: int, *operands: int) -> int:
        """Appends an instruction; returns the number of its row."""
        self.rows.append([instruction, *operands, *([0] * (N_OPERAND - len(operands)))])
        return len(self.rows) - 1

    def land(self, row: int) -> None:
        """Makes a jump go to the next instruction that is written."""
        self.rows[row][1 if self.rows[row][0] == JUMP else 2] = len(self.rows)

    def mask(self) -> int:
        self.n_mask += 1
        return self.n_mask - 1

    def slot(self, by_lane: bool) -> int:
        self.n_symbol += 1
        if by_lane:
            self.by_lane.add(self.n_symbol - 1)
        return self.n_symbol - 1

    def form(self, form: Affine) -> int:
        return self.forms.setdefault(form, len(self.forms))

    def part(self, form: Affine) -> int:
        coefficients = dict(form.terms)
        key = tuple(coefficients.get(LANE + d, 0) for d in range(3))
        return self.parts.setdefault(key, len(self.parts))

    def differs(self, form: Affine) -> bool:
        """Whether a form's value may differ between lanes."""
        return form.uses(self.by_lane | {LANE, LANE + 1, LANE + 2})

    def finish(self, group_shape: Sequence[int], subgroup_size: int) -> Code:
        rows = np.array(self.rows, np.int64).reshape(-1, 1 + N_OPERAND)
        lists: list[list[tuple[int, int]]] = []
        own: list[list[tuple[int, int]]] = []
        for form in self.forms:
            lists.append([t for t in form.terms if t[0] not in self.by_lane and not _lane(t[0])])
            own.append([t for t in form.terms if t[0] in self.by_lane])
        part = np.array([self.part(form) for form in self.forms], np.int64)
        const = np.array([form.const for form in self.forms], np.int64)
        forms = Forms(const, *_ragged(lists), part, *_ragged(own))
        parts = lane_parts(list(self.parts), group_shape, subgroup_size)
        return Code(rows, forms, parts, self.n_mask, self.n_symbol)


def lane_parts(
    coefficients: Sequence[tuple[int, ...]], group_shape: Sequence[int], subgroup_size: int
) -> npt.NDArray[np.int64]:
    """The lane parts of linear forms of the work-item id, see Code. Axis 0 varies fastest within a sub-group."""
    extents = (*group_shape, 1, 1, 1)[:3]
    n_items = int(np.prod(extents))
    n_subgroup = -(-n_items // subgroup_size)
    item = np.arange(n_items)
    ids = np.stack(
        [item % extents[0], item // extents[0] % extents[1], item // (extents[0] * extents[1])]
    )
    values = np.array(coefficients, np.int64).reshape(-1, 3) @ ids
    value = np.zeros((len(coefficients), n_subgroup, 64), np.int64)
    for subgroup in range(n_subgroup):
        own = values[:, subgroup * subgroup_size : (subgroup + 1) * subgroup_size]
        value[:, subgroup, : own.shape[1]] = own
    return value


def _lane(symbol: int) -> bool:
    return LANE <= symbol < FIRST_SLOT


def _ragged(
    rows: Sequence[Sequence[tuple[int, int]]],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    offset = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(row) for row in rows], out=offset[1:])
    flat = [term for row in rows for term in row]
    return (
        offset,
        np.array([symbol for symbol, _ in flat], np.int64),
        np.array([coefficient for _, coefficient in flat], np.int64),
    )


assert GROUP == 0
