"""Arrays for traces that name none: ranges that the host wrote or instructions accessed."""

from __future__ import annotations

import bisect
import functools
import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from memsim.trace.launches import Copy
from memsim.trace.model import ArrayExtent


@dataclass(frozen=True)
class AddressMap:
    """Arrays in ascending order; each is named by its address, `0x7fb0fc400000`."""

    arrays: tuple[ArrayExtent, ...]

    def name_at(self, address: int) -> str:
        """The array that contains an address; the first array if the address is below all."""
        return self.arrays[max(bisect.bisect_right(self._bases, address) - 1, 0)].name

    @functools.cached_property
    def _bases(self) -> list[int]:
        return [array.base_bytes for array in self.arrays]

    def copies(self, base: int, size: int) -> list[Copy]:
        """A write of [base, base + size) by the host, array by array."""
        copies = []
        for array in self.arrays:
            inside = min(array.base_bytes + array.size_bytes, base + size) - array.base_bytes
            if array.base_bytes >= base and inside > 0:
                copies.append(Copy(array=array.name, size_bytes=inside))
        return copies


def address_map(
    copied: Iterable[tuple[int, int]], touched: Iterable[tuple[int, int]]
) -> AddressMap:
    """Arrays that cover everything.

    copied : (base, bytes) of each write by the host; an array begins at its base
    touched : (first, last) byte that each instruction accessed, inclusive. Ranges that overlap
        are one array, unless a copy begins in between
    """
    begins = {base for base, size in copied if size > 0}
    ranges = sorted(
        [(base, base + size) for base, size in copied if size > 0]
        + [(first, last + 1) for first, last in touched]
    )
    merged: list[list[int]] = []
    for first, end in ranges:
        if merged and first < merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([first, end])
    cuts = sorted(begins)
    arrays = []
    for first, end in merged:
        inner = cuts[bisect.bisect_right(cuts, first) : bisect.bisect_left(cuts, end)]
        arrays += [
            ArrayExtent(name=f"0x{low:x}", base_bytes=low, size_bytes=high - low)
            for low, high in itertools.pairwise([first, *inner, end])
        ]
    return AddressMap(tuple(arrays))
