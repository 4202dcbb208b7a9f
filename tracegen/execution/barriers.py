"""Barriers of groups, and of clusters."""

from __future__ import annotations

import numpy as np

from memsim.compile import hot, inner
from tracegen.execution.granules import stage, staged
from tracegen.execution.paths import close_path
from tracegen.execution.state import (
    N_BARRIERS,
    Counter,
    Size,
    Staged,
    Warp,
    of_group,
    opened,
    put_mask,
    source_mask,
)
from tracegen.execution.words import lowest, ones, peek32, poke32, poke64

D, E, A, B, C, M, N, X, Y = range(2, 11)
"""Columns of the interpreter's table."""
_ALL = np.int64(-1)
BARRIER_ACCESS = -1
RESTS, OF_CLUSTER = N_BARRIERS + 1, N_BARRIERS + 2
"""Warp.BARRIER of lanes that rest, and of those that wait at the barrier of the cluster."""
OPENED, RESTED = 1, 2
ONLY_RECORDED, CLUSTER = 8, 16
"""Of BARRIER, in x."""


@hot
def arrive(listed, subgroup, active, at):
    """Lanes come to a barrier, or only say that they do."""
    state = opened(listed)
    row = state.table[at]
    warp, place = state.subgroups[subgroup], state.rows[subgroup]
    if row[X] & CLUSTER:
        if row[X] & 1:
            warp[Warp.ARRIVALS] += 1
        else:
            warp[Warp.AT_BARRIER] |= active
            warp[Warp.BARRIER] = OF_CLUSTER
        return
    number, needed = np.int64(0), np.int64(0)
    if row[Y]:
        lane = lowest(active)
        number = peek32(place + row[B] + 4 * lane) & 15
        needed = peek32(place + row[A] + 4 * lane)
    own = number + N_BARRIERS * warp[Warp.RANK]
    state.barrier_arrived[own] += (ones(active) + 31) // 32 * 32 if needed else ones(active)
    state.barrier_needed[own] = needed
    votes = source_mask(state.masks[subgroup], row[M]) & active
    state.barrier_votes[0, own] += ones(votes)
    state.barrier_votes[1, own] += ones(active & ~votes)
    if row[X] & 1:
        return
    warp[Warp.AT_BARRIER] |= active
    warp[Warp.BARRIER] = number + 1
    warp[Warp.RESULT] = at


@inner
def is_of_some(state, subgroup):
    """Whether the barrier that a sub-group waits at needs fewer work-items than the group has: it is none of the group."""
    warp = state.subgroups[subgroup]
    if warp[Warp.BARRIER] == OF_CLUSTER:
        return False
    needed = state.barrier_needed[warp[Warp.BARRIER] - 1 + N_BARRIERS * warp[Warp.RANK]]
    return 0 < needed < state.sizes[Size.ITEMS]


@inner
def rest(state, subgroup, active):
    """Lanes go on when the other sub-groups have gone as far as they can."""
    warp = state.subgroups[subgroup]
    warp[Warp.AT_BARRIER] |= active
    if warp[Warp.BARRIER] == 0:
        warp[Warp.BARRIER] = RESTS


@hot
def record_known(listed, subgroup, active, at):
    """A sub-group has passed a barrier in memory, one of the whole group if it has as many work-items."""
    state = opened(listed)
    place = state.rows[subgroup] + state.table[at, A]
    if (
        state.subgroups[subgroup, Warp.RECORDS]
        and peek32(place + 4 * lowest(active)) == state.sizes[Size.ITEMS]
    ):
        record_barrier(listed, subgroup)


@hot
def open_barriers(listed):
    """Lets sub-groups go on whose barrier all have reached that it needs, or else those that rest: OPENED, RESTED, or 0 for none."""
    state = opened(listed)
    some, rested = False, False
    n = state.sizes[Size.N_SUBGROUP]
    for first in range(0, n, state.sizes[Size.IN_GROUP]):
        for number in range(N_BARRIERS):
            some |= _open_if_complete(state, first, number)
    least = np.int64(1) << 62
    for subgroup in range(n):
        warp = state.subgroups[subgroup]
        if warp[Warp.ENDED] == 0:
            least = min(least, warp[Warp.ARRIVALS])
    for subgroup in range(n):
        warp = state.subgroups[subgroup]
        if warp[Warp.BARRIER] == OF_CLUSTER and warp[Warp.ARRIVALS] <= least:
            _let_go(warp)
            some = True
    for subgroup in range(n):
        warp = state.subgroups[subgroup]
        if not some and warp[Warp.BARRIER] == RESTS:
            _let_go(warp)
            rested = True
    return OPENED if some else RESTED if rested else 0


@inner
def _let_go(warp):
    warp[Warp.AT_BARRIER] = warp[Warp.BARRIER] = warp[Warp.ALL_WAIT] = 0
    warp[Warp.ACTIVE] = 0  # who goes on is to be chosen


@inner
def _open_if_complete(state, first, number):
    """Whether all have reached a barrier that it needs; then they go on. first : sub-group of the group"""
    own = number + N_BARRIERS * state.subgroups[first, Warp.RANK]
    begin, end = of_group(state, first)
    waiting, living = np.int64(0), np.int64(0)
    for subgroup in range(begin, end):
        warp = state.subgroups[subgroup]
        waiting += warp[Warp.BARRIER] == number + 1
        living += warp[Warp.ENDED] == 0
    needed = state.barrier_needed[own]
    come = state.barrier_arrived[own] >= needed if needed else waiting == living
    if waiting == 0 or not come:
        return False
    for subgroup in range(begin, end):
        warp = state.subgroups[subgroup]
        if warp[Warp.BARRIER] != number + 1:
            continue
        row, lanes = state.table[warp[Warp.RESULT]], warp[Warp.AT_BARRIER]
        how = row[X] >> 1 & 3
        if how == 1:
            left = lanes
            while left != 0:
                poke32(
                    state.rows[subgroup] + row[D] + 4 * lowest(left), state.barrier_votes[0, own]
                )
                left &= left - 1
        elif how:
            holds = (
                state.barrier_votes[1, own] == 0 if how == 2 else state.barrier_votes[0, own] > 0
            )
            put_mask(state.masks[subgroup], row[E], lanes, _ALL if holds else np.int64(0))
        _let_go(warp)
    state.barrier_arrived[own] = 0
    state.barrier_votes[0, own] = state.barrier_votes[1, own] = 0
    return True


@hot
def record_barrier(listed, subgroup):
    """A barrier is an access without lanes."""
    state = opened(listed)
    n, end = state.counters[Counter.STAGED], state.counters[Counter.STAGED_GRANULES]
    stage(state, subgroup, BARRIER_ACCESS, np.int64(0), end, end, np.int64(0))
    poke64(staged(state, n) + 8 * Staged.WORK, close_path(listed, subgroup))
    state.subgroups[subgroup, Warp.IN_STEP] = state.subgroups[subgroup, Warp.SETTLED]
