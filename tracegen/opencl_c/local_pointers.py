"""Accesses to local memory through pointers: the arrays that they may reach, checked before they happen.

A subscript of an array has an index that is checked (`Expressions._check`). An access through a pointer has
an address instead, which must lie within one of the arrays that the pointer may point into.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tracegen.opencl_c.cursors import Kind, TypeKind, address_space, is_pointer, span
from tracegen.opencl_c.pointers import Arrays

MOST_ARRAYS = 64
"""Bits of a set. Accesses of a kernel with more arrays in local memory are not checked."""


@dataclass
class Guard:
    """A checked access in the text; arrays : those that it may reach in any call of its function."""

    label: str
    line: int
    size_bytes: int
    arrays: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class LocalArrays:
    """The arrays of a kernel in local memory, a lone variable included.

    bytes_of, element_bytes : name -> bytes, of an element;  declared : declaration -> name
    own : those that the kernel declares, with the end of the statement that does
    """

    bytes_of: dict[str, int]
    element_bytes: dict[str, int] = field(default_factory=dict)
    declared: dict[int, str] = field(default_factory=dict)
    own: dict[str, int] = field(default_factory=dict)

    @property
    def every(self) -> Arrays:
        return frozenset(self.bytes_of)

    @property
    def can_be_checked(self) -> bool:
        return 0 < len(self.bytes_of) <= MOST_ARRAYS

    def bound(self) -> dict[int, Arrays]:
        """Declaration -> the array that it is, or points to where the kernel begins."""
        return {declaration: frozenset([name]) for declaration, name in self.declared.items()}

    def mask(self, arrays: set[str]) -> int:
        return sum(1 << k for k, name in enumerate(self.bytes_of) if name in arrays)

    def beyond(self, guard: Guard, offset: int) -> str:
        """Why a guarded access is out of bounds; offset : bytes from the first of its arrays"""
        names = [name for name in self.bytes_of if name in guard.arrays]
        if len(names) > 1:
            listed = ", ".join(names)
            return f"{guard.label} is out of bounds: it lies in none of the arrays {listed}"
        (name,), element = names, self.element_bytes[names[0]]
        if offset % element:
            return f"byte {offset} is out of bounds: array {name} has {self.bytes_of[name]} bytes"
        extent = self.bytes_of[name] // element
        return f"index {offset // element} is out of bounds: array {name} has {extent} elements"


def local_arrays(kernel: Any, given: Mapping[str, int]) -> LocalArrays:
    """given : parameter of the kernel that points to local memory -> its bytes"""
    found = LocalArrays(dict(given))
    for parameter in kernel.get_arguments():
        if parameter.spelling in given:
            found.declared[int(parameter.location.offset)] = parameter.spelling
            pointee = parameter.type.get_canonical().get_pointee()
            found.element_bytes[parameter.spelling] = max(int(pointee.get_size()), 1)
    for variable, end in _declarations(kernel):
        found.declared[int(variable.location.offset)] = variable.spelling
        found.bytes_of[variable.spelling] = int(variable.type.get_size())
        found.element_bytes[variable.spelling] = _element_bytes(variable.type.get_canonical())
        found.own[variable.spelling] = end
    return found


def _declarations(kernel: Any) -> Iterator[tuple[Any, int]]:
    """The variables in local memory, which only the outermost block of a kernel can declare."""
    for statement in list(kernel.get_children())[-1].get_children():
        if statement.kind == Kind.DECL_STMT:
            for variable in statement.get_children():
                is_local = (
                    variable.kind == Kind.VAR_DECL and address_space(variable.type) == "local"
                )
                if is_local and not is_pointer(variable.type):
                    yield variable, span(statement)[1]


def _element_bytes(kind_of: Any) -> int:
    while kind_of.kind == TypeKind.CONSTANTARRAY:
        kind_of = kind_of.element_type
    return int(kind_of.get_size())


def pointer_to(cursor: Any, *, through: bool) -> str | None:
    """The C type of a pointer to an lvalue in local memory; None where its type has no name.

    through : whether the cursor is that pointer already
    """
    spelling = str(cursor.type.spelling)
    if "(unnamed" in spelling or "(anonymous" in spelling:
        return None
    if through:
        return spelling[: spelling.rfind("*") + 1] or spelling
    if "__local" not in spelling:
        spelling = f"__local {spelling}"
    element, bracket, extents = spelling.partition("[")
    return f"{element.strip()} (*){bracket}{extents}" if bracket else f"{spelling} *"
