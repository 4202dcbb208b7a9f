"""Accesses to memory: their addresses, checks, what is recorded of them, and the transfer of the data."""

from __future__ import annotations

import numpy as np

from memsim.compile import hot, inner
from tracegen.execution import operations as o
from tracegen.execution.banks import added_passes
from tracegen.execution.granules import (
    append,
    append_remembered,
    close,
    is_same,
    record_private,
    remember,
)
from tracegen.execution.lanes import (
    addresses_of_pair,
    addresses_of_pairs,
    addresses_of_signed,
    addresses_of_unsigned,
    addresses_of_words,
    copy_row,
    deviating,
    differing,
    fill_row,
    keep_pattern,
)
from tracegen.execution.numbers import bfloat_bits, half_bits, of_bfloat, of_half
from tracegen.execution.state import (
    MISALIGNED,
    OUT_OF_BOUNDS,
    OUT_OF_LOCAL,
    OUT_OF_PRIVATE,
    Counter,
    Fact,
    Size,
    Warp,
    opened,
)
from tracegen.execution.words import (
    bits_of_double,
    bits_of_float,
    double_of,
    float_of,
    lowest,
    ones,
    peek8,
    peek16,
    peek32,
    peek64,
    poke8,
    poke16,
    poke32,
    poke64,
)

_D, _E, _A, _B, _C, _PLACE, _N, _X, _Y, _Z = range(2, 12)
"""Columns of the interpreter's table; m of an access is the number of its place among the accesses of the code."""
LOAD, STORE, ATOMIC = range(3)
_GLOBAL, _LOCAL, _PRIVATE, _GENERIC = o.GLOBAL, o.LOCAL, o.PRIVATE, o.GENERIC
_LOCAL_WINDOW, _PRIVATE_WINDOW, _WINDOW_BYTES = o.LOCAL_WINDOW, o.PRIVATE_WINDOW, 1 << 24
_BYTES, _ADDRESS_32, _SIGNED_32, _SCALE = o.BYTES, o.ADDRESS_32, o.SIGNED_32, o.SCALE
_ONE_LANE, _SKIPPED, _SIGN_EXTEND, _HIGH, _KEEP = (
    o.ONE_LANE,
    o.SKIPPED,
    o.SIGN_EXTEND,
    o.HIGH_HALF,
    o.KEEP_HALF,
)
_FLOATING, _PACKED, _BF16, _NO_RESULT, _OPERATION = (
    o.FLOATING,
    o.PACKED,
    o.BF16,
    o.NO_RESULT,
    o.ATOMIC_OPERATION,
)
_WORD = 0xFFFFFFFF
_ALL = np.int64(-1)
BARRIER_PLACE = -1
(
    _LANES, _ROW_BYTES, _PRIVATE_WORDS, _PRIVATE_BASE, _N_REGION, _UNIFORM,
) = (Size.LANES, Size.ROW_BYTES, Size.PRIVATE_WORDS, Size.PRIVATE_BASE, Size.N_REGION, Size.UNIFORM)  # fmt: skip
_RECORDS = Warp.RECORDS.value
_ADDRESS, _LANE, _ARRAY = (
    Counter.FAULT_ADDRESS.value, Counter.FAULT_LANE.value, Counter.FAULT_ARRAY.value,
)  # fmt: skip


_ACTIVE, _PHASE, _LEAST, _MOST, _FORM, _MISSES, _CONFLICTS, _GRANULES = (
    Fact.ACTIVE, Fact.PHASE, Fact.LOW, Fact.HIGH, Fact.FORM, Fact.MISSES, Fact.CONFLICTS, Fact.GRANULES,
)  # fmt: skip


