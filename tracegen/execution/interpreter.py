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
from tracegen.execution.barriers import ONLY_RECORDED, arrive, record_known, rest
from tracegen.execution.bulk import bulk
from tracegen.execution.choosing import choose_batch, leave
from tracegen.execution.granules import staged
from tracegen.execution.groups import find_batch, has_room
from tracegen.execution.integer_lanes import CARRYING, MASKED, SIMPLE_LOGIC
from tracegen.execution.memory import ATOMIC, LOAD, STORE, access
from tracegen.execution.moved import note_bounds
from tracegen.execution.operations import (
    BULK,
    NEVER,
    OPERATIONS,
    ROUNDING,
    TRASH_MASK,
    ZERO_ROW,
    MicroOperation,
    Operation,
)
from tracegen.execution.paths import enter, row_of_work
from tracegen.execution.repeats import is_tried, repeated
from tracegen.execution.row_operations import COMPARISONS, ROWS, VECTOR, rows_operation
from tracegen.execution.state import (
    ASSERTED,
    FAULT,
    FULL,
    GO_ON,
    MOST_CHUNKS,
    NO_PLACE,
    PAUSED,
    SLOTS,
    TRAPPED,
    UNKNOWN,
    Chunk,
    Counter,
    Size,
    Staged,
    Warp,
    of_group,
    opened,
    put_mask,
    source_mask,
)
from tracegen.execution.tile_products import tile_operation
from tracegen.execution.waits import end_copies, wait_copies, wait_count, wait_slots
from tracegen.execution.windows import count, go_by, has_passed
from tracegen.execution.words import lowest, peek8, peek16, peek32, poke32, poke64

CONTROL = [
    "BLOCK", "LOAD", "STORE", "ATOMIC", "BRANCH", "WAIT_SLOTS", "WAIT_COUNT", "COPIES_END", "WAIT_COPIES", "MASK_LOGIC3",
    "MASK_TO_ROWS", "ROWS_TO_MASK", "VOTE", "VOTE_WHOLE", "LOAD_CONSTANT", "CLOCK", "BRANCH_TABLE", "RETURN", "EXIT", "JOIN_SET",
    "JOIN_WAIT", "JOIN_LEAVE", "SYNC_LANES", "BARRIER", "TRAP", "UNKNOWN", "REST",
    "TENSOR_LOAD", "TENSOR_STORE", "TENSOR_MULTIPLY", "MATRIX_MULTIPLY", "TENSOR_COPY", "BLOCK_MULTIPLY",
]  # fmt: skip
"""Operations that the loop of the interpreter does itself."""
ORDER = [*VECTOR, *CONTROL, *slow.LANEWISE, *slow.TESTS, *slow.TOGETHER]
"""The interpreter's own numbers: first those of the switch over vectors."""
(
    BLOCK, _LOAD, _STORE, _ATOMIC, BRANCH, WAIT_SLOTS, WAIT_COUNT, COPIES_END, WAIT_COPIES, MASK_LOGIC3,
    MASK_TO_ROWS, ROWS_TO_MASK, VOTE, VOTE_WHOLE, LOAD_CONSTANT, CLOCK, BRANCH_TABLE, RETURN, EXIT, JOIN_SET,
    JOIN_WAIT, JOIN_LEAVE, SYNC_LANES, BARRIER, TRAP, UNKNOWN_RESULT, REST,
    TENSOR_LOAD, TENSOR_STORE, TENSOR_MULTIPLY, MATRIX_MULTIPLY, TENSOR_COPY, BLOCK_MULTIPLY,
) = range(len(VECTOR), len(VECTOR) + len(CONTROL))  # fmt: skip
_N_ROWS, _N_MASKED = len(ROWS), len(ROWS) + len(MASKED)
_N_COMPARISONS = _N_MASKED + len(COMPARISONS)
_N_VECTOR = len(VECTOR)
_LANEWISE = _N_VECTOR + len(CONTROL)
_TESTS = _LANEWISE + len(slow.LANEWISE)
_TOGETHER = _TESTS + len(slow.TESTS)
assert len(CARRYING) == _N_VECTOR - _N_COMPARISONS

OP, GUARD, D, E, A, B, C, M, N, X, Y, Z = range(12)
_WORD = 0xFFFFFFFF
_ALL = np.int64(-1)


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
        here = state.subgroups[subgroup, Warp.ACTIVE] & source_mask(state.masks[subgroup], guard)
        some |= here
        for half in range(halves):
            state.chunks[Chunk.HERE, k * halves + half] = here >> 32 * half & _WORD
    return some != 0


