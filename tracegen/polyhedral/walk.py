"""Walks a launch's program once for each sub-group, all lanes together, and writes its accesses.

What becomes of an access is up to `tracegen.instrumented.merge`, as if its tokens had been recorded. Lanes that
left a loop or skipped a branch are out of the mask until it ends. Where the room for accesses is full, the walk
stops, inside a sub-group if need be, and goes on from there when it is called again: memory is bounded whatever
one work-item does.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from memsim.compile import hot, inner
from memsim.trace import Columns
from tracegen.instrumented.merge import STEP, Lanes, Progress, Step, begin, take
from tracegen.instrumented.tables import ProbeTables
from tracegen.polyhedral import code as c
from tracegen.polyhedral.code import Code


class Walk(NamedTuple):
    """What a walk reads and the room that it works in.

    grid0, grid1 : extents of the grid
    reduced : whether redundant accesses are left out
    """

    code: Code
    tables: ProbeTables
    lanes: Lanes
    values: npt.NDArray[np.int64]
    masks: npt.NDArray[np.int64]
    grid0: int
    grid1: int
    group_items: int
    subgroup_size: int
    reduced: bool


GROUP, SUBGROUP, PAUSED, ROW, OWN, SEQUENCE, FRESH = range(7)
"""Where a walk stopped (7,) int64: the index of the group, the sub-group in it, and, if it stopped inside
that sub-group, the row, the sub-group's accesses so far, where its bulk sequence began, and whether a new
one begins. Zeros are the beginning."""


class Subgroup(NamedTuple):
    """number : in its group"""

    number: int
    n_lane: int


@hot
def walk(
    walk: Walk,
    groups: npt.NDArray[np.int64],
    out: Columns,
    at: npt.NDArray[np.int64],
    fault: npt.NDArray[np.int64],
) -> tuple[int, int, int]:
    """Fills `out` with accesses of the groups, from where it stopped before to where it is full.

    at : (7,) where to begin; on return, where it stopped
    fault : whether there is one, position, index, axis (-1: of the whole array), index of that axis, group,
        work-item of it: the first access outside its array, which ends the walk

    Returns the sub-groups that it finished, the accesses and the granules that it wrote.
    """
    rows = walk.code.rows
    most_accesses = len(out.site)
    most_granules = len(out.granule) - 64 * walk.tables.most_granules
    n_subgroup = -(-walk.group_items // walk.subgroup_size)
    n_done = 0
    progress = Progress(0, 0, -at[OWN], at[SEQUENCE], at[FRESH] != 0)
    for group in range(at[GROUP], len(groups)):
        _enter_group(walk, groups[group])
        for number in range(at[SUBGROUP], n_subgroup):
            row = at[ROW]
            subgroup = _enter_subgroup(walk, number, at[PAUSED] != 0)
            if at[PAUSED] == 0:
                row = 0
                progress = Progress(
                    progress.n_access, progress.n_granule, progress.n_access, 0, True
                )
            at[PAUSED] = 0
            while row < len(rows):
                instruction = rows[row, 0]
                if instruction >= c.WITHIN:
                    if walk.masks[rows[row, 2]] != 0:
                        if progress.n_access >= most_accesses or progress.n_granule > most_granules:
                            _pause(at, group, number, row, progress)
                            return n_done, progress.n_access, progress.n_granule
                        step = _step(walk, subgroup, row, fault)
                        if fault[0] != 0:
                            fault[5] = groups[group]
                            return n_done, progress.n_access, progress.n_granule
                        if instruction != c.WITHIN:
                            progress = take(
                                walk.tables, walk.lanes, step, subgroup.n_lane, walk.reduced,
                                progress, out,
                            )  # fmt: skip
                    row += 1
                elif instruction <= c.JUMP_IF_EMPTY:
                    row = _next_row(walk, row)
                else:
                    _set(walk, subgroup, row)
                    row += 1
            out.subgroup_accesses[n_done] = progress.n_access - progress.start
            n_done += 1
        at[SUBGROUP] = 0
    at[GROUP] = len(groups)
    return n_done, progress.n_access, progress.n_granule


@inner
def _pause(
    at: npt.NDArray[np.int64], group: int, number: int, row: int, progress: Progress
) -> None:
    at[GROUP], at[SUBGROUP], at[PAUSED], at[ROW] = group, number, 1, row
    at[OWN] = progress.n_access - progress.start
    at[SEQUENCE], at[FRESH] = progress.sequence, progress.fresh


@inner
def _enter_group(walk: Walk, group: int) -> None:
    for lane in range(64):
        walk.values[0, lane] = group % walk.grid0
        walk.values[1, lane] = group // walk.grid0 % walk.grid1
        walk.values[2, lane] = group // walk.grid0 // walk.grid1


@inner
def _enter_subgroup(walk: Walk, number: int, paused: bool) -> Subgroup:
    """A sub-group at its beginning, or as it was when the walk stopped inside it."""
    n_lane = min(walk.subgroup_size, walk.group_items - number * walk.subgroup_size)
    for axis in range(3):
        for lane in range(n_lane):
            walk.values[3 + axis, lane] = walk.code.items[axis, number, lane]
    if not paused:
        walk.masks[0] = (np.int64(1) << n_lane) - 1 if n_lane < 64 else -1
        begin(walk.lanes)
    return Subgroup(number, n_lane)


@inner
def _next_row(walk: Walk, row: int) -> Any:
    """Where a jump goes; the end is behind the last row."""
    rows = walk.code.rows
    instruction = rows[row, 0]
    if instruction == c.JUMP:
        return np.int64(rows[row, 1])
    if instruction == c.JUMP_IF_EMPTY:
        return np.int64(rows[row, 2]) if walk.masks[rows[row, 1]] == 0 else row + 1
    return len(rows)


@inner
def _step(walk: Walk, subgroup: Subgroup, row: int, fault: npt.NDArray[np.int64]) -> Step:
    """The active lanes with their indices; sets `fault` where one is not in its range."""
    row_of, lanes = walk.code.rows[row], walk.lanes
    is_event, active, extent = row_of[0] == c.EVENT, walk.masks[row_of[2]], row_of[4]
    n_active = 0
    for lane in range(subgroup.n_lane):
        if active >> lane & 1:
            lanes.lanes[STEP, n_active] = lane
            if not is_event:
                this = walk.values[row_of[3], lane]
                lanes.address[n_active] = this
                if not 0 <= this < extent:
                    within = row_of[0] == c.WITHIN
                    fault[0] = 1
                    fault[1] = row_of[1]
                    fault[2] = -1 if within else this
                    fault[3] = row_of[5] if within else -1
                    fault[4] = this
                    fault[6] = subgroup.number * walk.subgroup_size + lane
                    break
            n_active += 1
    return Step(row_of[1], STEP, n_active)


@inner
def _set(walk: Walk, subgroup: Subgroup, row: int) -> None:
    """An instruction that sets a mask, or a value in all lanes."""
    masks, values = walk.masks, walk.values
    instruction, d, first, a, b = (
        walk.code.rows[row, 0], walk.code.rows[row, 1], walk.code.rows[row, 2], walk.code.rows[row, 3],
        walk.code.rows[row, 4],
    )  # fmt: skip
    if instruction == c.COMPUTE:
        _compute(first, values[a], values[b], values[d], subgroup.n_lane)
    elif instruction == c.SELECT:
        for lane in range(subgroup.n_lane):
            values[d, lane] = values[a, lane] if masks[first] >> lane & 1 else values[b, lane]
    elif instruction == c.MINUS:
        masks[d] = masks[first] & ~masks[a]
    elif instruction == c.JOIN:
        masks[d] = masks[first] | masks[a]
    else:
        chosen = np.int64(0)
        for lane in range(subgroup.n_lane):
            this = values[a, lane]
            is_zero = (this == 0) == (b == c.IS_ZERO)
            chosen |= np.int64(this >= 0 if b == c.NOT_NEGATIVE else is_zero) << lane
        masks[d] = chosen & masks[first]


@inner
def _compute(
    operation: int,
    a: npt.NDArray[np.int64],
    b: npt.NDArray[np.int64],
    d: npt.NDArray[np.int64],
    n_lane: int,
) -> None:
    """An operation in all lanes: those that are commonest, without a choice in each."""
    if operation == c.ADD:
        for lane in range(n_lane):
            d[lane] = a[lane] + b[lane]
    elif operation == c.MULTIPLY:
        for lane in range(n_lane):
            d[lane] = a[lane] * b[lane]
    else:
        for lane in range(n_lane):
            d[lane] = operate(operation, a[lane], b[lane])


@inner
def operate(operation: int, a: int, b: int) -> int:
    """A division by 0 gives 0: only an idle lane divides by it. Divisions are those of C, and of Loopy."""
    if operation == c.ADD:
        return a + b
    if operation == c.SUBTRACT:
        return a - b
    if operation == c.MULTIPLY:
        return a * b
    if operation >= c.LEAST:
        return min(a, b) if operation == c.LEAST else max(a, b)
    if b == 0:
        return 0
    if operation == c.FLOOR_DIVIDE:
        return a // b
    if operation == c.MODULO:
        return a % b
    quotient = abs(a) // abs(b)
    if (a < 0) != (b < 0):
        quotient = -quotient
    return quotient if operation == c.DIVIDE else a - quotient * b
