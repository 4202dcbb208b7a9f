"""The interpreter of micro-operations.

Groups run one after another, and so do the batches of their sub-groups, each until all have ended or wait at a barrier. Of a
batch the sub-groups, and of a sub-group the lanes, at the lowest micro-operation go next, together, as NVIDIA's and AMD's
compilers both allow: each sub-group does what it would do alone. The readable twin, which is the specification for batches of
one, is tests/twins/execution.py.
"""

from __future__ import annotations

import numpy as np

from memsim.compile import hot, inner
from tracegen.execution import slow
from tracegen.execution.granules import move
from tracegen.execution.lanes import (
    CARRYING,
    COMPARISONS,
    MASKED,
    ROWS,
    SIMPLE_LOGIC,
    VECTOR,
    rows_operation,
)
from tracegen.execution.memory import ATOMIC, LOAD, STORE, access
from tracegen.execution.operations import (
    LOCAL,
    NEVER,
    ONE_LANE,
    OPERATIONS,
    ROUNDING,
    SKIPPED,
    TRASH_MASK,
    ZERO_ROW,
    MicroOperation,
    Operation,
)
from tracegen.execution.state import (
    ASSERTED,
    DONE,
    FAULT,
    FULL,
    MOST_CHUNKS,
    MOST_LOADS,
    N_BARRIERS,
    NO_PLACE,
    PAUSED,
    STUCK_BARRIER,
    STUCK_LANES,
    TRAPPED,
    UNKNOWN,
    Chunk,
    Counter,
    Fact,
    Size,
    Warp,
    opened,
)
from tracegen.execution.words import lowest, ones, peek8, peek16, peek32, poke32, poke64

CONTROL = [
    "BLOCK", "LOAD", "STORE", "ATOMIC", "BRANCH", "WAIT_SLOTS", "WAIT_COUNT", "COPIES_END", "WAIT_COPIES", "MASK_LOGIC3",
    "MASK_TO_ROWS", "ROWS_TO_MASK", "VOTE", "VOTE_WHOLE", "LOAD_CONSTANT", "CLOCK", "BRANCH_TABLE", "RETURN", "EXIT", "JOIN_SET",
    "JOIN_WAIT", "JOIN_LEAVE", "SYNC_LANES", "BARRIER", "TRAP", "UNKNOWN",
]  # fmt: skip
"""Operations that the loop of the interpreter does itself."""
ORDER = [*VECTOR, *CONTROL, *slow.LANEWISE, *slow.TESTS, *slow.TOGETHER]
"""The interpreter's own numbers: first those of the switch over vectors."""
(
    BLOCK, _LOAD, _STORE, _ATOMIC, BRANCH, WAIT_SLOTS, WAIT_COUNT, COPIES_END, WAIT_COPIES, MASK_LOGIC3,
    MASK_TO_ROWS, ROWS_TO_MASK, VOTE, VOTE_WHOLE, LOAD_CONSTANT, CLOCK, BRANCH_TABLE, RETURN, EXIT, JOIN_SET,
    JOIN_WAIT, JOIN_LEAVE, SYNC_LANES, BARRIER, TRAP, UNKNOWN_RESULT,
) = range(len(VECTOR), len(VECTOR) + len(CONTROL))  # fmt: skip
_N_ROWS, _N_MASKED = len(ROWS), len(ROWS) + len(MASKED)
_N_COMPARISONS = _N_MASKED + len(COMPARISONS)
_N_VECTOR = len(VECTOR)
_LANEWISE = _N_VECTOR + len(CONTROL)
_TESTS = _LANEWISE + len(slow.LANEWISE)
_TOGETHER = _TESTS + len(slow.TESTS)
assert len(CARRYING) == _N_VECTOR - _N_COMPARISONS

OP, GUARD, D, E, A, B, C, M, N, X, Y, Z = range(12)
RUNNING, AT_BARRIER, ENDED = range(3)
"""How a sub-group stopped; _FULL and others follow."""
_STOPPED_FULL, _STOPPED_FAULT, _STOPPED_PAUSED = range(3, 6)
_WORD = 0xFFFFFFFF
_NEVER = 1 << 31
_ALL = np.int64(-1)
_FACTOR = 0x5851F42D4C957F2D
"""Knuth's multiplier of MMIX: an odd number whose multiples are spread."""
MOST_PATH = 256
"""Segments that are remembered until the next access; a longer path is added up meanwhile."""
GRANULES_AN_ACCESS = 64 * 5
"""More than any access has: 64 lanes of 16 bytes, or words of private memory."""


@inner
def _mask(masks, number):
    """A source mask: its number twice, plus 1 where it is negated."""
    value = masks[number >> 1]
    return ~value if number & 1 else value


@inner
def _put(masks, number, active, value):
    masks[number] = masks[number] & ~active | value & active


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
            return ENDED
        if warp[Warp.AT_BARRIER] & live == live:
            return AT_BARRIER
        return _STOPPED_FAULT
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
    return RUNNING


@inner
def _leave(state, subgroup, lanes, pc):
    """Notes where lanes go on later."""
    left = lanes
    while left != 0:
        state.lane_pc[subgroup, lowest(left)] = pc
        left &= left - 1


