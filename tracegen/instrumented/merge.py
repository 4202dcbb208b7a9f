"""From the tokens of work-items to the accesses of sub-groups.

The lanes of a sub-group run in lockstep: the next step takes those lanes whose next token has the
smallest position. Positions ascend in program order and a loop's back-edge comes after its body, so
lanes that left a loop or skipped a branch wait for the rest. A step drops redundant loads, determines
whether a bulk sequence begins, and coalesces the addresses of its lanes into granules.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from memsim.compile import hot, inner
from memsim.trace import BARRIER_SITE, Columns, coalesce, room
from tracegen.instrumented.tables import BARRIER, EDGE, LOAD, ProbeTables

_NEVER = 1 << 20
ALL, STEP, _KEPT = range(3)


class Lanes(NamedTuple):
    """Scratch of the merge: (64,) by lane unless stated otherwise.

    head, element : position and index of a lane's next token; cursor, end : of its tokens
    lanes : (3, 64) lists of lanes: all of them, those of this step, those of a load that are kept
    address : of the lanes of a step, in the order of their list
    requested : what `coalesce` sorts
    known : (key, lane) latest index of each key, -1 where it is unknown
    known_access : by key, the access that a value equal to the known one waits for
    latest : by site, its latest access
    """

    head: npt.NDArray[np.int32]
    element: npt.NDArray[np.int64]
    cursor: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    lanes: npt.NDArray[np.int64]
    address: npt.NDArray[np.int64]
    requested: npt.NDArray[np.int64]
    known: npt.NDArray[np.int64]
    known_access: npt.NDArray[np.int32]
    latest: npt.NDArray[np.int32]


class Step(NamedTuple):
    """The lanes that take a position: the first n_active of row `row` of `Lanes.lanes`."""

    position: int
    row: int
    n_active: int


class Progress(NamedTuple):
    """How far the merge has come.

    n_access, n_granule : written so far; start : n_access at the sub-group's beginning
    sequence : the access, counted from start, that began the current bulk sequence
    fresh : whether the next access begins one
    """

    n_access: int
    n_granule: int
    start: int
    sequence: int
    fresh: bool


def merge(
    tokens: npt.NDArray[Any],
    item_offset: npt.NDArray[np.int64],
    item_tokens: npt.NDArray[np.uint32],
    group_items: int,
    subgroup_size: int,
    position_shift: int,
    reduced: bool,
    tables: ProbeTables,
) -> tuple[Columns, int, int, int]:
    """The accesses of every sub-group in order, and how many sub-groups, accesses and granules there are.

    tokens : (n_token + 1,) of all work-items, group by group, and one more of any value
    item_offset : (n_item + 1,) where the room for the tokens of each work-item begins
    item_tokens : (n_item,) how many there are
    """
    n_token, n_group = int(item_offset[-1]), len(item_tokens) // group_items
    n_subgroup = -(-group_items // subgroup_size) * n_group
    out = room(n_subgroup, n_token, n_token * tables.most_granules)
    n_access, n_granule = _merge(
        tokens, item_offset[:-1], item_tokens, group_items, subgroup_size, position_shift, reduced, tables,
        new_lanes(tables), out,
    )  # fmt: skip
    return out, n_subgroup, n_access, n_granule


def new_lanes(tables: ProbeTables) -> Lanes:
    """The state at the beginning of a sub-group."""
    lists = np.zeros((3, 64), np.int64)
    lists[ALL] = np.arange(64)
    return Lanes(
        head=np.full(64, _NEVER, np.int32),
        element=np.zeros(64, np.int64),
        cursor=np.zeros(64, np.int64),
        end=np.zeros(64, np.int64),
        lanes=lists,
        address=np.zeros(64, np.int64),
        requested=np.zeros(64 * tables.most_granules, np.int64),
        known=np.full((tables.n_key + 1, 64), -1, np.int64),
        known_access=np.full(tables.n_key + 1, -1, np.int32),
        latest=np.full(tables.n_site + 1, -1, np.int32),
    )


@hot
def _merge(
    tokens: npt.NDArray[Any],
    item_offset: npt.NDArray[np.int64],
    item_tokens: npt.NDArray[np.uint32],
    group_items: int,
    subgroup_size: int,
    position_shift: int,
    reduced: bool,
    tables: ProbeTables,
    lanes: Lanes,
    out: Columns,
) -> tuple[int, int]:
    n_access = 0
    n_granule = 0
    subgroup = 0
    for group in range(len(item_offset) // group_items):
        for first in range(0, group_items, subgroup_size):
            n_lane = min(subgroup_size, group_items - first)
            for lane in range(n_lane):
                item = group * group_items + first + lane
                lanes.cursor[lane] = item_offset[item] - 1
                lanes.end[lane] = item_offset[item] + np.int64(item_tokens[item])
                _advance(tokens, position_shift, lanes, lane)
            begin(lanes)
            progress = Progress(n_access, n_granule, n_access, 0, True)
            while True:
                step = _next_step(tokens, position_shift, lanes, n_lane)
                if step.position == _NEVER:
                    break
                progress = take(tables, lanes, step, n_lane, reduced, progress, out)
            out.subgroup_accesses[subgroup] = progress.n_access - n_access
            n_access = progress.n_access
            n_granule = progress.n_granule
            subgroup += 1
    return n_access, n_granule


@inner
def begin(lanes: Lanes) -> None:
    """No lane of the next sub-group knows anything."""
    lanes.known[:] = -1
    lanes.known_access[:] = -1
    lanes.latest[:] = -1


@inner
def _advance(tokens: npt.NDArray[Any], position_shift: int, lanes: Lanes, lane: int) -> None:
    """Moves a lane to its next token."""
    at = lanes.cursor[lane] + 1
    lanes.cursor[lane] = at
    token = np.int64(tokens[at])
    lanes.element[lane] = token & ((1 << position_shift) - 1)
    position = np.int32(token >> position_shift)
    lanes.head[lane] = position if at < lanes.end[lane] else _NEVER


@inner
def _next_step(tokens: npt.NDArray[Any], position_shift: int, lanes: Lanes, n_lane: int) -> Step:
    """Takes the tokens of the smallest position; that is _NEVER where all lanes have ended."""
    position: Any = np.int64(lanes.head[0])
    together = True
    for lane in range(n_lane):
        together &= lanes.head[lane] == position
    if together:
        if position != _NEVER:
            for lane in range(n_lane):
                lanes.address[lane] = lanes.element[lane]
                _advance(tokens, position_shift, lanes, lane)
        return Step(position, ALL, n_lane)
    for lane in range(n_lane):
        position = min(position, np.int64(lanes.head[lane]))
    n_active = 0
    for lane in range(n_lane):
        lanes.lanes[STEP, n_active] = lane
        lanes.address[n_active] = lanes.element[lane]
        n_active += lanes.head[lane] == position
    for k in range(n_active):
        _advance(tokens, position_shift, lanes, lanes.lanes[STEP, k])
    return Step(position, STEP, n_active)


@inner
def _forget(tables: ProbeTables, position: int, lanes: Lanes, step: Step, n_lane: int) -> None:
    """The lanes of a step pass a position that makes some keys unknown."""
    for k in range(tables.kill_offset[position], tables.kill_offset[position + 1]):
        key = tables.kill[k]
        if step.n_active == n_lane:
            for lane in range(n_lane):
                lanes.known[key, lane] = -1
        else:
            for m in range(step.n_active):
                lanes.known[key, lanes.lanes[step.row, m]] = -1


@inner
def _without_redundant(key: int, lanes: Lanes, step: Step) -> Step:
    """The lanes of a load that do not know its value; from now on all lanes of the step do."""
    n_kept = 0
    for k in range(step.n_active):
        lane = lanes.lanes[step.row, k]
        this = lanes.address[k]
        lanes.lanes[_KEPT, n_kept] = lane
        lanes.address[n_kept] = this
        n_kept += lanes.known[key, lane] != this
        lanes.known[key, lane] = this
    return Step(step.position, _KEPT, n_kept)


@inner
def take(
    tables: ProbeTables,
    lanes: Lanes,
    step: Step,
    n_lane: int,
    reduced: bool,
    progress: Progress,
    out: Columns,
) -> Progress:
    """One step: drops what is redundant of an access, and writes the rest."""
    position = step.position
    kind = tables.kind[position]
    if kind == EDGE:
        if reduced:
            _forget(tables, position, lanes, step, n_lane)
        return Progress(
            progress.n_access, progress.n_granule, progress.start, progress.sequence, True
        )
    key = tables.key[position]
    track = reduced and key >= 0
    kept = step
    if track and kind == LOAD:
        kept = _without_redundant(key, lanes, step)
        if kept.n_active < step.n_active:
            site = tables.site[position]
            lanes.latest[site] = max(lanes.latest[site], lanes.known_access[key])
    elif reduced and kind != BARRIER:
        _forget(tables, position, lanes, step, n_lane)
        if track:
            for k in range(step.n_active):
                lanes.known[key, lanes.lanes[step.row, k]] = lanes.address[k]
    if kept.n_active > 0:
        progress = _write(tables, lanes, kept, track, progress, out)
    return progress


@inner
def _write(
    tables: ProbeTables,
    lanes: Lanes,
    step: Step,
    track: bool,
    progress: Progress,
    out: Columns,
) -> Progress:
    """Writes the row of one access, and its granules."""
    position = step.position
    kind = tables.kind[position]
    n_access = progress.n_access
    n_granule = progress.n_granule
    n_active = step.n_active
    wait = _latest_feed(tables, position, lanes.latest)
    begins = progress.fresh or (kind == LOAD and wait >= progress.sequence)
    if kind == BARRIER:
        begins = True
        lanes.known[:] = -1
        n_active = 0
    else:
        for k in range(n_active):
            lanes.address[k] = lanes.address[k] * tables.stride[position] + tables.base[position]
        n_granule = coalesce(
            lanes.address, lanes.lanes, step.row, n_active, tables.size[position],
            lanes.requested, n_granule,
            out.granule, out.byte_mask, out.lane_groups, out.lane_hits,
        )  # fmt: skip
    this_access = n_access - progress.start
    if kind == LOAD:
        lanes.latest[tables.site[position]] = this_access
    if track:
        lanes.known_access[tables.key[position]] = this_access if kind == LOAD else wait
    out.site[n_access] = tables.site[position]
    out.starts_sequence[n_access] = begins
    out.waits[n_access] = wait
    out.lanes[n_access] = n_active
    out.granule_end[n_access] = n_granule
    return Progress(
        n_access + 1,
        n_granule,
        progress.start,
        this_access if begins else progress.sequence,
        kind == BARRIER,
    )


@inner
def _latest_feed(tables: ProbeTables, position: int, latest: npt.NDArray[np.int32]) -> np.int32:
    """The latest access whose value a position needs, -1 where there is none."""
    wait = np.int32(-1)
    for k in range(tables.feed_offset[position], tables.feed_offset[position + 1]):
        wait = max(wait, latest[tables.feed[k]])
    return wait


assert BARRIER_SITE == -1
