"""From the C that Loopy writes for a launch to a program of integers.

The input is the probed text of `tracegen.instrumented.instrument`, in which every access, back-edge and
barrier has its position; sizes and integer arguments are known numbers. Integers that follow from
loop counters, ids and arguments are values of the program. Values from memory, real numbers and integers that
change in loops are unknown: an address, a loop bound or the condition of an access must not depend on
them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from loopy.kernel.data import ValueArg

from tracegen.instrumented.probes import Program
from tracegen.instrumented.statements import (
    Statement,
    assigned_names,
    assignment,
    declaration,
    kernel_functions,
    loop_header,
    read_statements,
    without_comments,
)
from tracegen.instrumented.tokens import EPILOGUE, PROLOGUE
from tracegen.polyhedral import code as c
from tracegen.polyhedral.code import CodeWriter
from tracegen.polyhedral.conditions import Lowering, NotStatic, Unknown, Value, first_position
from tracegen.polyhedral.expressions import Node, Unreadable, is_truth, parse

_PROBE = re.compile(r"\b_tg_(?:probe|event)\(")
_INTEGERS = {"int", "long", "int32_t", "int64_t"}
_TRUTHS = {"bool", "char", "int8_t"}
_REALS = {"half", "float", "double"}
_QUALIFIERS = {"const", "volatile"}


def lower(
    probed: str,
    program: Program,
    values: Mapping[str, Any],
    kernel: Any,
    sizes: Sequence[int],
    site_name: Callable[[int], str],
) -> CodeWriter:
    """The program of one kernel function.

    values : integer arguments by name
    sizes : the values of program.sizes

    Raises NotStatic.
    """
    walk = _Schedule(probed, program, values, kernel, sizes, site_name)
    try:
        return walk.run()
    except (Unreadable, RecursionError) as error:
        reason = "is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise NotStatic(
            f"kernel {program.name} cannot be read as static control: {reason}"
        ) from None


class _Schedule(Lowering):
    """Walks the statements in the order in which they run."""

    def __init__(
        self,
        probed: str,
        program: Program,
        values: Mapping[str, Any],
        kernel: Any,
        sizes: Sequence[int],
        site_name: Callable[[int], str],
    ) -> None:
        super().__init__(program, site_name)
        self.text = probed
        self.types: dict[str, str] = {}
        for argument in kernel.args:
            if isinstance(argument, ValueArg):
                self.names[argument.name] = self._argument(argument, values)
        for name in sorted(kernel.all_inames() & values.keys()):
            self.names[name] = self.code.constant(int(values[name]))
        for number, size in enumerate(sizes):
            self.names[f"_tg_n{number}"] = self.code.constant(size)

    def run(self) -> CodeWriter:
        function = next(f for f in kernel_functions(self.text) if f.name == self.program.name)
        start = function.body_start + len(PROLOGUE)
        for statement in read_statements(self.text, start, function.body_end - len(EPILOGUE)):
            self._walk(statement, 0)
        if self.n_seen != len(self.program.probes):
            raise Unreadable(f"{self.n_seen} accesses of {len(self.program.probes)} were found")
        self.code.write(c.END)
        return self.code

    def _walk(self, statement: Statement, mask: int) -> None:
        if statement.kind == "expression":
            self._simple(statement, mask)
        elif statement.kind == "block":
            for child in statement.children:
                self._walk(child, mask)
        elif statement.kind == "if":
            self._branches(statement, mask)
        elif not self._probes(statement):
            self._forget(statement, "which a loop sets")
        elif statement.kind == "for":
            self._loop(statement, mask)
        else:
            raise Unreadable(f"an access in a {statement.kind} loop")

    def _loop(self, statement: Statement, mask: int) -> None:
        text = self.text[slice(*statement.header)]
        header = loop_header(text)
        if header.updates[:1] != (f"++{header.counter}",):
            raise Unreadable(f"the loop header {text!r}")
        name = header.counter
        begin = self.value(parse(header.first), mask)
        if isinstance(begin, Unknown):
            raise self.refusal(
                f"runs in a loop over {name} whose start {begin.why}", self._first(statement)
            )
        (body,) = statement.children
        self._forget(body, "which changes in a loop")
        outer = self.names.get(name)
        zero, one = self.code.constant(0), self.code.constant(1)
        self.names[name] = counter = self.code.value(c.COMPUTE, c.ADD, begin, zero)
        running = self.code.mask(c.JOIN, mask, mask)
        top = len(self.code.rows)
        condition = self.condition(parse(header.test), running)
        if isinstance(condition, Unknown):
            raise self.refusal(
                f"runs in a loop over {name} whose end {condition.why}", self._first(statement)
            )
        self.code.write(c.JOIN, running, condition, condition)
        leave = self.code.write(c.JUMP_IF_EMPTY, running)
        self._walk(body, running)
        for event in header.updates[1:]:
            self.accesses(parse(event), running)
        self.code.write(c.COMPUTE, counter, c.ADD, counter, one)
        self.code.write(c.JUMP, top)
        self.code.land(leave)
        self._forget(body, "which a loop sets")
        if outer is None:
            del self.names[name]
        else:
            self.names[name] = outer

    def _branches(self, statement: Statement, mask: int) -> None:
        tree = parse(self.text[slice(*statement.header)])
        self.accesses(tree, mask)
        inside = [child for child in statement.children if self._probes(child)]
        condition = self.condition(tree, mask)
        if isinstance(condition, Unknown):
            if inside:
                raise self.refusal(
                    f"runs under a condition that {condition.why}", self._first(inside[0])
                )
            self._forget(statement, "which a condition sets")
            return
        before, chosen = self.names, [condition]
        if len(statement.children) > 1:
            chosen.append(self.code.mask(c.MINUS, mask, condition))
        ends = []
        for child, own in zip(statement.children, chosen, strict=True):
            self.names = dict(before)
            skip = self.code.write(c.JUMP_IF_EMPTY, own)
            self._walk(child, own)
            self.code.land(skip)
            ends.append(self.names)
        then, other = (*ends, before)[:2]
        self.names = dict(before)
        for name in sorted(assigned_names(self.text, statement)):
            # A lane that skipped the only assignment has no value that it could use.
            values = [names[name] for names in (then, other) if name in names]
            if len(values) == 2 and values[0] != values[1]:
                first, second = values
                if isinstance(first, Unknown) or isinstance(second, Unknown):
                    values = [Unknown(f"depends on {name}, which a condition sets")]
                else:
                    values = [self.code.value(c.SELECT, condition, first, second)]
            if values:
                self.names[name] = values[0]

    def _simple(self, statement: Statement, mask: int) -> None:
        start, end = statement.start, statement.end
        text = self.text[start:end]
        has_probe = _PROBE.search(text) is not None
        assigned = assignment(self.text, start, end)
        if assigned is None:
            declared = declaration(self.text, start, end)
            if declared is not None:
                self.types[declared[1]] = _type(declared[0])
            if has_probe:
                self.accesses(parse(without_comments(text).rsplit(";", 1)[0]), mask)
            return
        is_scalar = assigned.name != "" and not assigned.selector
        if not is_scalar and not has_probe:
            return
        if is_scalar and assigned.type_words:
            self.types[assigned.name] = _type(assigned.type_words)
        kind = self.types.get(assigned.name, "") if is_scalar else ""
        if not has_probe and kind not in _INTEGERS | _TRUTHS:
            self.names[assigned.name] = _no_integer(assigned.name, kind)
            return
        right = parse(self.text[assigned.equals + 1 : end].rsplit(";", 1)[0])
        self.accesses(right, mask)
        if is_scalar:
            self.names[assigned.name] = self._assigned(assigned.name, kind, right, mask)
        else:
            left = without_comments(self.text[start : assigned.equals])
            self.accesses(
                parse(f"{assigned.name}{assigned.selector}" if assigned.name else left), mask
            )

    def _assigned(self, name: str, kind: str, right: Node, mask: int) -> Value:
        if kind in _INTEGERS or (kind in _TRUTHS and is_truth(right)):
            value = self.value(right, mask)
            return Unknown(value.why) if isinstance(value, Unknown) else value
        loaded = self.loaded(right)
        return Unknown(loaded) if loaded else _no_integer(name, kind)

    def _forget(self, statement: Statement, why: str) -> None:
        for name in assigned_names(self.text, statement):
            self.names[name] = Unknown(f"depends on {name}, {why}")

    def _argument(self, argument: Any, values: Mapping[str, Any]) -> Value:
        dtype = np.dtype(argument.dtype.numpy_dtype)
        if dtype.kind == "i" and argument.name in values:
            return self.code.constant(int(values[argument.name]))
        kind = "an unsigned number, which wraps" if dtype.kind == "u" else "which is not an integer"
        return Unknown(f"depends on {argument.name}, {kind}")

    def _first(self, statement: Statement) -> int:
        return first_position(self.text, statement.start, statement.end)

    def _probes(self, statement: Statement) -> bool:
        return _PROBE.search(self.text, statement.start, statement.end) is not None


def _no_integer(name: str, kind: str) -> Unknown:
    what = "a real number" if kind in _REALS else "which is not a signed integer"
    return Unknown(f"depends on {name}, {what}")


def _type(words: str) -> str:
    return " ".join(word for word in words.split() if word not in _QUALIFIERS)
