"""The integers of one group, followed from statement to statement of a kernel's text without a run.

Ids, arguments, loop counters and what is computed from them give the addresses of local memory. Where
a condition depends on memory, both of its ways are taken, and what they set is unknown behind it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tracegen.c_source.expressions import Unreadable, names_in, parse
from tracegen.c_source.statements import Span, Statement
from tracegen.local_memory.evaluation import Evaluation, TooLong
from tracegen.local_memory.text import Declaration, Function
from tracegen.local_memory.values import (
    Integer,
    Mask,
    Pointer,
    chosen,
    converted,
    holds,
    type_bytes,
)

MOST_TURNS = 64
"""Turns of a loop in which no access is met."""
MOST_CALLS = 16
"""Calls inside each other."""

_LOCAL = ("__local", "local")


class Group(Evaluation):
    """Walks a kernel for all work-items of the group in the middle of a launch.

    jumps : of each loop around a statement, the work-items that left its turn or the loop
    results : of each call, what it returned to which work-items
    is_sure : whether no condition around a statement is unknown
    """

    def run(self, kernel: str, values: Mapping[str, int]) -> None:
        """values : the kernel's integer arguments. Raises TooLong, and what unreadable text raises."""
        self.jumps: list[dict[str, Mask]] = []
        self.results: list[list[tuple[Mask, Integer]]] = []
        self.is_sure = True
        function = self.text.functions[kernel]
        for parameter in function.parameters:
            self._declare(parameter, is_parameter=True)
        self.names |= {name: value for name, value in values.items() if name not in self.names}
        self._run(function, self.every)

    def _run(self, function: Function, mask: Mask) -> Integer:
        """Runs a body whose parameters have their values; returns its result."""
        self.results.append([])
        jumps, self.jumps = self.jumps, []
        self._all(self.text.statements(function.body), mask)
        self.jumps = jumps
        results = self.results.pop()
        result = results[0][1] if results else None
        for lanes, value in results[1:]:
            result = chosen(lanes, value, result)
        return result

    # Statements: each returns the work-items that go on behind it.

    def _all(self, statements: Sequence[Statement], mask: Mask) -> Mask:
        for statement in statements:
            if not mask.any():
                break
            mask = self._step(statement, mask)
        return mask

    def _step(self, statement: Statement, mask: Mask) -> Mask:
        self.step()
        match statement.kind:
            case "block":
                return self._all(statement.children, mask)
            case "if":
                return self._branches(statement, mask)
            case "for" | "while" | "do":
                return self._loop(statement, mask)
            case "jump":
                return self._jump(statement, mask)
            case "expression":
                self._simple((statement.first, statement.end - 1), mask)
            case _:
                self.lose(self._words(statement))
        return mask

    def _words(self, statement: Statement) -> str:
        return self.text.text[statement.first : statement.end]

    def _branches(self, statement: Statement, mask: Mask) -> Mask:
        then = holds(self.value(statement.header, mask), mask)
        if then is None:
            before, sure = dict(self.names), self.is_sure
            self.is_sure = False
            for child in statement.children:
                self._step(child, mask)
            self.is_sure = sure
            self._forget(before)
            return mask
        ways = (then, mask & ~then)
        after = [
            self._step(child, lanes) if lanes.any() else lanes
            for child, lanes in zip(statement.children, ways, strict=False)
        ]
        return after[0] | (after[1] if len(after) == 2 else ways[1])

    def _loop(self, statement: Statement, mask: Mask) -> Mask:
        first, test, update = (0, 0), statement.header, (0, 0)
        if statement.kind == "for":
            parts = self.text.cut(statement.header, ";")
            if len(parts) != 3:
                raise Unreadable("a loop header")
            first, test, update = parts
        self._simple(first, mask)
        inside = names_in(self._words(statement))
        if not any(name in self.text.functions or self.is_local(name) for name in inside):
            self.lose(self._words(statement))
            return mask
        before = dict(self.names)
        running, done = mask, np.zeros_like(mask)
        for turn in range(MOST_TURNS):
            if statement.kind != "do" or turn:
                going_on = self._continues(test, running)
                running, done = going_on, done | (running & ~going_on)
            met, new = self.executions.met, self.executions.new
            self.jumps.append(dict.fromkeys(("break", "continue"), np.zeros_like(mask)))
            running = self._all(statement.children, running)
            jumps = self.jumps.pop()
            running, done = running | jumps["continue"], done | jumps["break"]
            if not running.any():
                return done
            self._simple(update, running)
            if self.executions.met > met and self.executions.new == new:
                break
        # Further turns repeat accesses of which enough were seen; what they would set is unknown.
        self._forget(before)
        return done | running

    def _continues(self, test: Span, mask: Mask) -> Mask:
        if not self.text.text[slice(*test)].strip():
            return mask
        held = holds(self.value(test, mask), mask)
        return mask if held is None else held

    def _jump(self, statement: Statement, mask: Mask) -> Mask:
        words = self._words(statement)
        kind = next(kind for kind in ("return", "break", "continue") if words.startswith(kind))
        if kind == "return":
            value = self.value((statement.first + len(kind), statement.end - 1), mask)
            self.results[-1].append((mask, value if self.is_sure else None))
        if not self.is_sure:
            return mask
        if kind != "return" and self.jumps:
            self.jumps[-1][kind] = self.jumps[-1][kind] | mask
        return np.zeros_like(mask)

    def _simple(self, span: Span, mask: Mask) -> None:
        """Declarations, assignments or expressions between commas."""
        self.around = span
        for piece in self.text.pieces(span):
            if not isinstance(piece, Declaration):
                self.operand(piece, mask)
                continue
            self._declare(piece)
            if piece.value is not None:
                self.names[piece.name] = converted(self.operand(piece.value, mask), piece.words)

    def _declare(self, of: Declaration, *, is_parameter: bool = False) -> None:
        """A variable without its value; arrays in local memory, and pointers to them, have one."""
        self.types[of.name] = of.words
        self.names.pop(of.name, None)
        if not any(word in _LOCAL for word in of.words.split()):
            return
        extents = tuple(self.evaluated(parse(text), self.every, 0) for text in of.extents if text)
        if of.is_pointer and is_parameter:
            self.names[of.name] = Pointer(of.name, 0, type_bytes(of.words))
        elif not of.is_pointer and all(isinstance(extent, int) for extent in extents):
            self.names[of.name] = Pointer(of.name, 0, type_bytes(of.words), extents)

    def called(self, function: Function, values: list[Integer], mask: Mask) -> Integer:
        """Its statements run with variables of their own."""
        if len(self.results) > MOST_CALLS:
            raise TooLong
        names, types, around = self.names, self.types, self.around
        self.names, self.types = {}, {}
        for parameter, value in zip(function.parameters, values, strict=False):
            self.types[parameter.name] = parameter.words
            self.names[parameter.name] = converted(value, parameter.words)
        result = self._run(function, mask)
        self.names, self.types, self.around = names, types, around
        return result

    def _forget(self, before: Mapping[str, Integer]) -> None:
        """What has changed is unknown."""
        for name, value in self.names.items():
            if name in before and value is not before[name]:
                self.names[name] = None
