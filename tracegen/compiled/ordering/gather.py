"""The columns of a trace in another order: accesses are moved, merged, repeated or left out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from memsim.compile import hot, inner
from memsim.trace import GRANULE_BYTES

WORD_BYTES = 4
"""Private memory of a sub-group: the lanes' words lie next to each other (CUDA C++ Programming
Guide, local memory; AMD's swizzled scratch buffers)."""


class Source(NamedTuple):
    """The columns that are rearranged; see memsim.trace.Trace. lane_hits is empty if not recorded."""

    lanes: npt.NDArray[np.uint8]
    granule_offset: npt.NDArray[np.int64]
    granule: npt.NDArray[np.int64]
    byte_mask: npt.NDArray[np.uint32]
    lane_groups: npt.NDArray[np.uint8]
    lane_hits: npt.NDArray[np.uint8]


def first_bytes(source: Source) -> npt.NDArray[np.int64]:
    """(n_access,) the address of the first byte of each access; -1 where it has none."""
    begin, end = source.granule_offset[:-1], source.granule_offset[1:]
    found = np.full(len(begin), -1, np.int64)
    some = end > begin
    mask = source.byte_mask[begin[some]].astype(np.int64)
    lowest = np.log2(mask & -mask).astype(np.int64)
    found[some] = source.granule[begin[some]] * GRANULE_BYTES + lowest
    return found


class Private(NamedTuple):
    """Private memory: where each private access lies.

    base : (n_subgroup,) the first byte of each sub-group's private memory
    offset, size : (n_private,) bytes of each private instruction in a work-item's memory
    """

    base: npt.NDArray[np.int64]
    offset: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]


def occurrences(
    position: npt.NDArray[np.int32], subgroup_offset: npt.NDArray[np.int64], n_position: int
) -> npt.NDArray[np.int32]:
    """(n_access,) how often its sub-group has performed the same position before.

    position : of each access, n_position for a barrier
    """
    out = np.zeros(len(position), np.int32)
    _occurrences(position, subgroup_offset, np.zeros(n_position + 1, np.int32), out)
    return out


@hot
def _occurrences(
    position: npt.NDArray[np.int32],
    subgroup_offset: npt.NDArray[np.int64],
    count: npt.NDArray[np.int32],
    out: npt.NDArray[np.int32],
) -> None:
    for subgroup in range(len(subgroup_offset) - 1):
        count[:] = 0
        for access in range(subgroup_offset[subgroup], subgroup_offset[subgroup + 1]):
            out[access] = count[position[access]]
            count[position[access]] += 1


def repeated(
    position: npt.NDArray[np.int32],
    subgroup_offset: npt.NDArray[np.int64],
    source: Source,
    moved: npt.NDArray[np.bool_],
    is_store: npt.NDArray[np.bool_],
) -> npt.NDArray[np.bool_]:
    """(n_access,) whether an access repeats one that the compiler moved out of a loop.

    position : of each access, len(moved) for a barrier
    moved : (n_position,) whether the instruction lies in fewer loops than the access. Of equal
        accesses in a row the first load and the last store remain.
    """
    out = np.zeros(len(position), np.bool_)
    latest = np.empty(len(moved), np.int64)
    _repeated(position, subgroup_offset, source, moved, is_store, latest, out)
    return out


@hot
def _repeated(
    position: npt.NDArray[np.int32],
    subgroup_offset: npt.NDArray[np.int64],
    source: Source,
    moved: npt.NDArray[np.bool_],
    is_store: npt.NDArray[np.bool_],
    latest: npt.NDArray[np.int64],
    out: npt.NDArray[np.bool_],
) -> None:
    for subgroup in range(len(subgroup_offset) - 1):
        latest[:] = -1
        for access in range(subgroup_offset[subgroup], subgroup_offset[subgroup + 1]):
            at = position[access]
            if at < len(moved) and moved[at]:
                before = latest[at]
                if before >= 0 and _equal(source, before, access):
                    if is_store[at]:
                        out[before] = True
                        latest[at] = access
                    else:
                        out[access] = True
                else:
                    latest[at] = access


@inner
def _equal(source: Source, one: int, other: int) -> bool:
    first = source.granule_offset[one]
    second = source.granule_offset[other]
    n = source.granule_offset[one + 1] - first
    if source.granule_offset[other + 1] - second != n or source.lanes[one] != source.lanes[other]:
        return False
    for k in range(n):
        if (
            source.granule[first + k] != source.granule[second + k]
            or source.byte_mask[first + k] != source.byte_mask[second + k]
        ):
            return False
    return True


