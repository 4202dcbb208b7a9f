"""Walks a launch's program once a sub-group, all lanes at once, and writes the accesses of a trace.

The state beside the masks is that of `tracegen.recording.subgroup.merge`, and so is its meaning: which
addresses a lane already knows, the latest access of each site, where the current bulk sequence
began. Lanes that left a loop or skipped a branch are out of the mask until it ends.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from memsim.compile import hot, inner
from memsim.trace import Columns
from tracegen.polyhedral import code as c
from tracegen.polyhedral.arithmetic import count_bits, operate, value_of_lane, value_shared
from tracegen.polyhedral.code import Code
from tracegen.polyhedral.knowledge import Known, forget, known_hits, make_known
from tracegen.polyhedral.patterns import Patterns, append_lanes, append_pattern
from tracegen.recording.subgroup import BARRIER, EDGE, LOAD, ProbeTables

_END, _JUMP, _JUMP_IF_EMPTY, _COMPARE, _MINUS, _JOIN = range(6)
_ZERO, _NEXT, _COMPUTE, _SELECT, _WITHIN, _ACCESS, _EVENT = range(6, 13)
_NOT_NEGATIVE, _IS_ZERO = range(2)
assert (_JOIN, _SELECT, _EVENT, _IS_ZERO) == (c.JOIN, c.SELECT, c.EVENT, c.IS_ZERO)


class Scratch(NamedTuple):
    """shared : (n_symbol,) and own : (n_symbol, 64) values of symbols; element : (64,)"""

    shared: npt.NDArray[np.int64]
    own: npt.NDArray[np.int64]
    masks: npt.NDArray[np.int64]
    element: npt.NDArray[np.int64]
    known_access: npt.NDArray[np.int32]
    latest: npt.NDArray[np.int32]


def scratch(code: Code, tables: ProbeTables) -> Scratch:
    return Scratch(
        np.zeros(code.n_symbol, np.int64),
        np.zeros((code.n_symbol, 64), np.int64),
        np.zeros(code.n_mask, np.int64),
        np.zeros(64, np.int64),
        np.zeros(tables.n_key + 1, np.int32),
        np.zeros(tables.n_site + 1, np.int32),
    )


class Place(NamedTuple):
    """Where the groups of a launch stand: the grid's extents, and how groups are cut."""

    grid0: int
    grid1: int
    group_items: int
    subgroup_size: int


@inner
def latest_feed(tables: ProbeTables, position: int, latest: npt.NDArray[np.int32]) -> np.int32:
    """The latest access whose value a position needs, -1 where there is none."""
    wait = np.int32(-1)
    for k in range(tables.feed_offset[position], tables.feed_offset[position + 1]):
        wait = max(wait, latest[tables.feed[k]])
    return wait


