"""How long an access occupies the load/store unit and the first-level cache, from what it touches."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from memsim.compile import hot, inner
from memsim.machine import Machine
from memsim.trace import GRANULE_BYTES

Floats = npt.NDArray[np.float64]

GROUP_LANES = 8
"""Lanes of a bit of `lane_groups`."""
N_GROUPS = 8
NARROW_BYTES = 4
"""Wider items never coalesce on GPUs whose address unit has a slow way."""


class Touched(NamedTuple):
    """The granules of some accesses, with the columns of a Trace.

    offset : (n_access + 1,) where each access's granules begin
    """

    offset: npt.NDArray[np.int64]
    granule: npt.NDArray[np.int64]
    byte_mask: npt.NDArray[np.uint32]
    lane_groups: npt.NDArray[np.uint8]


class _L1(NamedTuple):
    """What of a machine decides the cycles, as in its file; 0 where it is not known, or not so.

    line : granules;  tags : looked up in a cycle;  window : groups of lanes that coalesce
    """

    line: int
    bytes_per_cycle: float
    tags: float
    bank_bytes: int
    scattered_lanes: int
    window: int


def blocks_touched(touched: Touched, coalesce_lanes: int, block_bytes: int) -> Floats:
    """(n_access,) distinct lines or sectors that accesses touch, each window of lanes by itself."""
    count = np.zeros(len(touched.offset) - 1)
    _blocks_touched(touched, coalesce_lanes // GROUP_LANES, block_bytes // GRANULE_BYTES, count)
    return count


def pipe_cycles(
    machine: Machine, touched: Touched, itemsize_bytes: npt.NDArray[np.int64]
) -> Floats:
    """(n_access,) cycles that an access occupies the load/store unit and L1.

    Whichever of lanes, look-ups of lines, banks and bytes takes longest:

    - Several lines are looked up at once. A whole multiple of these takes a cycle more: 16 lines take 5
      cycles on an A100, A40 and H200, and 32 lines 9 (RRZE-HPC/gpu-benches, gpu-strides).
    - As many lanes are served together as a line has items (half a warp for doubles, CUDA C++ Programming
      Guide). Words at equal offsets within their lines are in one bank, which reads them one after
      another; an array that delivers several lines a cycle reads as many.
    - AMD's address unit serves in one cycle the lanes of a line's worth of items of up to 4 bytes, where
      these are one piece of memory, or one and the same. Other accesses are served `scattered_lanes` a
      cycle, whose lines must lie in different banks of tags; narrow items come from as many columns of
      words, if the banks are known. (GPUOpen, "Understanding Memory Coalescing on GCN"; measured on an
      MI210 by gpu-strides, on four generations of GCN by sebbbi/perftest.)

    itemsize_bytes : (n_access,) of one lane
    """
    cycles = np.full(len(touched.offset) - 1, machine.access_cycles)
    if machine.levels:
        level = machine.levels[0]
        l1 = _L1(
            line=level.line_bytes // GRANULE_BYTES,
            bytes_per_cycle=level.bandwidth_bytes_per_cycle,
            tags=level.first_tags_per_cycle,
            bank_bytes=level.bank_bytes,
            scattered_lanes=int(machine.throughputs.get("scattered_lanes", 0)),
            window=machine.coalesce_lanes // GROUP_LANES,
        )
        scratch = np.zeros(level.line_bytes // NARROW_BYTES + int(level.first_tags_per_cycle))
        _pipe_cycles(touched, itemsize_bytes, l1, scratch, cycles)
    return cycles


@hot
def _blocks_touched(touched: Touched, window: int, block: int, count: Floats) -> None:
    for access in range(len(count)):
        begin, end = touched.offset[access], touched.offset[access + 1]
        for first in range(0, N_GROUPS, window):
            count[access] += _blocks(touched, begin, end, _some(first, window), block)


@hot
def _pipe_cycles(
    touched: Touched,
    itemsize_bytes: npt.NDArray[np.int64],
    l1: _L1,
    scratch: Floats,
    cycles: Floats,
) -> None:
    for access in range(len(cycles)):
        begin, end = touched.offset[access], touched.offset[access + 1]
        n_bytes = 0
        groups = 0
        for k in range(begin, end):
            n_bytes += _bits(touched.byte_mask[k])
            groups |= touched.lane_groups[k]
        size = max(itemsize_bytes[access], NARROW_BYTES)
        lines = 0
        for first in range(0, N_GROUPS, l1.window):
            lines += _blocks(touched, begin, end, _some(first, l1.window), l1.line)
        took = max(cycles[access], n_bytes / l1.bytes_per_cycle)
        if l1.tags > 1:
            took = max(took, lines // l1.tags + (lines > 0))
        else:
            took = max(took, lines / l1.tags)
        if l1.scattered_lanes > 0:
            took = max(took, _scattered(touched, begin, end, groups, size, l1, scratch))
        if l1.bank_bytes > 0:
            took = max(took, _banked(touched, begin, end, groups, size, l1, scratch))
        cycles[access] = took


@inner
def _some(first: int, n: int) -> int:
    """The bits of n groups of lanes."""
    return ((1 << n) - 1) << first


@inner
def _bits(mask: Any) -> int:
    """The number of bits of a word that are set."""
    word = np.int64(mask)
    n = 0
    while word:
        word &= word - 1
        n += 1
    return n


@inner
def _blocks(touched: Touched, begin: int, end: int, window: int, block: int) -> int:
    """Distinct blocks of so many granules that a window of lanes touches."""
    n = 0
    last = -1
    for k in range(begin, end):
        if touched.lane_groups[k] & window and touched.granule[k] // block != last:
            last = touched.granule[k] // block
            n += 1
    return n


@inner
def _pieces(touched: Touched, begin: int, end: int, window: int) -> int:
    """Contiguous pieces of memory that a window of lanes touches."""
    n = 0
    next_granule = np.int64(-1)  # where the last piece would go on
    for k in range(begin, end):
        if touched.lane_groups[k] & window:
            mask = np.int64(touched.byte_mask[k])
            n += _bits(mask & ~(mask << 1))
            n -= touched.granule[k] == next_granule and mask & 1
            next_granule = touched.granule[k] + 1 if mask >> 31 else np.int64(-1)
    return n


@inner
def _busiest(
    touched: Touched,
    begin: int,
    end: int,
    window: int,
    word_bytes: int,
    row_bytes: int,
    count: Floats,
) -> float:
    """Words at equal offsets in rows of memory, of the offset with most of them.

    A granule that lanes of other windows touch too counts by its share, because nothing tells whose its
    words are.
    """
    per_row = row_bytes // word_bytes
    words = GRANULE_BYTES // word_bytes
    count[:per_row] = 0
    most = 0.0
    for k in range(begin, end):
        mine = touched.lane_groups[k] & window
        if mine:
            share = _bits(mine) / _bits(touched.lane_groups[k])
            mask = np.int64(touched.byte_mask[k])
            for word in range(words):
                if mask >> (word * word_bytes) & ((1 << word_bytes) - 1):
                    at = (touched.granule[k] * words + word) % per_row
                    count[at] += share
                    most = max(most, count[at])
    whole: float = np.floor(most + 1e-9)
    return max(whole, 1.0)


@inner
def _banked(
    touched: Touched, begin: int, end: int, groups: int, size: int, l1: _L1, scratch: Floats
) -> float:
    """Cycles of the banks."""
    line_bytes = l1.line * GRANULE_BYTES
    together = min(max(line_bytes // size // GROUP_LANES, 1), N_GROUPS)
    total = 0.0
    for first in range(0, N_GROUPS, together):
        window = _some(first, together)
        if groups & window:
            total += _busiest(touched, begin, end, window, l1.bank_bytes, line_bytes, scratch)
    return total / max(l1.bytes_per_cycle / line_bytes, 1.0)


@inner
def _scattered(
    touched: Touched, begin: int, end: int, groups: int, size: int, l1: _L1, scratch: Floats
) -> float:
    """Cycles of an address unit that coalesces only narrow items in one piece."""
    together = min(max(l1.line * GRANULE_BYTES // NARROW_BYTES // GROUP_LANES, 1), N_GROUPS)
    total = 0.0
    for first in range(0, N_GROUPS, together):
        window = _some(first, together)
        if not groups & window:
            continue
        took = GROUP_LANES * _bits(groups & window) / l1.scattered_lanes
        took = max(took, _look_ups_in_banks(touched, begin, end, window, l1, scratch))
        if size <= NARROW_BYTES:
            if l1.bank_bytes > 0:
                row = l1.scattered_lanes * NARROW_BYTES
                columns = _busiest(touched, begin, end, window, NARROW_BYTES, row, scratch)
                took = max(took, columns)
            took = min(took, float(_pieces(touched, begin, end, window)))
        total += took
    return total


@inner
def _look_ups_in_banks(
    touched: Touched, begin: int, end: int, window: int, l1: _L1, count: Floats
) -> float:
    """Cycles of tags in banks, the number of a line modulo their number.

    The lines of a window, which ascend, are taken in as many parts as there are banks.
    """
    n_bank = int(l1.tags)
    n_line = _blocks(touched, begin, end, window, l1.line)
    total = 0.0
    most = 0.0
    rank = 0
    part = -1
    last = -1
    for k in range(begin, end):
        line = touched.granule[k] // l1.line
        if touched.lane_groups[k] & window and line != last:
            last = line
            mine = rank * n_bank // max(n_line, n_bank)
            if mine != part:
                part = mine
                total += most
                most = 0.0
                count[:n_bank] = 0
            count[line % n_bank] += 1
            most = max(most, count[line % n_bank])
            rank += 1
    return total + most
