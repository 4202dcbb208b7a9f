"""Rows of work: which segments of the code a sub-group executed between two accesses."""

from __future__ import annotations

import numpy as np

from memsim.compile import hot, inner
from tracegen.execution.state import Counter, Fact, Warp, opened

_FACTOR = 0x5851F42D4C957F2D
"""Knuth's multiplier of MMIX: an odd number whose multiples are spread."""
MOST_PATH = 256
"""Segments that are remembered until the next access; a longer path is added up meanwhile."""


@hot
def close_path(listed, subgroup):
    """The number of the row of work with the segments that a sub-group executed since its last access."""
    state = opened(listed)
    counters, out = state.counters, state.out
    key, n_key = state.subgroups[subgroup, Warp.PATH_HASH], len(state.row_keys)
    if key == 0:
        key = 1
    slot = np.int64(np.uint64(key) >> np.uint64(40)) & n_key - 1
    while state.row_keys[slot] != 0:
        if state.row_keys[slot] == key:
            forget_path(state, subgroup)
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
    forget_path(state, subgroup)
    return np.int64(row)


@inner
def row_of_work(listed, state, subgroup, facts):
    """The row of work of an access, whose instruction mostly had the same before it the last time."""
    warp = state.subgroups[subgroup]
    if facts[Fact.PATH] == warp[Warp.PATH_HASH] != 0:
        forget_path(state, subgroup)
    else:
        facts[Fact.PATH] = warp[Warp.PATH_HASH]
        facts[Fact.ROW] = close_path(listed, subgroup)
    return facts[Fact.ROW]


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
def forget_path(state, subgroup):
    warp = state.subgroups[subgroup]
    for k in range(warp[Warp.N_TOUCHED]):
        state.pending[subgroup, state.touched[subgroup, k]] = 0
    warp[Warp.N_TOUCHED] = warp[Warp.PATH_LENGTH] = warp[Warp.PATH_HASH] = 0


@inner
def enter(state, subgroup, segment):
    """A segment of the code begins."""
    warp = state.subgroups[subgroup]
    if warp[Warp.PATH_LENGTH] == MOST_PATH:
        _fold_path(state, subgroup)
    state.path[subgroup, warp[Warp.PATH_LENGTH]] = segment
    warp[Warp.PATH_LENGTH] += 1
    warp[Warp.PATH_HASH] = (warp[Warp.PATH_HASH] ^ (segment + 1)) * _FACTOR
