"""Accesses through pointers to local, private and constant memory: what they may reach, and their checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracegen.opencl_c.cursors import (
    ADDRESS,
    DEREFERENCE,
    Kind,
    declared,
    expressions,
    is_array,
    is_components,
    is_implicit,
    is_pointer,
    stripped,
    subtree,
    unary_operator,
)
from tracegen.opencl_c.near_arrays import NearArray
from tracegen.opencl_c.pointers import Arrays, Pointers

SPACES = ("local", "private", "constant")
MOST_ARRAYS = 64
"""Bits of a set. Accesses that may reach arrays beyond this number are not checked."""
UNKNOWN = "?"
"""Stands for memory that is in no array: literals, and variables that a kernel does not see."""


class NearPointers(Pointers):
    """The pointers of a kernel, and of all functions that it calls, into one kind of memory.

    functions : USR -> definition of those that are reached
    """

    def __init__(self, functions: Mapping[str, Any], arrays: Sequence[NearArray], space: str):
        self.functions = functions
        self.at = {a.declaration: frozenset([_key(a)]) for a in arrays if a.space == space}
        bodies = list(functions.values())
        every = frozenset[str]().union(*self.at.values())
        unknown = frozenset([UNKNOWN])
        if any(_has_no_name(cursor) for body in bodies for cursor in subtree(body)):
            every |= unknown
        super().__init__(bodies, self.at, every, space, elsewhere=unknown)

    def of(self, cursor: Any) -> Arrays:
        if cursor.kind == Kind.DECL_REF_EXPR and not is_pointer(cursor.type):
            return self.around(cursor)
        if cursor.kind == Kind.UNARY_OPERATOR and unary_operator(cursor) == ADDRESS:
            return self.around(expressions(cursor)[0])
        return super().of(cursor)

    def around(self, lvalue: Any) -> Arrays:
        """The arrays that an lvalue may lie in."""
        if lvalue.kind == Kind.PAREN_EXPR or is_implicit(lvalue) or is_components(lvalue):
            return self.around(expressions(lvalue)[0])
        children = expressions(lvalue)
        if lvalue.kind == Kind.ARRAY_SUBSCRIPT_EXPR:
            base = next((c for c in children if is_pointer(c.type)), None)
            return self.around(children[0]) if base is None else self.of(base)
        if lvalue.kind == Kind.UNARY_OPERATOR and unary_operator(lvalue) == DEREFERENCE:
            return self.of(children[0])
        if lvalue.kind == Kind.MEMBER_REF_EXPR and children:
            (inner,) = children
            return self.of(inner) if is_pointer(inner.type) else self.around(inner)
        if lvalue.kind == Kind.DECL_REF_EXPR:
            return self.at.get(declared(lvalue), self.elsewhere)
        return self.elsewhere

    def result(self, call: Any) -> Arrays:
        """The arrays that the values may point into that a function returns."""
        target = call.referenced
        function = None if target is None else self.functions.get(target.get_usr())
        if function is None:
            return self.elsewhere
        return self.of_variable.get(int(function.location.offset), frozenset())

    def assignments(self, body: Any) -> Iterator[tuple[int, Any]]:
        """Those to variables, those of arguments to parameters, and those of results to functions."""
        yield from super().assignments(body)
        for cursor in subtree(body):
            if cursor.kind == Kind.RETURN_STMT and self.is_here(body.result_type):
                yield int(body.location.offset), expressions(cursor)[0]
            target = cursor.referenced if cursor.kind == Kind.CALL_EXPR else None
            called = None if target is None else self.functions.get(target.get_usr())
            if called is not None:
                pairs = zip(called.get_arguments(), cursor.get_arguments(), strict=False)
                for parameter, argument in pairs:
                    if self.is_here(parameter.type):
                        yield int(parameter.location.offset), argument


@dataclass(frozen=True)
class Guard:
    """A checked access in the text, and the arrays that it may reach."""

    label: str
    line: int
    space: str
    size_bytes: int
    arrays: tuple[NearArray, ...]

    def beyond(self, offset: int) -> str:
        """Why it is out of bounds; offset : bytes from the first of its arrays"""
        if len(self.arrays) == 1:
            return self.arrays[0].beyond(offset)
        listed = ", ".join(array.name for array in self.arrays)
        return f"{self.label} is out of bounds: it lies in none of the arrays {listed}"


class Near:
    """The arrays of a kernel outside global memory, and the checked accesses to them.

    numbers : array -> its bit, of those that a checked access may reach
    guards : the checked accesses, numbered
    """

    def __init__(self, functions: Mapping[str, Any], arrays: Sequence[NearArray]) -> None:
        self.arrays = {_key(array): array for array in arrays}
        self.pointers = {space: NearPointers(functions, arrays, space) for space in SPACES}
        self.numbers: dict[str, int] = {}
        self.guards: dict[Guard, int] = {}

    @property
    def local_bytes(self) -> int:
        return sum(array.size_bytes for array in self.arrays.values() if array.space == "local")

    @property
    def reached(self) -> list[NearArray]:
        """The arrays that checked accesses may reach, by number."""
        return [self.arrays[key] for key in self.numbers]

    def owners(self, functions: Mapping[str, Any]) -> set[str]:
        """The functions that declare a private array, and those that call them."""
        found = {array.owner for array in self.arrays.values() if array.space == "private"}
        before = -1
        while len(found) != before:
            before = len(found)
            for usr, function in functions.items():
                calls = (c for c in subtree(function) if c.kind == Kind.CALL_EXPR)
                if any(c.referenced is not None and c.referenced.get_usr() in found for c in calls):
                    found.add(usr)
        return found

    def guard(
        self, place: Any, space: str, arrays: Arrays, label: str, size_bytes: int
    ) -> tuple[str, str] | None:
        """The text before and behind the address of a checked access; None where it cannot be checked.

        place : where it stands in the text;  arrays : those that the access may reach
        """
        arrays = arrays or self.pointers[space].every
        keys = [key for key in self.arrays if key in arrays]
        numbers = self.numbers | {
            key: len(self.numbers) + k
            for k, key in enumerate(key for key in keys if key not in self.numbers)
        }
        if not keys or UNKNOWN in arrays or len(numbers) > MOST_ARRAYS:
            return None
        self.numbers = numbers
        reached = tuple(self.arrays[key] for key in numbers if key in keys)
        line = int(place.extent.start.line)
        guard = Guard(label, line, space, size_bytes, reached)
        number = self.guards.setdefault(guard, len(self.guards))
        mask = sum(1 << numbers[key] for key in keys)
        return f"_tg_near_{space}(_tg, ", f", {size_bytes}, {mask}ul, {number})"


def _key(array: NearArray) -> str:
    return str(array.declaration)


def _has_no_name(cursor: Any) -> bool:
    """Whether an expression points to memory without a name: a literal, or an integer made an address."""
    if cursor.kind == Kind.CSTYLE_CAST_EXPR and is_pointer(cursor.type):
        child = stripped(expressions(cursor)[-1])
        points = is_pointer(child.type) or is_array(child.type)
        return not points and child.kind != Kind.INTEGER_LITERAL
    return cursor.kind in (Kind.COMPOUND_LITERAL_EXPR, Kind.STRING_LITERAL)