@hot
def access(listed, subgroup, at, kind, active):
    """One access of the active lanes; 0, or the kind of a fault.

    at : row of the table
    """
    state = opened(listed)
    table = state.table
    x = np.int64(table[at, _X])
    space, size = x & 7, x >> _BYTES & 63
    if x & _ONE_LANE:
        active = np.int64(1)
    if active == 0:
        if space == _LOCAL:
            state.local_counts[table[at, _Z] & 0xFFFFF, 0] += 1
        return 0
    _find_addresses(state, subgroup, at, x, space)
    if space == _GLOBAL:
        return _global(listed, subgroup, at, kind, active, x, size)
    local = active if space == _LOCAL else np.int64(0)
    private = active if space == _PRIVATE else np.int64(0)
    if space == _GENERIC:
        local = _within(state, active, _LOCAL_WINDOW)
        private = _within(state, active, _PRIVATE_WINDOW)
    stride, facts = np.int64(4), state.facts[np.int64(table[at, _PLACE])]
    if space == _GENERIC:
        facts[_ACTIVE] = 0  # what is remembered is of one memory
    if local:
        if space == _GENERIC:
            facts[_ACTIVE] = 0
        fault = _local(listed, at, local, size)
        if fault != 0:
            return fault
        if not x & _SKIPPED:
            _transfer(listed, subgroup, at, kind, local, x, size, stride)
    if private:
        stride = np.int64(4 * state.sizes[_LANES])
        fault = _private(listed, subgroup, at, kind, private, size)
        if fault != 0:
            return fault
        if not x & _SKIPPED:
            _transfer(listed, subgroup, at, kind, private, x, size, stride)
    # The last, for it changes the addresses of all lanes.
    rest = active & ~local & ~private
    return _global(listed, subgroup, at, kind, rest, x, size) if rest else np.int64(0)


@inner
def _within(state, active, window):
    """The lanes whose address lies in a window; their addresses become those inside it."""
    inside, left = np.int64(0), active
    while left != 0:
        lane = lowest(left)
        left &= left - 1
        if window <= state.scratch[lane] < window + _WINDOW_BYTES:
            inside |= np.int64(1) << lane
            state.scratch[lane] -= window
    return inside


@inner
def _find_addresses(state, subgroup, at, x, space):
    """Writes the addresses of all lanes to scratch."""
    table, result = state.table, np.int64(state.scratch.ctypes.data)
    row_bytes = np.int64(state.sizes[_ROW_BYTES])
    a, b, y = np.int64(table[at, _A]), np.int64(table[at, _B]), np.int64(table[at, _Y])
    scale = np.int64(1)
    if x >> _SCALE & 3:
        scale = np.int64(2) << (x >> _SCALE & 3)
    for chunk in range(state.sizes[_LANES] >> 5):
        place = state.rows[subgroup] + 128 * chunk
        to = result + 256 * chunk
        if space in (_LOCAL, _PRIVATE):
            addresses_of_words(place, row_bytes, a, b, scale, y, to)
        elif x & _ADDRESS_32:
            if x & _SIGNED_32:
                addresses_of_signed(place, row_bytes, a, b, scale, y, to)
            else:
                addresses_of_unsigned(place, row_bytes, a, b, scale, y, to)
        elif b == 0:
            addresses_of_pair(place, row_bytes, a, b, scale, y, to)
        else:
            addresses_of_pairs(place, row_bytes, a, b, scale, y, to)


@inner
def _is_run(state, active, first, step):
    """Whether the address of each active lane is first + lane * step."""
    other = np.int64(0)
    for chunk in range(state.sizes[_LANES] >> 5):
        where = np.int64(state.scratch.ctypes.data + 256 * chunk)
        other |= differing(where, first + 32 * chunk * step, step) << 32 * chunk
    return other & active == 0


@inner
def _fail(state, kind, lane, address):
    state.counters[_LANE] = lane
    state.counters[_ADDRESS] = address
    return kind


@inner
def _beyond(state, place, region, lane, address):
    """An access out of bounds. region : that it begins in, -1 for none"""
    if state.stays[place]:
        region = np.int64(state.hints[place])
    state.counters[_ARRAY] = region + 1
    return _fail(state, OUT_OF_BOUNDS, lane, address)


@inner
def _grain(state, size):
    """What the address of an access of so many bytes must be a multiple of; AMD's may begin at any byte."""
    if state.sizes[_UNIFORM]:
        return 1
    return 4 if size == 12 else min(size, 16)


@inner
def _deviates(state, active, place, first):
    """The active lanes whose address is not that of the remembered access of the instruction, moved to another first address."""
    where, pattern = np.int64(state.scratch.ctypes.data), np.int64(state.pattern[place].ctypes.data)
    other = np.int64(0)
    for chunk in range(state.sizes[_LANES] >> 5):
        other |= deviating(where + 256 * chunk, first, pattern + 256 * chunk) << 32 * chunk
    return other & active


