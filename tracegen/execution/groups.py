"""Groups begin and end; what they accessed is recorded when they have ended."""

from __future__ import annotations

import numpy as np

from memsim.compile import hot, inner
from tracegen.execution.address_lanes import copy_granules
from tracegen.execution.barriers import OPENED, open_barriers
from tracegen.execution.granules import staged
from tracegen.execution.moved import begin_reference, end_reference, move_group
from tracegen.execution.operations import GROUP_BITS
from tracegen.execution.paths import close_path
from tracegen.execution.state import (
    DONE,
    FAULT,
    FULL,
    GO_ON,
    LOCAL_PART,
    MOST_STAGED,
    PAUSED,
    STUCK_BARRIER,
    Counter,
    Fact,
    Size,
    Staged,
    Warp,
    granules_at,
    opened,
)
from tracegen.execution.words import peek64, poke64

_NEVER = 1 << 31
_ALL = np.int64(-1)


@inner
def has_room(state):
    """Whether accesses of a batch, and the ends of its sub-groups behind them, can be recorded."""
    counters, out, stage = state.counters, state.out, state.stage
    ends = state.sizes[Size.ENDS]
    return (
        counters[Counter.STAGED] + state.sizes[Size.ACCESSES] < len(stage.order)
        and counters[Counter.STAGED_GRANULES] + state.sizes[Size.ROOM] <= len(stage.granule)
        and counters[Counter.N_ROW] + 2 * ends < len(out.row_end)
        and counters[Counter.N_ROW_ENTRY] + 2 * ends * len(state.segment_count)
        < len(out.row_segment)
    )


