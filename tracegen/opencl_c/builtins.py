"""The functions of OpenCL C that access memory through a pointer, or that a reshaped launch changes."""

from __future__ import annotations

import re
from dataclasses import dataclass

WORK_ITEM = {
    "get_global_id",
    "get_group_id",
    "get_num_groups",
    "get_global_size",
    "get_global_offset",
}
"""Replaced by the values of the whole launch where only some of its groups run."""

BARRIERS = {"barrier", "work_group_barrier"}
FENCES = {"mem_fence", "read_mem_fence", "write_mem_fence"}
IGNORED = {"prefetch", "printf"}
"""Calls of these access nothing that a kernel computes with."""

_ATOMIC = re.compile(r"atom(?:ic)?_(?:add|sub|xchg|inc|dec|cmpxchg|min|max|and|or|xor)")
_VECTOR = re.compile(r"v(load|store)(a?)(_half)?(\d*)(?:_rt[ezpn])?")
_OUTPUT = {"fract", "frexp", "lgamma_r", "modf", "remquo", "sincos"}


@dataclass(frozen=True)
class VectorAccess:
    """vload and vstore: `offset` counts elements of `stride_bytes`, of which `size_bytes` are accessed.

    offset, pointer : indices of these two arguments
    """

    direction: str
    offset: int
    pointer: int
    size_bytes: int
    stride_bytes: int
    align_bytes: int


def is_atomic(name: str) -> bool:
    return _ATOMIC.fullmatch(name) is not None


def writes_through_last(name: str) -> bool:
    """Whether a mathematical function returns its second result through its last argument."""
    return name in _OUTPUT


def vector_access(name: str, element_bytes: int) -> VectorAccess | None:
    """What a call of a vload or vstore function accesses; None where it is none."""
    match = _VECTOR.fullmatch(name)
    if match is None:
        return None
    verb, aligned, half, digits = match.groups()
    count = int(digits or 1)
    stride = 4 if aligned and count == 3 else count
    direction = str(verb)
    first = 0 if direction == "load" else 1
    size = 2 if half else element_bytes
    return VectorAccess(
        direction,
        first,
        first + 1,
        count * size,
        stride * size,
        stride * size if aligned else size,
    )