@inner
def _fill_masks(state, n, chunk, number):
    halves = state.sizes[Size.LANES] >> 5
    for k in range(n):
        value = source_mask(state.masks[state.who[k]], number)
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
        put_mask(state.masks[state.who[k]], number, lanes, value)


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
        taken = active & source_mask(masks, row[GUARD]) & source_mask(masks, row[M])
        some, every = some or taken != 0, every and taken == active
    if every:
        return np.int64(row[Y])
    if not some:
        return pc
    for k in range(n):
        subgroup = state.who[k]
        warp, masks = state.subgroups[subgroup], state.masks[subgroup]
        active = warp[Warp.ACTIVE]
        taken = active & source_mask(masks, row[GUARD]) & source_mask(masks, row[M])
        if taken == 0 or taken == active:
            warp[Warp.PC] = pc if taken == 0 else np.int64(row[Y])
        else:
            leave(state, subgroup, taken, row[Y])
            leave(state, subgroup, active & ~taken, pc)
            warp[Warp.ACTIVE] = 0
    return np.int64(-1)


@inner
def _wait(state, subgroup, row, op):
    if op == WAIT_SLOTS:
        wait_slots(state, subgroup, np.int64(row[Y]))
    elif op == WAIT_COUNT:
        wait_count(state, subgroup, row[X], np.int64(row[Y]))
    else:
        mark = np.int64(0)
        if row[X]:
            lane = lowest(state.subgroups[subgroup, Warp.ACTIVE])
            mark = peek32(state.rows[subgroup] + row[A] + 4 * lane) + 1
        if op == COPIES_END:
            end_copies(state, subgroup, mark)
        else:
            first, last = subgroup, subgroup + 1
            if row[X] & 2:
                first, last = of_group(state, subgroup)
            for one in range(first, last):
                wait_copies(state, one, np.int64(row[Y]), mark)


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
    here = active & source_mask(masks, row[GUARD])
    if op == MASK_LOGIC3:
        m, n, third = (
            source_mask(masks, row[M]),
            source_mask(masks, row[N]),
            source_mask(masks, row[Y]),
        )
        value = np.int64(0)
        for k in range(8):
            if row[X] >> k & 1:
                value |= (m if k & 4 else ~m) & (n if k & 2 else ~n) & (third if k & 1 else ~third)
        put_mask(masks, row[D], here, value)
    elif op == MASK_TO_ROWS:
        value = source_mask(masks, row[M])
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
        put_mask(
            masks, row[D], here, _vote(row[Y], here, source_mask(masks, row[M]), warp[Warp.LIVE])
        )
    elif op == VOTE_WHOLE:
        value = source_mask(masks, row[M])
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
                source_mask(masks, row[M]), np.int64(row[X]), row[Y], masks, row[E], state.scratch,
            )  # fmt: skip
    elif op >= _TESTS:
        slow.tested(
            op - _TESTS, place, row_bytes, row[D], row[A], row[B], row[C], here, source_mask(masks, row[M]),
            np.int64(row[X]), masks, row[E],
        )  # fmt: skip
    elif op >= _LANEWISE:
        slow.lanewise(
            op - _LANEWISE, place, row_bytes, row[D], row[A], row[B], row[C], here, source_mask(masks, row[M]),
            np.int64(row[X]), row[Y],
        )  # fmt: skip
    elif op >= TENSOR_LOAD:
        return here == 0 or tile_operation(listed, subgroup, pc - 1, op - TENSOR_LOAD, here)
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
        leave(state, subgroup, active & ~here, pc)
    elif op == EXIT:
        warp[Warp.LIVE] &= ~here
        leave(state, subgroup, active & ~here, pc)
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
        leave(state, subgroup, active, pc)
    elif op in (BARRIER, REST):
        if row[X] & ONLY_RECORDED:
            record_known(listed, subgroup, here, pc - 1)
            return True
        if op == REST and row[X] and warp[Warp.BRINGS]:
            return True
        if op == REST:
            rest(state, subgroup, here)
        else:
            arrive(listed, subgroup, here, pc - 1)
        leave(state, subgroup, active, pc)
    else:
        which = 2 if op == UNKNOWN_RESULT else min(np.int64(row[Y]), 2)
        counters[Counter.FAULT] = (TRAPPED, ASSERTED, UNKNOWN)[which]
        counters[Counter.FAULT_LANE] = lowest(here)
        return False
    warp[Warp.ACTIVE] = 0
    return False