@hot
def begin_group(listed):
    """Gives every sub-group of the next group its first state."""
    state = opened(listed)
    sizes, counters = state.sizes, state.counters
    grid, dims = state.grid, state.cluster
    cluster = state.groups[counters[Counter.POSITION]] // sizes[Size.IN_CLUSTER]
    y = cluster // grid[0]
    first = (cluster % grid[0] * dims[0], y % grid[1] * dims[1], y // grid[1] * dims[2])
    state.masks[:] = 0
    state.tensor[:] = 0
    state.slots[:] = -1
    state.barrier_arrived[:] = 0
    state.barrier_votes[:] = 0
    subgroup = np.int64(0)
    for rank in range(sizes[Size.IN_CLUSTER]):
        _clear_local(state, rank)
        along = rank // dims[0]
        at = (
            first[0] + rank % dims[0],
            first[1] + along % dims[1],
            first[2] + along // dims[1],
        )
        for own in range(sizes[Size.IN_GROUP]):
            _begin_subgroup(state, subgroup, rank, own + 1 == sizes[Size.IN_GROUP], at)
            subgroup += 1
    counters[Counter.SUBGROUP] = counters[Counter.STAGED] = counters[Counter.GROUP_GRANULES] = 0
    counters[Counter.RUNNING], counters[Counter.GO_ON] = 1, 0
    begin_reference(state)


@inner
def _clear_local(state, rank):
    """What a group of a cluster finds in its local memory."""
    begin, n_bytes = rank << GROUP_BITS, state.sizes[Size.LOCAL_BYTES]
    state.local[begin : begin + n_bytes] = 0
    for k in range(len(state.local_start)):
        at, word = state.local_start[k, 0], state.local_start[k, 1 + (rank & 1)]
        poke64(np.int64(state.local.ctypes.data) + begin + at, word)
    if len(state.left_out):
        begin //= LOCAL_PART
        state.left_out[begin : begin + n_bytes // LOCAL_PART + 1] = 0


@inner
def _begin_subgroup(state, subgroup, rank, is_last, at):
    """at : where its group is in the grid"""
    sizes, warp = state.sizes, state.subgroups[subgroup]
    width = sizes[Size.WIDTH]
    whole = _ALL if width == 64 else (np.int64(1) << width) - 1
    warp[:] = 0
    is_part = is_last and sizes[Size.LAST_LANES] < width
    own = (np.int64(1) << sizes[Size.LAST_LANES]) - 1 if is_part else whole
    live = whole if sizes[Size.UNIFORM] else own
    warp[Warp.ACTIVE] = warp[Warp.LIVE] = live
    warp[Warp.RANK] = rank
    warp[Warp.SETTLED] = warp[Warp.IN_STEP] = -1
    warp[Warp.LIMIT] = _NEVER
    begin, end = state.out.windows[state.counters[Counter.POSITION]]
    warp[Warp.RECORDS] = sizes[Size.RECORD] if begin <= 0 else 0
    warp[Warp.EDGE] = end if begin <= 0 else begin
    state.masks[subgroup, 0] = -1
    for k in range(len(state.initial)):
        state.masks[subgroup, state.initial[k]] = own
    for axis in range(3):
        if state.group_rows[axis] >= 0:
            row = state.rows[subgroup] + state.group_rows[axis]
            both = at[axis] | at[axis] << 32
            for pair in range(sizes[Size.LANES] >> 1):
                poke64(row + 8 * pair, both)


@inner
def _has_room_for_group(state):
    """Whether what the group accessed can be moved to the recording; three granules more are written, see copy_granules."""
    counters, out = state.counters, state.out
    return counters[Counter.N_ACCESS] + counters[Counter.STAGED] <= len(out.access) and counters[
        Counter.N_GRANULE
    ] + counters[Counter.GROUP_GRANULES] + 4 <= len(out.granule)


@hot
def end_group(listed):
    """Moves what the group's sub-groups accessed to the recording, one sub-group after another."""
    state = opened(listed)
    counters, stage, out = state.counters, state.stage, state.out
    n, count, at = counters[Counter.N_ACCESS], counters[Counter.STAGED], np.int64(0)
    for subgroup in range(state.sizes[Size.N_SUBGROUP]):
        warp = state.subgroups[subgroup]
        out.subgroup_accesses[counters[Counter.N_SUBGROUP] + subgroup] = warp[Warp.N_ACCESS]
        at, warp[Warp.N_ACCESS] = at + warp[Warp.N_ACCESS], at  # from here on the next one's place
    for k in range(count):
        warp = state.subgroups[peek64(staged(state, k) + 8 * Staged.WHOSE)]
        stage.order[np.uint64(warp[Warp.N_ACCESS])] = k
        warp[Warp.N_ACCESS] += 1
    granule = counters[Counter.N_GRANULE]
    for k in range(count):
        row, to = staged(state, np.int64(stage.order[np.uint64(k)])), np.uint64(n + k)
        out.access[to], out.waits[to] = (
            peek64(row + 8 * Staged.ACCESS),
            peek64(row + 8 * Staged.WAITS),
        )
        out.lanes[to], out.work[to] = peek64(row + 8 * Staged.LANES), peek64(row + 8 * Staged.WORK)
        begin, end = peek64(row + 8 * Staged.BEGIN), peek64(row + 8 * Staged.END)
        from_, into = granules_at(stage, begin), granules_at(out, granule)
        copy_granules(
            from_[0], from_[1], from_[2], from_[3], into[0], into[1], into[2], into[3], end - begin,
            peek64(row + 8 * Staged.SHIFT),
        )  # fmt: skip
        granule += end - begin
        out.granule_end[to] = granule
    counters[Counter.N_ACCESS], counters[Counter.N_GRANULE] = n + count, granule
    counters[Counter.STAGED] = counters[Counter.GROUP_GRANULES] = 0
    if counters[Counter.STAGED_GRANULES] > MOST_STAGED:
        counters[Counter.STAGED_GRANULES] = 0
        state.facts[:, Fact.ACTIVE.value] = 0


@hot
def find_batch(listed):
    """Finds sub-groups to run, in the group that runs or the next one: GO_ON, or why the interpreter must return."""
    state = opened(listed)
    counters, n = state.counters, state.sizes[Size.N_SUBGROUP]
    while True:
        if not counters[Counter.RUNNING]:
            if counters[Counter.POSITION] == len(state.groups):
                return DONE
            moved = move_group(listed) if state.sizes[Size.MOVES] else np.int64(-1)
            if moved == FULL:
                return FULL
            if moved == GO_ON:
                if counters[Counter.STEPS_LEFT] < 0:
                    return PAUSED
                continue
            begin_group(listed)
        if counters[Counter.SUBGROUP] < n:
            return GO_ON if has_room(state) else FULL
        ended, passed = np.int64(0), np.int64(0)
        for subgroup in range(n):
            warp = state.subgroups[subgroup]
            ended += warp[Warp.ENDED]
            passed += warp[Warp.ENDED] == 0 and warp[Warp.EDGE] < 0
        if ended + passed < n:
            counters[Counter.SUBGROUP] = 0
            opened_some = open_barriers(listed)
            if not opened_some and (counters[Counter.GO_ON] or not passed):
                counters[Counter.FAULT] = STUCK_BARRIER
                return FAULT
            # Who rests may wait for what one does that has passed its window, which goes on until all rest again.
            counters[Counter.GO_ON] = (
                opened_some != OPENED and passed > 0 and not counters[Counter.GO_ON]
            )
            continue
        if not _has_room_for_group(state):
            return FULL
        for subgroup in range(n):
            warp, to = state.subgroups[subgroup], counters[Counter.N_SUBGROUP] + subgroup
            state.out.progress[to] = warp[Warp.PROGRESS]
            if not warp[Warp.ENDED]:
                state.out.tail[to] = close_path(listed, subgroup)
        if state.sizes[Size.RECORD]:
            end_group(listed)
        if counters[Counter.REFERENCE]:
            end_reference(listed)
        counters[Counter.N_SUBGROUP] += n
        counters[Counter.RUNNING] = 0
        counters[Counter.POSITION] += 1