@inner
def _remember(state, active, place, first):
    """Keeps the addresses of an access, from its first one on."""
    where, pattern = np.int64(state.scratch.ctypes.data), np.int64(state.pattern[place].ctypes.data)
    for chunk in range(state.sizes[_LANES] >> 5):
        keep_pattern(where + 256 * chunk, first, pattern + 256 * chunk)
    facts = state.facts[place]
    facts[_ACTIVE], facts[_PHASE] = active, first & 31


@inner
def _is_worth(facts):
    """Whether to remember an access: seldom where the next ones were others, time and again."""
    facts[_MISSES] += 1
    return facts[_MISSES] < 16 or facts[_MISSES] & 15 == 0


@hot
def _global(listed, subgroup, at, kind, active, x, size):
    """Checks, records and performs an access; the kind of a fault, or 0."""
    state = opened(listed)
    scratch, place = state.scratch, np.int64(state.table[at, _PLACE])
    facts, lane = state.facts[place], lowest(active)
    first, recorded = scratch[lane], state.subgroups[subgroup, _RECORDS] != 0
    region = _region(state, place, first)
    if region < 0:
        return _beyond(state, place, -1, lane, first)
    if (
        facts[_ACTIVE] == active
        and facts[_PHASE] == first & 31
        and _deviates(state, active, place, first) == 0
        and first + facts[_LEAST] >= state.region_base[region]
        and first + facts[_MOST] <= state.region_end[region]
        and (facts[_GRANULES] >= 0 or state.hidden[region] or not recorded)
    ):
        facts[_MISSES] = 0
        _use(state, kind, x, region)
        if not recorded:
            _uncounted(state, active)
        elif not state.hidden[region]:
            close(state, subgroup, at, kind, active, region, append_remembered(state, place, first))
        if not x & _SKIPPED:
            host, form = state.region_host[region], facts[_FORM]
            _move(listed, subgroup, at, kind, active, x, size, host, form)
        return np.int64(0)
    return _global_anew(listed, subgroup, at, kind, active, x, size)


@inner
def _use(state, kind, x, region):
    """Notes whether a load took a value, or a store left one out."""
    use = np.uint8(2 if x & _SKIPPED else 0) if kind != LOAD else np.uint8(0 if x & _SKIPPED else 1)
    if kind == ATOMIC and not x & _SKIPPED:
        use = np.uint8(0 if x & _NO_RESULT else 1)
    state.region_use[region] |= use


@inner
def _uncounted(state, active):
    state.counters[Counter.LANE_ACCESSES] += ones(active)
    state.counters[Counter.UNRECORDED] += 1


@hot
def _global_anew(listed, subgroup, at, kind, active, x, size):
    """The same for addresses that are not those of the remembered access."""
    state = opened(listed)
    scratch, grain = state.scratch, _grain(state, size)
    place, lane = np.int64(state.table[at, _PLACE]), lowest(active)
    first = scratch[lane]
    region = _region(state, place, first)
    differ = np.int64(0)
    for chunk in range(state.sizes[_LANES] >> 5):
        where = np.int64(scratch.ctypes.data) + 256 * chunk
        differ |= differing(where, first + (32 * chunk - lane) * size, size) << 32 * chunk
    low, high = state.region_base[region], state.region_end[region] - size
    least, most, one_region = first, first, True
    left = active
    while left != 0:
        one = lowest(left)
        left &= left - 1
        where = scratch[one]
        if where & grain - 1:
            return _fail(state, MISALIGNED, one, where)
        if where < low or where > high:
            other = _region(state, place, where)
            one_region = False
            if other < 0 or where + size > state.region_end[other]:
                begun = region if where < high + size and where >= low else np.int64(-1)
                return _beyond(state, place, begun, one, where)
            state.region_use[other] |= np.uint8(3)  # not told apart: values are needed
        least, most = min(least, where), max(most, where)
    _use(state, kind, x, region)
    form = np.int64(1 if differ & active == 0 else 2 if is_same(state, active, first) else 0)
    remembered = one_region and _is_worth(state.facts[place])
    recorded = state.subgroups[subgroup, _RECORDS] != 0
    if not recorded:
        _uncounted(state, active)
    if not recorded or state.hidden[region]:
        state.facts[place, _GRANULES] = -1
    else:
        begin = state.counters[Counter.STAGED_GRANULES]
        end = append(state, active, size, differ)
        remembered = remembered and remember(state, place, first, begin, end)
        close(state, subgroup, at, kind, active, region, end)
    if remembered:
        _remember(state, active, place, first)
        facts = state.facts[place]
        facts[_LEAST], facts[_MOST], facts[_FORM] = least - first, most - first + size, form
    if x & _SKIPPED:
        return np.int64(0)
    host = state.region_host[region]
    if one_region:
        _move(listed, subgroup, at, kind, active, x, size, host, form)
        return np.int64(0)
    left = active
    while left != 0:
        one = lowest(left)
        left &= left - 1
        scratch[one] += state.region_host[_region(state, place, scratch[one])]
    _transfer(listed, subgroup, at, kind, active, x, size, 4)
    return np.int64(0)


