"""Walks a launch's program once for each sub-group, all lanes together, and writes its accesses.

Its state, apart from the masks, is that of `tracegen.recording.subgroup.merge` and has the same
meaning: which addresses a lane knows, the latest access of each site, where the current bulk sequence
began. Lanes that left a loop or skipped a branch are out of the mask until it ends. Where the room for
accesses is full, the walk stops, inside a sub-group if need be, and goes on from there when it is called
again: memory is bounded whatever one work-item does.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from memsim.compile import hot, inner
from memsim.trace import Columns
from tracegen.polyhedral import code as c
from tracegen.polyhedral.arithmetic import (
    Index,
    count_bits,
    operate,
    value_of_lane,
    value_shared,
)
from tracegen.polyhedral.code import Code
from tracegen.polyhedral.knowledge import Known, forget, known_hits, make_known
from tracegen.polyhedral.patterns import Patterns, append_lanes, append_pattern
from tracegen.recording.subgroup import (
    EDGE,
    LOAD,
    ProbeTables,
    Progress,
    latest_feed,
    with_fresh,
)

_END, _JUMP, _JUMP_IF_EMPTY, _COMPARE, _MINUS, _JOIN = range(6)
_ZERO, _NEXT, _COMPUTE, _SELECT, _WITHIN, _ACCESS, _EVENT = range(6, 13)
_NOT_NEGATIVE, _IS_ZERO = range(2)
assert (_JOIN, _SELECT, _EVENT, _IS_ZERO) == (c.JOIN, c.SELECT, c.EVENT, c.IS_ZERO)


class Scratch(NamedTuple):
    """shared : (n_symbol,) and own : (n_symbol, 64) values of symbols; element : (64,)"""

    shared: npt.NDArray[np.int64]
    own: npt.NDArray[np.int64]
    masks: npt.NDArray[np.int64]
    element: npt.NDArray[np.int64]
    known_access: npt.NDArray[np.int32]
    latest: npt.NDArray[np.int32]


def scratch(code: Code, tables: ProbeTables) -> Scratch:
    return Scratch(
        np.zeros(code.n_symbol, np.int64),
        np.zeros((code.n_symbol, 64), np.int64),
        np.zeros(code.n_mask, np.int64),
        np.zeros(64, np.int64),
        np.zeros(tables.n_key + 1, np.int32),
        np.zeros(tables.n_site + 1, np.int32),
    )


class Walk(NamedTuple):
    """What a walk reads and the room that it works in.

    grid0, grid1 : extents of the grid
    recording : otherwise accesses are only counted
    reduced : whether redundant accesses are left out
    most_accesses : of one sub-group
    """

    code: Code
    tables: ProbeTables
    scratch: Scratch
    known: Known
    patterns: Patterns
    grid0: int
    grid1: int
    group_items: int
    subgroup_size: int
    recording: bool
    reduced: bool
    most_accesses: int


GROUP, SUBGROUP, PAUSED, ROW, OWN, SEQUENCE, FRESH = range(7)
"""Where a walk stopped (7,) int64: the index of the group, the sub-group in it, and, if it stopped inside
that sub-group, the row, the sub-group's accesses so far, where its bulk sequence began, and whether a new
one begins. Zeros are the beginning."""


class Subgroup(NamedTuple):
    """number : in its group, which has n_subgroup of them"""

    number: int
    n_subgroup: int
    n_lane: int


@hot
def walk(
    walk: Walk,
    groups: npt.NDArray[np.int64],
    out: Columns,
    tokens: npt.NDArray[np.int64],
    at: npt.NDArray[np.int64],
    fault: npt.NDArray[np.int64],
) -> tuple[int, int, int]:
    """Fills `out` with accesses of the groups, from where it stopped before to where it is full.

    tokens : (n_group,) filled when not recording: how many an instrumented run writes
    at : (7,) where to begin; on return, where it stopped
    fault : whether there is one, position, index, axis (-1: of the whole array), index of that axis, group,
        work-item of it: the first access outside its array, which ends the walk; 2 for too many accesses

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
        n_token = 0
        for number in range(at[SUBGROUP], n_subgroup):
            row = at[ROW]
            subgroup = _enter_subgroup(walk, number, n_subgroup, at[PAUSED] != 0)
            if at[PAUSED] == 0:
                row = 0
                progress = Progress(
                    progress.n_access, progress.n_granule, progress.n_access, 0, True
                )
            at[PAUSED] = 0
            while row < len(rows):
                instruction = rows[row, 0]
                if instruction >= _WITHIN:
                    active = walk.scratch.masks[rows[row, 2]]
                    if active != 0:
                        index = Index(0, 0, True)
                        if instruction != _EVENT:
                            index = _index(walk, row)
                            if not _in_bounds(walk, subgroup, row, index, active, fault):
                                fault[5] = groups[group]
                                return n_done, progress.n_access, progress.n_granule
                        if instruction == _WITHIN:
                            pass
                        elif not walk.recording:
                            n_token += count_bits(active)
                        elif (
                            progress.n_access >= most_accesses or progress.n_granule > most_granules
                        ):
                            _pause(at, group, number, row, progress)
                            return n_done, progress.n_access, progress.n_granule
                        elif progress.n_access - progress.start >= walk.most_accesses:
                            fault[0] = 2
                            return n_done, progress.n_access, progress.n_granule
                        elif instruction == _ACCESS:
                            progress = _access(walk, subgroup, row, index, active, progress, out)
                        else:
                            progress = _event(walk, rows[row, 1], active, progress, out)
                    row += 1
                elif instruction <= _JUMP_IF_EMPTY:
                    row = _next_row(walk, row)
                else:
                    _set(walk, subgroup, row)
                    row += 1
            if walk.recording:
                out.subgroup_accesses[n_done] = progress.n_access - progress.start
            n_done += 1
        at[SUBGROUP] = 0
        tokens[group] = n_token
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
def _enter_subgroup(walk: Walk, number: int, n_subgroup: int, paused: bool) -> Subgroup:
    """A sub-group at its beginning, or as it was when the walk stopped inside it."""
    n_lane = min(walk.subgroup_size, walk.group_items - number * walk.subgroup_size)
    if not paused:
        walk.scratch.masks[0] = (np.int64(1) << n_lane) - 1 if n_lane < 64 else -1
        walk.known.mask[:] = 0
        walk.scratch.known_access[:] = -1
        walk.scratch.latest[:] = -1
    return Subgroup(number, n_subgroup, n_lane)


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
def _index(walk: Walk, row: int) -> Index:
    """The value of a row's form."""
    forms = walk.code.forms
    form = walk.code.rows[row, 3]
    return Index(
        forms.part[form],
        value_shared(form, forms, walk.scratch.shared),
        forms.lane_offset[form] == forms.lane_offset[form + 1],
    )


