"""Walks calls: built-in functions that access memory, barriers, and the program's own functions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import count
from typing import Any

from tracegen.opencl_c import builtins
from tracegen.opencl_c.cursors import (
    ADDRESS,
    Kind,
    declared,
    expressions,
    is_pointer,
    pointee_space,
    span,
    stripped,
    unary_operator,
)
from tracegen.opencl_c.near_arrays import exposed_in
from tracegen.opencl_c.near_pointers import SPACES
from tracegen.opencl_c.numbers import FENCED, LOAD
from tracegen.opencl_c.pointers import Arrays, Pointers
from tracegen.opencl_c.recorder import NOTHING, Frame, ProbedAccess, Recorder, Value
from tracegen.probes.flow import Need, union
from tracegen.probes.program import Probe


class Calls(ABC):
    """The calls of one kernel and of the functions that it calls.

    functions : USR -> definition
    """

    def __init__(self, recorder: Recorder, functions: dict[str, Any]) -> None:
        self.recorder, self.functions = recorder, functions
        self.instances = count()

    @abstractmethod
    def value(self, cursor: Any) -> Value: ...

    @abstractmethod
    def statement(self, cursor: Any) -> None: ...

    @abstractmethod
    def text_of(self, cursor: Any) -> str: ...

    def call(self, cursor: Any) -> Value:
        """The value of a call; everything that happens in it is recorded."""
        name = cursor.spelling
        target = cursor.referenced
        arguments = list(cursor.get_arguments())
        if target is None or target.kind != Kind.FUNCTION_DECL:
            raise self.recorder.refuse(cursor, f"call through a pointer, '{self.text_of(cursor)}',")
        if target.get_usr() in self.functions:
            return self._own(cursor, target.get_usr(), arguments)
        if name in builtins.BARRIERS:
            return self._barrier(cursor, arguments)
        if name in builtins.FENCES:
            return self._fence(cursor)
        if name in builtins.WORK_ITEM:
            return self._work_item(cursor, name, arguments)
        reached = [k for k, argument in enumerate(arguments) if _is_global(argument)]
        if not reached or name in builtins.IGNORED:
            self._guard_arguments(name, cursor, arguments)
            return self._plain(name, arguments)
        if builtins.is_atomic(name):
            return self._atomic(cursor, arguments)
        if builtins.writes_through_last(name):
            return self._output(cursor, arguments)
        return self._vector(cursor, name, arguments)

    def probe(self, position: int, size_bytes: int, n_positions: int = 1) -> tuple[str, str]:
        """The text before and behind the address that a probe takes.

        n_positions : accesses of that address that follow each other
        """
        recorder = self.recorder
        frame = recorder.frame
        offset = position - frame.base
        number = list(recorder.reached).index(frame.usr)
        before = f"_tg_probe(_tg, {recorder.here(position)}, "
        behind = f", TG_ARRAY_{number}_{offset}, {size_bytes}, {n_positions})"
        return before, behind

    def guard(
        self, place: Any, space: str, arrays: Arrays, label: str, size_bytes: int
    ) -> tuple[str, str] | None:
        """As `Near.guard`; what calls the present function is given the state that the check needs."""
        wrapping = self.recorder.near.guard(place, space, arrays, label, size_bytes)
        if wrapping is not None:
            self.recorder.stateful.update(frame.usr for frame in self.recorder.frames)
        return wrapping

    def _guard_arguments(self, name: str, call: Any, arguments: list[Any]) -> None:
        """Checks what a built-in function accesses in other than global memory."""
        edits, label = self.recorder.edits, self.text_of(call)
        is_through = builtins.is_atomic(name) or builtins.writes_through_last(name)
        for k, argument in enumerate(arguments):
            space = pointee_space(argument.type) if is_pointer(argument.type) else ""
            if space not in SPACES:
                continue
            size = _pointee_bytes(argument)
            arrays = self.recorder.near.pointers[space].of(argument)
            vector = builtins.vector_access(name, size)
            if vector is not None and k == vector.pointer:
                wrapping = self.guard(call, space, arrays, label, vector.size_bytes)
                if wrapping is not None:
                    before, behind = wrapping
                    start = span(arguments[vector.offset])[0]
                    prefix = f"0, ({argument.type.spelling}) {before}_tg_moved_{space}("
                    suffix = f", {vector.stride_bytes}){behind}"
                    edits.wrap(start, span(argument)[1], prefix, suffix, rank=-1)
            elif is_through and not _is_variable(argument):
                wrapping = self.guard(call, space, arrays, label, size)
                if wrapping is not None:
                    before, behind = wrapping
                    prefix = f"({argument.type.spelling}) {before}("
                    edits.wrap(*span(argument), prefix, f"){behind}", rank=-1)

    def _plain(self, name: str, arguments: list[Any]) -> Value:
        values = [self.value(argument) for argument in arguments]
        self._exposes(arguments, union([v.need for v in values]))
        numbers = [v.number for v in values]
        pure = not any(is_pointer(argument.type) for argument in arguments)
        recorder = self.recorder
        number = recorder.numbers.of(f"call {name}", *numbers) if pure else recorder.numbers.fresh()
        return Value(number, union([v.need for v in values]))

    def _exposes(self, arguments: list[Any], need: Need) -> None:
        """A function may write through pointers to private and local memory."""
        recorder = self.recorder
        for argument in arguments:
            if not is_pointer(argument.type) or _is_global(argument):
                continue
            bare = stripped(argument)
            if bare.kind == Kind.UNARY_OPERATOR and unary_operator(bare) == ADDRESS:
                bare = stripped(expressions(bare)[0])
            while bare.kind in (Kind.ARRAY_SUBSCRIPT_EXPR, Kind.MEMBER_REF_EXPR):
                bare = stripped(expressions(bare)[0])
            if bare.kind == Kind.DECL_REF_EXPR:
                recorder.change(recorder.name(declared(bare)), need)

    def _work_item(self, cursor: Any, name: str, arguments: list[Any]) -> Value:
        recorder = self.recorder
        for frame in recorder.frames:
            recorder.stateful.add(frame.usr)
        callee = expressions(cursor)[0]
        start, end = span(callee)
        recorder.edits.replace(start, end, f"_tg_{name}")
        # The callee's own parenthesis follows: the state becomes the first argument.
        opening = recorder.text.text.index("(", end)
        recorder.edits.insert(opening + 1, "_tg, ")
        return self._plain(name, arguments)

    def _barrier(self, cursor: Any, arguments: list[Any]) -> Value:
        for argument in arguments:
            self.value(argument)
        recorder = self.recorder
        line = int(cursor.extent.start.line)
        position = recorder.add(Probe("barrier", line=line))
        start, end = span(cursor)
        recorder.edits.wrap(start, end, f"(_tg_event(_tg, {recorder.here(position)}), ", ")")
        return Value(recorder.numbers.fresh())

    def _fence(self, cursor: Any) -> Value:
        """A fence makes every loaded value unknown, so that no load is reused across it."""
        recorder = self.recorder
        line = int(cursor.extent.start.line)
        fence = Probe("edge", line=line, assigned=frozenset([FENCED]))
        position = recorder.add(fence)
        start, end = span(cursor)
        recorder.edits.wrap(start, end, f"(_tg_event(_tg, {recorder.here(position)}), ", ")")
        return Value(recorder.numbers.fresh())

    def _atomic(self, cursor: Any, arguments: list[Any]) -> Value:
        recorder = self.recorder
        pointer, *rest = arguments
        address = self.value(pointer)
        first = len(recorder.probes)
        values = [self.value(argument) for argument in rest]
        need = union([v.need for v in values])
        position = self._through("atomic", cursor, pointer, address, need)
        before, behind = self.probe(position, _pointee_bytes(pointer))
        kind_of = pointer.type.spelling
        edits = recorder.edits
        start, end = span(pointer)
        if position == first:
            edits.wrap(start, end, f"({kind_of}) {before}(", f"){behind}", rank=-1)
        else:
            # The loads of the other arguments come first, as without a probe.
            edits.replace(*_until(cursor, pointer), f"({{ {kind_of} _tg_to = ")
            names = []
            previous = pointer
            for k, argument in enumerate(rest):
                text = f"; {argument.type.spelling} _tg_by{k} = "
                edits.replace(span(previous)[1], span(argument)[0], text)
                names.append(f", _tg_by{k}")
                previous = argument
            whole = f"; {cursor.spelling}(({kind_of}) {before}_tg_to{behind}{''.join(names)}); }})"
            edits.replace(span(previous)[1], span(cursor)[1], whole)
        loads = Need(positions=(position,))
        return Value(recorder.numbers.fresh(), union([need, loads]))

    def _output(self, cursor: Any, arguments: list[Any]) -> Value:
        """fract(x, &a[i]) and its like: a store of the second result."""
        *rest, pointer = arguments
        values = [self.value(argument) for argument in rest]
        need = union([v.need for v in values])
        position = self._through("store", cursor, pointer, self.value(pointer), need)
        before, behind = self.probe(position, _pointee_bytes(pointer))
        prefix = f"({pointer.type.spelling}) {before}("
        self.recorder.edits.wrap(*span(pointer), prefix, f"){behind}", rank=-1)
        return Value(self.recorder.numbers.fresh(), need)

    def _vector(self, cursor: Any, name: str, arguments: list[Any]) -> Value:
        recorder = self.recorder
        element = arguments[-1].type.get_canonical().get_pointee().get_size()
        access = builtins.vector_access(name, element)
        if access is None:
            raise recorder.refuse(cursor, f"{name} on global memory")
        values = [self.value(argument) for argument in arguments]
        offset, pointer = arguments[access.offset], arguments[access.pointer]
        at, base = values[access.offset], values[access.pointer]
        data = values[0].need if access.direction == "store" else NOTHING
        numbers = recorder.numbers
        number = base.number
        if numbers.whole.get(at.number) != 0:
            number = numbers.of(f"moved by {access.stride_bytes}", base.number, at.number)
        address = Value(number, union([at.need, base.need]))
        position = self._through(
            access.direction, cursor, pointer, address, data, access.size_bytes, access.align_bytes
        )
        before, behind = self.probe(position, access.size_bytes)
        start, end = span(offset)[0], span(pointer)[1]
        prefix = f"0, ({pointer.type.spelling}) {before}_tg_moved("
        suffix = f", {access.stride_bytes}){behind}"
        recorder.edits.wrap(start, end, prefix, suffix, rank=-1)
        if access.direction == "store":
            return Value(numbers.fresh())
        return Value(numbers.of(f"call {name}", number, varies=[LOAD]), Need(positions=(position,)))

    def _through(
        self,
        kind: Any,
        call: Any,
        pointer: Any,
        address: Value,
        value: Need,
        size_bytes: int | None = None,
        align_bytes: int | None = None,
    ) -> int:
        """Records an access of a built-in function through a pointer argument."""
        recorder = self.recorder
        pointee = pointer.type.get_canonical().get_pointee()
        size = pointee.get_size() if size_bytes is None else size_bytes
        align = pointee.get_align() if align_bytes is None else align_bytes
        arrays = recorder.frame.pointers.of(pointer) or recorder.frame.pointers.every
        label = self.text_of(call)
        access = ProbedAccess(kind, *span(pointer), arrays, size, align, recorder.frame.name, label)
        return recorder.access(access, int(pointer.extent.start.line), address, value)

    def _own(self, cursor: Any, usr: str, arguments: list[Any]) -> Value:
        """A call of one of the program's functions: its accesses have positions of this call."""
        recorder = self.recorder
        function = self.functions[usr]
        if any(frame.usr == usr for frame in recorder.frames):
            raise recorder.refuse(cursor, f"recursion, '{self.text_of(cursor)}',")
        values = [self.value(argument) for argument in arguments]
        caller = recorder.frame
        parameters = list(function.get_arguments())
        bound = {
            int(parameter.location.offset): caller.pointers.of(argument)
            for parameter, argument in zip(parameters, arguments, strict=False)
            if _is_global(parameter)
        }
        first = len(recorder.probes)
        result = self.enter(usr, bound, list(zip(parameters, values, strict=False)))
        self._exposes(arguments, union([v.need for v in values] + [result.need]))
        if usr in recorder.stateful:
            for frame in recorder.frames:
                recorder.stateful.add(frame.usr)
            callee = expressions(cursor)[0]
            opening = recorder.text.text.index("(", span(callee)[1])
            comma = ", " if arguments else ""
            text = f"_tg, _tg_b + {first - caller.base}{comma}"
            recorder.edits.insert(opening + 1, text)
        return result

    def enter(self, usr: str, bound: Any, parameters: list[tuple[Any, Value]]) -> Value:
        """Walks a function's body in a frame of its own; returns its value.

        bound : parameter that points to global memory -> its arrays
        """
        recorder = self.recorder
        function = self.functions[usr]
        body = list(function.get_children())[-1]
        every = recorder.frames[0].pointers.every if recorder.frames else frozenset()
        if not recorder.frames:
            every = frozenset().union(*bound.values()) if bound else frozenset()
        frame = Frame(
            usr=usr,
            name=function.spelling,
            base=len(recorder.probes),
            instance=next(self.instances),
            is_kernel=not recorder.frames,
            pointers=Pointers([body], bound, every, "global"),
            exposed=frozenset(exposed_in(body)),
        )
        recorder.reached.setdefault(usr, function)
        recorder.frames.append(frame)
        for parameter, value in parameters:
            recorder.assign(recorder.name(int(parameter.location.offset)), value)
        with recorder.within("return"):
            self.statement(body)
        result = f"result_{frame.instance}"
        number = recorder.environment.pop(result, None)
        recorder.frames.pop()
        fresh = recorder.numbers.fresh() if number is None else number
        return Value(fresh, Need(frozenset([result])))


def _is_global(cursor: Any) -> bool:
    return is_pointer(cursor.type) and pointee_space(cursor.type) == "global"


def _is_variable(argument: Any) -> bool:
    """Whether an argument is the address of a variable of the type that the function accesses."""
    bare = stripped(argument)
    if bare.kind != Kind.UNARY_OPERATOR or unary_operator(bare) != ADDRESS:
        return False
    return bool(stripped(expressions(bare)[0]).kind == Kind.DECL_REF_EXPR)


def _pointee_bytes(pointer: Any) -> int:
    return int(pointer.type.get_canonical().get_pointee().get_size())


def _until(cursor: Any, argument: Any) -> tuple[int, int]:
    """From a call's beginning to its first argument."""
    return span(cursor)[0], span(argument)[0]