@hot
def choose_batch(listed, first):
    """Lets those sub-groups of a batch go on together that are at the lowest micro-operation. Returns how the batch stands."""
    state = opened(listed)
    counters, who = state.counters, state.who
    last = min(first + state.sizes[Size.BATCH], state.sizes[Size.N_SUBGROUP])
    pc, limit, n = np.int64(_NEVER), np.int64(_NEVER), 0
    for subgroup in range(first, last):
        warp = state.subgroups[subgroup]
        if warp[Warp.ENDED] or warp[Warp.ALL_WAIT]:
            continue
        if warp[Warp.EDGE] < 0 and not counters[Counter.GO_ON]:
            continue
        if warp[Warp.ACTIVE] == 0:
            stopped = choose(listed, subgroup)
            if stopped == _STOPPED_FAULT:
                counters[Counter.FAULT], counters[Counter.FAULT_SUBGROUP] = STUCK_LANES, subgroup
                return _STOPPED_FAULT
            if stopped != RUNNING:
                _stop(listed, subgroup, stopped)
                continue
        if warp[Warp.PC] < pc:
            pc, limit, n = warp[Warp.PC], min(pc, warp[Warp.LIMIT]), 0
        elif warp[Warp.PC] > pc:
            limit = min(limit, warp[Warp.PC])
            continue
        limit = min(limit, warp[Warp.LIMIT])
        who[n] = subgroup
        n += 1
    if n == 0:
        return AT_BARRIER
    counters[Counter.PC], counters[Counter.LIMIT] = pc, limit
    counters[Counter.RUNNING_SUBGROUPS] = n
    halves = state.sizes[Size.LANES] >> 5
    for k in range(n):
        for half in range(halves):
            at = k * halves + half
            state.chunks[Chunk.PLACE, at] = state.rows[who[k]] + 128 * half
            state.chunks[Chunk.ACTIVE, at] = (
                state.subgroups[who[k], Warp.ACTIVE] >> 32 * half & _WORD
            )
    return RUNNING


@hot
def _stop(listed, subgroup, how):
    """A sub-group has ended, or all its lanes wait at a barrier."""
    state = opened(listed)
    counters, warp = state.counters, state.subgroups[subgroup]
    if how == ENDED:
        warp[Warp.ENDED] = 1
        state.out.tail[counters[Counter.N_SUBGROUP] + subgroup] = _close_path(listed, subgroup)
        return
    warp[Warp.ALL_WAIT] = 1
    if warp[Warp.RECORDS]:
        _record_barrier(listed, subgroup)
    if state.sizes[Size.BY_BARRIERS]:
        _advance(state, subgroup)


@inner
def _advance(state, subgroup):
    """A sub-group is one access, or one barrier, farther."""
    warp = state.subgroups[subgroup]
    warp[Warp.PROGRESS] += 1
    if warp[Warp.PROGRESS] == warp[Warp.EDGE]:
        end = state.out.windows[state.counters[Counter.POSITION], 1]
        ends = warp[Warp.EDGE] == end
        warp[Warp.RECORDS] = np.int64(0) if ends else state.sizes[Size.RECORD]
        warp[Warp.EDGE] = np.int64(-1) if ends else end


@inner
def _has_passed(state, n):
    """Whether a sub-group of those that run has passed its window, and need not go on."""
    passed = False
    for k in range(n):
        passed = passed or state.subgroups[state.who[k], Warp.EDGE] < 0
    return passed and not state.counters[Counter.GO_ON]


@hot
def _close_path(listed, subgroup):
    """The number of the row of work with the segments that a sub-group executed since its last access."""
    state = opened(listed)
    counters, out = state.counters, state.out
    key, n_key = state.subgroups[subgroup, Warp.PATH_HASH], len(state.row_keys)
    if key == 0:
        key = 1
    slot = np.int64(np.uint64(key) >> np.uint64(40)) & n_key - 1
    while state.row_keys[slot] != 0:
        if state.row_keys[slot] == key:
            _forget_path(state, subgroup)
            return np.int64(state.row_values[slot])
        slot = slot + 1 & n_key - 1
    row = counters[Counter.N_ROW]
    _fold_path(state, subgroup)
    n, end = state.subgroups[subgroup, Warp.N_TOUCHED], counters[Counter.N_ROW_ENTRY]
    for k in range(n):
        segment = state.touched[subgroup, k]
        out.row_segment[end + k] = segment
        out.row_count[end + k] = state.pending[subgroup, segment]
    counters[Counter.N_ROW_ENTRY] = end + n
    out.row_end[row] = end + n
    counters[Counter.N_ROW] = row + 1
    state.row_keys[slot], state.row_values[slot] = key, row
    _forget_path(state, subgroup)
    return np.int64(row)


@inner
def _close_access(listed, state, subgroup, at, n):
    """Gives accesses from n on their row of work; instructions mostly have the same before them."""
    counters, facts = state.counters, state.facts[np.int64(state.table[at, M])]
    warp = state.subgroups[subgroup]
    if facts[Fact.PATH] == warp[Warp.PATH_HASH] != 0:
        _forget_path(state, subgroup)
    else:
        facts[Fact.PATH] = warp[Warp.PATH_HASH]
        facts[Fact.ROW] = _close_path(listed, subgroup)
    for k in range(n, counters[Counter.STAGED]):
        state.stage.work[k] = facts[Fact.ROW]


