"""Windows of a sub-group's progress, outside of which nothing is recorded; see Execution.run."""

from __future__ import annotations

import numpy as np

from memsim.compile import inner
from tracegen.execution import operations as o
from tracegen.execution.state import Counter, Size, Warp, source_mask

_GUARD, _M, _X = 1, 7, 9
"""Columns of the interpreter's table."""
_LOAD = 0


@inner
def advance(state, subgroup):
    """A sub-group is one access, or one barrier, farther."""
    warp = state.subgroups[subgroup]
    warp[Warp.PROGRESS] += 1
    if warp[Warp.PROGRESS] == warp[Warp.EDGE]:
        end = state.out.windows[state.counters[Counter.POSITION], 1]
        ends = warp[Warp.EDGE] == end
        warp[Warp.RECORDS] = np.int64(0) if ends else state.sizes[Size.RECORD]
        warp[Warp.EDGE] = np.int64(-1) if ends else end


@inner
def has_passed(state, n):
    """Whether a sub-group of those that run has passed its window, and need not go on."""
    passed = False
    for k in range(n):
        passed = passed or state.subgroups[state.who[k], Warp.EDGE] < 0
    return passed and not state.counters[Counter.GO_ON]


@inner
def count(state, subgroup, row, here):
    """Counts an access of code with windows, if not to local memory."""
    x = np.int64(row[_X])
    is_local = x & 7 in (o.LOCAL, o.BULK) or (
        x & 7 == o.GENERIC and state.counters[Counter.IS_LOCAL]
    )
    if not is_local and (here != 0 or x & o.ONE_LANE):
        state.out.runs[row[_M]] += 1
        if not state.sizes[Size.BY_BARRIERS]:
            advance(state, subgroup)


@inner
def go_by(state, row, kind, n):
    """Passes over a load whose values nobody needs, outside of all windows; whether it was one. One by a generic address is
    looked at: if it accesses local memory, it is no step."""
    if kind != _LOAD or not row[_X] & o.SKIPPED or row[_X] & 7 >= o.GENERIC:
        return False
    for k in range(n):
        if state.subgroups[state.who[k], Warp.RECORDS]:
            return False
    if row[_X] & 7 != o.LOCAL:
        for k in range(n):
            subgroup = state.who[k]
            active = state.subgroups[subgroup, Warp.ACTIVE]
            count(state, subgroup, row, active & source_mask(state.masks[subgroup], row[_GUARD]))
    return True
