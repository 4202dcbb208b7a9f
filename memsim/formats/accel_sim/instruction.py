"""One instruction of Accel-Sim's text: its numbers and registers, and the access that it makes."""

from __future__ import annotations

import numpy as np

from memsim.compile import inner
from memsim.formats.accel_sim.tables import (
    ACCESSES,
    ATOMIC,
    BARRIER,
    ERROR_ADDRESS,
    ERROR_DELTA,
    ERROR_MODE,
    ERROR_OPCODE,
    ERROR_PC,
    ERROR_RANGE,
    ERROR_REGISTERS,
    ERROR_SITES,
    ERROR_WIDTH,
    FRESH,
    HAS_LINES,
    LEFT,
    LOAD,
    LOCAL,
    LOCAL_BASE,
    MOST_ADDRESS,
    N_ACCESS,
    N_GRANULE,
    NEW_OPCODE,
    OPCODE_BYTES,
    OTHER,
    PREVIOUS_PC,
    SEQUENCE,
    SHARED,
    SHARED_BASE,
    STORE,
    TEXT,
    TEXT_END,
    USED,
    WINDOW_BYTES,
    find_opcode,
    find_site,
)
from memsim.trace.coalescing import coalesce


@inner
def _addresses(buffer, p, mask, tables):
    """(active lanes, their addresses in tables.address; or minus the error)."""
    mode, p = decimal(buffer, p)
    if p < 0 or mode < 0 or mode > 2:
        return np.int64(-ERROR_MODE)
    n = np.int64(0)
    base, stride = np.int64(0), np.int64(0)
    if mode > 0:
        base, p = hex_(buffer, p)
        if p < 0:
            return np.int64(-ERROR_ADDRESS)
    if mode == 1:
        stride, p = decimal(buffer, p)
        if p < 0 or stride > MOST_ADDRESS >> 6 or stride < -(MOST_ADDRESS >> 6):
            return np.int64(-ERROR_DELTA)
    first = np.int64(-1)
    for lane in range(32):
        if not (mask >> lane) & 1:
            continue
        if first < 0:
            first = lane
        if mode == 0:
            base, p = hex_(buffer, p)
            if p < 0:
                return np.int64(-ERROR_ADDRESS)
            this = base
        elif mode == 1:
            this = base + stride * (lane - first)
        else:
            if n > 0:
                stride, p = decimal(buffer, p)
                if p < 0:
                    return np.int64(-ERROR_DELTA)
                base += stride
            this = base
        if this < 0 or this >= MOST_ADDRESS:
            return np.int64(-ERROR_RANGE)
        tables.lanes[0, n] = lane
        tables.address[n] = this
        n += 1
    return n


@inner
def _emit(state, out, site, begins, lanes):
    k = state[N_ACCESS]
    out.site[k] = site
    out.starts_sequence[k] = begins
    out.waits[k] = state[USED]
    out.lanes[k] = lanes
    out.granule_end[k] = state[N_GRANULE]
    if begins:
        state[SEQUENCE] = state[ACCESSES]
    state[N_ACCESS] = k + 1
    state[ACCESSES] += 1