@inner
def _fold_path(state, subgroup):
    """Adds the remembered segments to `pending`."""
    warp, pending = state.subgroups[subgroup], state.pending[subgroup]
    for k in range(warp[Warp.PATH_LENGTH]):
        segment = state.path[subgroup, k]
        if pending[segment] == 0:
            state.touched[subgroup, warp[Warp.N_TOUCHED]] = segment
            warp[Warp.N_TOUCHED] += 1
        pending[segment] += 1
    warp[Warp.PATH_LENGTH] = 0


@inner
def _forget_path(state, subgroup):
    warp = state.subgroups[subgroup]
    for k in range(warp[Warp.N_TOUCHED]):
        state.pending[subgroup, state.touched[subgroup, k]] = 0
    warp[Warp.N_TOUCHED] = warp[Warp.PATH_LENGTH] = warp[Warp.PATH_HASH] = 0


@inner
def _enter(state, subgroup, segment):
    """A segment of the code begins."""
    warp = state.subgroups[subgroup]
    if warp[Warp.PATH_LENGTH] == MOST_PATH:
        _fold_path(state, subgroup)
    state.path[subgroup, warp[Warp.PATH_LENGTH]] = segment
    warp[Warp.PATH_LENGTH] += 1
    warp[Warp.PATH_HASH] = (warp[Warp.PATH_HASH] ^ (segment + 1)) * _FACTOR


@inner
def _has_room(state):
    """Whether accesses of a batch, and the ends of its sub-groups behind them, can be recorded."""
    counters, out, stage = state.counters, state.out, state.stage
    ends = state.sizes[Size.BATCH] + 2
    return (
        counters[Counter.STAGED] + 2 * ends < len(stage.access)
        and counters[Counter.STAGED_GRANULES] + ends * GRANULES_AN_ACCESS <= len(stage.granule)
        and counters[Counter.N_ROW] + 2 * ends < len(out.row_end)
        and counters[Counter.N_ROW_ENTRY] + 2 * ends * len(state.segment_count)
        < len(out.row_segment)
    )


@inner
def _settle(state, subgroup, access):
    warp = state.subgroups[subgroup]
    warp[Warp.SETTLED] = max(warp[Warp.SETTLED], access)


@inner
def _wait_slots(state, subgroup, slots):
    for slot in range(6):
        if slots >> slot & 1:
            _settle(state, subgroup, np.int64(state.slots[subgroup, slot]))


@inner
def _wait_count(state, subgroup, what, most):
    warp = state.subgroups[subgroup]
    if what == 1:
        if most == 0:
            _settle(state, subgroup, warp[Warp.N_SCALAR] - 1)
    elif what == 0 and warp[Warp.N_LOADS] > most and most < MOST_LOADS:
        _settle(
            state, subgroup, np.int64(state.loads[subgroup, (warp[Warp.N_LOADS] - 1 - most) & 63])
        )


@inner
def _end_copies(state, subgroup):
    """The copies to local memory since the last time are a group, which is waited for as a whole."""
    warp = state.subgroups[subgroup]
    n = warp[Warp.N_COPIES]
    before = state.copies[subgroup, (n - 1) & 63] if n else np.int32(-1)
    state.copies[subgroup, n & 63] = max(before, state.slots[subgroup, 6])
    warp[Warp.N_COPIES] = n + 1


@inner
def _wait_copies(state, subgroup, most):
    n = state.subgroups[subgroup, Warp.N_COPIES]
    if n > most and most < MOST_LOADS:
        _settle(state, subgroup, np.int64(state.copies[subgroup, (n - 1 - most) & 63]))


@hot
def _constant(listed, subgroup, active, at):
    """LOAD_CONSTANT. Beyond its end a constant bank is zero."""
    state = opened(listed)
    row = state.table[at]
    bank, x = np.int64(row[N] >> 1), np.int64(row[X])
    size, place = x >> 3 & 63, state.rows[subgroup]
    left = active
    while left != 0:
        lane = lowest(left)
        left &= left - 1
        at = (peek32(place + row[A] + 4 * lane) + row[Y]) & _WORD
        here = place + row[D] + 4 * lane
        if at + size > state.bank_bytes[bank]:
            for word in range(max(size >> 2, 1)):
                poke32(here + word * state.sizes[Size.ROW_BYTES], 0)
            continue
        where = state.banks[bank] + at
        if size < 4:
            value = peek8(where) if size == 1 else peek16(where)
            if x >> 9 & 1 and value >> (8 * size - 1):
                value -= 1 << 8 * size
            poke32(here, value)
        for word in range(size >> 2):
            poke32(here + word * state.sizes[Size.ROW_BYTES], peek32(where + 4 * word))


@inner
def _vote(how, active, value, live):
    if how == 0:
        return _ALL if value & active != 0 else np.int64(0)
    if how == 1:
        return _ALL if ~value & active == 0 else np.int64(0)
    return _ALL if value & active == 0 or ~value & active == 0 else np.int64(0)


