"""Which arrays a store through one pointer may change, as far as a compiler can tell.

C lets two pointers of one type point to the same memory unless one is `restrict`: after a store
through one, what was loaded through the other must be loaded again. Pointers to different scalar
types do not alias; characters, vectors and structs alias everything, as in clang.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tracegen.opencl_c.cursors import TypeKind, is_pointer

_SCALARS = {
    TypeKind.SHORT: "short",
    TypeKind.USHORT: "short",
    TypeKind.INT: "int",
    TypeKind.UINT: "int",
    TypeKind.LONG: "long",
    TypeKind.ULONG: "long",
    TypeKind.HALF: "half",
    TypeKind.FLOAT: "float",
    TypeKind.DOUBLE: "double",
}


def aliased(
    kernel: Any, buffers: Mapping[str, str], regions: Sequence[str]
) -> dict[str, frozenset[str]]:
    """Region -> the other regions that a store to it may change.

    buffers : parameter -> the array that it points to
    regions : of each probe, an array, or several joined by " or ", or ""
    """
    kinds: dict[str, set[str]] = {}
    restricted: set[str] = set()
    for parameter in kernel.get_arguments():
        name = buffers.get(parameter.spelling)
        if name is None:
            continue
        kinds.setdefault(name, set()).add(_kind(parameter.type))
        if parameter.type.is_restrict_qualified():
            restricted.add(name)

    def may(one: str, other: str) -> bool:
        if one == other:
            return True
        if one in restricted or other in restricted:
            return False
        return "any" in kinds[one] | kinds[other] or bool(kinds[one] & kinds[other])

    names = sorted({region for region in regions if region})
    parts = {name: name.split(" or ") for name in names}
    return {
        name: frozenset(
            other
            for other in names
            if other != name and any(may(a, b) for a in parts[name] for b in parts[other])
        )
        for name in names
    }


def _kind(kind_of: Any) -> str:
    assert is_pointer(kind_of)
    return _SCALARS.get(kind_of.get_canonical().get_pointee().kind, "any")