@inner
def _access(buffer, p, state, tables, out, opcode, pc, mask, line, n_to, loaded):
    """One access of global memory; returns 0 or the error."""
    width, p = decimal(buffer, p)
    if p < 0:
        return np.int64(ERROR_WIDTH)
    kind = np.int64(tables.kind[opcode])
    if width == 0 or mask == 0:
        return np.int64(0)
    n = _addresses(buffer, p, mask, tables)
    if n < 0:
        return -n
    if tables.generic[opcode]:
        first = tables.address[0]
        if state[SHARED_BASE] > 0 and 0 <= first - state[SHARED_BASE] < WINDOW_BYTES:
            tables.skipped[SHARED] += 1
            return np.int64(0)
        if state[LOCAL_BASE] > 0 and 0 <= first - state[LOCAL_BASE] < WINDOW_BYTES:
            tables.skipped[LOCAL] += 1
            return np.int64(0)
    site = find_site(state, tables, pc, opcode, line)
    if site < 0:
        return np.int64(ERROR_SITES)
    first_granule = state[N_GRANULE]
    state[N_GRANULE] = coalesce(
        tables.address, tables.lanes, 0, n, tables.size[opcode], tables.requested, first_granule,
        out.granule, out.byte_mask, out.lane_groups, out.lane_hits,
    )  # fmt: skip
    tables.site_low[site] = min(tables.site_low[site], out.granule[first_granule])
    tables.site_high[site] = max(tables.site_high[site], out.granule[state[N_GRANULE] - 1])
    if loaded >= 0:
        tables.site_feed[site] = loaded
    this = state[ACCESSES]
    begins = state[FRESH] != 0 or (kind == LOAD and state[USED] >= state[SEQUENCE])
    _emit(state, out, site, begins, n)
    state[FRESH] = 0
    if kind != STORE:
        for k in range(n_to):
            first_register = tables.registers[k]
            # Only the first of the registers that a wide load fills is named.
            for r in range(
                first_register, min(first_register + (tables.size[opcode] + 3) // 4, 255)
            ):
                tables.pending[r] = this
                tables.feeding[r] = site
    return np.int64(0)


@inner
def instruction(buffer, p, state, tables, out):
    """One instruction's line; returns 0, NEW_OPCODE or the error."""
    line = np.int64(-1)
    if state[HAS_LINES]:
        line, p = decimal(buffer, p)
        if p < 0:
            return np.int64(ERROR_PC)
    pc, p = hex_(buffer, p)
    if p < 0:
        return np.int64(ERROR_PC)
    mask, p = hex_(buffer, p)
    if p < 0 or mask > 0xFFFFFFFF:
        return np.int64(ERROR_PC)
    n_to, p = decimal(buffer, p)
    if p < 0 or n_to < 0 or n_to > 16:
        return np.int64(ERROR_REGISTERS)
    for k in range(n_to):
        tables.registers[k], p = register_number(buffer, p)
        if p < 0:
            return np.int64(ERROR_REGISTERS)
    p = skip_blanks(buffer, p)
    begin = p
    while buffer[p] > 32:
        p += 1
    if p == begin or p - begin >= OPCODE_BYTES:
        return np.int64(ERROR_OPCODE)
    opcode, _ = find_opcode(
        buffer, begin, p, tables.opcode_slot, tables.opcode_text, tables.opcode_bytes
    )
    if opcode < 0:
        state[TEXT], state[TEXT_END] = begin, p
        return np.int64(NEW_OPCODE)
    n_from, p = decimal(buffer, p)
    if p < 0 or n_from < 0 or n_from > 16:
        return np.int64(ERROR_REGISTERS)
    kind = np.int64(tables.kind[opcode])
    loaded = np.int64(-1)
    for k in range(n_from):
        register, p = register_number(buffer, p)
        if p < 0:
            return np.int64(ERROR_REGISTERS)
        # Warps issue in order, so an instruction that waits for a value delays all later ones.
        state[USED] = max(state[USED], tables.pending[register])
        # The first register of an access is its address.
        if k == 0 or (loaded < 0 and kind == OTHER):
            loaded = np.int64(tables.feeding[register])
    if pc <= state[PREVIOUS_PC]:
        state[FRESH] = 1
    state[PREVIOUS_PC] = pc
    state[LEFT] -= 1
    for k in range(n_to):
        tables.pending[tables.registers[k]] = -1
        tables.feeding[tables.registers[k]] = loaded if kind == OTHER else -1
    tables.pending[255] = -1
    tables.feeding[255] = -1
    if kind == OTHER:
        return np.int64(0)
    if kind == BARRIER:
        if mask != 0:
            _emit(state, out, np.int64(-1), True, 0)
            state[FRESH] = 1
        return np.int64(0)
    if kind > ATOMIC:
        if mask != 0:
            tables.skipped[kind] += 1
        return np.int64(0)
    return _access(buffer, p, state, tables, out, opcode, pc, mask, line, n_to, loaded)


@inner
def skip_blanks(buffer, p):
    while buffer[p] == 32 or buffer[p] == 9 or buffer[p] == 13:
        p += 1
    return p


@inner
def hex_(buffer, p):
    """(value, position after it); position -1 without a number below 2^60."""
    p = skip_blanks(buffer, p)
    if buffer[p] == 48 and (buffer[p + 1] | 32) == 120:
        p += 2
    value, first = np.int64(0), p
    while True:
        c = np.int64(buffer[p])
        if 48 <= c <= 57:
            digit = c - 48
        elif 97 <= (c | 32) <= 102:
            digit = (c | 32) - 87
        else:
            break
        if value >> 56 or p - first > 32:
            return value, np.int64(-1)
        value = value << 4 | digit
        p += 1
    if p == first or c > 32:
        return value, np.int64(-1)
    return value, np.int64(p)


@inner
def decimal(buffer, p):
    """(value, position after it); position -1 without a number below 10^18."""
    p = skip_blanks(buffer, p)
    negative = buffer[p] == 45
    if negative:
        p += 1
    value, first = np.int64(0), p
    while 48 <= buffer[p] <= 57:
        if p - first >= 18:
            return value, np.int64(-1)
        value = value * 10 + (np.int64(buffer[p]) - 48)
        p += 1
    if p == first:
        return value, np.int64(-1)
    return (-value if negative else value), np.int64(p)


@inner
def after_equals(buffer, p):
    while buffer[p] != 61 and buffer[p] != 10:
        p += 1
    return p + (buffer[p] == 61)


@inner
def register_number(buffer, p):
    """(number of a token `R12`, position after it); 255, the zero register, for any other token."""
    p = skip_blanks(buffer, p)
    number = np.int64(255)
    if buffer[p] == 82:
        value, q = decimal(buffer, p + 1)
        if q >= 0 and buffer[q] <= 32 and 0 <= value < 255:
            number = value
    first = p
    while buffer[p] > 32:
        p += 1
    return number, np.int64(p if p > first else -1)