@inner
def _in_bounds(
    walk: Walk,
    subgroup: Subgroup,
    row: int,
    index: Index,
    active: int,
    fault: npt.NDArray[np.int64],
) -> bool:
    """Whether the index of each active lane is in its range; if not, sets `fault`.

    Where the range of all lanes does not decide it, `element` receives the index of each.
    """
    code = walk.code
    form = code.rows[row, 3]
    extent = code.rows[row, 4]
    low = index.level + code.parts.low[index.part, subgroup.number]
    high = index.level + code.parts.high[index.part, subgroup.number]
    if index.alike and low >= 0 and high < extent:
        return True
    element = walk.scratch.element
    for lane in range(subgroup.n_lane):
        if active >> lane & 1:
            element[lane] = value_of_lane(
                form, lane, index.level, code, subgroup.number, walk.scratch.own
            )
            if not 0 <= element[lane] < extent:
                within = code.rows[row, 0] == _WITHIN
                fault[0] = 1
                fault[1] = code.rows[row, 1]
                fault[2] = -1 if within else element[lane]
                fault[3] = code.rows[row, 5] if within else -1
                fault[4] = element[lane]
                fault[6] = subgroup.number * walk.subgroup_size + lane
                return False
    return True


@inner
def _access(
    walk: Walk,
    subgroup: Subgroup,
    row: int,
    index: Index,
    active: int,
    progress: Progress,
    out: Columns,
) -> Progress:
    """One access: drops the lanes to which it is redundant, and writes the rest."""
    tables, known, scratch = walk.tables, walk.known, walk.scratch
    position = walk.code.rows[row, 1]
    key = tables.key[position]
    is_load = tables.kind[position] == LOAD
    track = walk.reduced and key >= 0
    part_value = walk.code.parts.value[index.part, subgroup.number]
    issued = active
    if track and is_load:
        hits = known_hits(
            known, key, active, index, scratch.element, walk.code.parts.value, subgroup.number
        )
        if hits != 0:
            site = tables.site[position]
            scratch.latest[site] = max(scratch.latest[site], scratch.known_access[key])
            issued = active & ~hits
    elif walk.reduced:
        forget(known, tables, position, active)
    if track:
        make_known(
            known, key, active, index, scratch.element, walk.code.parts.value, subgroup.number
        )
    if issued != 0:
        stride = tables.stride[position]
        size = tables.size[position]
        base = tables.base[position]
        if index.alike:
            shape = walk.code.rows[row, 5] * subgroup.n_subgroup + subgroup.number
            n_granule = append_pattern(
                walk.patterns, shape, issued, index.level * stride + base, stride, size,
                part_value, progress.n_granule, out,
            )  # fmt: skip
        else:
            n_granule = append_lanes(
                walk.patterns, issued, scratch.element, stride, size, base,
                progress.n_granule, out,
            )  # fmt: skip
        progress = _write(walk, position, track, issued, n_granule, progress, out)
    edge = tables.closes[position]
    if edge >= 0:
        if walk.reduced:
            forget(known, tables, edge, active)
        progress = with_fresh(progress)
    return progress