@inner
def _whole_rows(state, subgroup, row, active, value, n):
    """Writes words of a mask to all active lanes of rows."""
    for part in range(n):
        place = state.rows[subgroup] + row + part * state.sizes[Size.ROW_BYTES]
        left = active
        while left != 0:
            poke32(place + 4 * lowest(left), value >> 32 * part)
            left &= left - 1


@hot
def _arrive(listed, subgroup, active, at):
    """Lanes come to a barrier, or only say that they do."""
    state = opened(listed)
    row = state.table[at]
    warp, place = state.subgroups[subgroup], state.rows[subgroup]
    number, needed = np.int64(0), np.int64(0)
    if row[Y]:
        lane = lowest(active)
        number = peek32(place + row[B] + 4 * lane) & 15
        needed = peek32(place + row[A] + 4 * lane)
    state.barrier_arrived[number] += (ones(active) + 31) // 32 * 32 if needed else ones(active)
    state.barrier_needed[number] = needed
    votes = _mask(state.masks[subgroup], row[M]) & active
    state.barrier_votes[0, number] += ones(votes)
    state.barrier_votes[1, number] += ones(active & ~votes)
    if row[X] & 1:
        return
    warp[Warp.AT_BARRIER] |= active
    warp[Warp.BARRIER] = number + 1
    warp[Warp.RESULT] = at


@hot
def open_barriers(listed):
    """Lets sub-groups go on whose barrier all have reached that it needs; whether any was."""
    state = opened(listed)
    some = False
    n = state.sizes[Size.N_SUBGROUP]
    for number in range(N_BARRIERS):
        waiting, living = np.int64(0), np.int64(0)
        for subgroup in range(n):
            warp = state.subgroups[subgroup]
            waiting += warp[Warp.BARRIER] == number + 1
            living += warp[Warp.ENDED] == 0
        needed = state.barrier_needed[number]
        come = state.barrier_arrived[number] >= needed if needed else waiting == living
        if waiting and come:
            _open(state, number)
            some = True
    return some


@inner
def _open(state, number):
    for subgroup in range(state.sizes[Size.N_SUBGROUP]):
        warp = state.subgroups[subgroup]
        if warp[Warp.BARRIER] != number + 1:
            continue
        row, lanes = state.table[warp[Warp.RESULT]], warp[Warp.AT_BARRIER]
        how = row[X] >> 1 & 3
        if how == 1:
            left = lanes
            while left != 0:
                poke32(
                    state.rows[subgroup] + row[D] + 4 * lowest(left), state.barrier_votes[0, number]
                )
                left &= left - 1
        elif how:
            holds = (
                state.barrier_votes[1, number] == 0
                if how == 2
                else state.barrier_votes[0, number] > 0
            )
            _put(state.masks[subgroup], row[E], lanes, _ALL if holds else np.int64(0))
        warp[Warp.AT_BARRIER] = warp[Warp.BARRIER] = warp[Warp.ALL_WAIT] = 0
        warp[Warp.ACTIVE] = 0  # who goes on is to be chosen
    state.barrier_arrived[number] = 0
    state.barrier_votes[0, number] = state.barrier_votes[1, number] = 0


@inner
def _park(state, n, pc):
    """Notes where sub-groups go on."""
    for k in range(n):
        state.subgroups[state.who[k], Warp.PC] = pc


@inner
def _who_works(state, n, guard):
    """Writes the lanes that a guard lets work to the chunks; whether there are any."""
    halves, some = state.sizes[Size.LANES] >> 5, np.int64(0)
    for k in range(n):
        subgroup = state.who[k]
        here = state.subgroups[subgroup, Warp.ACTIVE] & _mask(state.masks[subgroup], guard)
        some |= here
        for half in range(halves):
            state.chunks[Chunk.HERE, k * halves + half] = here >> 32 * half & _WORD
    return some != 0


@inner
def _fill_masks(state, n, chunk, number):
    halves = state.sizes[Size.LANES] >> 5
    for k in range(n):
        value = _mask(state.masks[state.who[k]], number)
        for half in range(halves):
            state.chunks[chunk, k * halves + half] = value >> 32 * half & _WORD


@inner
def _put_masks(state, n, chunk, here, number):
    """Results for the lanes that worked."""
    halves = state.sizes[Size.LANES] >> 5
    for k in range(n):
        value, lanes = np.int64(0), np.int64(0)
        for half in range(halves):
            value |= state.chunks[chunk, k * halves + half] << 32 * half
            lanes |= state.chunks[here, k * halves + half] << 32 * half
        _put(state.masks[state.who[k]], number, lanes, value)


