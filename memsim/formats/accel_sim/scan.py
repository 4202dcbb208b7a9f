"""The state machine over the text of Accel-Sim's thread blocks, a block of whole lines at a time.

It stops and returns to its caller at an unknown opcode, when its columns are full, and at a line that
breaks the format. `state[AT]` is then the line to continue with, or the culprit.
"""

from __future__ import annotations

import numpy as np

from memsim.compile import hot, inner
from memsim.formats.accel_sim.instruction import after_equals, decimal, instruction, skip_blanks
from memsim.formats.accel_sim.tables import (
    ACCESSES,
    AT,
    DONE,
    ERROR_BEGIN,
    ERROR_BLOCK,
    ERROR_END,
    ERROR_FEWER,
    ERROR_GRID,
    ERROR_IDLE,
    ERROR_INSTS,
    ERROR_LINE,
    ERROR_MORE,
    ERROR_WARP,
    ERROR_WARP_RANGE,
    FRESH,
    FULL,
    GRANULES_OF_ACCESS,
    GRID_X,
    GRID_Y,
    GRID_Z,
    GROUP,
    IDLE,
    IN_BLOCK,
    LEFT,
    LINE,
    MOST_IDLE,
    N_ACCESS,
    N_GRANULE,
    N_SUBGROUP,
    N_WARP,
    PREVIOUS_PC,
    SEQUENCE,
    USED,
    WARP,
)

BEGIN_TB = tuple(b"BEGIN_TB")
END_TB = tuple(b"END_TB")
CLUSTER = tuple(b"cluster ")


@inner
def _close(state, out, group_of, warp_of):
    """Ends the current sub-group; False if it has fewer instructions than announced."""
    if state[WARP] < 0:
        return True
    if state[LEFT] != 0:
        return False
    s = state[N_SUBGROUP]
    out.subgroup_accesses[s] = state[ACCESSES]
    group_of[s] = state[GROUP]
    warp_of[s] = state[WARP]
    state[N_SUBGROUP] = s + 1
    state[WARP] = -1
    return True


@inner
def _begin_warp(state, tables, warp):
    state[WARP] = warp
    state[LEFT] = -1
    state[ACCESSES] = 0
    state[SEQUENCE] = 0
    state[FRESH] = 1
    state[USED] = -1
    state[PREVIOUS_PC] = -1
    for k in range(256):
        tables.pending[k] = -1
        tables.feeding[k] = -1


@inner
def _block(buffer, p, state):
    """The line `thread block = x,y,z`; returns 0 or the error."""
    if state[IN_BLOCK] != 1:
        return np.int64(ERROR_BLOCK)
    x, p = decimal(buffer, after_equals(buffer, p))
    if p < 0 or buffer[p] != 44:
        return np.int64(ERROR_BLOCK)
    y, p = decimal(buffer, p + 1)
    if p < 0 or buffer[p] != 44:
        return np.int64(ERROR_BLOCK)
    z, p = decimal(buffer, p + 1)
    if p < 0:
        return np.int64(ERROR_BLOCK)
    inside = 0 <= x < state[GRID_X] and 0 <= y < state[GRID_Y] and 0 <= z < state[GRID_Z]
    if not inside:
        return np.int64(ERROR_GRID)
    state[GROUP] = (z * state[GRID_Y] + y) * state[GRID_X] + x
    state[IN_BLOCK] = 2
    return np.int64(0)


@inner
def _is_word(buffer, p, word):
    # A shorter line differs at its newline, before its end.
    k = 0
    while k < len(word) and buffer[p + k] == word[k]:
        k += 1
    return k == len(word)


@inner
def _line(buffer, p, state, tables, out, group_of, warp_of):
    """A line with content; returns 0, NEW_OPCODE or the error."""
    c = buffer[p]
    if c == 35:  # '#'
        if _is_word(buffer, p + 1, BEGIN_TB):
            if state[IN_BLOCK]:
                return np.int64(ERROR_BEGIN)
            state[IN_BLOCK] = 1
            state[IDLE] = 0
        elif _is_word(buffer, p + 1, END_TB):
            if not state[IN_BLOCK]:
                return np.int64(ERROR_END)
            if state[IN_BLOCK] == 1:
                return np.int64(ERROR_BLOCK)
            if not _close(state, out, group_of, warp_of):
                return np.int64(ERROR_FEWER)
            state[IN_BLOCK] = 0
            state[IDLE] = 0
        return np.int64(0)
    if c == 45:  # '-', a header
        return np.int64(0)
    if _is_word(
        buffer, p, CLUSTER
    ):  # the position of a thread block in its cluster; no PC contains an l
        return np.int64(0 if state[IN_BLOCK] == 2 else ERROR_LINE)
    state[IDLE] = 0
    if c == 116:  # 'thread block'
        return _block(buffer, p, state)
    if c == 119:  # 'warp'
        if state[IN_BLOCK] != 2:
            return np.int64(ERROR_WARP)
        if not _close(state, out, group_of, warp_of):
            return np.int64(ERROR_FEWER)
        warp, p = decimal(buffer, after_equals(buffer, p))
        if p < 0 or warp < 0 or warp >= state[N_WARP]:
            return np.int64(ERROR_WARP_RANGE)
        _begin_warp(state, tables, warp)
        return np.int64(0)
    if c == 105:  # 'insts'
        if state[WARP] < 0 or state[LEFT] != -1:
            return np.int64(ERROR_INSTS)
        count, p = decimal(buffer, after_equals(buffer, p))
        if p < 0 or count < 0:
            return np.int64(ERROR_INSTS)
        state[LEFT] = count
        return np.int64(0)
    is_hex = 48 <= c <= 57 or 97 <= (c | 32) <= 102
    if not is_hex:
        return np.int64(ERROR_LINE)
    if state[WARP] < 0 or state[LEFT] < 0:
        return np.int64(ERROR_INSTS if state[WARP] >= 0 else ERROR_LINE)
    if state[LEFT] == 0:
        return np.int64(ERROR_MORE)
    return instruction(buffer, p, state, tables, out)


@hot
def scan(buffer, end, state, tables, out, group_of, warp_of):
    """Reads lines of buffer[state[AT]:end], which ends with a newline, into `out`.

    group_of, warp_of : int32, of each sub-group that was ended

    Returns DONE, FULL (empty `out` and call again), NEW_OPCODE (learn it and call again), or a key
    of MESSAGES; state[LINE] counts the lines that are done with.
    """
    n_access, n_granule = len(out.site), len(out.granule)
    while state[AT] < end:
        p = skip_blanks(buffer, state[AT])
        if buffer[p] != 10:
            full = (
                state[N_ACCESS] >= n_access
                or state[N_GRANULE] + GRANULES_OF_ACCESS > n_granule
                or state[N_SUBGROUP] >= len(group_of)
            )
            if full:
                return np.int64(FULL)
            state[IDLE] += 1
            status = _line(buffer, p, state, tables, out, group_of, warp_of)
            if status != 0:
                return status
        else:
            state[IDLE] += 1
        if state[IDLE] > MOST_IDLE:
            return np.int64(ERROR_IDLE)
        while buffer[p] != 10:
            p += 1
        state[AT] = p + 1
        state[LINE] += 1
    return np.int64(DONE)