@inner
def _write(
    walk: Walk,
    position: int,
    track: bool,
    issued: int,
    n_granule: int,
    progress: Progress,
    out: Columns,
) -> Progress:
    """Writes the row of an access whose granules are written."""
    tables, scratch = walk.tables, walk.scratch
    n_access = progress.n_access
    is_load = tables.kind[position] == LOAD
    wait = latest_feed(tables, position, scratch.latest)
    this_access = n_access - progress.start
    begins = progress.fresh or (is_load and wait >= progress.sequence)
    if is_load:
        scratch.latest[tables.site[position]] = this_access
    if track:
        scratch.known_access[tables.key[position]] = this_access if is_load else wait
    out.site[n_access] = tables.site[position]
    out.starts_sequence[n_access] = begins
    out.waits[n_access] = wait
    out.lanes[n_access] = count_bits(issued)
    out.granule_end[n_access] = n_granule
    return Progress(
        n_access + 1,
        n_granule,
        progress.start,
        this_access if begins else progress.sequence,
        False,
    )


@inner
def _event(walk: Walk, position: int, active: int, progress: Progress, out: Columns) -> Progress:
    """A back-edge or a barrier."""
    if walk.tables.kind[position] == EDGE:
        if walk.reduced:
            forget(walk.known, walk.tables, position, active)
        at_edge: Progress = with_fresh(progress)
        return at_edge
    n_access = progress.n_access
    walk.known.mask[:] = 0
    out.site[n_access] = walk.tables.site[position]
    out.starts_sequence[n_access] = True
    out.waits[n_access] = latest_feed(walk.tables, position, walk.scratch.latest)
    out.lanes[n_access] = 0
    out.granule_end[n_access] = progress.n_granule
    start = progress.start
    return Progress(n_access + 1, progress.n_granule, start, n_access - start, True)


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
    active = masks[code.rows[row, 2]]
    relation = code.rows[row, 4]
    index = _index(walk, row)
    low = index.level + code.parts.low[index.part, subgroup.number]
    high = index.level + code.parts.high[index.part, subgroup.number]
    if index.alike and relation == _NOT_NEGATIVE and (low >= 0 or high < 0):
        result = active if low >= 0 else 0
    elif index.alike and relation != _NOT_NEGATIVE and low == high:
        result = active if (low == 0) == (relation == _IS_ZERO) else 0
    else:
        chosen = np.int64(0)
        form = code.rows[row, 3]
        for lane in range(subgroup.n_lane):
            this = value_of_lane(form, lane, index.level, code, subgroup.number, walk.scratch.own)
            is_zero = (this == 0) == (relation == _IS_ZERO)
            true = this >= 0 if relation == _NOT_NEGATIVE else is_zero
            chosen |= np.int64(true) << lane
        result = active & chosen
    masks[code.rows[row, 1]] = result


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