@inner
def _vector(state, row, op, n):
    """An operation of the switch over vectors, of all sub-groups that run."""
    here = Chunk.ACTIVE.value
    if row[GUARD] != 0:
        here = Chunk.HERE.value
        if not _who_works(state, n, row[GUARD]):
            return
    if op >= _N_ROWS:
        _fill_masks(state, n, Chunk.M, row[M])
        if op >= _N_COMPARISONS:
            _fill_masks(state, n, Chunk.N, row[N])
    chunks = np.int64(state.chunks.ctypes.data)
    rows_operation(
        op, n * (state.sizes[Size.LANES] >> 5), chunks, chunks + 8 * MOST_CHUNKS * here, np.int64(state.sizes[Size.ROW_BYTES]),
        np.int64(row[D]), np.int64(row[E]), np.int64(row[A]), np.int64(row[B]), np.int64(row[C]), np.int64(row[X]),
        np.int64(row[Y]),
    )  # fmt: skip
    if op >= _N_MASKED:
        first, second = (row[E], row[Y]) if op >= _N_COMPARISONS else (row[D], row[E])
        if first != TRASH_MASK:
            _put_masks(state, n, Chunk.FIRST, here, first)
        if second != TRASH_MASK:
            _put_masks(state, n, Chunk.SECOND, here, second)


@inner
def _branch(state, row, n, pc):
    """Where all lanes of all sub-groups go on, or -1: then each sub-group notes it."""
    some, every = False, True
    for k in range(n):
        subgroup = state.who[k]
        active, masks = state.subgroups[subgroup, Warp.ACTIVE], state.masks[subgroup]
        taken = active & _mask(masks, row[GUARD]) & _mask(masks, row[M])
        some, every = some or taken != 0, every and taken == active
    if every:
        return np.int64(row[Y])
    if not some:
        return pc
    for k in range(n):
        subgroup = state.who[k]
        warp, masks = state.subgroups[subgroup], state.masks[subgroup]
        active = warp[Warp.ACTIVE]
        taken = active & _mask(masks, row[GUARD]) & _mask(masks, row[M])
        if taken == 0 or taken == active:
            warp[Warp.PC] = pc if taken == 0 else np.int64(row[Y])
        else:
            _leave(state, subgroup, taken, row[Y])
            _leave(state, subgroup, active & ~taken, pc)
            warp[Warp.ACTIVE] = 0
    return np.int64(-1)


@hot
def run_batch(listed, first):
    """Runs the sub-groups of a batch until all have ended or wait at a barrier, or it must stop; returns which of these.

    Those at the lowest micro-operation go on together, so each does what it would do alone.
    """
    state = opened(listed)
    table, counters, sizes = state.table, state.counters, state.sizes
    recorded, windowed = sizes[Size.RECORD] != 0, sizes[Size.WINDOWED] != 0
    n, pc, limit = np.int64(0), np.int64(0), np.int64(0)
    instructions = np.int64(0)
    while True:
        if n == 0:
            stopped = choose_batch(listed, first)
            if stopped != RUNNING:
                break
            pc, limit = counters[Counter.PC], counters[Counter.LIMIT]
            n = counters[Counter.RUNNING_SUBGROUPS]
        row = table[np.uint64(pc)]
        op = np.int64(row[OP])
        pc += 1
        instructions += n
        if op < _N_VECTOR:
            _vector(state, row, op, n)
        elif op == BLOCK:
            if pc > limit:  # others wait here, or before
                for k in range(n):
                    warp = state.subgroups[state.who[k]]
                    warp[Warp.PC] = pc - 1
                    if pc > warp[Warp.LIMIT]:
                        _leave(state, state.who[k], warp[Warp.ACTIVE], pc - 1)
                        warp[Warp.ACTIVE] = 0
                n = np.int64(0)
                continue
            if windowed and _has_passed(state, n):
                _park(state, n, pc - 1)
                n = np.int64(0)
                continue
            counters[Counter.STEPS_LEFT] -= n
            if counters[Counter.STEPS_LEFT] < 0:
                _park(state, n, pc - 1)
                stopped = _STOPPED_PAUSED
                break
            state.segment_count[row[Y]] += n
            if recorded:
                for k in range(n):
                    if state.subgroups[state.who[k], Warp.RECORDS]:
                        _enter(state, state.who[k], np.int64(row[Y]))
        elif op <= _ATOMIC:
            if windowed and _go_by(state, row, op, n):
                continue
            if not _has_room(state):
                _park(state, n, pc - 1)
                stopped = _STOPPED_FULL
                break
            fault = np.int64(0)
            for k in range(n):
                subgroup, before = state.who[k], counters[Counter.STAGED]
                here = state.subgroups[subgroup, Warp.ACTIVE] & _mask(
                    state.masks[subgroup], row[GUARD]
                )
                fault = access(listed, subgroup, pc - 1, op - _LOAD, here)
                if fault:
                    counters[Counter.FAULT], counters[Counter.FAULT_SUBGROUP] = fault, subgroup
                    break
                if counters[Counter.STAGED] > before:
                    _close_access(listed, state, subgroup, pc - 1, before)
                if windowed:
                    _count(state, subgroup, row, here)
            if fault:
                counters[Counter.FAULT_INSTRUCTION] = row[Z] & 0xFFFFF
                stopped = _STOPPED_FAULT
                break
        elif op == BRANCH:
            pc = _branch(state, row, n, pc)
            n = n if pc >= 0 else np.int64(0)
        elif op <= WAIT_COPIES:
            if recorded:
                for k in range(n):
                    _wait(state, state.who[k], row, op)
        elif op == BARRIER and not _has_room(state):
            _park(state, n, pc - 1)
            stopped = _STOPPED_FULL
            break
        else:
            _park(state, n, pc)
            counters[Counter.CLOCK] = counters[Counter.INSTRUCTIONS] + instructions
            go_on = True
            for k in range(n):
                if not alone(listed, state.who[k], pc):
                    go_on = False
                    if counters[Counter.FAULT]:
                        counters[Counter.FAULT_SUBGROUP] = state.who[k]
                        counters[Counter.FAULT_INSTRUCTION] = row[Z] & 0xFFFFF
                        break
            if counters[Counter.FAULT]:
                stopped = _STOPPED_FAULT
                break
            n = n if go_on else np.int64(0)
    counters[Counter.INSTRUCTIONS] += instructions
    return stopped