def gathered(
    source: Source,
    end: npt.NDArray[np.int64],
    part_end: npt.NDArray[np.int64],
    part: npt.NDArray[np.int64],
    private: Private,
    subgroup_size: int,
) -> dict[str, npt.NDArray[Any]]:
    """The columns `lanes`, `granule_offset` and those of granules, of the accesses made of parts.

    end, part_end, part : see tracegen.compiled.ordering.order.Ordered
    """
    own = part >= 0
    granules = np.diff(source.granule_offset)
    most = int(granules[part[own]].sum())
    most += sum(
        int(_private_granules(private.size[-1 - k], subgroup_size) * n)
        for k, n in zip(*np.unique(part[~own], return_counts=True), strict=True)
    )
    with_hits = len(source.lane_hits) > 0
    columns: dict[str, Any] = {
        "lanes": np.empty(len(part_end), np.uint8),
        "granule_offset": np.zeros(len(part_end) + 1, np.int64),
        "granule": np.empty(most, np.int64),
        "byte_mask": np.empty(most, np.uint32),
        "lane_groups": np.empty(most, np.uint8),
        "lane_hits": np.empty(most if with_hits else 0, np.uint8),
    }
    n = _gather(source, end, part_end, part, private, subgroup_size, with_hits, Source(**columns))
    for name in ("granule", "byte_mask", "lane_groups", "lane_hits"):
        columns[name] = columns[name][:n]
    if not with_hits:
        del columns["lane_hits"]
    return columns


def _private_granules(size_bytes: int, subgroup_size: int) -> int:
    return -(-int(size_bytes) // WORD_BYTES) * WORD_BYTES * subgroup_size // GRANULE_BYTES


@hot
def _gather(
    source: Source,
    end: npt.NDArray[np.int64],
    part_end: npt.NDArray[np.int64],
    part: npt.NDArray[np.int64],
    private: Private,
    subgroup_size: int,
    with_hits: bool,
    out: Source,
) -> int:
    n = 0
    access = 0
    for subgroup in range(len(end)):
        while access < end[subgroup]:
            first = 0 if access == 0 else part_end[access - 1]
            begin = n
            lanes: Any = 0
            for k in range(first, part_end[access]):
                if part[k] < 0:
                    n = _private(private, subgroup, -1 - part[k], subgroup_size, with_hits, n, out)
                    lanes = subgroup_size
                    continue
                lanes = max(lanes, np.int64(source.lanes[part[k]]))
                n = _copied(source, part[k], with_hits, begin, n, out)
            out.lanes[access] = lanes
            out.granule_offset[access + 1] = n
            access += 1
    return n


@inner
def _private(
    private: Private,
    subgroup: int,
    number: int,
    subgroup_size: int,
    with_hits: bool,
    n: int,
    out: Source,
) -> int:
    words: Any = -(-private.size[number] // WORD_BYTES)
    first_word = private.offset[number] // WORD_BYTES
    row_granules = WORD_BYTES * subgroup_size // GRANULE_BYTES
    for k in range(words * row_granules):
        byte = private.base[subgroup] + first_word * WORD_BYTES * subgroup_size
        out.granule[n] = byte // GRANULE_BYTES + k
        out.byte_mask[n] = 0xFFFFFFFF
        out.lane_groups[n] = 1 << (k % row_granules)
        if with_hits:
            out.lane_hits[n] = GRANULE_BYTES // WORD_BYTES
        n += 1
    return n


@inner
def _copied(source: Source, access: int, with_hits: bool, begin: int, n: int, out: Source) -> int:
    """Adds the granules of an access to those from `begin` on, in order and each once."""
    for k in range(source.granule_offset[access], source.granule_offset[access + 1]):
        granule = source.granule[k]
        at = n
        while at > begin and out.granule[at - 1] > granule:
            at -= 1
        if at > begin and out.granule[at - 1] == granule:
            out.byte_mask[at - 1] |= source.byte_mask[k]
            out.lane_groups[at - 1] |= source.lane_groups[k]
            if with_hits:
                out.lane_hits[at - 1] = max(out.lane_hits[at - 1], source.lane_hits[k])
            continue
        for m in range(n, at, -1):
            out.granule[m] = out.granule[m - 1]
            out.byte_mask[m] = out.byte_mask[m - 1]
            out.lane_groups[m] = out.lane_groups[m - 1]
            if with_hits:
                out.lane_hits[m] = out.lane_hits[m - 1]
        out.granule[at] = granule
        out.byte_mask[at] = source.byte_mask[k]
        out.lane_groups[at] = source.lane_groups[k]
        if with_hits:
            out.lane_hits[at] = source.lane_hits[k]
        n += 1
    return n