@inner
def _move(listed, subgroup, at, kind, active, x, size, host, form):
    """Moves data between rows and an array. host : see State.region_host;  form : see Fact"""
    state = opened(listed)
    scratch, lanes = state.scratch, state.sizes[_LANES]
    whole = active == (_ALL if lanes == 64 else np.int64(_WORD))
    if size == 4 and whole and form == 1 and kind != ATOMIC:
        scratch[0] += host
        _copy(state, subgroup, at, kind)
        return
    if size >= 4 and kind == LOAD and (x & _ONE_LANE or (form == 2 and whole)):
        row_bytes, from_ = state.sizes[_ROW_BYTES], scratch[lowest(active)] + host
        for word in range(size >> 2):
            value = peek32(from_ + 4 * word)
            to = np.int64(state.rows[subgroup] + state.table[at, _D] + word * row_bytes)
            for chunk in range(lanes >> 5):
                fill_row(value, to + 128 * chunk)
        return
    for one in range(lanes):
        scratch[one] += host
    _transfer(listed, subgroup, at, kind, active, x, size, 4)


@inner
def _region(state, place, address):
    """The number of the array that contains a byte, -1 for none."""
    hint = state.hints[place]
    if state.region_base[hint] <= address < state.region_end[hint]:
        return np.int64(hint)
    if state.stays[place]:
        return np.int64(-1)
    low, high = np.int64(0), state.sizes[_N_REGION]
    while low < high:
        middle = (low + high) >> 1
        if state.region_base[middle] <= address:
            low = middle + 1
        else:
            high = middle
    found = low - 1
    if found < 0 or address >= state.region_end[found]:
        return np.int64(-1)
    state.hints[place] = found
    return found


@inner
def _copy(state, subgroup, at, kind):
    """Moves neighbouring words of all lanes between a row and memory."""
    row = np.int64(state.rows[subgroup] + state.table[at, _D if kind == LOAD else _C])
    for chunk in range(state.sizes[_LANES] >> 5):
        place, memory = row + 128 * chunk, np.int64(state.scratch[0] + 128 * chunk)
        if kind == LOAD:
            copy_row(memory, place)
        else:
            copy_row(place, memory)


@hot
def _transfer(listed, subgroup, at, kind, active, x, size, stride):
    """Moves data between rows and the addresses in scratch. stride : bytes from a word of a lane to its next"""
    state = opened(listed)
    if kind == ATOMIC:
        _atomic(listed, subgroup, at, active, x, size)
        return
    row_bytes = state.sizes[_ROW_BYTES]
    row = np.int64(state.rows[subgroup] + state.table[at, _D if kind == LOAD else _C])
    left = active
    while left != 0:
        lane = lowest(left)
        left &= left - 1
        where, here = state.scratch[lane], row + 4 * lane
        if size < 4:
            _small(kind, x, size, where, here)
        elif kind == LOAD:
            for word in range(size >> 2):
                poke32(here + row_bytes * word, peek32(where + stride * word))
        else:
            for word in range(size >> 2):
                poke32(where + stride * word, peek32(here + row_bytes * word))


