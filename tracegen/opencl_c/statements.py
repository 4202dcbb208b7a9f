"""Walks statements: branches, loops with their back-edges, jumps, declarations."""

from __future__ import annotations

from typing import Any

from memsim.errors import KernelError
from tracegen.c_source.statements import closing, split
from tracegen.opencl_c.cursors import (
    ASSIGN,
    STEPS,
    Kind,
    address_space,
    binary_operator,
    declared,
    expressions,
    span,
    stripped,
    subtree,
    unary_operator,
)
from tracegen.opencl_c.expressions import Expressions
from tracegen.opencl_c.pointers import initializer
from tracegen.opencl_c.recorder import NOTHING
from tracegen.probes.flow import Need
from tracegen.probes.program import Probe

_REFUSED = {
    Kind.GOTO_STMT: "goto",
    Kind.INDIRECT_GOTO_STMT: "goto",
    Kind.ASM_STMT: "assembler",
    Kind.LABEL_STMT: "a label",
}


class Statements(Expressions):
    """The statements of one kernel and of the functions that it calls."""

    def statement(self, cursor: Any) -> None:
        kind = cursor.kind
        if kind in _REFUSED:
            raise self.recorder.refuse(cursor, _REFUSED[kind])
        if kind == Kind.DECL_STMT:
            for variable in cursor.get_children():
                if variable.kind == Kind.VAR_DECL:
                    self._declaration(variable)
        elif kind == Kind.IF_STMT:
            self._if(cursor)
        elif kind in (Kind.FOR_STMT, Kind.WHILE_STMT, Kind.DO_STMT):
            self._loop(cursor)
        elif kind == Kind.SWITCH_STMT:
            self._switch(cursor)
        elif kind == Kind.RETURN_STMT:
            self._return(cursor)
        elif kind in (Kind.BREAK_STMT, Kind.CONTINUE_STMT):
            self.recorder.jump("loop")
        elif kind in (Kind.CASE_STMT, Kind.DEFAULT_STMT):
            self.statement(expressions(cursor)[-1])
        elif kind.is_expression():
            self.value(cursor)
        else:
            for child in expressions(cursor):
                self.statement(child)

    def _declaration(self, variable: Any) -> None:
        recorder = self.recorder
        value = initializer(variable)
        if address_space(variable.type) == "constant" or value is None:
            return
        initial = self.value(value)
        name = recorder.name(int(variable.location.offset))
        if value.kind == Kind.INIT_LIST_EXPR:
            recorder.change(name, initial.need)
        else:
            recorder.assign(name, initial)

    def _if(self, cursor: Any) -> None:
        recorder = self.recorder
        condition, yes, *rest = expressions(cursor)
        decided = self.value(condition)
        before = dict(recorder.environment)
        with recorder.under(decided.need):
            self.statement(yes)
            after, recorder.environment = recorder.environment, before
            for no in rest:
                self.statement(no)
            recorder.join(after)

    def _switch(self, cursor: Any) -> None:
        recorder = self.recorder
        condition, body = expressions(cursor)
        decided = self.value(condition)
        with recorder.within("loop"), recorder.under(decided.need), recorder.perhaps():
            for name in self._assigned(body):
                recorder.environment[name] = recorder.numbers.fresh()
            self.statement(body)
            for name in self._assigned(body):
                recorder.environment[name] = recorder.numbers.fresh()

    def _return(self, cursor: Any) -> None:
        recorder = self.recorder
        operands = expressions(cursor)
        result = f"result_{recorder.frame.instance}"
        if operands:
            value = self.value(operands[0])
            known = result in recorder.environment
            recorder.assign(result, value)
            if known or recorder.flow.control[recorder.depths["return"][-1] :]:
                recorder.environment[result] = recorder.numbers.fresh()
        recorder.jump("return")
        if recorder.frame.is_kernel:
            if operands:
                raise recorder.refuse(cursor, "a kernel's return of a value")
            start, end = span(cursor)
            recorder.edits.replace(start, end, "{ _tg_finish(_tg); return; }")

    def _loop(self, cursor: Any) -> None:
        recorder = self.recorder
        text = recorder.text.text
        parts = _Parts(cursor, text)
        if parts.start is not None:
            self.statement(parts.start)
        assigned = self._assigned(cursor)
        tag = f"loop{len(recorder.numbers.varies)}"
        recorder.numbers.loops.append(tag)
        for name in assigned:
            recorder.environment[name] = recorder.numbers.fresh()
        first = len(recorder.probes)
        with recorder.within("loop"):
            if not parts.is_do:
                decided = NOTHING if parts.condition is None else self.value(parts.condition).need
            else:
                decided = self._guess(parts.condition)
            with recorder.under(decided):
                self.statement(parts.body)
                if parts.is_do:
                    self.value(parts.condition)
                if parts.step is not None:
                    self.value(parts.step)
        last = len(recorder.probes)
        if last > first:
            line = int(cursor.extent.start.line)
            edge = Probe("edge", line=line, first=first, last=last - 1, assigned=frozenset([tag]))
            parts.mark(recorder.edits, recorder.here(recorder.add(edge)))
        recorder.numbers.loops.pop()
        for name in assigned:
            recorder.environment[name] = recorder.numbers.fresh()

    def _guess(self, condition: Any) -> Need:
        """The variables of a do loop's condition, which is evaluated after what depends on it."""
        names = frozenset(
            self.recorder.name(declared(c))
            for c in subtree(condition)
            if c.kind == Kind.DECL_REF_EXPR and c.referenced.kind in (Kind.VAR_DECL, Kind.PARM_DECL)
        )
        return Need(names)

    def _assigned(self, cursor: Any) -> list[str]:
        """The variables that a statement may change."""
        roots = set()
        for inner in subtree(cursor):
            if (
                inner.kind == Kind.BINARY_OPERATOR and binary_operator(inner) == ASSIGN
            ) or inner.kind == Kind.COMPOUND_ASSIGNMENT_OPERATOR:
                target = expressions(inner)[0]
            elif inner.kind == Kind.UNARY_OPERATOR and unary_operator(inner) in STEPS:
                (target,) = expressions(inner)
            elif inner.kind == Kind.CALL_EXPR:
                for argument in inner.get_arguments():
                    roots |= set(_roots(argument))
                continue
            else:
                continue
            roots |= set(_roots(target))
        return [self.recorder.name(declaration) for declaration in sorted(roots)]