@hot
def run_groups(listed):
    """Runs groups until all have ended, a buffer is full, or STEPS_LEFT blocks have been executed; see state.DONE.

    Those sub-groups of a batch at the lowest micro-operation go on together, so each does what it would do alone.
    """
    state = opened(listed)
    table, counters, sizes = state.table, state.counters, state.sizes
    recorded, windowed = sizes[Size.RECORD] != 0, sizes[Size.WINDOWED] != 0
    n, pc, limit = np.int64(0), np.int64(0), np.int64(0)
    instructions, stopped = np.int64(0), find_batch(listed)
    checked = counters[Counter.REFERENCE] != 0
    while stopped == GO_ON:
        if n == 0:
            n = choose_batch(listed)
            if n == 0:
                counters[Counter.SUBGROUP] += sizes[Size.BATCH]
                counters[Counter.INSTRUCTIONS] += instructions
                instructions, stopped = np.int64(0), find_batch(listed)
                checked = counters[Counter.REFERENCE] != 0
                continue
            if n < 0:
                stopped = FAULT
                break
            pc, limit = counters[Counter.PC], counters[Counter.LIMIT]
        row = table[np.uint64(pc)]
        op = np.int64(row[OP])
        pc += 1
        instructions += n
        if op < _N_VECTOR:
            if checked and state.first_check[pc] > state.first_check[pc - 1]:
                note_bounds(listed, pc - 1, n)
            _vector(state, row, op, n)
        elif op == BLOCK:
            if pc > limit:  # others wait here, or before
                for k in range(n):
                    warp = state.subgroups[state.who[k]]
                    warp[Warp.PC] = pc - 1
                    if pc > warp[Warp.LIMIT]:
                        leave(state, state.who[k], warp[Warp.ACTIVE], pc - 1)
                        warp[Warp.ACTIVE] = 0
                n = np.int64(0)
                continue
            if windowed and has_passed(state, n):
                _park(state, n, pc - 1)
                n = np.int64(0)
                continue
            counters[Counter.STEPS_LEFT] -= n
            if counters[Counter.STEPS_LEFT] < 0:
                _park(state, n, pc - 1)
                stopped, instructions = PAUSED, instructions - n
                break
            state.segment_count[row[Y]] += n
            if recorded:
                for k in range(n):
                    if state.subgroups[state.who[k], Warp.RECORDS]:
                        enter(state, state.who[k], np.int64(row[Y]))
        elif op <= _ATOMIC:
            if windowed and go_by(state, row, op - _LOAD, n):
                continue
            if not has_room(state):
                _park(state, n, pc - 1)
                stopped, instructions = FULL, instructions - n
                break
            fault, kind, k = np.int64(0), op - _LOAD, np.int64(0)
            while k < n:
                subgroup, before = state.who[k], counters[Counter.STAGED]
                here = state.subgroups[subgroup, Warp.ACTIVE] & source_mask(
                    state.masks[subgroup], row[GUARD]
                )
                end = k
                if is_tried(state, np.int64(row[M])):
                    end = repeated(listed, pc - 1, kind, k, k + 1 if windowed else n)
                if end == k:
                    if row[X] & 7 == BULK:
                        fault = bulk(listed, subgroup, pc - 1, kind, here)
                    else:
                        fault = access(listed, subgroup, pc - 1, kind, here)
                    if fault:
                        counters[Counter.FAULT], counters[Counter.FAULT_SUBGROUP] = fault, subgroup
                        break
                    if counters[Counter.STAGED] > before and row[X] & 7 != BULK:
                        of_place = state.facts[np.int64(row[M]) * SLOTS]
                        work = row_of_work(listed, state, subgroup, of_place)
                        for one in range(before, counters[Counter.STAGED]):
                            poke64(staged(state, one) + 8 * Staged.WORK, work)
                    end = k + 1
                if windowed:
                    count(state, subgroup, row, here)
                k = end
            if fault:
                counters[Counter.FAULT_INSTRUCTION] = row[Z] & 0xFFFFF
                stopped = FAULT
                break
        elif op == BRANCH:
            pc = _branch(state, row, n, pc)
            n = n if pc >= 0 else np.int64(0)
        elif op <= WAIT_COPIES:
            if recorded:
                for k in range(n):
                    _wait(state, state.who[k], row, op)
        elif op == BARRIER and not has_room(state):
            _park(state, n, pc - 1)
            stopped, instructions = FULL, instructions - n
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
                stopped = FAULT
                break
            n = n if go_on else np.int64(0)
    counters[Counter.INSTRUCTIONS] += instructions
    return stopped


def prepared_number(row: MicroOperation, operation: Operation) -> int:
    """The interpreter's number of an operation: some with the modifiers of most have their own."""
    name = operation.name
    if name == "LOGIC3" and row.y in SIMPLE_LOGIC:
        name = SIMPLE_LOGIC[row.y]
    elif name in _ROUNDED and row.x & ROUNDING:
        name = f"ROUNDED_{name}"
    elif name == "SPECIAL" and f"SPECIAL_{row.y}" in ROWS:
        name = f"SPECIAL_{row.y}"
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