@inner
def _wait(state, subgroup, row, op):
    if op == WAIT_SLOTS:
        _wait_slots(state, subgroup, np.int64(row[Y]))
    elif op == WAIT_COUNT:
        _wait_count(state, subgroup, row[X], np.int64(row[Y]))
    elif op == COPIES_END:
        _end_copies(state, subgroup)
    else:
        _wait_copies(state, subgroup, np.int64(row[Y]))


@inner
def _go_by(state, row, op, n):
    """Passes over a load whose values nobody needs, outside of all windows; whether it was one."""
    if op != _LOAD or not row[X] & SKIPPED:
        return False
    for k in range(n):
        if state.subgroups[state.who[k], Warp.RECORDS]:
            return False
    if row[X] & 7 != LOCAL:
        for k in range(n):
            subgroup = state.who[k]
            active = state.subgroups[subgroup, Warp.ACTIVE]
            _count(state, subgroup, row, active & _mask(state.masks[subgroup], row[GUARD]))
    return True


@inner
def _count(state, subgroup, row, here):
    """Counts an access of code with windows."""
    x = np.int64(row[X])
    if x & 7 != LOCAL and (here != 0 or x & ONE_LANE):
        state.out.runs[row[M]] += 1
        if not state.sizes[Size.BY_BARRIERS]:
            _advance(state, subgroup)


@hot
def alone(listed, subgroup, pc):
    """An operation that each sub-group does by itself; whether its lanes go on together. pc : of the one behind it"""
    state = opened(listed)
    counters, sizes, row = state.counters, state.sizes, state.table[pc - 1]
    op, masks, warp = np.int64(row[OP]), state.masks[subgroup], state.subgroups[subgroup]
    place, row_bytes, n_chunk = (
        state.rows[subgroup],
        np.int64(sizes[Size.ROW_BYTES]),
        sizes[Size.LANES] >> 5,
    )
    active = warp[Warp.ACTIVE]
    here = active & _mask(masks, row[GUARD])
    if op == MASK_LOGIC3:
        m, n, third = _mask(masks, row[M]), _mask(masks, row[N]), _mask(masks, row[Y])
        value = np.int64(0)
        for k in range(8):
            if row[X] >> k & 1:
                value |= (m if k & 4 else ~m) & (n if k & 2 else ~n) & (third if k & 1 else ~third)
        _put(masks, row[D], here, value)
    elif op == MASK_TO_ROWS:
        value = _mask(masks, row[M])
        if row[X] & 1:
            value &= here
        if n_chunk == 1:
            value &= _WORD
        _whole_rows(state, subgroup, row[D], active, value, 1 if row[X] & 2 else 2)
    elif op == ROWS_TO_MASK:
        value = peek32(place + row[A])
        if n_chunk == 2:
            value |= peek32(place + row[A] + row_bytes) << 32
        masks[row[D]] = value
    elif op == VOTE:
        _put(masks, row[D], here, _vote(row[Y], here, _mask(masks, row[M]), warp[Warp.LIVE]))
    elif op == VOTE_WHOLE:
        value = _mask(masks, row[M])
        if n_chunk == 1:
            value &= _WORD
        masks[row[D]] = _ALL if value != 0 else np.int64(0)
    elif op == LOAD_CONSTANT:
        _constant(listed, subgroup, here, pc - 1)
    elif op == CLOCK:
        total = counters[Counter.CLOCK]
        left = here
        while left != 0:
            at = place + row[D] + 4 * lowest(left)
            poke32(at, total)
            poke32(at + row_bytes, total >> 32)
            left &= left - 1
    elif op >= _TOGETHER:
        if here != 0 or op < _TOGETHER + 4:
            slow.together(
                op - _TOGETHER, place, row_bytes, sizes[Size.LANES], row[D], row[A], row[B], row[C], here,
                _mask(masks, row[M]), np.int64(row[X]), row[Y], masks, row[E], state.scratch,
            )  # fmt: skip
    elif op >= _TESTS:
        slow.tested(
            op - _TESTS, place, row_bytes, row[D], row[A], row[B], row[C], here, _mask(masks, row[M]),
            np.int64(row[X]), masks, row[E],
        )  # fmt: skip
    elif op >= _LANEWISE:
        slow.lanewise(
            op - _LANEWISE, place, row_bytes, row[D], row[A], row[B], row[C], here, _mask(masks, row[M]),
            np.int64(row[X]), row[Y],
        )  # fmt: skip
    elif op == JOIN_SET:
        left = here
        while left != 0:
            poke32(place + row[D] + 4 * lowest(left), active)
            left &= left - 1
    elif op == JOIN_LEAVE:
        for lane in range(32):
            at = place + row[D] + 4 * lane
            poke32(at, peek32(at) & ~here)
    else:
        return here == 0 or _stops(listed, subgroup, here, pc)
    return True


