"""Which arrays a pointer may point into, by data flow.

The order of statements is ignored: a pointer variable may point to whatever is assigned to it
anywhere. What cannot be followed (pointers in structs and arrays) may point to any array.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tracegen.opencl_c.cursors import (
    ADDRESS,
    ASSIGN,
    COMMA,
    DEREFERENCE,
    Kind,
    binary_operator,
    declared,
    expressions,
    is_array,
    is_components,
    is_implicit,
    is_pointer,
    pointee_space,
    span,
    unary_operator,
)

Arrays = frozenset[str]


class Pointers:
    """The pointer variables of functions.

    known : declaration -> arrays of each pointer parameter, and of each array
    every : all arrays;  space : global, local, private or constant
    elsewhere : what a pointer that does not come from a variable may point to
    """

    def __init__(
        self,
        bodies: Iterable[Any],
        known: Mapping[int, Arrays],
        every: Arrays,
        space: str,
        elsewhere: Arrays | None = None,
    ) -> None:
        self.every, self.space = every, space
        self.elsewhere = every if elsewhere is None else elsewhere
        self.of_variable: dict[int, Arrays] = dict(known)
        assigned = []
        for body in bodies:
            for variable in _exposed(body):
                self.of_variable[variable] = every
            assigned += list(self.assignments(body))
        changed = True
        while changed:
            changed = False
            for variable, value in assigned:
                before = self.of_variable.get(variable, frozenset())
                after = before | self.of(value)
                self.of_variable[variable] = after
                changed |= after != before

    def of(self, cursor: Any) -> Arrays:
        """The arrays that a pointer expression, or the address of an lvalue, may point into."""
        kind = cursor.kind
        children = expressions(cursor)
        if kind == Kind.PAREN_EXPR or is_implicit(cursor) or is_components(cursor):
            return self.of(children[0])
        if kind == Kind.DECL_REF_EXPR:
            return self.of_variable.get(declared(cursor), frozenset())
        if kind == Kind.CSTYLE_CAST_EXPR:
            return self._pointer(children[-1])
        if kind == Kind.ARRAY_SUBSCRIPT_EXPR:
            base = next((c for c in children if is_pointer(c.type)), children[0])
            return self.every if is_pointer(cursor.type) else self.of(base)
        if kind == Kind.MEMBER_REF_EXPR:
            return self.every if is_pointer(cursor.type) or not children else self.of(children[0])
        if kind == Kind.UNARY_OPERATOR:
            if unary_operator(cursor) == DEREFERENCE and is_pointer(cursor.type):
                return self.every
            return self.of(children[0])
        if kind == Kind.CONDITIONAL_OPERATOR:
            return self._pointer(children[1]) | self._pointer(children[2])
        if kind == Kind.COMPOUND_ASSIGNMENT_OPERATOR:
            return self.of(children[0])
        if kind == Kind.BINARY_OPERATOR:
            if binary_operator(cursor) in (ASSIGN, COMMA):
                return self._pointer(children[1])
            return frozenset().union(*(self.of(c) for c in children if is_pointer(c.type)))
        if kind == Kind.CALL_EXPR:
            return self.result(cursor)
        if kind == Kind.INTEGER_LITERAL:
            return frozenset()
        return self.elsewhere

    def result(self, call: Any) -> Arrays:
        """The arrays that a function's result may point into: those of its arguments."""
        arrays = [self.of(c) for c in expressions(call)[1:] if self.is_here(c.type)]
        return frozenset().union(*arrays) if arrays else self.every

    def _pointer(self, cursor: Any) -> Arrays:
        literal = cursor.kind == Kind.INTEGER_LITERAL
        points = is_pointer(cursor.type) or is_array(cursor.type)
        return self.of(cursor) if literal or points else self.elsewhere

    def is_here(self, kind_of: Any) -> bool:
        return is_pointer(kind_of) and pointee_space(kind_of) == self.space

    def assignments(self, body: Any) -> Iterator[tuple[int, Any]]:
        """(declaration, value) of every assignment to a variable that points to this memory."""
        for cursor in body.walk_preorder():
            if cursor.kind == Kind.VAR_DECL and self.is_here(cursor.type):
                value = initializer(cursor)
                if value is not None:
                    yield int(cursor.location.offset), value
            elif cursor.kind == Kind.BINARY_OPERATOR and binary_operator(cursor) == ASSIGN:
                target, value = expressions(cursor)
                while target.kind == Kind.PAREN_EXPR:
                    (target,) = expressions(target)
                if target.kind == Kind.DECL_REF_EXPR and self.is_here(target.type):
                    yield declared(target), value


def _exposed(body: Any) -> Any:
    """Pointer variables whose address is taken: others may change them."""
    for cursor in body.walk_preorder():
        if cursor.kind == Kind.UNARY_OPERATOR and unary_operator(cursor) == ADDRESS:
            (child,) = expressions(cursor)
            if child.kind == Kind.DECL_REF_EXPR and is_pointer(child.type):
                yield declared(child)


def initializer(variable: Any) -> Any:
    """The expression that a variable starts with, None where there is none."""
    children = expressions(variable)
    if not children:
        return None
    last = children[-1]
    tokens = [
        token
        for token in variable.get_tokens()
        if token.extent.start.offset >= variable.location.offset
        and token.extent.end.offset <= span(last)[0]
    ]
    return last if any(token.spelling == "=" for token in tokens) else None
