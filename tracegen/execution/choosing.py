"""Which lanes of a sub-group, and which sub-groups of a batch, go on next."""

from __future__ import annotations

import numpy as np

from memsim.compile import hot, inner
from tracegen.execution.barriers import RESTS, is_of_some, record_barrier
from tracegen.execution.paths import close_path
from tracegen.execution.state import STUCK_LANES, Chunk, Counter, Size, Warp, opened
from tracegen.execution.windows import advance
from tracegen.execution.words import lowest, peek32

_RUNNING, _AT_BARRIER, _ENDED, _STUCK = range(4)
"""How a sub-group stands."""
_NEVER, _WORD = 1 << 31, 0xFFFFFFFF


@hot
def choose(listed, subgroup):
    """Lets the lanes at the lowest micro-operation go on: ACTIVE, PC and LIMIT. Returns how the sub-group stands.

    Lanes that wait for others are let go first if all these have come.
    """
    state = opened(listed)
    warp, pcs, waits = (
        state.subgroups[subgroup],
        state.lane_pc[subgroup],
        state.lane_waits[subgroup],
    )
    live = warp[Warp.LIVE]
    blocked = warp[Warp.BLOCKED] & live
    left = blocked
    while left != 0:
        lane = lowest(left)
        left &= left - 1
        here = np.int64(0)
        others = blocked
        while others != 0:
            other = lowest(others)
            others &= others - 1
            here |= np.int64(waits[other] == waits[lane]) << other
        needed = np.int64(peek32(state.rows[subgroup] + waits[lane] + 4 * lane)) & live
        if needed & ~here == 0:
            warp[Warp.BLOCKED] &= ~(np.int64(1) << lane)
    ready = live & ~warp[Warp.BLOCKED] & ~warp[Warp.AT_BARRIER]
    if ready == 0:
        if live == 0:
            return _ENDED
        if warp[Warp.AT_BARRIER] & live == live or warp[Warp.BARRIER] == RESTS:
            return _AT_BARRIER
        return _STUCK
    pc, limit = np.int64(_NEVER), np.int64(_NEVER)
    active = np.int64(0)
    left = ready
    while left != 0:
        lane = lowest(left)
        left &= left - 1
        at = np.int64(pcs[lane])
        if at < pc:
            pc, limit, active = at, pc, np.int64(0)
        elif pc < at < limit:
            limit = at
        if at == pc:
            active |= np.int64(1) << lane
    warp[Warp.PC], warp[Warp.ACTIVE], warp[Warp.LIMIT] = pc, active, limit
    return _RUNNING


@inner
def leave(state, subgroup, lanes, pc):
    """Notes where lanes go on later."""
    left = lanes
    while left != 0:
        state.lane_pc[subgroup, lowest(left)] = pc
        left &= left - 1


@hot
def choose_batch(listed):
    """Lets those sub-groups of a batch go on together that are at the lowest micro-operation, who and PC and LIMIT.

    Returns how many there are: none where all have ended or wait at a barrier, -1 where lanes of one wait for others for ever.
    """
    state = opened(listed)
    counters, who, first = state.counters, state.who, state.counters[Counter.SUBGROUP]
    last = min(first + state.sizes[Size.BATCH], state.sizes[Size.N_SUBGROUP])
    pc, limit, n = np.int64(_NEVER), np.int64(_NEVER), np.int64(0)
    for subgroup in range(first, last):
        warp = state.subgroups[subgroup]
        if warp[Warp.ENDED] or warp[Warp.ALL_WAIT]:
            continue
        if warp[Warp.EDGE] < 0 and not counters[Counter.GO_ON]:
            continue
        if warp[Warp.ACTIVE] == 0:
            stopped = choose(listed, subgroup)
            if stopped == _STUCK:
                counters[Counter.FAULT], counters[Counter.FAULT_SUBGROUP] = STUCK_LANES, subgroup
                return np.int64(-1)
            if stopped != _RUNNING:
                _stop(listed, subgroup, stopped)
                continue
        if warp[Warp.PC] < pc:
            pc, limit, n = warp[Warp.PC], min(pc, warp[Warp.LIMIT]), np.int64(0)
        elif warp[Warp.PC] > pc:
            limit = min(limit, warp[Warp.PC])
            continue
        limit = min(limit, warp[Warp.LIMIT])
        who[n] = subgroup
        n += 1
    counters[Counter.PC], counters[Counter.LIMIT] = pc, limit
    halves = state.sizes[Size.LANES] >> 5
    for k in range(n):
        for half in range(halves):
            at = k * halves + half
            state.chunks[Chunk.PLACE, at] = state.rows[who[k]] + 128 * half
            state.chunks[Chunk.ACTIVE, at] = (
                state.subgroups[who[k], Warp.ACTIVE] >> 32 * half & _WORD
            )
    return n


@hot
def _stop(listed, subgroup, how):
    """A sub-group has ended, or all its lanes wait at a barrier."""
    state = opened(listed)
    counters, warp = state.counters, state.subgroups[subgroup]
    if how == _ENDED:
        warp[Warp.ENDED] = 1
        state.out.tail[counters[Counter.N_SUBGROUP] + subgroup] = close_path(listed, subgroup)
        return
    warp[Warp.ALL_WAIT] = 1
    if warp[Warp.BARRIER] == RESTS or is_of_some(state, subgroup):
        return
    if warp[Warp.RECORDS]:
        record_barrier(listed, subgroup)
    if state.sizes[Size.BY_BARRIERS]:
        advance(state, subgroup)