@hot
def _stops(listed, subgroup, here, pc):
    """What lanes do that may stop them: they are noted, and the next ones chosen. Whether all go on."""
    state = opened(listed)
    counters, row, warp = state.counters, state.table[pc - 1], state.subgroups[subgroup]
    op, place, active = np.int64(row[OP]), state.rows[subgroup], warp[Warp.ACTIVE]
    left = here
    if op in (BRANCH_TABLE, RETURN):
        while left != 0:
            lane = lowest(left)
            left &= left - 1
            address = (peek32(place + row[A] + 4 * lane) + row[Y]) & _WORD
            at = address >> 4
            if address & 15 or at >= len(state.places) or state.places[at] < 0:
                counters[Counter.FAULT], counters[Counter.FAULT_LANE] = NO_PLACE, lane
                counters[Counter.FAULT_ADDRESS] = address
                return False
            state.lane_pc[subgroup, lane] = state.places[at]
        _leave(state, subgroup, active & ~here, pc)
    elif op == EXIT:
        warp[Warp.LIVE] &= ~here
        _leave(state, subgroup, active & ~here, pc)
    elif op in (JOIN_WAIT, SYNC_LANES):
        needed = np.int64(0)
        while left != 0:
            needed |= np.int64(peek32(place + row[A] + 4 * lowest(left)))
            left &= left - 1
        if here == active and needed & warp[Warp.LIVE] & ~active == 0:
            return True
        warp[Warp.BLOCKED] |= here
        left = here
        while left != 0:
            state.lane_waits[subgroup, lowest(left)] = row[A]
            left &= left - 1
        _leave(state, subgroup, active, pc)
    elif op == BARRIER:
        _arrive(listed, subgroup, here, pc - 1)
        _leave(state, subgroup, active, pc)
    else:
        which = 2 if op == UNKNOWN_RESULT else min(np.int64(row[Y]), 2)
        counters[Counter.FAULT] = (TRAPPED, ASSERTED, UNKNOWN)[which]
        counters[Counter.FAULT_LANE] = lowest(here)
        return False
    warp[Warp.ACTIVE] = 0
    return False


@hot
def _record_barrier(listed, subgroup):
    """A barrier is an access without lanes."""
    state = opened(listed)
    counters, out, warp = state.counters, state.stage, state.subgroups[subgroup]
    n = counters[Counter.STAGED]
    out.access[n], out.waits[n], out.lanes[n] = -1, warp[Warp.SETTLED], 0
    out.granule_end[n], out.whose[n] = counters[Counter.STAGED_GRANULES], subgroup
    counters[Counter.STAGED] = n + 1
    warp[Warp.N_ACCESS] += 1
    out.work[n] = _close_path(listed, subgroup)


