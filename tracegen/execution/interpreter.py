"""The interpreter of micro-operations.

Groups run one after another, their sub-groups in order, each until it ends or waits at a barrier. Of a sub-group the lanes at the
lowest micro-operation go next, together, as NVIDIA's and AMD's compilers both allow. The readable twin, which is the
specification, is tests/twins/execution.py.
"""

from __future__ import annotations

import numpy as np

from memsim.compile import hot, inner
from tracegen.execution import slow
from tracegen.execution.lanes import (
    CARRYING,
    COMPARISONS,
    ROWS,
    SIMPLE_LOGIC,
    VECTOR,
    rows_operation,
)
from tracegen.execution.memory import ATOMIC, LOAD, STORE, access
from tracegen.execution.operations import OPERATIONS, Operation
from tracegen.execution.state import (
    ASSERTED,
    DONE,
    FAULT,
    FULL,
    MOST_LOADS,
    N_BARRIERS,
    NO_PLACE,
    PAUSED,
    STUCK_BARRIER,
    STUCK_LANES,
    TRAPPED,
    UNKNOWN,
    Counter,
    Size,
    Warp,
    opened,
)
from tracegen.execution.words import lowest, ones, peek8, peek16, peek32, poke32, poke64

CONTROL = [
    "BLOCK", "LOAD", "STORE", "ATOMIC", "BRANCH", "WAIT_SLOTS", "WAIT_COUNT", "MASK_LOGIC3", "MASK_TO_ROWS", "ROWS_TO_MASK",
    "VOTE", "VOTE_WHOLE", "LOAD_CONSTANT", "CLOCK", "BRANCH_TABLE", "RETURN", "EXIT", "JOIN_SET", "JOIN_WAIT",
    "JOIN_LEAVE", "COPIES_END", "WAIT_COPIES", "SYNC_LANES", "BARRIER", "TRAP", "UNKNOWN",
]  # fmt: skip
"""Operations that the loop of the interpreter does itself."""
ORDER = [*VECTOR, *CONTROL, *slow.LANEWISE, *slow.TESTS, *slow.TOGETHER]
"""The interpreter's own numbers: first those of the switch over vectors."""
(
    BLOCK, _LOAD, _STORE, _ATOMIC, BRANCH, WAIT_SLOTS, WAIT_COUNT, MASK_LOGIC3, MASK_TO_ROWS, ROWS_TO_MASK, VOTE, VOTE_WHOLE,
    LOAD_CONSTANT, CLOCK, BRANCH_TABLE, RETURN, EXIT, JOIN_SET, JOIN_WAIT, JOIN_LEAVE,
    COPIES_END, WAIT_COPIES, SYNC_LANES, BARRIER, TRAP, UNKNOWN_RESULT,
) = range(len(VECTOR), len(VECTOR) + len(CONTROL))  # fmt: skip
_N_ROWS, _N_COMPARISONS = len(ROWS), len(ROWS) + len(COMPARISONS)
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
MOST_PATH = 4096
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
def _close_path(listed):
    """The number of the row of work with the segments executed since the last access."""
    state = opened(listed)
    counters, out = state.counters, state.out
    key, n_key = counters[Counter.PATH_HASH], len(state.row_keys)
    if key == 0:
        key = 1
    slot = np.int64(np.uint64(key) >> np.uint64(40)) & n_key - 1
    while state.row_keys[slot] != 0:
        if state.row_keys[slot] == key:
            _forget_path(state)
            return state.row_values[slot]
        slot = slot + 1 & n_key - 1
    row = counters[Counter.N_ROW]
    _fold_path(state)
    n, end = counters[Counter.N_TOUCHED], counters[Counter.N_ROW_ENTRY]
    for k in range(n):
        segment = state.touched[k]
        out.row_segment[end + k] = segment
        out.row_count[end + k] = state.pending[segment]
    counters[Counter.N_ROW_ENTRY] = end + n
    out.row_end[row] = end + n
    counters[Counter.N_ROW] = row + 1
    state.row_keys[slot], state.row_values[slot] = key, row
    _forget_path(state)
    return row


@inner
def _fold_path(state):
    """Adds the remembered segments to `pending`."""
    counters = state.counters
    for k in range(counters[Counter.PATH_LENGTH]):
        segment = state.path[k]
        if state.pending[segment] == 0:
            state.touched[counters[Counter.N_TOUCHED]] = segment
            counters[Counter.N_TOUCHED] += 1
        state.pending[segment] += 1
    counters[Counter.PATH_LENGTH] = 0