class _Parts:
    """The parts of a loop, and the places of its text that receive the back-edge."""

    def __init__(self, cursor: Any, text: str) -> None:
        self.is_do = cursor.kind == Kind.DO_STMT
        self.keyword = cursor.extent.start.offset
        self.start: Any = None
        self.condition: Any = None
        self.step: Any = None
        children = expressions(cursor)
        self.is_for = cursor.kind == Kind.FOR_STMT
        if self.is_do:
            self.body, self.condition = children
            self.opening = _opening_of(text, span(self.body)[1])
        else:
            self.opening = text.index("(", self.keyword)
        self.closing = closing(text, self.opening)
        if self.is_for:
            self.body = children[-1]
            parts = split(text, self.opening + 1, self.closing, ";")
            if len(parts) != 3:
                raise KernelError("a for loop whose header does not have two semicolons")
            self.semicolons = [end for _, end in parts[:2]]
            for child in children[:-1]:
                at = span(child)[0]
                if at < self.semicolons[0]:
                    self.start = child
                elif at < self.semicolons[1]:
                    self.condition = child
                else:
                    self.step = child
        elif not self.is_do:
            self.condition, self.body = children

    def mark(self, edits: Any, at: str) -> None:
        """Inserts the event of the back-edge; after a fault the loop ends."""
        event = f"_tg_event(_tg, {at})"
        if self.is_do:
            edits.wrap(*span(self.condition), "(", f") && _tg_turn(_tg, {at})", rank=-9)
        elif self.is_for:
            edits.insert(self.closing, f", {event}" if self.step is not None else event)
            if self.condition is not None:
                edits.wrap(*span(self.condition), "(", ") && _tg_go(_tg)", rank=-9)
            else:
                edits.insert(self.semicolons[1], " _tg_go(_tg)")
        else:
            edits.replace(self.keyword, self.keyword + len("while"), "for")
            edits.insert(self.opening + 1, "; ")
            edits.wrap(*span(self.condition), "(", ") && _tg_go(_tg)", rank=-9)
            edits.insert(self.closing, f"; {event}")


def _opening_of(text: str, position: int) -> int:
    return text.index("(", text.index("while", position))


def _roots(cursor: Any) -> list[int]:
    """The variable that an lvalue, or an argument, is a part of or leads to."""
    bare = stripped(cursor)
    while True:
        if bare.kind == Kind.DECL_REF_EXPR:
            known = bare.referenced.kind in (Kind.VAR_DECL, Kind.PARM_DECL)
            return [declared(bare)] if known else []
        inner = expressions(bare)
        one = bare.kind in (
            Kind.ARRAY_SUBSCRIPT_EXPR,
            Kind.MEMBER_REF_EXPR,
            Kind.UNARY_OPERATOR,
            Kind.CSTYLE_CAST_EXPR,
            Kind.UNEXPOSED_EXPR,
        )
        if not one or not inner:
            return []
        bare = stripped(inner[0])
