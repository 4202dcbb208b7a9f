"""A trace in the lines of one machine: what is worked out once and shared by all trials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from memsim.compile import hot
from memsim.errors import ReplayError
from memsim.hierarchy.cache import ATOMIC, BYPASS, LOAD, MAX_LINES, MAX_SITES, STORE
from memsim.hierarchy.core_stage import (
    BARRIER,
    MAX_REQUESTS_OF_ACCESS,
    STARTS_SEQUENCE,
    Requests,
    pack_access,
)
from memsim.trace.model import Trace

CHUNK_GRANULES = 8
"""Dense addresses number the touched chunks of 256 bytes, the longest line there is."""
_MAX_TABLE_CHUNKS = 1 << 27
_KINDS = {"load": LOAD, "store": STORE, "atomic": ATOMIC}


@dataclass(frozen=True)
class DenseMap:
    """chunk : (n_chunk,) int64, true address // 256 of each dense chunk, ascending."""

    chunk: npt.NDArray[np.int64]

    def true_granule(self, dense: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """True granules of dense ones."""
        return self.chunk[dense // CHUNK_GRANULES] * CHUNK_GRANULES + dense % CHUNK_GRANULES

    def true_lines(self, granules_per_line: int) -> npt.NDArray[np.int64]:
        """(n_line,) true line addresses of all dense lines of that length."""
        per_chunk = CHUNK_GRANULES // granules_per_line
        return (self.chunk[:, None] * per_chunk + np.arange(per_chunk)).reshape(-1)


DenseTable = tuple[DenseMap, npt.NDArray[np.int32], int]
"""What `dense_map` returns."""


@hot
def _mark(granule, first_chunk, touched):  # type: ignore[no-untyped-def]
    for i in range(len(granule)):
        touched[(granule[i] >> 3) - first_chunk] = 1


@hot
def _number(touched, dense, chunk, first_chunk):  # type: ignore[no-untyped-def]
    n = 0
    for i in range(len(touched)):
        dense[i] = n
        if touched[i]:
            chunk[n] = first_chunk + i
            n += 1


def dense_map(granule: npt.NDArray[np.int64]) -> DenseTable:
    """(map, table, first_chunk): table[chunk - first_chunk] is the dense chunk.

    Where the addresses span more than 32 GiB the table is indexed through `map.chunk` by bisection
    and is empty.
    """
    if not len(granule):
        return DenseMap(np.zeros(0, np.int64)), np.zeros(0, np.int32), 0
    first = int(granule.min()) >> 3
    span = (int(granule.max()) >> 3) - first + 1
    if span > _MAX_TABLE_CHUNKS:
        chunk = _distinct(np.concatenate([_distinct(part >> 3) for part in _pieces(granule)]))
        return DenseMap(chunk), np.zeros(0, np.int32), first
    touched = np.zeros(span, np.uint8)
    _mark(granule, first, touched)
    chunk = np.empty(int(np.count_nonzero(touched)), np.int64)
    table = np.empty(span, np.int32)
    _number(touched, table, chunk, first)
    return DenseMap(chunk), table, first


def _distinct(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """As np.unique, which hashes first and took 25 times as long on 5 million values."""
    ordered = np.sort(values)
    first: npt.NDArray[np.bool_] = np.ones(len(ordered), np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    return np.asarray(ordered[first])


def _pieces(granule: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
    n = max(1, len(granule) >> 22)
    return np.array_split(granule, n)


@hot
def _dense(granule, table, first_chunk, chunk):  # type: ignore[no-untyped-def]
    """The dense granule of a true one."""
    c = granule >> 3
    if len(table):
        d = np.int64(table[c - first_chunk])
    else:
        low, high = 0, len(chunk) - 1
        while low < high:
            middle = (low + high) // 2
            if chunk[middle] < c:
                low = middle + 1
            else:
                high = middle
        d = np.int64(low)
    return (d << 3) | (granule & 7)


@hot
def _form(subgroup_offset, site, starts, granule_offset, granule, byte_mask, lane_groups, kind_of_site, first_site, coalesce_groups, n_windows, granules_per_line, table, first_chunk, chunk, first_request, first_partial, access, request, partial, filling):  # type: ignore[no-untyped-def]  # fmt: skip
    """Requests of every access; counts them first (filling False), then writes them.

    Returns (requests, partial masks, the most requests of one access).
    """
    n_request, n_partial, most = np.int64(0), np.int64(0), np.int64(0)
    window_bits = (1 << coalesce_groups) - 1
    for s in range(len(subgroup_offset) - 1):
        first_request[s] = n_request
        first_partial[s] = n_partial
        for p in range(subgroup_offset[s], subgroup_offset[s + 1]):
            barrier = site[p] < 0
            kind = 0 if barrier else np.int64(kind_of_site[site[p]])
            before = n_request
            for w in range(n_windows):
                lanes = window_bits << (w * coalesce_groups)
                current = np.int64(-1)
                for i in range(granule_offset[p], granule_offset[p + 1]):
                    if n_windows > 1 and not lane_groups[i] & lanes:
                        continue
                    dense = _dense(granule[i], table, first_chunk, chunk)
                    line = dense // granules_per_line
                    bit = np.uint64(1) << np.uint64(dense - line * granules_per_line)
                    covered = byte_mask[i] == np.uint32(0xFFFFFFFF)
                    if line != current:
                        current = line
                        n_request += 1
                        if filling:
                            request[n_request - 1] = np.uint64(line)
                    if filling:
                        request[n_request - 1] |= bit << np.uint64(32)
                        if kind == STORE and covered:
                            request[n_request - 1] |= bit << np.uint64(40)
                    if kind == STORE and not covered:
                        if filling:
                            partial[n_partial] = byte_mask[i]
                        n_partial += 1
            if filling:
                flags = (STARTS_SEQUENCE if starts[p] else 0) | (BARRIER if barrier else 0)
                access[p] = pack_access(
                    flags,
                    kind,
                    n_request - before,
                    0 if barrier else first_site + np.int64(site[p]),
                )
            most = max(most, n_request - before)
    return n_request, n_partial, most


def common_map(traces: Sequence[Trace]) -> DenseTable:
    """The dense map of all that several traces touch."""
    chunks = [dense_map(trace.granule)[0].chunk for trace in traces]
    return dense_map(_distinct(np.concatenate(chunks)) * CHUNK_GRANULES)


def form_requests(
    trace: Trace,
    *,
    granules_per_line: int,
    coalesce_lanes: int,
    dense: DenseTable | None = None,
    first_site: int = 0,
) -> tuple[Requests, DenseMap]:
    """Coalesce a trace's accesses into requests for lines of granules_per_line x 32 bytes.

    Lanes are coalesced `coalesce_lanes` at a time: with 16, each half of a 32-wide sub-group makes
    requests of its own.

    dense : a map that holds at least what the trace touches; its own by default
    first_site : added to the number of every site
    """
    if first_site + len(trace.sites) >= MAX_SITES:
        raise ReplayError(
            f"traces may have {MAX_SITES - 1} sites, got {first_site + len(trace.sites)}"
        )
    space, table, first = dense or dense_map(trace.granule)
    if len(space.chunk) * CHUNK_GRANULES // granules_per_line >= MAX_LINES:
        raise ReplayError(
            f"a trace may touch {MAX_LINES} lines, got {len(space.chunk) * 8 // granules_per_line}"
        )
    kinds = [BYPASS if s.bypasses_l1 else _KINDS[s.direction] for s in trace.sites]
    kind_of_site = np.array(kinds or [0], np.uint8)
    coalesce_groups = max(1, min(coalesce_lanes, trace.subgroup_size) // 8)
    n_windows = max(1, trace.subgroup_size // min(coalesce_lanes, trace.subgroup_size))
    first_request = np.empty(trace.n_subgroup, np.int64)
    first_partial = np.empty(trace.n_subgroup, np.int64)
    access = np.empty(trace.n_access, np.uint32)
    request, partial = np.empty(0, np.uint64), np.empty(0, np.uint32)
    for filling in (False, True):
        n_request, n_partial, most = _form(
            trace.subgroup_offset,
            trace.site,
            trace.starts_sequence,
            trace.granule_offset,
            trace.granule,
            trace.byte_mask,
            trace.lane_groups,
            kind_of_site,
            first_site,
            coalesce_groups,
            n_windows,
            granules_per_line,
            table,
            first,
            space.chunk,
            first_request,
            first_partial,
            access,
            request,
            partial,
            filling,
        )
        if most > MAX_REQUESTS_OF_ACCESS:
            raise ReplayError(f"an access may fall into {MAX_REQUESTS_OF_ACCESS} lines, got {most}")
        if not filling:
            # The tail is read ahead of, never used.
            request = np.zeros(n_request + 8, np.uint64)
            partial = np.empty(n_partial, np.uint32)
    changes = np.flatnonzero(np.diff(trace.workgroup)) + 1
    bounds = [0, *changes.tolist(), trace.n_subgroup] if trace.n_subgroup else [0]
    first_subgroup = np.array(bounds, np.int32)
    group = np.repeat(
        np.arange(len(first_subgroup) - 1, dtype=np.int32), np.diff(first_subgroup)
    ).astype(np.int32)
    requests = Requests(
        subgroup_offset=np.array(trace.subgroup_offset),
        first_request=first_request,
        first_partial=first_partial,
        group=group,
        access=access,
        request=request,
        partial=partial,
        first_subgroup=first_subgroup,
    )
    return requests, space
