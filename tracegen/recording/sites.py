"""The address map of a launch, and the names of its sites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memsim.trace import ArrayExtent

FIRST_BASE_BYTES = 1 << 20
BASE_ALIGNMENT_BYTES = 256


def allocate(sizes_bytes: Mapping[str, int]) -> tuple[ArrayExtent, ...]:
    """The address map: arrays in the given order from FIRST_BASE_BYTES on, each 256-byte aligned."""
    base, extents = FIRST_BASE_BYTES, []
    for name, size in sizes_bytes.items():
        extents.append(ArrayExtent(name=name, base_bytes=base, size_bytes=size))
        base += -(-max(size, 1) // BASE_ALIGNMENT_BYTES) * BASE_ALIGNMENT_BYTES
    return tuple(extents)


def unique(names: Sequence[str]) -> list[str]:
    """The names; those that were there before have a number behind them."""
    seen: dict[str, int] = {}
    result = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        result.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return result