@inner
def _forget_path(state):
    counters = state.counters
    for k in range(counters[Counter.N_TOUCHED]):
        state.pending[state.touched[k]] = 0
    counters[Counter.N_TOUCHED] = counters[Counter.PATH_LENGTH] = counters[Counter.PATH_HASH] = 0


@inner
def _has_room(state):
    """Whether an access, and the end of a sub-group behind it, can be recorded."""
    counters, out = state.counters, state.out
    return (
        counters[Counter.N_ACCESS] + 3 < len(out.access)
        and counters[Counter.N_GRANULE] + GRANULES_AN_ACCESS <= len(out.granule)
        and counters[Counter.N_ROW] + 3 < len(out.row_end)
        and counters[Counter.N_ROW_ENTRY] + 3 * len(state.segment_count) < len(out.row_segment)
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
        warp[Warp.AT_BARRIER] = warp[Warp.BARRIER] = 0
        warp[Warp.ACTIVE] = 0  # who goes on is to be chosen
    state.barrier_arrived[number] = 0
    state.barrier_votes[0, number] = state.barrier_votes[1, number] = 0


@hot
def run_subgroup(listed, subgroup):
    """Runs one sub-group until it ends, waits at a barrier or must stop; returns which of these."""
    state = opened(listed)
    table, counters, sizes = state.table, state.counters, state.sizes
    masks, warp = state.masks[subgroup], state.subgroups[subgroup]
    place, row_bytes = state.rows[subgroup], np.int64(sizes[Size.ROW_BYTES])
    n_chunk = sizes[Size.LANES] >> 5
    pc, active, limit = warp[Warp.PC], warp[Warp.ACTIVE], warp[Warp.LIMIT]
    instructions = np.int64(0)
    stopped = np.int64(RUNNING)
    while True:
        if active == 0:
            stopped = choose(listed, subgroup)
            pc, active, limit = warp[Warp.PC], warp[Warp.ACTIVE], warp[Warp.LIMIT]
            if stopped == AT_BARRIER and sizes[Size.RECORD]:
                _record_barrier(listed, subgroup)
            if stopped == _STOPPED_FAULT:
                counters[Counter.FAULT] = STUCK_LANES
            if stopped != RUNNING:
                break
        row = table[np.uint64(pc)]
        op = np.int64(row[OP])
        here = active & _mask(masks, row[GUARD])
        pc += 1
        instructions += 1
        if op < _N_VECTOR:
            if here == 0:
                continue
            m, n = _mask(masks, row[M]), _mask(masks, row[N])
            first, second = np.int64(0), np.int64(0)
            for chunk in range(n_chunk):
                both = rows_operation(
                    op, place + 128 * chunk, row_bytes, np.int64(row[D]), np.int64(row[E]), np.int64(row[A]),
                    np.int64(row[B]), np.int64(row[C]), np.int64(row[X]), np.int64(row[Y]), m >> 32 * chunk, n >> 32 * chunk,
                    here >> 32 * chunk,
                )  # fmt: skip
                first |= (both & _WORD) << 32 * chunk
                second |= ((both >> 32) & _WORD) << 32 * chunk
            if op >= _N_COMPARISONS:
                _put(masks, row[E], here, first)
                _put(masks, row[Y], here, second)
            elif op >= _N_ROWS:
                _put(masks, row[D], here, first)
                _put(masks, row[E], here, second)
            continue
        if op == BLOCK:
            if pc > limit:  # lanes wait here, or before
                _leave(state, subgroup, active, pc - 1)
                active = np.int64(0)
                continue
            counters[Counter.STEPS_LEFT] -= 1
            if counters[Counter.STEPS_LEFT] < 0:
                pc -= 1
                stopped = _STOPPED_PAUSED
                break
            segment = np.int64(row[Y])
            state.segment_count[segment] += 1
            if counters[Counter.PATH_LENGTH] == MOST_PATH:
                _fold_path(state)
            state.path[counters[Counter.PATH_LENGTH]] = segment
            counters[Counter.PATH_LENGTH] += 1
            counters[Counter.PATH_HASH] = (counters[Counter.PATH_HASH] ^ (segment + 1)) * _FACTOR
            continue
        if op <= _ATOMIC:
            if not _has_room(state):
                pc -= 1
                stopped = _STOPPED_FULL
                break
            before = counters[Counter.N_ACCESS]
            fault = access(listed, subgroup, pc - 1, op - _LOAD, here)
            if fault:
                counters[Counter.FAULT] = fault
                counters[Counter.FAULT_INSTRUCTION] = row[Z] & 0xFFFFF
                stopped = _STOPPED_FAULT
                break
            if counters[Counter.N_ACCESS] > before:
                state.out.work[before : counters[Counter.N_ACCESS]] = _close_path(listed)
            continue
        if op == BRANCH:
            taken = here & _mask(masks, row[M])
            if taken == active:
                pc = np.int64(row[Y])
            elif taken != 0:
                _leave(state, subgroup, taken, row[Y])
                _leave(state, subgroup, active & ~taken, pc)
                active = np.int64(0)
            continue
        if op == WAIT_SLOTS:
            _wait_slots(state, subgroup, np.int64(row[Y]))
        elif op == WAIT_COUNT:
            _wait_count(state, subgroup, row[X], np.int64(row[Y]))
        elif op == COPIES_END:
            _end_copies(state, subgroup)
        elif op == WAIT_COPIES:
            _wait_copies(state, subgroup, np.int64(row[Y]))
        elif op == MASK_LOGIC3:
            m, n, third = _mask(masks, row[M]), _mask(masks, row[N]), _mask(masks, row[Y])
            value = np.int64(0)
            for k in range(8):
                if row[X] >> k & 1:
                    value |= (
                        (m if k & 4 else ~m) & (n if k & 2 else ~n) & (third if k & 1 else ~third)
                    )
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
            total = counters[Counter.INSTRUCTIONS] + instructions
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
            # What lanes do that may stop them: they are noted, and the next ones chosen.
            if here == 0:
                continue
            if op in (BRANCH_TABLE, RETURN):
                left = here
                while left != 0:
                    lane = lowest(left)
                    left &= left - 1
                    address = (peek32(place + row[A] + 4 * lane) + row[Y]) & _WORD
                    if (
                        address & 15
                        or address >> 4 >= len(state.places)
                        or state.places[address >> 4] < 0
                    ):
                        counters[Counter.FAULT], counters[Counter.FAULT_LANE] = NO_PLACE, lane
                        counters[Counter.FAULT_ADDRESS] = address
                        stopped = _STOPPED_FAULT
                        break
                    state.lane_pc[subgroup, lane] = state.places[address >> 4]
                _leave(state, subgroup, active & ~here, pc)
            elif op == EXIT:
                warp[Warp.LIVE] &= ~here
                if warp[Warp.LIVE] == 0:
                    stopped = ENDED
                    break
                _leave(state, subgroup, active & ~here, pc)
            elif op in (JOIN_WAIT, SYNC_LANES):
                needed, left = np.int64(0), here
                while left != 0:
                    needed |= np.int64(peek32(place + row[A] + 4 * lowest(left)))
                    left &= left - 1
                if here == active and needed & warp[Warp.LIVE] & ~active == 0:
                    continue
                warp[Warp.BLOCKED] |= here
                left = here
                while left != 0:
                    state.lane_waits[subgroup, lowest(left)] = row[A]
                    left &= left - 1
                _leave(state, subgroup, active, pc)
            elif op == BARRIER:
                if not _has_room(state):
                    pc -= 1
                    stopped = _STOPPED_FULL
                    break
                _arrive(listed, subgroup, here, pc - 1)
                _leave(state, subgroup, active, pc)
            else:
                which = 2 if op == UNKNOWN_RESULT else min(np.int64(row[Y]), 2)
                counters[Counter.FAULT] = (TRAPPED, ASSERTED, UNKNOWN)[which]
                counters[Counter.FAULT_LANE] = lowest(here)
                stopped = _STOPPED_FAULT
            if stopped == _STOPPED_FAULT:
                counters[Counter.FAULT_INSTRUCTION] = row[Z] & 0xFFFFF
                break
            active = np.int64(0)
    counters[Counter.INSTRUCTIONS] += instructions
    warp[Warp.PC], warp[Warp.ACTIVE], warp[Warp.LIMIT] = pc, active, limit
    return stopped


@hot
def _record_barrier(listed, subgroup):
    """A barrier is an access without lanes."""
    state = opened(listed)
    counters, out, warp = state.counters, state.out, state.subgroups[subgroup]
    n = counters[Counter.N_ACCESS]
    out.access[n], out.waits[n], out.lanes[n] = -1, warp[Warp.SETTLED], 0
    out.granule_end[n] = counters[Counter.N_GRANULE]
    counters[Counter.N_ACCESS] = n + 1
    warp[Warp.N_ACCESS] += 1
    out.work[n] = _close_path(listed)


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
        state.masks[subgroup, 0] = -1
        for k in range(len(state.initial)):
            state.masks[subgroup, state.initial[k]] = own
        for axis in range(3):
            if state.group_rows[axis] >= 0:
                row = state.rows[subgroup] + state.group_rows[axis]
                both = at[axis] | at[axis] << 32
                for pair in range(sizes[Size.LANES] >> 1):
                    poke64(row + 8 * pair, both)
    counters[Counter.SUBGROUP] = 0
    counters[Counter.RUNNING] = 1


@hot
def run_groups(listed):
    """Runs groups until all have ended, a buffer is full, or STEPS_LEFT blocks have been executed; see state.DONE."""
    state = opened(listed)
    counters, sizes = state.counters, state.sizes
    n = sizes[Size.N_SUBGROUP]
    while counters[Counter.POSITION] < len(state.groups):
        if not counters[Counter.RUNNING]:
            if counters[Counter.N_SUBGROUP] + n > len(state.out.subgroup_accesses):
                return FULL
            begin_group(listed)
        while True:
            while counters[Counter.SUBGROUP] < n:
                subgroup = counters[Counter.SUBGROUP]
                warp = state.subgroups[subgroup]
                if warp[Warp.ENDED] or warp[Warp.BARRIER]:
                    counters[Counter.SUBGROUP] += 1
                    continue
                if counters[Counter.N_PIECE] + 1 >= len(state.out.piece_subgroup) or not _has_room(
                    state
                ):
                    return FULL
                stopped = run_subgroup(listed, subgroup)
                if stopped == ENDED:
                    warp[Warp.ENDED] = 1
                    row = _close_path(listed)
                    state.out.tail[counters[Counter.N_SUBGROUP] + subgroup] = row
                if stopped in (ENDED, AT_BARRIER):
                    _end_piece(state, subgroup)
                    counters[Counter.SUBGROUP] += 1
                elif stopped == _STOPPED_FULL:
                    return FULL
                elif stopped == _STOPPED_PAUSED:
                    return PAUSED
                else:
                    counters[Counter.FAULT_SUBGROUP] = subgroup
                    return FAULT
            counters[Counter.SUBGROUP] = 0
            ended = np.int64(0)
            for subgroup in range(n):
                ended += state.subgroups[subgroup, Warp.ENDED]
            if ended == n:
                break
            if not open_barriers(listed):
                counters[Counter.FAULT] = STUCK_BARRIER
                return FAULT
        for subgroup in range(n):
            state.out.subgroup_accesses[counters[Counter.N_SUBGROUP] + subgroup] = state.subgroups[
                subgroup, Warp.N_ACCESS
            ]
        counters[Counter.N_SUBGROUP] += n
        counters[Counter.RUNNING] = 0
        counters[Counter.POSITION] += 1
    return DONE


@inner
def _end_piece(state, subgroup):
    """The accesses since the last piece were one sub-group's."""
    k = state.counters[Counter.N_PIECE]
    state.out.piece_subgroup[k] = state.counters[Counter.N_SUBGROUP] + subgroup
    state.out.piece_first[k + 1] = state.counters[Counter.N_ACCESS]
    state.counters[Counter.N_PIECE] = k + 1


def prepared_number(operation: Operation, x: int, y: int, c: int) -> int:
    """The interpreter's number of an operation with these modifiers."""
    name = operation.name
    if name == "LOGIC3" and y in SIMPLE_LOGIC:
        name = SIMPLE_LOGIC[y]
    if name in _ROUNDED and x & 0x300:
        name = f"ROUNDED_{name}"
    return ORDER.index(name)


_ROUNDED = frozenset(name.removeprefix("ROUNDED_") for name in ORDER if name.startswith("ROUNDED_"))
_missing = set(OPERATIONS) - set(ORDER)
assert not _missing, _missing
assert LOAD + 1 == STORE == ATOMIC - 1
