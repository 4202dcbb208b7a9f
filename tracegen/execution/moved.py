"""Groups whose accesses are those of an earlier one, moved: they are copied and not executed; see affine.

The first groups are executed, and how far they could be moved is noted. What a group did is copied for a later one if all moves
that follow from their places in the grid lie within these bounds, and each is by whole granules.
"""

from __future__ import annotations

import numpy as np

from memsim.compile import hot, inner
from tracegen.execution.address_lanes import copy_granules
from tracegen.execution.state import (
    FULL,
    GO_ON,
    Counter,
    Reference,
    Size,
    Warp,
    granules_at,
    opened,
    source_mask,
)
from tracegen.execution.words import leading, lowest, peek32

A_SIGNED, A_UNSIGNED, B_SIGNED, B_UNSIGNED, SIGNED, UNSIGNED, C_SIGNED, C_UNSIGNED = range(8)
"""What is checked of an operation: that operand a, b or c stays in the range of its kind, or the outcome of a comparison."""
SPLITS_BELOW, SPLITS_ABOVE, SPLITS_BOTH = 0, 8, 16
"""Of the latter, whether the outcome tells numbers below 0 from others, numbers above 0 from others, or both, of a - b."""
COMBINED = 32
"""Only the lanes of the mask matter with which the outcome is combined."""
HIGH_STAYS, NOT_NEGATIVE, BELOW, STAYS, ALL_LANES = 64, 128, 192, 1 << 16, 1 << 17
"""Other checks: that the high half of a * b + c stays; that operand a is not negative, and stays so; that an operand is below a
power of two, whose exponent is the bits from 8 on; of a number of the group's place, that it is the same; and that all lanes are
at this place of the code."""
_GUARD, _A, _B, _C, _M = 1, 4, 5, 6, 7
"""Columns of the interpreter's table."""
_BOUNDS = len(Reference)
_FAR = np.int64(1 << 62)
_NOT_MOVED = np.int64(-1)
_SIGN = 1 << 31


@inner
def begin_reference(state):
    """The group that begins may be copied for later ones, if there is a place left to note how far."""
    counters = state.counters
    k = counters[Counter.REFERENCES]
    if state.sizes[Size.MOVES] == 0 or k == len(state.references):
        return
    counters[Counter.REFERENCE] = k + 1
    one, counts = state.references[k], state.reference_counts[k]
    one[Reference.GROUP] = state.groups[counters[Counter.POSITION]]
    one[Reference.ACCESS] = counters[Counter.N_ACCESS]
    one[Reference.GRANULE] = counters[Counter.N_GRANULE]
    one[Reference.SUBGROUP] = counters[Counter.N_SUBGROUP]
    one[Reference.INSTRUCTIONS] = -counters[Counter.INSTRUCTIONS]
    one[Reference.LANE_ACCESSES] = -counters[Counter.LANE_ACCESSES]
    one[Reference.TIMES] = 0
    one[Reference.POSITION] = counters[Counter.POSITION]
    for c in range(_BOUNDS, len(one), 2):
        one[c], one[c + 1] = -_FAR, _FAR
    for check in range(len(state.check_kinds)):
        if state.check_kinds[check] == STAYS:
            one[_BOUNDS + 2 * check] = one[_BOUNDS + 2 * check + 1] = 0
    counts[:] = 0
    _add_counts(state, counts, -1)


@inner
def _add_counts(state, counts, sign):
    n = len(state.segment_count)
    for segment in range(n):
        counts[segment] += sign * state.segment_count[segment]
    for instruction in range(len(state.local_counts)):
        for k in range(4):
            counts[n + 4 * instruction + k] += sign * state.local_counts[instruction, k]
    n += 4 * len(state.local_counts)
    for place in range(len(state.out.runs)):
        counts[n + place] += sign * state.out.runs[place]


