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
from tracegen.polyhedral.arithmetic import operate, value_of_lane, value_shared
from tracegen.polyhedral.code import Code

_END, _JUMP, _JUMP_IF_EMPTY, _COMPARE, _MINUS, _JOIN = range(6)
_ZERO, _NEXT, _COMPUTE, _SELECT, _WITHIN, _ACCESS, _EVENT = range(6, 13)
_NOT_NEGATIVE, _IS_ZERO = range(2)
assert (_JOIN, _SELECT, _EVENT, _IS_ZERO) == (c.JOIN, c.SELECT, c.EVENT, c.IS_ZERO)


class Scratch(NamedTuple):
    """shared : (n_symbol,) and own : (n_symbol, 64) values of symbols"""

    shared: npt.NDArray[np.int64]
    own: npt.NDArray[np.int64]
    masks: npt.NDArray[np.int64]


def scratch(code: Code) -> Scratch:
    return Scratch(
        np.zeros(code.n_symbol, np.int64),
        np.zeros((code.n_symbol, 64), np.int64),
        np.zeros(code.n_mask, np.int64),
    )


class Walk(NamedTuple):
    """What a walk reads and the room that it works in.

    grid0, grid1 : extents of the grid
    reduced : whether redundant accesses are left out
    """

    code: Code
    tables: ProbeTables
    lanes: Lanes
    scratch: Scratch
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
                if instruction >= _WITHIN:
                    if walk.scratch.masks[rows[row, 2]] != 0:
                        if progress.n_access >= most_accesses or progress.n_granule > most_granules:
                            _pause(at, group, number, row, progress)
                            return n_done, progress.n_access, progress.n_granule
                        step = _step(walk, subgroup, row, fault)
                        if fault[0] != 0:
                            fault[5] = groups[group]
                            return n_done, progress.n_access, progress.n_granule
                        if instruction != _WITHIN:
                            progress = take(
                                walk.tables, walk.lanes, step, subgroup.n_lane, walk.reduced,
                                progress, out,
                            )  # fmt: skip
                    row += 1
                elif instruction <= _JUMP_IF_EMPTY:
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
    shared = walk.scratch.shared
    shared[0] = group % walk.grid0
    shared[1] = group // walk.grid0 % walk.grid1
    shared[2] = group // walk.grid0 // walk.grid1


@inner
def _enter_subgroup(walk: Walk, number: int, paused: bool) -> Subgroup:
    """A sub-group at its beginning, or as it was when the walk stopped inside it."""
    n_lane = min(walk.subgroup_size, walk.group_items - number * walk.subgroup_size)
    if not paused:
        walk.scratch.masks[0] = (np.int64(1) << n_lane) - 1 if n_lane < 64 else -1
        begin(walk.lanes)
    return Subgroup(number, n_lane)


@inner
def _next_row(walk: Walk, row: int) -> Any:
    """Where a jump goes; the end is behind the last row."""
    rows = walk.code.rows
    instruction = rows[row, 0]
    if instruction == _JUMP:
        return np.int64(rows[row, 1])
    if instruction == _JUMP_IF_EMPTY:
        return np.int64(rows[row, 2]) if walk.scratch.masks[rows[row, 1]] == 0 else row + 1
    return len(rows)


@inner
def _step(walk: Walk, subgroup: Subgroup, row: int, fault: npt.NDArray[np.int64]) -> Step:
    """The active lanes with their indices; sets `fault` where one is not in its range."""
    code, lanes = walk.code, walk.lanes
    is_event = code.rows[row, 0] == _EVENT
    active, form, extent = (
        walk.scratch.masks[code.rows[row, 2]],
        code.rows[row, 3],
        code.rows[row, 4],
    )
    level = np.int64(0) if is_event else value_shared(form, code.forms, walk.scratch.shared)
    n_active = 0
    for lane in range(subgroup.n_lane):
        if active >> lane & 1:
            lanes.lanes[STEP, n_active] = lane
            if not is_event:
                this = value_of_lane(form, lane, level, code, subgroup.number, walk.scratch.own)
                lanes.address[n_active] = this
                if not 0 <= this < extent:
                    within = code.rows[row, 0] == _WITHIN
                    fault[0] = 1
                    fault[1] = code.rows[row, 1]
                    fault[2] = -1 if within else this
                    fault[3] = code.rows[row, 5] if within else -1
                    fault[4] = this
                    fault[6] = subgroup.number * walk.subgroup_size + lane
                    break
            n_active += 1
    return Step(code.rows[row, 1], STEP, n_active)


@inner
def _set(walk: Walk, subgroup: Subgroup, row: int) -> None:
    """An instruction that sets a mask or a symbol."""
    rows = walk.code.rows
    masks = walk.scratch.masks
    shared = walk.scratch.shared
    instruction = rows[row, 0]
    a = rows[row, 1]
    if instruction == _COMPARE:
        _compare(walk, subgroup, row)
    elif instruction == _NEXT:
        shared[a] += 1
    elif instruction == _ZERO:
        shared[a] = 0
    elif instruction == _MINUS:
        masks[a] = masks[rows[row, 2]] & ~masks[rows[row, 3]]
    elif instruction == _JOIN:
        masks[a] = masks[rows[row, 2]] | masks[rows[row, 3]]
    else:
        _compute(walk, subgroup, row)


@inner
def _compare(walk: Walk, subgroup: Subgroup, row: int) -> None:
    """Sets a mask to the lanes of another for which a form is not negative, is 0, or is not."""
    code, masks = walk.code, walk.scratch.masks
    active, form, relation = masks[code.rows[row, 2]], code.rows[row, 3], code.rows[row, 4]
    level = value_shared(form, code.forms, walk.scratch.shared)
    chosen = np.int64(0)
    for lane in range(subgroup.n_lane):
        if active >> lane & 1:
            this = value_of_lane(form, lane, level, code, subgroup.number, walk.scratch.own)
            is_zero = (this == 0) == (relation == _IS_ZERO)
            true = this >= 0 if relation == _NOT_NEGATIVE else is_zero
            chosen |= np.int64(true) << lane
    masks[code.rows[row, 1]] = chosen


@inner
def _compute(walk: Walk, subgroup: Subgroup, row: int) -> None:
    """Sets a symbol to the result of an operation, or to one of two forms by a mask."""
    code, scratch = walk.code, walk.scratch
    a, b, form, other = code.rows[row, 1], code.rows[row, 2], code.rows[row, 3], code.rows[row, 4]
    is_operation = code.rows[row, 0] == _COMPUTE
    level = value_shared(form, code.forms, scratch.shared)
    other_level = value_shared(other, code.forms, scratch.shared)
    if code.rows[row, 5] == 0:
        if is_operation:
            scratch.shared[a] = operate(b, level, other_level)
        else:
            scratch.shared[a] = level if scratch.masks[b] != 0 else other_level
        return
    for lane in range(subgroup.n_lane):
        left = value_of_lane(form, lane, level, code, subgroup.number, scratch.own)
        right = value_of_lane(other, lane, other_level, code, subgroup.number, scratch.own)
        if is_operation:
            scratch.own[a, lane] = operate(b, left, right)
        else:
            scratch.own[a, lane] = left if scratch.masks[b] >> lane & 1 else right
