"""The arrays of a kernel in local, private and constant memory that pointers may lead into.

A subscript of an array has an index that is checked (`Expressions._check`). An access through a pointer has
an address instead, which must lie within one of the arrays that the pointer may point into. A lone variable
whose address is taken counts as an array of one element.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tracegen.c_source.statements import find
from tracegen.opencl_c.cursors import (
    ADDRESS,
    Kind,
    TypeKind,
    address_space,
    declared,
    expressions,
    is_array,
    is_pointer,
    is_record,
    span,
    stripped,
    subtree,
    unary_operator,
)


@dataclass(frozen=True)
class NearArray:
    """An array in memory that traces leave out.

    declaration : identifies it;  space : local, private or constant
    announced : offset in the text from which on its address can be taken; None where the kernel begins
    owner : USR of the function that declares it, "" at program scope
    is_parameter : whether it is a parameter, or what one points to
    """

    name: str
    declaration: int
    space: str
    size_bytes: int
    element_bytes: int
    announced: int | None = None
    owner: str = ""
    is_parameter: bool = False

    def announcement(self, number: int) -> str:
        """The text that reports its address, at `announced`."""
        if self.space != "private":
            place = self.name if self.is_parameter else f"&{self.name}"
            return f" _tg->near[{number}] = (ulong) (size_t) {place};"
        kept = f"_tg_keep(_tg, {number}, &{self.name})"
        if self.is_parameter:
            return f" {kept};"
        # A declaration may go on to use the address of what it declares.
        own = f"_tg_d{self.declaration}"
        return f", *{own} = (__typeof__({own})) {kept}"

    def beyond(self, offset: int) -> str:
        """Why an access at an offset in bytes is out of bounds."""
        if offset % self.element_bytes:
            what = f"array {self.name} has {self.size_bytes} bytes"
            return f"byte {offset} is out of bounds: {what}"
        extent = self.size_bytes // self.element_bytes
        index = offset // self.element_bytes
        return f"index {index} is out of bounds: array {self.name} has {extent} elements"


def reachable(kernel: Any, functions: Mapping[str, Any]) -> dict[str, Any]:
    """The functions that a kernel calls, itself included. functions : USR -> definition"""
    found = {kernel.get_usr(): kernel}
    pending = [kernel]
    while pending:
        for cursor in subtree(pending.pop()):
            usr = cursor.referenced.get_usr() if _is_call(cursor) else ""
            if usr in functions and usr not in found:
                found[usr] = functions[usr]
                pending.append(functions[usr])
    return found


def _is_call(cursor: Any) -> bool:
    return cursor.kind == Kind.CALL_EXPR and cursor.referenced is not None


def near_arrays(
    kernel: Any, functions: Mapping[str, Any], given: Mapping[str, int], text: str
) -> tuple[NearArray, ...]:
    """The arrays that pointers of a kernel may lead into.

    functions : USR -> definition of those that are reached
    given : parameter of the kernel that points to local or constant memory -> bytes
    """
    found = [
        NearArray(
            name=parameter.spelling,
            declaration=int(parameter.location.offset),
            space=address_space(parameter.type.get_canonical().get_pointee()),
            size_bytes=given[parameter.spelling],
            element_bytes=max(int(parameter.type.get_canonical().get_pointee().get_size()), 1),
            is_parameter=True,
        )
        for parameter in kernel.get_arguments()
        if parameter.spelling in given
    ]
    found += _outermost(kernel)
    for usr, function in functions.items():
        found += _private(usr, function, text)
    found += _program_scope(kernel, functions)
    return tuple(found)


def _outermost(kernel: Any) -> Iterator[NearArray]:
    """Arrays in local and constant memory, which only the outermost block of a kernel can declare."""
    for statement in _body(kernel).get_children():
        if statement.kind == Kind.DECL_STMT:
            for variable in _variables(statement):
                space = address_space(variable.type)
                if space in ("local", "constant") and not is_pointer(variable.type):
                    yield _declared(variable, space, span(statement)[1], kernel.get_usr())


def _private(usr: str, function: Any, text: str) -> Iterator[NearArray]:
    """Private variables that a pointer may lead to: arrays, structs, and those whose address is taken."""
    exposed = set(exposed_in(function))
    start = span(_body(function))[0] + 1
    for variable in [*function.get_arguments(), *_announceable(_body(function))]:
        kind_of = variable.type
        leads = is_array(kind_of) or is_record(kind_of)
        if address_space(kind_of) != "private":
            continue
        if leads or int(variable.location.offset) in exposed:
            is_parameter = variable.kind == Kind.PARM_DECL
            at = start if is_parameter else find(text, span(variable)[1], ",;")
            yield _declared(variable, "private", at, usr, is_parameter)


def _program_scope(kernel: Any, functions: Mapping[str, Any]) -> Iterator[NearArray]:
    """Variables in constant memory that the functions name and that the kernel sees."""
    seen = set()
    for function in functions.values():
        for cursor in subtree(function):
            variable = cursor.referenced if cursor.kind == Kind.DECL_REF_EXPR else None
            if variable is None or variable.kind != Kind.VAR_DECL or declared(cursor) in seen:
                continue
            outside = variable.semantic_parent.kind == Kind.TRANSLATION_UNIT
            before = declared(cursor) < int(kernel.location.offset)
            known = outside and before and variable.type.get_size() > 0
            if known and address_space(variable.type) == "constant":
                seen.add(declared(cursor))
                yield _declared(variable, "constant", None, "")


def _declared(
    variable: Any, space: str, announced: int | None, owner: str, is_parameter: bool = False
) -> NearArray:
    kind_of = variable.type.get_canonical()
    while kind_of.kind == TypeKind.CONSTANTARRAY:
        kind_of = kind_of.element_type
    return NearArray(
        name=variable.spelling,
        declaration=int(variable.location.offset),
        space=space,
        size_bytes=int(variable.type.get_size()),
        element_bytes=int(kind_of.get_size()),
        announced=announced,
        owner=owner,
        is_parameter=is_parameter,
    )


def _body(function: Any) -> Any:
    return list(function.get_children())[-1]


def _variables(statement: Any) -> Iterator[Any]:
    return (child for child in statement.get_children() if child.kind == Kind.VAR_DECL)


def _announceable(cursor: Any, *, is_switch: bool = False) -> Iterator[Any]:
    """The variables that a body declares, but not those whose declaration a switch jumps over."""
    for child in cursor.get_children():
        if child.kind != Kind.DECL_STMT:
            yield from _announceable(child, is_switch=cursor.kind == Kind.SWITCH_STMT)
        elif not is_switch:
            yield from _variables(child)


def exposed_in(body: Any) -> Iterator[int]:
    """Declarations of variables whose address is taken."""
    for cursor in subtree(body):
        if cursor.kind == Kind.UNARY_OPERATOR and unary_operator(cursor) == ADDRESS:
            bare = stripped(expressions(cursor)[0])
            while bare.kind in (Kind.ARRAY_SUBSCRIPT_EXPR, Kind.MEMBER_REF_EXPR):
                base = expressions(bare)[0]
                if is_pointer(base.type) and not is_array(stripped(base).type):
                    break
                bare = stripped(base)
            if bare.kind == Kind.DECL_REF_EXPR:
                yield declared(bare)


def pointer_to(cursor: Any, space: str, *, through: bool) -> str | None:
    """The C type of a pointer to an lvalue in this memory; None where its type has no name.

    through : whether the cursor is that pointer already
    """
    spelling = str(cursor.type.spelling)
    if "(unnamed" in spelling or "(anonymous" in spelling:
        return None
    if through:
        return spelling[: spelling.rfind("*") + 1] or spelling
    is_shown = space == "private" or f"__{space}" in spelling
    return f"{'' if is_shown else f'__{space} '}__typeof__({spelling}) *"