@hot
def end_reference(listed):
    """Notes what a group did, and within which bounds its accesses may be moved: those of their arrays."""
    state = opened(listed)
    counters, out = state.counters, state.out
    k = counters[Counter.REFERENCE] - 1
    one, counts = state.references[k], state.reference_counts[k]
    _add_counts(state, counts, 1)
    one[Reference.STEPS] = 0
    for segment in range(len(state.segment_count)):
        one[Reference.STEPS] += counts[segment]
    one[Reference.ACCESS_END] = counters[Counter.N_ACCESS]
    one[Reference.GRANULE_END] = counters[Counter.N_GRANULE]
    one[Reference.INSTRUCTIONS] += counters[Counter.INSTRUCTIONS]
    one[Reference.LANE_ACCESSES] += counters[Counter.LANE_ACCESSES]
    granule, n_place = one[Reference.GRANULE], state.sizes[Size.N_REGION] + 1
    first = _BOUNDS + 2 * len(state.check_steps)
    for access in range(one[Reference.ACCESS], one[Reference.ACCESS_END]):
        number = np.int64(out.access[access])
        place, region = first + 2 * (number // n_place), number % n_place
        if (
            region == n_place - 1
        ):  # private memory, which moves with the group's place among those of the machine
            granule = out.granule_end[access]
        while granule < out.granule_end[access]:
            mask, begin = np.int64(out.byte_mask[granule]), out.granule[granule] << 5
            low, high = begin + lowest(mask), begin + 64 - leading(mask)
            one[place] = max(one[place], state.region_base[region] - low)
            one[place + 1] = min(one[place + 1], state.region_end[region] - high)
            granule += 1
    counters[Counter.REFERENCES], counters[Counter.REFERENCE] = k + 1, 0


@hot
def note_bounds(listed, at, n):
    """Notes how far the operands of an operation that is checked may move; called before it is done. n : sub-groups that run"""
    state = opened(listed)
    row, one = state.table[at], state.references[state.counters[Counter.REFERENCE] - 1]
    width = state.sizes[Size.WIDTH]
    whole = np.int64(-1) if width == 64 else (np.int64(1) << width) - 1
    for check in range(state.first_check[at], state.first_check[at + 1]):
        kind = np.int64(state.check_kinds[check])
        half = _SIGN if kind & 1 == 0 else 0
        which, split = kind >> 1 & 3, kind & (SPLITS_ABOVE | SPLITS_BOTH)
        form = kind & BELOW
        low, high = one[_BOUNDS + 2 * check], one[_BOUNDS + 2 * check + 1]
        for k in range(n):
            subgroup = state.who[k]
            place = state.rows[subgroup]
            left = state.subgroups[subgroup, Warp.ACTIVE]
            if kind == ALL_LANES:
                if left != whole:
                    low, high = _FAR, -_FAR
                continue
            left &= source_mask(state.masks[subgroup], row[_GUARD])
            if kind & COMBINED:
                left &= source_mask(state.masks[subgroup], row[_M])
            while left != 0:
                lane = lowest(left)
                left &= left - 1
                a, b = peek32(place + row[_A] + 4 * lane), peek32(place + row[_B] + 4 * lane)
                if form == HIGH_STAYS:
                    value = (a * b + peek32(place + row[_C] + 4 * lane)) & 0xFFFFFFFF
                    low, high = max(low, -value), min(high, 0xFFFFFFFF - value)
                    continue
                if form == NOT_NEGATIVE:
                    low, high = max(low, -a), min(high, _SIGN - 1 - a)
                    if a >= _SIGN:
                        low, high = _FAR, -_FAR
                    continue
                if which == 3:
                    a = peek32(place + row[_C] + 4 * lane)
                if form == BELOW:
                    if (b if which == 1 else a) >> (kind >> 8 & 63) != 0:
                        low, high = _FAR, -_FAR
                    continue
                a, b = (a ^ half) - half, (b ^ half) - half
                if which != 2:
                    value = b if which == 1 else a
                    low, high = max(low, -half - value), min(high, (1 << 32) - 1 - half - value)
                    continue
                away = a - b
                if away < 0 or (away == 0 and split != 0):
                    high = min(high, -away if split == SPLITS_ABOVE or away == 0 else -1 - away)
                if away > 0 or (away == 0 and split != SPLITS_ABOVE):
                    low = max(low, -away if split == 0 or away == 0 else 1 - away)
        one[_BOUNDS + 2 * check], one[_BOUNDS + 2 * check + 1] = low, high


@inner
def _gained(state, steps):
    """What a number gains that has these steps, in the group that may be moved."""
    by = np.int64(0)
    for axis in range(len(state.away)):
        by += steps[axis] * state.away[axis]
    return by


@inner
def _fits(state, one):
    """Whether a group can be moved so far in the grid; writes by how many granules its accesses move."""
    windows, own = state.out.windows, one[Reference.POSITION]
    position = state.counters[Counter.POSITION]
    if windows[own, 0] != windows[position, 0] or windows[own, 1] != windows[position, 1]:
        return False
    for axis in range(len(state.away)):
        state.away[axis] = state.along[position, axis] - state.along[own, axis]
    at = np.int64(_BOUNDS)
    for check in range(len(state.check_steps)):
        by = _gained(state, state.check_steps[check])
        if by < one[at] or by > one[at + 1]:
            return False
        at += 2
    for place in range(len(state.steps)):
        by = _gained(state, state.steps[place])
        if one[at] != -_FAR and (by & 31 != 0 or by < one[at] or by > one[at + 1]):
            return False
        state.shifts[place] = by >> 5
        at += 2
    return True


@hot
def move_group(listed):
    """Records the next group if it does what an earlier one did: GO_ON, or FULL where there is no room, or another number."""
    state = opened(listed)
    n_reference, k = state.counters[Counter.REFERENCES], state.counters[Counter.LATEST]
    for _ in range(n_reference):
        one = state.references[k]
        if _fits(state, one):
            state.counters[Counter.LATEST] = k
            return _copied(state, one)
        k = k + 1 if k + 1 < n_reference else np.int64(0)
    return _NOT_MOVED


@inner
def _copied(state, one):
    counters, out, n = state.counters, state.out, state.sizes[Size.N_SUBGROUP]
    first, granule = one[Reference.ACCESS], one[Reference.GRANULE]
    count, n_granule = one[Reference.ACCESS_END] - first, one[Reference.GRANULE_END] - granule
    only_notes = state.sizes[Size.ONLY_NOTES] != 0
    if only_notes:
        count, n_granule = np.int64(0), np.int64(0)
    access, to = counters[Counter.N_ACCESS], counters[Counter.N_GRANULE]
    # What a buffer must have room for when it grows, as that of a group that has run.
    counters[Counter.STAGED], counters[Counter.GROUP_GRANULES] = count, n_granule
    if access + count > len(out.access) or to + n_granule + 4 > len(out.granule):
        return np.int64(FULL)
    counters[Counter.STAGED] = counters[Counter.GROUP_GRANULES] = 0
    n_place, moved = state.sizes[Size.N_REGION] + 1, to - granule
    groups = state.sizes[Size.IN_CLUSTER]
    slots = (
        state.group_slots[counters[Counter.POSITION] * groups]
        - state.group_slots[one[Reference.POSITION] * groups]
    )
    private = slots * (state.sizes[Size.PRIVATE_WORDS] * state.sizes[Size.LANES] >> 3)
    for k in range(count):
        source, target = np.uint64(first + k), np.uint64(access + k)
        number, end = np.int64(out.access[source]), out.granule_end[source]
        out.access[target], out.waits[target] = number, out.waits[source]
        out.lanes[target], out.work[target] = out.lanes[source], out.work[source]
        if end > granule:
            from_, into = granules_at(out, granule), granules_at(out, granule + moved)
            is_private = number % n_place == n_place - 1
            copy_granules(
                from_[0], from_[1], from_[2], from_[3], into[0], into[1], into[2], into[3], end - granule,
                private if is_private else state.shifts[number // n_place],
            )  # fmt: skip
        granule = end
        out.granule_end[target] = end + moved
    subgroup, own = counters[Counter.N_SUBGROUP], one[Reference.SUBGROUP]
    for k in range(n):
        out.subgroup_accesses[subgroup + k] = 0 if only_notes else out.subgroup_accesses[own + k]
        out.tail[subgroup + k] = out.tail[own + k]
        out.progress[subgroup + k] = out.progress[own + k]
    one[Reference.TIMES] += 1
    counters[Counter.N_ACCESS], counters[Counter.N_GRANULE] = access + count, to + n_granule
    counters[Counter.N_SUBGROUP] = subgroup + n
    counters[Counter.INSTRUCTIONS] += one[Reference.INSTRUCTIONS]
    counters[Counter.LANE_ACCESSES] += one[Reference.LANE_ACCESSES]
    counters[Counter.STEPS_LEFT] -= one[Reference.STEPS]
    out.like[counters[Counter.POSITION]] = one[Reference.POSITION]
    counters[Counter.POSITION] += 1
    return np.int64(GO_ON)
