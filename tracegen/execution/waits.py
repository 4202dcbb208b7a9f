"""Which accesses a sub-group has waited for: NVIDIA's scoreboards, AMD's counters, groups of copies."""

from __future__ import annotations

import numpy as np

from memsim.compile import inner
from tracegen.execution.state import MOST_LOADS, Warp


@inner
def _settle(state, subgroup, access):
    warp = state.subgroups[subgroup]
    warp[Warp.SETTLED] = max(warp[Warp.SETTLED], access)


@inner
def wait_slots(state, subgroup, slots):
    for slot in range(6):
        if slots >> slot & 1:
            _settle(state, subgroup, np.int64(state.slots[subgroup, slot]))


@inner
def wait_count(state, subgroup, what, most):
    warp = state.subgroups[subgroup]
    if what == 1:
        if most == 0:
            _settle(state, subgroup, warp[Warp.N_SCALAR] - 1)
    elif what == 0 and warp[Warp.N_LOADS] > most and most < MOST_LOADS:
        _settle(
            state, subgroup, np.int64(state.loads[subgroup, (warp[Warp.N_LOADS] - 1 - most) & 63])
        )


@inner
def end_copies(state, subgroup, mark):
    """The copies to local memory since the last time are a group, which is waited for as a whole. mark : of its barrier in memory, or 0"""
    warp = state.subgroups[subgroup]
    n = warp[Warp.N_COPIES]
    before = state.copies[subgroup, (n - 1) & 63] if n else np.int32(-1)
    state.copies[subgroup, n & 63] = max(before, state.slots[subgroup, 6])
    state.marks[subgroup, n & 63] = mark
    warp[Warp.N_COPIES] = n + 1


@inner
def wait_copies(state, subgroup, most, mark):
    n = state.subgroups[subgroup, Warp.N_COPIES]
    if mark != 0:
        first = max(n - MOST_LOADS, 0)
        while n > first and state.marks[subgroup, (n - 1) & 63] != mark:
            n -= 1
        if n == first:
            return
    if n > most and most < MOST_LOADS:
        _settle(state, subgroup, np.int64(state.copies[subgroup, (n - 1 - most) & 63]))