@hot
def walk(
    code: Code,
    tables: ProbeTables,
    place: Place,
    groups: npt.NDArray[np.int64],
    recording: bool,
    reduced: bool,
    scratch: Scratch,
    known: Known,
    patterns: Patterns,
    out: Columns,
    tokens: npt.NDArray[np.int64],
    fault: npt.NDArray[np.int64],
) -> tuple[int, int, int]:
    """Fills `out` with the accesses of the groups; returns where it stopped.

    recording : else only `tokens` (n_group,) is filled: what the instrumented run would write for
        each group
    fault : found, position, index, axis (-1: of the whole array), index of that axis: the first
        access outside its array, which ends the walk

    Returns the first group not walked (all of `out` belongs to those before), accesses, granules.
    """
    rows = code.rows
    n_row = len(rows)
    forms = code.forms
    low_of = code.parts.low
    high_of = code.parts.high
    known_mask = known.mask
    most_accesses = len(out.site)
    most_granules = len(out.granule) - 64 * tables.most_granules
    n_subgroup = -(-place.group_items // place.subgroup_size)
    shared = scratch.shared
    own = scratch.own
    masks = scratch.masks
    element = scratch.element
    known_access = scratch.known_access
    latest = scratch.latest
    n_access = 0
    n_granule = 0
    group = 0
    while group < len(groups):
        shared[0] = groups[group] % place.grid0
        shared[1] = groups[group] // place.grid0 % place.grid1
        shared[2] = groups[group] // place.grid0 // place.grid1
        group_access = n_access
        group_granule = n_granule
        n_token = 0
        for subgroup in range(n_subgroup):
            n_lane = min(place.subgroup_size, place.group_items - subgroup * place.subgroup_size)
            masks[0] = (np.int64(1) << n_lane) - 1 if n_lane < 64 else -1
            known_mask[:] = 0
            known_access[:] = -1
            latest[:] = -1
            fresh = True
            start = n_access
            sequence = 0
            row = 0
            while row < n_row:
                instruction = rows[row, 0]
                a = rows[row, 1]
                b = rows[row, 2]
                form = rows[row, 3]
                row += 1
                if _WITHIN <= instruction <= _ACCESS:
                    asking = masks[b]
                    if asking == 0:
                        continue
                    part = forms.part[form]
                    level = value_shared(form, forms, shared)
                    alike = forms.lane_offset[form] == forms.lane_offset[form + 1]
                    extent = rows[row - 1, 4]
                    inside = (
                        alike
                        and level + low_of[part, subgroup] >= 0
                        and level + high_of[part, subgroup] < extent
                    )
                    if not inside:
                        for lane in range(n_lane):
                            if asking >> lane & 1:
                                element[lane] = value_of_lane(
                                    form, lane, level, code, subgroup, own
                                )
                                if not 0 <= element[lane] < extent:
                                    within = instruction == _WITHIN
                                    fault[0] = 1
                                    fault[1] = a
                                    fault[2] = -1 if within else element[lane]
                                    fault[3] = rows[row - 1, 5] if within else -1
                                    fault[4] = element[lane]
                                    return group, n_access, n_granule
                    if instruction == _WITHIN:
                        continue
                    position = a
                    if not recording:
                        n_token += count_bits(asking)
                        continue
                    if n_access >= most_accesses or n_granule > most_granules:
                        return group, group_access, group_granule
                    kind = tables.kind[position]
                    site = tables.site[position]
                    key = tables.key[position]
                    track = reduced and key >= 0
                    issued = asking
                    if track and kind == LOAD:
                        hits = known_hits(
                            known, key, asking, alike, part, level, element,
                            code.parts.value, subgroup,
                        )  # fmt: skip
                        if hits != 0:
                            latest[site] = max(latest[site], known_access[key])
                            issued = asking & ~hits
                    elif reduced:
                        forget(known, tables, position, asking)
                    if track:
                        make_known(
                            known, key, asking, alike, part, level, element,
                            code.parts.value, subgroup,
                        )  # fmt: skip
                    if issued != 0:
                        wait = latest_feed(tables, position, latest)
                        this_access = n_access - start
                        begins = fresh or (kind == LOAD and wait >= sequence)
                        stride = tables.stride[position]
                        size = tables.size[position]
                        if alike:
                            n_granule = append_pattern(
                                patterns, rows[row - 1, 5] * n_subgroup + subgroup, issued,
                                level * stride + tables.base[position], stride, size,
                                code.parts.value[part, subgroup], n_granule, out,
                            )  # fmt: skip
                        else:
                            n_granule = append_lanes(
                                patterns, issued, element, stride, size, tables.base[position],
                                n_granule, out,
                            )  # fmt: skip
                        if begins:
                            sequence = this_access
                        fresh = False
                        if kind == LOAD:
                            latest[site] = this_access
                        if track:
                            known_access[key] = this_access if kind == LOAD else wait
                        out.site[n_access] = site
                        out.starts_sequence[n_access] = begins
                        out.waits[n_access] = wait
                        out.lanes[n_access] = count_bits(issued)
                        out.granule_end[n_access] = n_granule
                        n_access += 1
                    edge = tables.closes[position]
                    if edge >= 0:
                        if reduced:
                            forget(known, tables, edge, asking)
                        fresh = True
                elif instruction == _EVENT:
                    asking = masks[b]
                    if asking == 0:
                        continue
                    if not recording:
                        n_token += count_bits(asking)
                    elif tables.kind[a] == EDGE:
                        if reduced:
                            forget(known, tables, a, asking)
                        fresh = True
                    else:
                        if n_access >= most_accesses:
                            return group, group_access, group_granule
                        wait = latest_feed(tables, a, latest)
                        sequence = n_access - start
                        known_mask[:] = 0
                        fresh = True
                        out.site[n_access] = tables.site[a]
                        out.starts_sequence[n_access] = True
                        out.waits[n_access] = wait
                        out.lanes[n_access] = 0
                        out.granule_end[n_access] = n_granule
                        n_access += 1
                elif instruction == _COMPARE:
                    asking = masks[b]
                    relation = rows[row - 1, 4]
                    part = forms.part[form]
                    level = value_shared(form, forms, shared)
                    alike = forms.lane_offset[form] == forms.lane_offset[form + 1]
                    low = level + low_of[part, subgroup]
                    high = level + high_of[part, subgroup]
                    if alike and relation == _NOT_NEGATIVE and (low >= 0 or high < 0):
                        masks[a] = asking if low >= 0 else 0
                    elif alike and relation != _NOT_NEGATIVE and low == high:
                        masks[a] = asking if (low == 0) == (relation == _IS_ZERO) else 0
                    else:
                        chosen = np.int64(0)
                        for lane in range(n_lane):
                            this = value_of_lane(form, lane, level, code, subgroup, own)
                            if relation == _NOT_NEGATIVE:
                                true = this >= 0
                            else:
                                true = (this == 0) == (relation == _IS_ZERO)
                            chosen |= np.int64(true) << lane
                        masks[a] = asking & chosen
                elif instruction == _JUMP_IF_EMPTY:
                    if masks[a] == 0:
                        row = b
                elif instruction == _JUMP:
                    row = a
                elif instruction == _NEXT:
                    shared[a] += 1
                elif instruction == _ZERO:
                    shared[a] = 0
                elif instruction == _MINUS:
                    masks[a] = masks[b] & ~masks[form]
                elif instruction == _JOIN:
                    masks[a] = masks[b] | masks[form]
                elif _COMPUTE <= instruction <= _SELECT:
                    other = rows[row - 1, 4]
                    level = value_shared(form, forms, shared)
                    other_level = value_shared(other, forms, shared)
                    if rows[row - 1, 5] == 0:
                        if instruction == _COMPUTE:
                            shared[a] = operate(b, level, other_level)
                        else:
                            shared[a] = level if masks[b] != 0 else other_level
                    else:
                        for lane in range(n_lane):
                            left = value_of_lane(form, lane, level, code, subgroup, own)
                            right = value_of_lane(other, lane, other_level, code, subgroup, own)
                            if instruction == _COMPUTE:
                                own[a, lane] = operate(b, left, right)
                            else:
                                own[a, lane] = left if masks[b] >> lane & 1 else right
                else:
                    break
            if recording:
                out.subgroup_accesses[group * n_subgroup + subgroup] = n_access - start
        tokens[group] = n_token
        group += 1
    return group, n_access, n_granule


assert EDGE < BARRIER
