"""A trace in the lines of one machine: computed once and shared by all trials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

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
"""Dense addresses number the touched chunks of 256 bytes, the longest possible line."""
_MAX_TABLE_CHUNKS = 1 << 27
_KINDS = {"load": LOAD, "store": STORE, "atomic": ATOMIC}


@dataclass(frozen=True)
class DenseMap:
    """The dense address space of a trace: its touched chunks, numbered in address order.

    chunk : (n_chunk,) int64, true address // 256 of each dense chunk, ascending
    """

    chunk: npt.NDArray[np.int64]

    def true_granule(self, dense: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The true granule of each dense one (n,)."""
        return self.chunk[dense // CHUNK_GRANULES] * CHUNK_GRANULES + dense % CHUNK_GRANULES

    def true_lines(self, granules_per_line: int) -> npt.NDArray[np.int64]:
        """(n_line,) true line addresses of all dense lines of that length."""
        per_chunk = CHUNK_GRANULES // granules_per_line
        return (self.chunk[:, None] * per_chunk + np.arange(per_chunk)).reshape(-1)


class DenseTable(NamedTuple):
    """Translation of true chunks into dense ones.

    chunk : (n_chunk,) int64, as in DenseMap
    table : (n,) int32, table[true - first_chunk] is the dense chunk. It is empty where the addresses
        span more than 32 GiB; a dense chunk is then found in `chunk` by bisection
    """

    chunk: npt.NDArray[np.int64]
    table: npt.NDArray[np.int32]
    first_chunk: int


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


def dense_table(granule: npt.NDArray[np.int64]) -> DenseTable:
    """The dense address space of some granules (n,) int64."""
    if not len(granule):
        return DenseTable(np.zeros(0, np.int64), np.zeros(0, np.int32), 0)
    first = int(granule.min()) >> 3
    span = (int(granule.max()) >> 3) - first + 1
    if span > _MAX_TABLE_CHUNKS:
        parts = np.array_split(granule, max(1, len(granule) >> 22))
        chunk = _distinct(np.concatenate([_distinct(part >> 3) for part in parts]))
        return DenseTable(chunk, np.zeros(0, np.int32), first)
    touched = np.zeros(span, np.uint8)
    _mark(granule, first, touched)
    chunk = np.empty(int(np.count_nonzero(touched)), np.int64)
    table = np.empty(span, np.int32)
    _number(touched, table, chunk, first)
    return DenseTable(chunk, table, first)


def _distinct(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The distinct values, ascending; np.unique hashes and took 25 times as long on 5 million values."""
    ordered = np.sort(values)
    first: npt.NDArray[np.bool_] = np.ones(len(ordered), np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    return np.asarray(ordered[first])


class _Columns(NamedTuple):
    """Columns of a Trace, and the kind of each site."""

    subgroup_offset: npt.NDArray[np.int64]
    site: npt.NDArray[np.int32]
    starts_sequence: npt.NDArray[np.bool_]
    granule_offset: npt.NDArray[np.int64]
    granule: npt.NDArray[np.int64]
    byte_mask: npt.NDArray[np.uint32]
    lane_groups: npt.NDArray[np.uint8]
    kind_of_site: npt.NDArray[np.uint8]


class _Coalescing(NamedTuple):
    """Lanes are coalesced in n_windows windows of 8 * lane_groups lanes each."""

    granules_per_line: int
    lane_groups: int
    n_windows: int


@hot
def _dense_granule(granule, dense):  # type: ignore[no-untyped-def]
    """The dense granule of a true one."""
    chunk = granule >> 3
    if len(dense.table):
        number = np.int64(dense.table[chunk - dense.first_chunk])
    else:
        low, high = 0, len(dense.chunk) - 1
        while low < high:
            middle = (low + high) // 2
            if dense.chunk[middle] < chunk:
                low = middle + 1
            else:
                high = middle
        number = np.int64(low)
    return (number << 3) | (granule & 7)


@hot
def _form(columns, coalescing, dense, out):  # type: ignore[no-untyped-def]
    """Form the requests of every access in `out`, a Requests with room for as many as there are granules in all windows.

    Returns (requests, partial masks, the most requests of one access).
    """
    n_request, n_partial, most = np.int64(0), np.int64(0), np.int64(0)
    window_bits = (1 << coalescing.lane_groups) - 1
    for s in range(len(columns.subgroup_offset) - 1):
        out.first_request[s] = n_request
        out.first_partial[s] = n_partial
        for p in range(columns.subgroup_offset[s], columns.subgroup_offset[s + 1]):
            barrier = columns.site[p] < 0
            kind = 0 if barrier else np.int64(columns.kind_of_site[columns.site[p]])
            before = n_request
            for w in range(coalescing.n_windows):
                lanes = window_bits << (w * coalescing.lane_groups)
                current = np.int64(-1)
                for i in range(columns.granule_offset[p], columns.granule_offset[p + 1]):
                    if coalescing.n_windows > 1 and not columns.lane_groups[i] & lanes:
                        continue
                    granule = _dense_granule(columns.granule[i], dense)
                    line = granule // coalescing.granules_per_line
                    bit = np.uint64(1) << np.uint64(granule - line * coalescing.granules_per_line)
                    covered = columns.byte_mask[i] == np.uint32(0xFFFFFFFF)
                    if line != current:
                        current = line
                        n_request += 1
                        out.request[n_request - 1] = np.uint64(line)
                    out.request[n_request - 1] |= bit << np.uint64(32)
                    if kind == STORE:
                        if covered:
                            out.request[n_request - 1] |= bit << np.uint64(40)
                        else:
                            out.partial[n_partial] = columns.byte_mask[i]
                            n_partial += 1
            starts = STARTS_SEQUENCE if columns.starts_sequence[p] else 0
            flags = starts | (BARRIER if barrier else 0)
            site = 0 if barrier else np.int64(columns.site[p])
            out.access[p] = pack_access(flags, kind, n_request - before, site)
            most = max(most, n_request - before)
    return n_request, n_partial, most


def common_table(traces: Sequence[Trace]) -> DenseTable:
    """The dense address space of several traces together."""
    chunks = [_chunks(trace.granule) for trace in traces]
    return dense_table(_distinct(np.concatenate(chunks)) * CHUNK_GRANULES)


def _chunks(granule: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The chunks that a trace touches; few granules far apart need no table of all in between."""
    if len(granule) and (int(granule.max()) - int(granule.min())) >> 3 > len(granule):
        return _distinct(granule >> 3)
    return dense_table(granule).chunk


def form_requests(
    trace: Trace,
    *,
    granules_per_line: int,
    coalesce_lanes: int,
    dense: DenseTable | None = None,
) -> tuple[Requests, DenseMap]:
    """Coalesce a trace's accesses into requests for lines of granules_per_line x 32 bytes.

    Lanes are coalesced `coalesce_lanes` at a time: with 16, each half of a 32-wide sub-group makes
    requests of its own.

    dense : an address space that contains all that the trace touches; its own by default

    Raises ReplayError where the trace has too many sites, lines, or requests in an access.
    """
    if len(trace.sites) >= MAX_SITES:
        raise ReplayError(f"a trace may have {MAX_SITES - 1} sites, got {len(trace.sites)}")
    dense = dense or dense_table(trace.granule)
    n_lines = len(dense.chunk) * CHUNK_GRANULES // granules_per_line
    if n_lines >= MAX_LINES:
        raise ReplayError(f"a trace may touch {MAX_LINES} lines, got {n_lines}")
    columns = _columns(trace)
    lanes = min(coalesce_lanes, trace.subgroup_size)
    coalescing = _Coalescing(
        granules_per_line, max(1, lanes // 8), max(1, trace.subgroup_size // lanes)
    )
    n_most = coalescing.n_windows * trace.n_granule
    # Memory is taken page by page, when it is written.
    request, partial = np.empty(n_most + 8, np.uint64), np.empty(n_most, np.uint32)
    out = _empty_requests(trace)
    n_request, n_partial, most = _form(
        columns, coalescing, dense, out._replace(request=request, partial=partial)
    )
    if most > MAX_REQUESTS_OF_ACCESS:
        raise ReplayError(f"an access may fall into {MAX_REQUESTS_OF_ACCESS} lines, got {most}")
    request.resize(n_request + 8, refcheck=False)
    partial.resize(n_partial, refcheck=False)
    request[n_request:] = 0  # read ahead of, never used
    out = out._replace(request=request, partial=partial)
    return out, DenseMap(dense.chunk)


def _columns(trace: Trace) -> _Columns:
    kinds = [BYPASS if s.bypasses_l1 else _KINDS[s.direction] for s in trace.sites]
    columns: dict[str, Any] = {name: getattr(trace, name) for name in _Columns._fields[:-1]}
    return _Columns(**columns, kind_of_site=np.array(kinds or [0], np.uint8))


def _empty_requests(trace: Trace) -> Requests:
    """Requests with the sub-groups and groups of a trace, to be filled in."""
    changes = np.flatnonzero(np.diff(trace.workgroup)) + 1
    bounds = [0, *changes.tolist(), trace.n_subgroup] if trace.n_subgroup else [0]
    first_subgroup = np.array(bounds, np.int32)
    groups = np.arange(len(first_subgroup) - 1, dtype=np.int32)
    return Requests(
        subgroup_offset=np.array(trace.subgroup_offset),
        first_request=np.empty(trace.n_subgroup, np.int64),
        first_partial=np.empty(trace.n_subgroup, np.int64),
        group=np.repeat(groups, np.diff(first_subgroup)).astype(np.int32),
        access=np.empty(trace.n_access, np.uint32),
        request=np.empty(0, np.uint64),
        partial=np.empty(0, np.uint32),
        first_subgroup=first_subgroup,
    )
