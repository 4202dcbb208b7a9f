"""Walks expressions in the order of evaluation, and records their accesses."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tracegen.c_source import integer
from tracegen.opencl_c.calls import Calls
from tracegen.opencl_c.cursors import (
    ADDRESS,
    AND,
    ASSIGN,
    COMMA,
    DEREFERENCE,
    OR,
    STEPS,
    Kind,
    TypeKind,
    address_space,
    binary_operator,
    components,
    declared,
    expressions,
    is_array,
    is_components,
    is_implicit,
    is_pointer,
    is_record,
    pointee_space,
    span,
    stripped,
    unary_operator,
)
from tracegen.opencl_c.near_arrays import pointer_to
from tracegen.opencl_c.near_pointers import SPACES
from tracegen.opencl_c.recorder import NOTHING, ProbedAccess, Recorder, Value
from tracegen.probes.flow import Need, union

_LITERALS = (
    Kind.INTEGER_LITERAL,
    Kind.FLOATING_LITERAL,
    Kind.CHARACTER_LITERAL,
    Kind.STRING_LITERAL,
    Kind.IMAGINARY_LITERAL,
)
_WHOLE = (TypeKind.INT, TypeKind.UINT, TypeKind.LONG, TypeKind.ULONG)
_INTEGER = re.compile(r"(?:0[xX][0-9a-fA-F]+|\d+)[uUlL]*")
EXPOSED = "exposed"
"""Stands for all variables whose address is taken, in the flow of values."""

_COMMUTATIVE = set("+*&|^") | {"==", "!="}


@dataclass(frozen=True)
class LValue:
    """An lvalue: the object that is accessed as a whole, and its address.

    root : the variable that contains it, "" where a pointer leads to it
    through : whether the cursor is a pointer to the object, as p is in p->x
    whole : the cursor that names it in the text, components of a vector included
    """

    cursor: Any
    address: Value
    space: str
    root: str = ""
    through: bool = False
    whole: Any = None

    @property
    def type(self) -> Any:
        kind_of = self.cursor.type
        return kind_of.get_canonical().get_pointee() if self.through else kind_of

    @property
    def is_traced(self) -> bool:
        return self.space == "global" and not is_array(self.type)


class Expressions(Calls):
    """The expressions of one kernel and of the functions that it calls."""

    def __init__(self, recorder: Recorder, functions: dict[str, Any]) -> None:
        super().__init__(recorder, functions)
        self.address_of = (-1, -1)
        self.handlers: dict[Any, Callable[[Any], Value]] = {
            Kind.PAREN_EXPR: lambda c: self.value(expressions(c)[0]),
            Kind.DECL_REF_EXPR: self._name,
            Kind.ARRAY_SUBSCRIPT_EXPR: self._read,
            Kind.MEMBER_REF_EXPR: self._read,
            Kind.UNARY_OPERATOR: self._unary,
            Kind.BINARY_OPERATOR: self._binary,
            Kind.COMPOUND_ASSIGNMENT_OPERATOR: self._compound,
            Kind.CONDITIONAL_OPERATOR: self._conditional,
            Kind.CSTYLE_CAST_EXPR: self._cast,
            Kind.CALL_EXPR: self.call,
            Kind.CXX_UNARY_EXPR: lambda c: self._literal(c),
        }

    def value(self, cursor: Any) -> Value:
        """The value of an expression; its accesses are recorded."""
        kind = cursor.kind
        if kind in _LITERALS:
            return self._literal(cursor)
        if kind in self.handlers:
            return self.handlers[kind](cursor)
        if is_implicit(cursor):
            return self.value(expressions(cursor)[0])
        if is_components(cursor):
            return self._read(cursor)
        if kind.name == "StmtExpr":
            raise self.recorder.refuse(cursor, "a statement within an expression")
        if kind == Kind.UNEXPOSED_EXPR and _overlap(expressions(cursor)):
            raise self.recorder.refuse(cursor, f"'{self.text_of(cursor)}'")
        return self._combined(str(kind.name), cursor, expressions(cursor))

    def text_of(self, cursor: Any) -> str:
        start, end = span(cursor)
        return " ".join(self.recorder.text.text[start:end].split())

    def place(self, cursor: Any) -> LValue:
        """The lvalue that an expression names; the loads of its address are recorded."""
        if cursor.kind == Kind.PAREN_EXPR or is_implicit(cursor):
            return self.place(expressions(cursor)[0])
        children = expressions(cursor)
        if is_components(cursor):
            (inner,) = children
            if is_pointer(inner.type):
                place = self._behind(inner, self.value(inner), inner.type, through=True)
                return replace(place, whole=cursor)
            return replace(self.place(inner), whole=cursor)
        if cursor.kind == Kind.DECL_REF_EXPR:
            name = self.recorder.name(declared(cursor))
            number = self.recorder.numbers.of(f"address of {name}")
            need = Need(frozenset([name]))
            return LValue(cursor, Value(number, need), address_space(cursor.type), name)
        if cursor.kind == Kind.ARRAY_SUBSCRIPT_EXPR:
            return self._subscript(cursor, *children)
        if cursor.kind == Kind.MEMBER_REF_EXPR:
            (inner,) = children
            if is_pointer(inner.type):
                outer = self._behind(cursor, self.value(inner), inner.type)
            else:
                outer = self.place(inner)
            number = self.recorder.numbers.of(f"member {cursor.spelling}", outer.address.number)
            if outer.space == "global" and cursor.referenced.is_bitfield():
                raise self.recorder.refuse(cursor, f"bit-field {self.text_of(cursor)}")
            return LValue(cursor, Value(number, outer.address.need), outer.space, outer.root)
        if cursor.kind == Kind.UNARY_OPERATOR and unary_operator(cursor) == DEREFERENCE:
            return self._behind(cursor, self.value(children[0]), children[0].type)
        value = self.value(cursor)
        return LValue(cursor, value, "private")

    def _behind(
        self, cursor: Any, pointer: Value, kind_of: Any, *, through: bool = False
    ) -> LValue:
        """The lvalue that a pointer points to; through : see LValue"""
        self._guard(cursor, through=through)
        root = ""
        if pointee_space(kind_of) != "global" and len(pointer.need.names) == 1:
            (root,) = pointer.need.names
        return LValue(cursor, pointer, pointee_space(kind_of), root, through)

    def _subscript(self, cursor: Any, base: Any, index: Any) -> LValue:
        if not (is_pointer(base.type) or is_array(base.type) or is_pointer(index.type)):
            return self.place_of_component(base, index)
        if is_pointer(index.type):
            base, index = index, base
            at, pointer = self.value(base), self.value(index)
            at, pointer = pointer, at
        else:
            pointer = self.value(base)
            at = self.value(index)
        number = self.recorder.numbers.moved(pointer.number, at.number)
        bare = stripped(base)
        if is_array(bare.type):
            self._check(cursor, base, index)
        else:
            self._guard(cursor)
        root = ""
        if bare.kind == Kind.DECL_REF_EXPR and address_space(cursor.type) != "global":
            root = self.recorder.name(declared(bare))
        elif bare.kind in (Kind.ARRAY_SUBSCRIPT_EXPR, Kind.MEMBER_REF_EXPR):
            root = self._root(bare)
        address = Value(number, union([pointer.need, at.need]))
        return LValue(cursor, address, address_space(cursor.type), root)

    def _check(self, cursor: Any, base: Any, index: Any) -> None:
        """Checks the index of an array of known extent that lies in other than global memory."""
        recorder, bare = self.recorder, stripped(base)
        kind_of = bare.type.get_canonical()
        if kind_of.kind == TypeKind.CONSTANTARRAY:
            if address_space(cursor.type) == "global":
                return
            extent = int(kind_of.element_count)
        else:
            return
        for frame in recorder.frames:
            recorder.stateful.add(frame.usr)
        start, end = span(index)
        # The address behind the last element may be taken.
        allowed = extent + 1 if self._is_address(cursor) else extent
        label = self.text_of(base), int(cursor.extent.start.line)
        recorder.subscripts.setdefault((start, extent), label)
        number = list(recorder.subscripts).index((start, extent))
        suffix = f", {allowed}, {number})"
        recorder.edits.wrap(start, end, "_tg_index(_tg, ", suffix, rank=-9)

    def _is_address(self, cursor: Any) -> bool:
        """Whether only the address of an lvalue is taken."""
        first, behind = self.address_of
        start, end = span(cursor)
        return start == first and end <= behind

    def _guard(self, cursor: Any, *, through: bool = False) -> None:
        """Checks the address of an lvalue in other than global memory that a pointer leads to.

        through : whether the cursor is that pointer, as p is in p->x of a vector
        """
        kind_of = cursor.type.get_canonical().get_pointee() if through else cursor.type
        space = address_space(kind_of)
        if space not in SPACES or self._is_address(cursor):
            return
        pointer = pointer_to(cursor, space, through=through)
        if pointer is None:
            return
        pointers = self.recorder.near.pointers[space]
        arrays = pointers.of(cursor) if through else pointers.around(cursor)
        wrapping = self.guard(cursor, space, arrays, self.text_of(cursor), kind_of.get_size())
        if wrapping is None:
            return
        before, behind = wrapping
        start, end = span(cursor)
        if through:
            self.recorder.edits.wrap(start, end, f"(({pointer}) {before}", f"{behind})", rank=-1)
        else:
            self.recorder.edits.wrap(start, end, f"(*({pointer}) {before}&(", f"){behind})")

    def place_of_component(self, base: Any, index: Any) -> LValue:
        """A component of a vector by number: the vector counts as a whole."""
        place = self.place(base)
        at = self.value(index)
        need = union([place.address.need, at.need])
        return LValue(place.cursor, Value(place.address.number, need), place.space, place.root)

    def _target(self, cursor: Any) -> LValue:
        """An lvalue that is written: of a vector's component by number, that component alone."""
        bare = stripped(cursor)
        if bare.kind != Kind.ARRAY_SUBSCRIPT_EXPR:
            return self.place(cursor)
        base, index = expressions(bare)
        if is_pointer(base.type) or is_array(base.type) or is_pointer(index.type):
            return self.place(cursor)
        vector = self.place(base)
        if vector.space != "global":
            return self.place_of_component(base, index)
        at = self.value(index)
        number = self.recorder.numbers.of("component", vector.address.number, at.number)
        start, end = span(base)
        element = f"__global {bare.type.get_canonical().spelling.replace('__global', '').strip()}"
        self.recorder.edits.wrap(start, end, f"(({element} *) &(", "))", rank=-1)
        need = union([vector.address.need, at.need])
        return LValue(bare, Value(number, need), vector.space)

    def _root(self, cursor: Any) -> str:
        while cursor.kind in (Kind.ARRAY_SUBSCRIPT_EXPR, Kind.MEMBER_REF_EXPR):
            cursor = stripped(expressions(cursor)[0])
        return self.recorder.name(declared(cursor)) if cursor.kind == Kind.DECL_REF_EXPR else ""

    def _literal(self, cursor: Any) -> Value:
        text = self.text_of(cursor)
        if cursor.kind == Kind.INTEGER_LITERAL and _INTEGER.fullmatch(text):
            return Value(self.recorder.numbers.integer(integer(text)))
        name = "literal" if cursor.kind in _LITERALS else "constant"
        return Value(self.recorder.numbers.of(f"{name} {text}"))

    def _combined(self, operation: str, cursor: Any, children: list[Any]) -> Value:
        values = [self.value(child) for child in children]
        number = self.recorder.numbers.of(
            f"{operation} {cursor.type.get_canonical().spelling}", *(v.number for v in values)
        )
        return Value(number, union([v.need for v in values]))

    def _name(self, cursor: Any) -> Value:
        recorder = self.recorder
        target = cursor.referenced
        if target.kind == Kind.ENUM_CONSTANT_DECL:
            return Value(recorder.numbers.integer(target.enum_value))
        if target.kind == Kind.FUNCTION_DECL:
            raise recorder.refuse(cursor, f"function pointer {cursor.spelling}")
        name = recorder.name(declared(cursor))
        need = Need(frozenset([name]))
        if address_space(target.type) == "constant":
            return Value(recorder.numbers.of(f"constant {target.location.offset}"))
        if declared(cursor) in recorder.frame.exposed and not is_array(target.type):
            return Value(recorder.numbers.fresh(), Need(frozenset([name, EXPOSED])))
        if is_array(target.type):
            return Value(recorder.numbers.of(f"address of {name}"), need)
        return Value(recorder.lookup(name), need)

    def _read(self, cursor: Any) -> Value:
        """An lvalue's content."""
        place = self.place(cursor)
        recorder = self.recorder
        if is_array(cursor.type):
            return place.address
        if place.space == "global":
            position = self.access("load", place)
            loaded = recorder.loaded(position, place.address)
            if not is_components(cursor):
                return loaded
            start, end = span(place.cursor)[1], span(cursor)[1]
            part = recorder.text.text[start:end]
            return Value(recorder.numbers.of(f"part {part}", loaded.number), loaded.need)
        if place.space == "constant":
            return Value(recorder.numbers.of("constant", place.address.number), place.address.need)
        if place.root:
            need = union([place.address.need, Need(frozenset([place.root]))])
            version = recorder.lookup(place.root)
            what = f"read {self._suffix(cursor)}"
            return Value(recorder.numbers.of(what, place.address.number, version), need)
        return Value(recorder.numbers.fresh(), place.address.need)

    def _suffix(self, cursor: Any) -> str:
        if not is_components(cursor):
            return ""
        (inner,) = expressions(cursor)
        return self.recorder.text.text[span(inner)[1] : span(cursor)[1]]

    def _unary(self, cursor: Any) -> Value:
        operator = unary_operator(cursor)
        (child,) = expressions(cursor)
        if operator == DEREFERENCE:
            return self._read(cursor)
        if operator == ADDRESS:
            self.address_of = span(stripped(child))
            return self.place(child).address
        if operator in STEPS:
            return self._step(cursor, child, operator)
        return self._combined(f"unary {operator}", cursor, [child])

    def _step(self, cursor: Any, child: Any, operator: int) -> Value:
        """++ and --: the old value as a suffix, otherwise the new one."""
        recorder = self.recorder
        place = self._target(child)
        if place.is_traced:
            return self._update(place, NOTHING, stripped(child))
        old = self._content(place)
        down = operator in (STEPS[1], STEPS[3])
        new = Value(recorder.numbers.plus(old.number, -1 if down else 1), old.need)
        self.store_private(place, new, whole=True)
        return old if operator in STEPS[:2] else new

    def _content(self, place: LValue) -> Value:
        """The content of a variable, or of a part of one."""
        recorder = self.recorder
        need = place.address.need
        if place.root and stripped(place.cursor).kind == Kind.DECL_REF_EXPR:
            if declared(stripped(place.cursor)) in recorder.frame.exposed:
                return Value(recorder.numbers.fresh(), need)
            return Value(recorder.lookup(place.root), need)
        if place.root:
            need = union([need, Need(frozenset([place.root]))])
        return Value(recorder.numbers.fresh(), need)

    def store_private(self, place: LValue, value: Value, *, whole: bool) -> None:
        """An assignment to private or local memory."""
        if not place.root:
            self.recorder.flow.assign(EXPOSED, value.need.names, value.need.positions)
            for name in place.address.need.names:
                self.recorder.change(name, value.need)
        elif whole and place.cursor.kind == Kind.DECL_REF_EXPR:
            self.recorder.assign(place.root, value)
        else:
            self.recorder.change(place.root, union([value.need, place.address.need]))

    def _binary(self, cursor: Any) -> Value:
        operator = binary_operator(cursor)
        left, right = expressions(cursor)
        if operator == ASSIGN:
            return self._assign(cursor, left, right)
        if operator == COMMA:
            self.value(left)
            return self.value(right)
        if operator in (AND, OR):
            first = self.value(left)
            with self.recorder.perhaps(), self.recorder.under(first.need):
                second = self.value(right)
            number = self.recorder.numbers.of(f"binary {operator}", first.number, second.number)
            return Value(number, union([first.need, second.need]))
        first, second = self.value(left), self.value(right)
        need = union([first.need, second.need])
        sign, numbers = self._sign(left, right), self.recorder.numbers
        if is_pointer(cursor.type):
            if not is_pointer(left.type):
                first, second = second, first
            by = numbers.minus(second.number) if sign == "-" else second.number
            return Value(numbers.moved(first.number, by), need)
        return Value(self._operated(sign, cursor, first.number, second.number), need)

    def _operated(self, sign: str, cursor: Any, one: int, other: int) -> int:
        numbers = self.recorder.numbers
        kind = cursor.type.get_canonical()
        if kind.kind in _WHOLE and sign in ("+", "-"):
            return numbers.added(one, numbers.minus(other) if sign == "-" else other)
        operands = sorted((one, other)) if sign in _COMMUTATIVE else [one, other]
        return numbers.of(f"binary {sign}{kind.spelling}", *operands)

    def _sign(self, left: Any, right: Any) -> str:
        return self.recorder.text.text[span(left)[1] : span(right)[0]].strip()

    def _conditional(self, cursor: Any) -> Value:
        condition, yes, no = expressions(cursor)
        recorder = self.recorder
        decided = self.value(condition)
        before = dict(recorder.environment)
        with recorder.under(decided.need):
            first = self.value(yes)
        after, recorder.environment = recorder.environment, before
        with recorder.under(decided.need):
            second = self.value(no)
        recorder.join(after)
        number = recorder.numbers.of("choice", decided.number, first.number, second.number)
        return Value(number, union([decided.need, first.need, second.need]))

    def _cast(self, cursor: Any) -> Value:
        child = expressions(cursor)[-1]  # after the extents of a type like int (*)[8]
        value = self.value(child)
        if is_pointer(cursor.type) and is_pointer(child.type):
            return value
        spelling = cursor.type.get_canonical().spelling
        if spelling == child.type.get_canonical().spelling:
            return value
        return Value(self.recorder.numbers.of(f"cast {spelling}", value.number), value.need)

    def _assign(self, cursor: Any, left: Any, right: Any) -> Value:
        recorder = self.recorder
        if is_record(left.type) and address_space(stripped(left).type) == "global":
            return self._assign_record(left, right)
        value = self.value(right)
        place = self._target(left)
        if place.is_traced:
            if is_components(stripped(left)):
                first = self._store_components(place, stripped(left), value.need)
                self._wrap(place, first, len(self.recorder.probes) - first)
            else:
                self.access("store", place, value.need)
            return value
        self.store_private(place, value, whole=place.cursor == stripped(left))
        return value if place.root else Value(recorder.numbers.fresh(), value.need)

    def _assign_record(self, left: Any, right: Any) -> Value:
        """A struct: its address, then its value, then the store; a compiler may do otherwise."""
        recorder = self.recorder
        place = self.place(left)
        value = self.value(right)
        pointer = self._pointer_text(place)
        record = pointer.replace("__global ", "").removesuffix(" *").replace("const ", "")
        position = self._described("store", place, value.need)
        (start, end), (value_start, value_end) = span(left), span(right)
        edits = recorder.edits
        edits.wrap(start, value_end, f"({{ {pointer}_tg_to = &(", "", rank=-2)
        edits.replace(end, value_start, f"); {record} _tg_value = ")
        before, behind = self.probe(position, place.type.get_size())
        store = f"*({pointer}) {before}_tg_to{behind} = _tg_value"
        edits.wrap(value_start, value_end, "", f"; {store}; _tg_value; }})", rank=-3)
        return value

    def _compound(self, cursor: Any) -> Value:
        left, right = expressions(cursor)
        value = self.value(right)
        place = self._target(left)
        if place.is_traced:
            return self._update(place, value.need, stripped(left))
        old = self._content(place)
        need = union([old.need, value.need])
        sign, numbers = self._sign(left, right).removesuffix("="), self.recorder.numbers
        if is_pointer(cursor.type):
            by = numbers.minus(value.number) if sign == "-" else value.number
            number = numbers.moved(old.number, by)
        else:
            number = self._operated(sign, cursor, old.number, value.number)
        new = Value(number, need)
        self.store_private(place, new, whole=place.cursor == stripped(left))
        return new

    def access(self, kind: Any, place: LValue, value: Need = NOTHING) -> int:
        """Records an access to a place and wraps its text."""
        position = self._described(kind, place, value)
        self._wrap(place, position)
        return position

    def _update(self, place: LValue, need: Need, target: Any = None) -> Value:
        """A load and a store of one place; of its components only, where the target names some."""
        recorder = self.recorder
        load = self._described("load", place)
        loaded = recorder.loaded(load, place.address)
        need = union([need, loaded.need])
        if target is not None and is_components(target):
            self._store_components(place, target, need)
        else:
            self._described("store", place, need)
        self._wrap(place, load, len(recorder.probes) - load)
        return Value(recorder.numbers.fresh(), need)

    def _store_components(self, place: LValue, target: Any, need: Need) -> int:
        """Stores of single components, as compilers do; returns the position of the first."""
        chosen = components(target, self.recorder.text.text) or ()
        first = len(self.recorder.probes)
        for component in chosen:
            self._described("store", place, need, component)
        return first

    def _described(
        self, kind: Any, place: LValue, value: Need = NOTHING, component: int | None = None
    ) -> int:
        recorder = self.recorder
        if is_pointer(place.type):
            what = f"'{self.text_of(place.cursor)}', a pointer kept in memory,"
            raise recorder.refuse(place.cursor, what)
        frame = recorder.frame
        arrays = frame.pointers.of(place.cursor) or frame.pointers.every
        size, align = place.type.get_size(), place.type.get_align()
        label = self.text_of(place.cursor if place.whole is None else place.whole)
        if kind == "store":
            label = f"store {label}"
        offset = 0
        if component is not None:
            size = place.type.get_canonical().element_type.get_size()
            offset = component * size
        access = ProbedAccess(
            kind, *span(place.cursor), arrays, size, align, frame.name, label, offset
        )
        return recorder.access(access, place.cursor.extent.start.line, place.address, value)

    def _pointer_text(self, place: LValue) -> str:
        """The C type of a pointer to an lvalue."""
        if place.through:
            spelling = str(place.cursor.type.spelling)
            return spelling[: spelling.rfind("*") + 1] or spelling
        kind_of = place.type
        if kind_of.get_canonical().kind == TypeKind.ENUM:
            kind_of = kind_of.get_canonical().get_declaration().enum_type
        spelling = str(kind_of.spelling)
        if "(unnamed" in spelling or "(anonymous" in spelling:
            what = f"'{self.text_of(place.cursor)}', of a type without a name,"
            raise self.recorder.refuse(place.cursor, what)
        if "__global" not in spelling:
            spelling = f"__global {spelling}"
        return f"{spelling} *"

    def _wrap(self, place: LValue, position: int, n_positions: int = 1) -> None:
        before, behind = self.probe(position, place.type.get_size(), n_positions)
        start, end = span(place.cursor)
        pointer = f"({self._pointer_text(place)}) {before}"
        edits = self.recorder.edits
        if place.through:
            edits.wrap(start, end, f"({pointer}(", f"){behind})", rank=-1)
        else:
            edits.wrap(start, end, f"(*{pointer}&(", f"){behind})")


def _overlap(children: list[Any]) -> bool:
    spans = [span(child) for child in children]
    return any(a[1] > b[0] for a, b in itertools.pairwise(spans))