@inner
def _small(kind, x, size, where, here):
    """One or two bytes."""
    if kind == STORE:
        value = peek32(here) >> (16 if x & _HIGH else 0)
        if size == 1:
            poke8(where, value)
        else:
            poke16(where, value)
        return
    value = peek8(where) if size == 1 else peek16(where)
    if x & _SIGN_EXTEND and value >> (8 * size - 1):
        value -= 1 << 8 * size
    if x & _HIGH:
        value = peek32(here) & 0xFFFF | (value & 0xFFFF) << 16
    elif x & _KEEP:
        value = peek32(here) & 0xFFFF0000 | value & 0xFFFF
    poke32(here, value)


@hot
def _atomic(listed, subgroup, at, active, x, size):
    """The lanes one after another, in ascending order."""
    state = opened(listed)
    row_bytes, table = state.sizes[_ROW_BYTES], state.table
    place, what = state.rows[subgroup], x >> _OPERATION & 15
    left = active
    while left != 0:
        lane = lowest(left)
        left &= left - 1
        where, here = state.scratch[lane], place + 4 * lane
        operand = peek32(here + table[at, _C])
        wanted = peek32(here + table[at, _E])
        if size == 8:
            operand |= peek32(here + table[at, _C] + row_bytes) << 32
            wanted |= peek32(here + table[at, _E] + row_bytes) << 32
            old = peek64(where)
            poke64(where, _updated(what, old, operand, wanted, x, 8))
        elif size == 2:
            old = peek16(where)
            poke16(where, _updated(what, old, operand & 0xFFFF, wanted & 0xFFFF, x, 2))
        else:
            old = peek32(where)
            poke32(where, _updated(what, old, operand, wanted, x, 4))
        if not x & _NO_RESULT:
            poke32(here + table[at, _D], old)
            if size == 8:
                poke32(here + table[at, _D] + row_bytes, old >> 32)


@inner
def _updated(what, old, operand, wanted, x, size):
    """What an atomic operation leaves in memory; see ATOMIC_OPERATION."""
    if what == o_EXCHANGE:
        return operand
    if what == o_COMPARE:
        return operand if old == wanted else old
    if x & _FLOATING:
        return _updated_float(what, old, operand, x, size)
    if what == o_ADD:
        return old + operand
    if what == o_SUBTRACT:
        return old - operand
    if what == o_AND:
        return old & operand
    if what == o_OR:
        return old | operand
    if what == o_XOR:
        return old ^ operand
    unsigned_old, unsigned_new = np.uint64(old), np.uint64(operand)
    if what == o_INCREMENT:
        return 0 if unsigned_old >= unsigned_new else old + 1
    if what == o_DECREMENT:
        return operand if old == 0 or unsigned_old > unsigned_new else old - 1
    if what in (o_MIN_U, o_MAX_U):
        smaller = unsigned_old < unsigned_new
    else:
        sign = np.int64(1) << (8 * size - 1)
        smaller = old < operand if size == 8 else (old ^ sign) < (operand ^ sign)
    keep = smaller == (what in (o_MIN_U, o_MIN_S))
    return old if keep else operand


o_ADD, o_SUBTRACT, o_AND, o_OR, o_XOR = (
    o.ATOMIC_ADD,
    o.ATOMIC_SUBTRACT,
    o.ATOMIC_AND,
    o.ATOMIC_OR,
    o.ATOMIC_XOR,
)
o_EXCHANGE, o_COMPARE, o_INCREMENT, o_DECREMENT = (
    o.ATOMIC_EXCHANGE,
    o.ATOMIC_COMPARE,
    o.ATOMIC_INCREMENT,
    o.ATOMIC_DECREMENT,
)
o_MIN_U, o_MAX_U, o_MIN_S, o_MAX_S = (
    o.ATOMIC_MIN_U,
    o.ATOMIC_MAX_U,
    o.ATOMIC_MIN_S,
    o.ATOMIC_MAX_S,
)


@inner
def _combined(what, a, b):
    if what == o_ADD:
        return a + b
    if a != a:
        return b
    if b != b:
        return a
    return min(a, b) if what in (o_MIN_S, o_MIN_U) else max(a, b)