@hot
def begin_group(listed):
    """Gives every sub-group of the next group its first state."""
    state = opened(listed)
    sizes, counters = state.sizes, state.counters
    group = state.groups[counters[Counter.POSITION]]
    n, width = sizes[Size.N_SUBGROUP], sizes[Size.WIDTH]
    x, y = group % state.grid[0], group // state.grid[0]
    at = (x, y % state.grid[1], y // state.grid[1])
    state.masks[:] = 0
    state.local[:] = 0
    state.slots[:] = -1
    state.barrier_arrived[:] = 0
    state.barrier_votes[:] = 0
    whole = _ALL if width == 64 else (np.int64(1) << width) - 1
    for subgroup in range(n):
        warp = state.subgroups[subgroup]
        warp[:] = 0
        last = subgroup == n - 1 and sizes[Size.LAST_LANES] < width
        own = (np.int64(1) << sizes[Size.LAST_LANES]) - 1 if last else whole
        live = whole if sizes[Size.UNIFORM] else own
        warp[Warp.ACTIVE] = warp[Warp.LIVE] = live
        warp[Warp.SETTLED], warp[Warp.LIMIT] = -1, _NEVER
        begin, end = state.out.windows[counters[Counter.POSITION]]
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
    counters[Counter.SUBGROUP] = counters[Counter.STAGED] = counters[Counter.STAGED_GRANULES] = 0
    counters[Counter.RUNNING], counters[Counter.GO_ON] = 1, 0


@hot
def run_groups(listed):
    """Runs groups until all have ended, a buffer is full, or STEPS_LEFT blocks have been executed; see state.DONE."""
    state = opened(listed)
    counters, sizes = state.counters, state.sizes
    n = sizes[Size.N_SUBGROUP]
    while counters[Counter.POSITION] < len(state.groups):
        if not counters[Counter.RUNNING]:
            begin_group(listed)
        while True:
            while counters[Counter.SUBGROUP] < n:
                if not _has_room(state):
                    return FULL
                stopped = run_batch(listed, counters[Counter.SUBGROUP])
                if stopped == _STOPPED_FULL:
                    return FULL
                if stopped == _STOPPED_PAUSED:
                    return PAUSED
                if stopped == _STOPPED_FAULT:
                    return FAULT
                counters[Counter.SUBGROUP] += sizes[Size.BATCH]
            ended, passed = np.int64(0), np.int64(0)
            for subgroup in range(n):
                ended += state.subgroups[subgroup, Warp.ENDED]
                passed += (
                    not state.subgroups[subgroup, Warp.ENDED]
                    and state.subgroups[subgroup, Warp.EDGE] < 0
                )
            if ended + passed == n:
                break
            counters[Counter.SUBGROUP] = 0
            if open_barriers(listed):
                counters[Counter.GO_ON] = 0
            elif passed and not counters[Counter.GO_ON]:
                counters[Counter.GO_ON] = 1
            else:
                counters[Counter.FAULT] = STUCK_BARRIER
                return FAULT
        if not _has_room_for_group(state):
            return FULL
        for subgroup in range(n):
            state.out.progress[counters[Counter.N_SUBGROUP] + subgroup] = state.subgroups[
                subgroup, Warp.PROGRESS
            ]
            if not state.subgroups[subgroup, Warp.ENDED]:
                state.out.tail[counters[Counter.N_SUBGROUP] + subgroup] = _close_path(
                    listed, subgroup
                )
        if sizes[Size.RECORD]:
            end_group(listed)
        counters[Counter.N_SUBGROUP] += n
        counters[Counter.RUNNING] = 0
        counters[Counter.POSITION] += 1
    return DONE


@inner
def _has_room_for_group(state):
    counters, out = state.counters, state.out
    return counters[Counter.N_ACCESS] + counters[Counter.STAGED] <= len(out.access) and counters[
        Counter.N_GRANULE
    ] + counters[Counter.STAGED_GRANULES] <= len(out.granule)


@hot
def end_group(listed):
    """Moves what the group's sub-groups accessed to the recording, one sub-group after another."""
    state = opened(listed)
    counters, stage, out = state.counters, state.stage, state.out
    n_access, n_granule = counters[Counter.N_ACCESS], counters[Counter.N_GRANULE]
    for subgroup in range(state.sizes[Size.N_SUBGROUP]):
        warp = state.subgroups[subgroup]
        out.subgroup_accesses[counters[Counter.N_SUBGROUP] + subgroup] = warp[Warp.N_ACCESS]
        # From here on the places of the next access and granule.
        n_access, warp[Warp.N_ACCESS] = n_access + warp[Warp.N_ACCESS], n_access
        n_granule, warp[Warp.N_GRANULE] = n_granule + warp[Warp.N_GRANULE], n_granule
    first = np.int64(0)
    for k in range(counters[Counter.STAGED]):
        warp = state.subgroups[stage.whose[k]]
        to, end = warp[Warp.N_ACCESS], stage.granule_end[k]
        at = move(stage, first, end, out, warp[Warp.N_GRANULE])
        first = end
        out.access[to], out.waits[to], out.lanes[to] = (
            stage.access[k],
            stage.waits[k],
            stage.lanes[k],
        )
        out.work[to], out.granule_end[to] = stage.work[k], at
        warp[Warp.N_ACCESS], warp[Warp.N_GRANULE] = to + 1, at
    counters[Counter.N_ACCESS], counters[Counter.N_GRANULE] = n_access, n_granule
    counters[Counter.STAGED] = counters[Counter.STAGED_GRANULES] = 0


def prepared_number(row: MicroOperation, operation: Operation) -> int:
    """The interpreter's number of an operation: some with the modifiers of most have their own."""
    name = operation.name
    if name == "LOGIC3" and row.y in SIMPLE_LOGIC:
        name = SIMPLE_LOGIC[row.y]
    elif name in _ROUNDED and row.x & ROUNDING:
        name = f"ROUNDED_{name}"
    elif name in ("ADD3", "MULTIPLY_ADD") and row.x == 0:
        name = {"ADD3": "ADD", "MULTIPLY_ADD": "MULTIPLY"}[name]
    elif name.startswith("MULTIPLY_WIDE") and row.e == TRASH_MASK and row.m == NEVER:
        name = name.removeprefix("MULTIPLY_")
    elif name == "ADD_CARRY" and row.x & 7 == 0 and (row.n, row.y) == (NEVER, TRASH_MASK):
        if row.e == TRASH_MASK:
            name = "ADD_HIGH"
        elif row.c == ZERO_ROW:
            name = "ADD_LOW" if row.m == NEVER else "ADD_MIDDLE"
    return ORDER.index(name)


_ROUNDED = frozenset(name.removeprefix("ROUNDED_") for name in ORDER if name.startswith("ROUNDED_"))
_missing = set(OPERATIONS) - set(ORDER)
assert not _missing, _missing
assert LOAD + 1 == STORE == ATOMIC - 1
