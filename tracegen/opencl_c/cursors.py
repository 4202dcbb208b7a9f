"""Properties of libclang's cursors: operators, address spaces, extents."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from typing import Any

import clang.cindex as ci

Kind = ci.CursorKind
TypeKind = ci.TypeKind

ASSIGN, COMMA, AND, OR = 22, 33, 20, 21
POST_INCREMENT, POST_DECREMENT, INCREMENT, DECREMENT, ADDRESS, DEREFERENCE = 1, 2, 3, 4, 5, 6
STEPS = (POST_INCREMENT, POST_DECREMENT, INCREMENT, DECREMENT)
"""CXBinaryOperatorKind and CXUnaryOperatorKind, which libclang's Python module lacks."""

_binary = ci.conf.lib.clang_getCursorBinaryOperatorKind
_unary = ci.conf.lib.clang_getCursorUnaryOperatorKind
for _function in (_binary, _unary):
    _function.argtypes = [ci.Cursor]
    _function.restype = ctypes.c_int


def binary_operator(cursor: Any) -> int:
    return int(_binary(cursor))


def unary_operator(cursor: Any) -> int:
    return int(_unary(cursor))


def span(cursor: Any) -> tuple[int, int]:
    """Offset of the first character, and the offset behind the last one."""
    extent = cursor.extent
    return int(extent.start.offset), int(extent.end.offset)


def expressions(cursor: Any) -> list[Any]:
    """The children that are expressions or statements, in textual order."""
    return [child for child in cursor.get_children() if _counts(child)]


def _counts(cursor: Any) -> bool:
    kind = cursor.kind
    return bool(kind.is_expression() or kind.is_statement() or kind.name == "StmtExpr")


def stripped(cursor: Any) -> Any:
    """The expression without parentheses and implicit conversions."""
    while True:
        if cursor.kind == Kind.PAREN_EXPR or is_implicit(cursor):
            (cursor,) = expressions(cursor)
        else:
            return cursor


def is_implicit(cursor: Any) -> bool:
    """Whether this is a conversion that the text does not show."""
    if cursor.kind != Kind.UNEXPOSED_EXPR:
        return False
    children = expressions(cursor)
    return len(children) == 1 and span(children[0]) == span(cursor)


def is_components(cursor: Any) -> bool:
    """Whether this names components of a vector: v.x, v.s01, p->lo."""
    if cursor.kind != Kind.UNEXPOSED_EXPR:
        return False
    children = expressions(cursor)
    if len(children) != 1:
        return False
    (start, end), (inner_start, inner_end) = span(cursor), span(children[0])
    return start == inner_start and inner_end < end


def address_space(kind_of: Any) -> str:
    """global, constant, local or private: where an object of this type lies."""
    element = kind_of.get_canonical()
    spelling = element.spelling
    while element.kind == TypeKind.CONSTANTARRAY:
        element = element.element_type.get_canonical()
    if element.kind == TypeKind.POINTER:
        spelling = element.spelling[element.spelling.rfind("*") + 1 :]
    for name in ("global", "constant", "local"):
        if re.search(rf"__{name}\b", spelling):  # "float __local[4]" of vectors
            return name
    return "private"


def is_pointer(kind_of: Any) -> bool:
    return bool(kind_of.get_canonical().kind == TypeKind.POINTER)


def is_array(kind_of: Any) -> bool:
    return kind_of.get_canonical().kind in (
        TypeKind.CONSTANTARRAY,
        TypeKind.INCOMPLETEARRAY,
        TypeKind.VARIABLEARRAY,
    )


def is_record(kind_of: Any) -> bool:
    return bool(kind_of.get_canonical().kind == TypeKind.RECORD)


def pointee_space(kind_of: Any) -> str:
    """The address space that a pointer of this type points to."""
    return address_space(kind_of.get_canonical().get_pointee())


def declared(cursor: Any) -> int:
    """A number that identifies the declaration of a name."""
    return int(cursor.referenced.location.offset)


def subtree(cursor: Any) -> Iterator[Any]:
    yield from cursor.walk_preorder()


def components(cursor: Any, text: str) -> tuple[int, ...] | None:
    """The components of its vector that `v.yz` names, in that order; None where it names none."""
    if not is_components(cursor):
        return None
    (inner,) = expressions(cursor)
    name = text[span(inner)[1] : span(cursor)[1]].strip(" \n\t.->")
    bare = stripped(inner)
    kind_of = bare.type.get_canonical()
    kind_of = kind_of.get_pointee() if is_pointer(kind_of) else kind_of
    of_vector = range(kind_of.get_canonical().element_count)
    within = components(bare, text)
    chosen = _named(name, of_vector)
    return chosen if within is None else tuple(within[k] for k in chosen)


def _named(name: str, every: range) -> tuple[int, ...]:
    half = (len(every) + 1) // 2
    sets = {"lo": every[:half], "hi": range(half, 2 * half), "even": every[::2], "odd": every[1::2]}
    if name in sets:
        return tuple(sets[name])
    if name[0] in "sS" and len(name) > 1:
        return tuple(int(digit, 16) for digit in name[1:])
    letters = "xyzw" if name[0] in "xyzw" else "rgba"
    return tuple(letters.index(letter) for letter in name)