@inner
def _updated_float(what, old, operand, x, size):
    if size == 8 and not x & _PACKED:
        return bits_of_double(_combined(what, double_of(old), double_of(operand)))
    if size == 4 and not x & (_PACKED | _BF16):
        a, b = np.float64(float_of(old)), np.float64(float_of(operand))
        return bits_of_float(np.float32(_combined(what, a, b)))
    result = np.int64(0)
    for k in range(size >> 1):
        first, second = old >> 16 * k & 0xFFFF, operand >> 16 * k & 0xFFFF
        if x & _BF16:
            part = bfloat_bits(_combined(what, of_bfloat(first), of_bfloat(second)), 0)
        else:
            part = half_bits(_combined(what, of_half(first), of_half(second)), 0)
        result |= np.int64(part) << 16 * k
    return result


@hot
def _local(listed, at, active, size):
    """Checks an access to the group's local memory, and counts what its bank conflicts add."""
    state = opened(listed)
    scratch, n_bytes, host = state.scratch, len(state.local), np.int64(state.local.ctypes.data)
    counts = state.local_counts[state.table[at, _Z] & 0xFFFFF]
    place, lane = np.int64(state.table[at, _PLACE]), lowest(active)
    first, facts = scratch[lane], state.facts[place]
    phase = np.int64(3 if size <= 4 else 7 if size == 8 else 31)
    counts[0] += 1
    counts[1] += 1
    # Where all addresses move by the same, so do the banks, and all are checked by their bounds.
    if (
        facts[_ACTIVE] == active
        and facts[_PHASE] == first & phase
        and _deviates(state, active, place, first) == 0
        and first + facts[_LEAST] >= 0
        and first + facts[_MOST] <= n_bytes
    ):
        counts[2] += facts[_CONFLICTS]
    else:
        grain, least, most = min(_grain(state, size), 4), first, first
        left = active
        while left != 0:
            one = lowest(left)
            left &= left - 1
            where = scratch[one]
            if where < 0 or where + size > n_bytes:
                return _fail(state, OUT_OF_LOCAL, one, where)
            if where & grain - 1:
                return _fail(state, MISALIGNED, one, where)
            least, most = min(least, where), max(most, where)
        passes = _passes(state, active, size, lane)
        counts[2] += passes
        _remember(state, active, place, first)
        facts[_PHASE] = first & phase
        facts[_LEAST], facts[_MOST], facts[_CONFLICTS] = least - first, most - first + size, passes
    # Addresses of other lanes may be of other memories.
    every = np.int64(state.table[at, _X]) & 7 == _LOCAL
    for one in range(state.sizes[_LANES]):
        if every or active >> one & 1:
            scratch[one] += host
    return np.int64(0)


@inner
def _passes(state, active, size, lane):
    """Passes that bank conflicts add to an access."""
    lanes, first = state.sizes[_LANES], state.scratch[lane]
    if _is_run(state, active, first - lane * size, np.int64(size)) or (
        size <= 4 and _is_run(state, active, first, np.int64(0))
    ):
        return np.int64(0)
    noted, word, in_bank = state.noted, state.word, state.in_bank
    for k in range(lanes):
        noted[0, k] = state.scratch[k] + 1 if active >> k & 1 else 0
    words = 1
    while words * 4 < size:
        words *= 2
    added, _ = added_passes(noted[:, :lanes], words, lanes, word, in_bank)
    return np.int64(added)


@hot
def _private(listed, subgroup, at, kind, active, size):
    """Checks and records an access to the lanes' own memory, whose words lie lane by lane, then word by word."""
    state = opened(listed)
    scratch, words, lanes = state.scratch, state.sizes[_PRIVATE_WORDS], state.sizes[_LANES]
    left = active
    while left != 0:
        one = lowest(left)
        left &= left - 1
        where = scratch[one]
        if where < 0 or where + size > 4 * words:
            return _fail(state, OUT_OF_PRIVATE, one, where)
        if where & min(size, 4) - 1:
            return _fail(state, MISALIGNED, one, where)
    if state.subgroups[subgroup, _RECORDS]:
        record_private(state, subgroup, at, kind, active, size)
    left = active
    while left != 0:
        lane = lowest(left)
        left &= left - 1
        where = scratch[lane]
        scratch[lane] = state.private_at[subgroup] + ((where >> 2) * lanes + lane) * 4 + (where & 3)
    return 0
