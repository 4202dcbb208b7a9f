"""Work-items' tokens to sub-group accesses: lockstep, redundancy, sequences and granules.

A token is `position << position_shift | index`, in 4 bytes where that fits, else in 8. The lanes of a sub-group are lined up by always taking those
whose next token has the smallest position: positions ascend in program order and a loop's
back-edge comes after its body, so lanes that left a loop, or skipped a branch, wait for the rest.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from memsim.compile import compiled
from memsim.trace import BARRIER_SITE, Columns, coalesce

LOAD, STORE, ATOMIC, EDGE, BARRIER = range(5)
KINDS = {"load": LOAD, "store": STORE, "atomic": ATOMIC, "edge": EDGE, "barrier": BARRIER}
_NEVER = 1 << 20
EVERYONE, DIVERGED, KEPT = range(3)


class ProbeTables(NamedTuple):
    """What the merge must know of each position; ragged lists are a flat array and offsets.

    address of an access = base + index * stride; it asks for `size` bytes.
    key : accesses of one key name one address by one text, -1 where none is tracked
    kill : keys that an edge or a store makes unknown
    closes : the edge that follows an access which ends a loop's body, -1 elsewhere
    feed : sites whose latest value a position needs before it is issued
    """

    kind: npt.NDArray[np.uint8]
    site: npt.NDArray[np.int32]
    base: npt.NDArray[np.int64]
    stride: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]
    key: npt.NDArray[np.int32]
    kill_offset: npt.NDArray[np.int64]
    kill: npt.NDArray[np.int32]
    closes: npt.NDArray[np.int32]
    feed_offset: npt.NDArray[np.int64]
    feed: npt.NDArray[np.int32]
    n_key: int
    n_site: int
    most_granules: int


@compiled
def _forget(
    known: npt.NDArray[np.int64],
    kill: npt.NDArray[np.int32],
    first: int,
    last: int,
    lanes: npt.NDArray[np.int64],
    row: int,
    n_active: int,
    n_lane: int,
) -> None:
    """Makes kill[first:last] unknown to the active lanes."""
    for k in range(first, last):
        key = kill[k]
        if n_active == n_lane:
            for lane in range(n_lane):
                known[key, lane] = -1
        else:
            for m in range(n_active):
                known[key, lanes[row, m]] = -1


@compiled
def merge(
    tokens: npt.NDArray[Any],
    item_offset: npt.NDArray[np.int64],
    group_items: int,
    subgroup_size: int,
    position_shift: int,
    reduced: bool,
    tables: ProbeTables,
    out: Columns,
) -> tuple[int, int]:
    """Fills `out` with the accesses of every sub-group in turn; returns how many, and granules.

    tokens : (n_token + 1,) of all work-items, group by group, and one more of any value;
    item_offset : (n_item + 1,)
    """
    # Taken out of their tuples once: in the loop each use would count references.
    kind_of = tables.kind
    site_of = tables.site
    base_of = tables.base
    stride_of = tables.stride
    size_of = tables.size
    key_of = tables.key
    kill_offset_of = tables.kill_offset
    kill_of = tables.kill
    closes_of = tables.closes
    feed_offset_of = tables.feed_offset
    feed_of = tables.feed
    out_subgroup_accesses = out.subgroup_accesses
    out_site = out.site
    out_starts_sequence = out.starts_sequence
    out_waits = out.waits
    out_lanes = out.lanes
    out_granule_end = out.granule_end
    out_granule = out.granule
    out_byte_mask = out.byte_mask
    out_lane_groups = out.lane_groups
    out_lane_hits = out.lane_hits
    n_group = (len(item_offset) - 1) // group_items
    head = np.full(64, _NEVER, np.int32)
    index = np.zeros(64, np.int64)
    cursor = np.zeros(64, np.int64)
    end = np.zeros(64, np.int64)
    lanes = np.zeros((3, 64), np.int64)
    lanes[EVERYONE] = np.arange(64)
    address = np.zeros(64, np.int64)
    asked = np.zeros(64 * tables.most_granules, np.int64)
    known = np.zeros((tables.n_key + 1, 64), np.int64)
    known_access = np.zeros(tables.n_key + 1, np.int32)
    latest = np.zeros(tables.n_site + 1, np.int32)
    low_bits = (1 << position_shift) - 1
    n_access = 0
    n_granule = 0
    subgroup = 0
    for group in range(n_group):
        for first_item in range(0, group_items, subgroup_size):
            n_lane = min(subgroup_size, group_items - first_item)
            for lane in range(n_lane):
                item = group * group_items + first_item + lane
                cursor[lane] = item_offset[item]
                end[lane] = item_offset[item + 1]
                token = np.int64(tokens[cursor[lane]])
                index[lane] = token & low_bits
                here = np.int32(token >> position_shift)
                head[lane] = here if cursor[lane] < end[lane] else _NEVER
            known[:] = -1
            known_access[:] = -1
            latest[:] = -1
            fresh = True
            start = n_access
            sequence = 0
            while True:
                position: Any = head[0]
                together = True
                for lane in range(n_lane):
                    together &= head[lane] == position
                if together:
                    if position == _NEVER:
                        break
                    active = EVERYONE
                    n_active = n_lane
                    for lane in range(n_lane):
                        address[lane] = index[lane]
                        at = cursor[lane] + 1
                        cursor[lane] = at
                        token = np.int64(tokens[at])
                        index[lane] = token & low_bits
                        here = np.int32(token >> position_shift)
                        head[lane] = here if at < end[lane] else _NEVER
                else:
                    for lane in range(n_lane):
                        position = min(position, head[lane])
                    active = DIVERGED
                    n_active = 0
                    for lane in range(n_lane):
                        lanes[DIVERGED, n_active] = lane
                        address[n_active] = index[lane]
                        n_active += head[lane] == position
                    for k in range(n_active):
                        lane = lanes[DIVERGED, k]
                        at = cursor[lane] + 1
                        cursor[lane] = at
                        token = np.int64(tokens[at])
                        index[lane] = token & low_bits
                        here = np.int32(token >> position_shift)
                        head[lane] = here if at < end[lane] else _NEVER
                kind = kind_of[position]
                site = site_of[position]
                key = key_of[position]
                track = reduced and key >= 0
                first_kill = kill_offset_of[position]
                last_kill = kill_offset_of[position + 1]
                passed = active
                n_passed = n_active
                if kind == EDGE:
                    if reduced:
                        _forget(
                            known, kill_of, first_kill, last_kill, lanes, passed, n_active, n_lane
                        )
                    fresh = True
                    continue
                if track and kind == LOAD:
                    active = KEPT
                    n_kept = 0
                    for k in range(n_active):
                        lane = lanes[passed, k]
                        this = address[k]
                        lanes[KEPT, n_kept] = lane
                        address[n_kept] = this
                        n_kept += known[key, lane] != this
                        known[key, lane] = this
                    if n_kept < n_active:
                        latest[site] = max(latest[site], known_access[key])
                    n_active = n_kept
                elif reduced and kind != BARRIER:
                    _forget(known, kill_of, first_kill, last_kill, lanes, passed, n_active, n_lane)
                    if track:
                        for k in range(n_active):
                            known[key, lanes[passed, k]] = address[k]
                if n_active > 0:
                    wait = np.int32(-1)
                    for k in range(feed_offset_of[position], feed_offset_of[position + 1]):
                        wait = max(wait, latest[feed_of[k]])
                    this_access = n_access - start
                    begins = fresh or (kind == LOAD and wait >= sequence)
                    if kind == BARRIER:
                        begins = True
                        known[:] = -1
                        n_active = 0
                    else:
                        stride = stride_of[position]
                        base = base_of[position]
                        for k in range(n_active):
                            address[k] = address[k] * stride + base
                        n_granule = coalesce(
                            address,
                            lanes,
                            active,
                            n_active,
                            size_of[position],
                            asked,
                            n_granule,
                            out_granule,
                            out_byte_mask,
                            out_lane_groups,
                            out_lane_hits,
                        )
                    if begins:
                        sequence = this_access
                    fresh = kind == BARRIER
                    if kind == LOAD:
                        latest[site] = this_access
                    if track:
                        known_access[key] = this_access if kind == LOAD else wait
                    out_site[n_access] = site
                    out_starts_sequence[n_access] = begins
                    out_waits[n_access] = wait
                    out_lanes[n_access] = n_active
                    out_granule_end[n_access] = n_granule
                    n_access += 1
                if closes_of[position] >= 0:
                    if reduced:
                        edge = closes_of[position]
                        first_kill = kill_offset_of[edge]
                        last_kill = kill_offset_of[edge + 1]
                        _forget(
                            known, kill_of, first_kill, last_kill, lanes, passed, n_passed, n_lane
                        )
                    fresh = True
            out_subgroup_accesses[subgroup] = n_access - start
            subgroup += 1
    return n_access, n_granule


assert BARRIER_SITE == -1
