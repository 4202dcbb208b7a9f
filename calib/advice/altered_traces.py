"""Traces altered as a change of the kernel or of its arrays would alter them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from memsim.trace import GRANULE_BYTES, Trace

Ints = npt.NDArray[np.int64]
ALL_BYTES = np.uint32(0xFFFFFFFF)
LONGEST_CHAIN = 64
"""Waits for removed accesses that are followed to an access that is left."""


def coalesced(trace: Trace, site: int) -> Trace:
    """The trace with the fewest granules for each access of a site.

    The accesses of a group share out the granules that they touched before, in ascending order, so
    that the data of the group stay the same.
    """
    chosen = np.flatnonzero(trace.site == site)
    counts = np.diff(trace.granule_offset)
    flat = _flat(trace.granule_offset, chosen)
    group = _group_of(trace, chosen)
    own = counts[chosen]
    n_bytes = np.add.reduceat(_bits(trace.byte_mask[flat]), _starts(own)) if len(flat) else own
    n = np.maximum(-(-n_bytes // GRANULE_BYTES), 1)
    order = np.lexsort((trace.granule[flat], np.repeat(group, own)))
    pairs = np.stack([np.repeat(group, own), trace.granule[flat]])[:, order]
    pairs = pairs[:, np.r_[True, np.any(np.diff(pairs, axis=1), axis=0)]]
    groups, first, size = np.unique(pairs[0], return_index=True, return_counts=True)
    at = np.searchsorted(groups, group)
    taken = _cumulative_within(group, n)
    start = np.minimum(taken % size[at], size[at] - n)
    item = np.arange(int(n.sum())) - np.repeat(_starts(n), n)
    granule = pairs[1][np.repeat(first[at] + start, n) + item]
    groups_of_lanes = -(-trace.lanes[chosen].astype(np.int64) // 8)
    lane_groups = _lane_groups(item, np.repeat(n, n), np.repeat(groups_of_lanes, n))
    return _replaced(trace, chosen, n, granule, lane_groups)


def resident(trace: Trace, array: str) -> Trace:
    """The trace with loads of an array that all touch its first granules, which stay in the first level."""
    sites = [
        k for k, site in enumerate(trace.sites) if site.array == array and site.direction == "load"
    ]
    extent = next(one for one in trace.arrays if one.name == array)
    chosen = np.flatnonzero(np.isin(trace.site, sites))
    n = np.diff(trace.granule_offset)[chosen]
    flat = _flat(trace.granule_offset, chosen)
    item = np.arange(int(n.sum())) - np.repeat(_starts(n), n)
    granule = extent.base_bytes // GRANULE_BYTES + item
    return _replaced(trace, chosen, n, granule, trace.lane_groups[flat], trace.byte_mask[flat])


def without(trace: Trace, site: int) -> Trace:
    """The trace without the accesses of a site; the instructions before each are counted with the next."""
    kept = trace.site != site
    left = np.flatnonzero(kept)
    subgroup = np.repeat(np.arange(trace.n_subgroup), np.diff(trace.subgroup_offset))
    new_index = np.cumsum(kept) - 1
    offset = np.r_[0, np.cumsum(kept)][trace.subgroup_offset]
    begin = trace.subgroup_offset[:-1][subgroup]
    waits = np.where(trace.waits >= 0, trace.waits + begin, -1)
    for _ in range(LONGEST_CHAIN):
        lost = (waits >= 0) & ~kept[waits]
        if not lost.any():
            break
        waits = np.where(lost, waits[waits], waits)
    waits = np.where((waits >= 0) & kept[waits], waits, -1)
    waits = np.where(waits >= 0, new_index[waits] - offset[:-1][subgroup], -1)
    sequence = np.cumsum(trace.starts_sequence)[left]
    first = np.r_[True, (np.diff(sequence) > 0) | (np.diff(subgroup[left]) > 0)]
    flat = _flat(trace.granule_offset, left)
    counts = np.diff(trace.granule_offset)[left]
    columns: dict[str, Any] = {
        "subgroup_offset": offset,
        "site": trace.site[left],
        "starts_sequence": first[: len(left)],
        "waits": waits[left],
        "lanes": trace.lanes[left],
        "granule_offset": np.r_[0, np.cumsum(counts)],
        "granule": trace.granule[flat],
        "byte_mask": trace.byte_mask[flat],
        "lane_groups": trace.lane_groups[flat],
        "lane_hits": None if trace.lane_hits is None else trace.lane_hits[flat],
    }
    if trace.warming is not None:
        before = np.r_[0, np.cumsum(kept)][trace.subgroup_offset[:-1] + trace.warming]
        columns["warming"] = before - offset[:-1]
    return trace.replace(**columns, **_merged_work(trace, kept, subgroup))


def shifted(trace: Trace, array: str, by_bytes: int) -> Trace:
    """The trace with an array behind all others, `by_bytes` after a multiple of 4096 bytes."""
    extent = next(one for one in trace.arrays if one.name == array)
    end = max(one.base_bytes + one.size_bytes for one in trace.arrays)
    moved = dataclasses.replace(extent, base_bytes=-(-end // 4096) * 4096 + by_bytes)
    whole, part = divmod(moved.base_bytes - extent.base_bytes, GRANULE_BYTES)
    sites = [k for k, site in enumerate(trace.sites) if site.array == array]
    chosen = np.isin(trace.site, sites)
    counts = np.diff(trace.granule_offset)
    access = np.repeat(np.arange(trace.n_access), counts)
    moves = chosen[access]
    mask = trace.byte_mask.astype(np.uint64)
    low = np.where(moves, mask << np.uint64(part), mask)
    rows = [(access, trace.granule + np.where(moves, whole, 0), low & np.uint64(ALL_BYTES))]
    rows.append((access[moves], (trace.granule + whole + 1)[moves], (low >> np.uint64(32))[moves]))
    index = np.r_[np.arange(len(access)), np.flatnonzero(moves)]
    access, granule, mask = (np.concatenate([row[k] for row in rows]) for k in range(3))
    used = mask > 0
    access, granule, mask, index = access[used], granule[used], mask[used], index[used]
    order = np.lexsort((granule, access))
    access, granule, mask, index = access[order], granule[order], mask[order], index[order]
    new = np.r_[True, (np.diff(access) > 0) | (np.diff(granule) > 0)]
    starts = np.flatnonzero(new)
    hits = None
    if trace.lane_hits is not None:
        hits = np.maximum.reduceat(trace.lane_hits[index], starts)
    return trace.replace(
        arrays=tuple(moved if one.name == array else one for one in trace.arrays),
        granule_offset=np.r_[0, np.cumsum(np.bincount(access[new], minlength=trace.n_access))],
        granule=granule[new],
        byte_mask=np.bitwise_or.reduceat(mask, starts),
        lane_groups=np.bitwise_or.reduceat(trace.lane_groups[index], starts),
        lane_hits=hits,
        earlier=None,
        earlier_groups=0,
    )


def misalignment(trace: Trace, array: str, line_bytes: int) -> int:
    """Bytes by which most accesses to an array begin behind a line; 0 where fewer than half agree."""
    sites = [k for k, site in enumerate(trace.sites) if site.array == array]
    counts = np.diff(trace.granule_offset)
    chosen = np.flatnonzero(np.isin(trace.site, sites) & (counts > 1))
    if not len(chosen):
        return 0
    first = trace.granule_offset[chosen]
    mask = trace.byte_mask[first].astype(np.int64)
    lowest = np.round(np.log2(mask & -mask)).astype(np.int64)
    off = (trace.granule[first] * GRANULE_BYTES + lowest) % line_bytes
    values, times = np.unique(off, return_counts=True)
    return int(values[times.argmax()]) if 2 * times.max() >= len(off) else 0


def reordered(trace: Trace, position: Ints) -> Trace:
    """The trace with its groups in another order.

    position : (n_groups,) of each traced group in the new order of the launch, by the order of the trace
    """
    group = np.r_[0, np.cumsum(np.diff(trace.workgroup) != 0)]
    order = np.argsort(position[group], kind="stable")
    sizes = np.diff(trace.subgroup_offset)[order]
    access = _flat(trace.subgroup_offset, order)
    granules = _flat(trace.granule_offset, access)
    counts = np.diff(trace.granule_offset)[access]
    per_access = ("site", "starts_sequence", "waits", "lanes", "work")
    per_granule = ("granule", "byte_mask", "lane_groups", "lane_hits")
    columns: dict[str, Any] = {}
    for names, index in ((per_access, access), (per_granule, granules)):
        for name in names:
            values = getattr(trace, name)
            columns[name] = None if values is None else values[index]
    return trace.replace(
        workgroup=position[group][order],
        subgroup_offset=np.r_[0, np.cumsum(sizes)],
        granule_offset=np.r_[0, np.cumsum(counts)],
        earlier=None,
        earlier_groups=0,
        **columns,
    )


def _merged_work(trace: Trace, kept: npt.NDArray[np.bool_], subgroup: Ints) -> dict[str, Any]:
    """The columns of machine instructions, where those of removed accesses go to the next that is left."""
    if trace.work is None or trace.work_table is None:
        return {}
    left = np.flatnonzero(kept)
    follows = np.searchsorted(left, np.arange(trace.n_access))
    target = np.minimum(follows, max(len(left) - 1, 0))
    stays = (target < len(left)) & (subgroup[left[target]] == subgroup)
    target = np.where((follows < len(left)) & stays, target, np.maximum(follows - 1, 0))
    # Sums that differ differ in their scalar product with a random vector.
    weights = np.random.default_rng(0).random(len(trace.work_kinds))
    sums = np.bincount(target, (trace.work_table @ weights)[trace.work], minlength=len(left))
    _, example, row = np.unique(np.round(sums, 6), return_index=True, return_inverse=True)
    begin = np.searchsorted(target, np.arange(len(left) + 1))
    table = [trace.work_table[trace.work[begin[k] : begin[k + 1]]].sum(axis=0) for k in example]
    return {"work": row.astype(np.int32), "work_table": np.array(table)}


def _replaced(
    trace: Trace,
    chosen: Ints,
    n: Ints,
    granule: Ints,
    lane_groups: npt.NDArray[Any],
    byte_mask: npt.NDArray[np.uint32] | None = None,
) -> Trace:
    """The trace with other granules for the chosen accesses, n for each."""
    counts = np.diff(trace.granule_offset).copy()
    counts[chosen] = n
    offset = np.r_[0, np.cumsum(counts)]
    new = _flat(offset, chosen)
    others = np.setdiff1d(np.arange(trace.n_access), chosen, assume_unique=True)
    kept, old = _flat(offset, others), _flat(trace.granule_offset, others)
    columns: dict[str, Any] = {}
    filled = {
        "granule": granule,
        "byte_mask": ALL_BYTES if byte_mask is None else byte_mask,
        "lane_groups": lane_groups,
        "lane_hits": 1,
    }
    for name, values in filled.items():
        before = getattr(trace, name)
        if before is None:
            continue
        after = np.empty(int(offset[-1]), before.dtype)
        after[kept], after[new] = before[old], values
        columns[name] = after
    return trace.replace(granule_offset=offset, **columns)


def _flat(offset: Ints, chosen: Ints) -> Ints:
    """Positions of the elements of some rows of ragged data, row by row."""
    n = np.diff(offset)[chosen]
    return np.repeat(offset[:-1][chosen] - _starts(n), n) + np.arange(int(n.sum()))


def _starts(n: Ints) -> Ints:
    return np.asarray(np.cumsum(n) - n)


def _group_of(trace: Trace, access: Ints) -> Ints:
    subgroup = np.searchsorted(trace.subgroup_offset, access, side="right") - 1
    return trace.workgroup[subgroup].astype(np.int64)


def _cumulative_within(group: Ints, n: Ints) -> Ints:
    """For each element, the sum of n before it in its group; groups are consecutive."""
    before = _starts(n)
    first = np.r_[True, np.diff(group) != 0]
    return before - np.repeat(before[first], np.diff(np.r_[np.flatnonzero(first), len(n)]))


def _bits(mask: npt.NDArray[np.uint32]) -> Ints:
    """The number of bits set in each."""
    return np.bitwise_count(mask).astype(np.int64)


def _lane_groups(item: Ints, n: Ints, groups: Ints) -> npt.NDArray[np.uint8]:
    """The groups of eight lanes that access granule `item` of n consecutive ones."""
    first = item * groups // n
    last = np.maximum(-(-(item + 1) * groups // n) - 1, first)
    bits = np.left_shift(2, last) - np.left_shift(1, first)
    return np.asarray(bits, np.uint8)
