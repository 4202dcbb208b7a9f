"""From a launch's schedule, as Loopy writes it in C, to a program of affine forms.

What is read is the probed text of `tracegen.instrumented.instrument`, in which every access, back-edge and
barrier carries its position; sizes and integer arguments are numbers by now. Integers that follow
from loop counters, ids and arguments stay affine forms; values from memory, real numbers and
integers changed in loops are unknown, and may be anything but an address, a loop bound or the
condition of an access.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from loopy.kernel.data import ValueArg

from tracegen.c_source.expressions import Node, Unreadable, first_position, is_truth, parse
from tracegen.c_source.statements import (
    Statement,
    assignment_offset,
    kernel_functions,
    statements,
)
from tracegen.instrumented.marks import assigned_in
from tracegen.instrumented.probe_source import EPILOGUE, PROLOGUE
from tracegen.polyhedral import code as c
from tracegen.polyhedral.code import CodeWriter
from tracegen.polyhedral.conditions import Lowering, NotStatic, WriteAccess
from tracegen.polyhedral.forms import Affine, Unknown, Value, symbol
from tracegen.probes.program import Program

_HEADER = re.compile(r"\s*\w+\s+(\w+)\s*=(.*?);(.*?);\s*\+\+(\w+)\s*(?:,(.*))?$", re.DOTALL)
_PROBE = re.compile(r"\b_tg_(?:probe|event)\(")
_NAMED = re.compile(r"\s*((?:\w+\s+)*)(\w+)\s*$")
_DECLARED = re.compile(r"\s*((?:\w+\s+)*?)(\w+)\s*;\s*$")
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
    write_access: WriteAccess,
    site_name: Callable[[int], str],
) -> CodeWriter:
    """The program of one kernel function.

    values : integer arguments by name; sizes : the values of program.sizes
    write_access : writes the access at a position (mask, index, elements of its array)
    Raises NotStatic.
    """
    walk = _Schedule(probed, program, values, kernel, sizes, write_access, site_name)
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
        write_access: WriteAccess,
        site_name: Callable[[int], str],
    ) -> None:
        super().__init__(program, write_access, site_name)
        self.text = probed
        self.types: dict[str, str] = {}
        for argument in kernel.args:
            if isinstance(argument, ValueArg):
                self.names[argument.name] = _argument(argument, values)
        for name in kernel.all_inames() & values.keys():
            self.names[name] = Affine(int(values[name]))
        for number, size in enumerate(sizes):
            self.names[f"_tg_n{number}"] = Affine(size)

    def run(self) -> CodeWriter:
        function = next(f for f in kernel_functions(self.text) if f.name == self.program.name)
        start = function.body_start + len(PROLOGUE)
        for statement in statements(self.text, start, function.body_end - len(EPILOGUE)):
            self._walk(statement, 0)
        self.skip_untold()
        if self.n_seen != len(self.program.probes):
            raise Unreadable(f"{self.n_seen} accesses of {len(self.program.probes)} were found")
        self.code.write(c.END)
        return self.code

    def _walk(self, statement: Statement, mask: int) -> None:
        start, end = statement.start, statement.end
        if statement.kind == "expression":
            self._simple(statement, mask)
        elif statement.kind == "block":
            for child in statement.children:
                self._walk(child, mask)
        elif statement.kind == "if":
            self._branches(statement, mask)
        elif not self._probes(statement):
            self._forget(start, end, "which a loop sets")
        elif statement.kind == "for":
            self._loop(statement, mask)
        else:
            raise Unreadable("an access in a do loop")

    def _loop(self, statement: Statement, mask: int) -> None:
        match = _HEADER.match(self.text[statement.header[0] : statement.header[1]])
        if match is None or match.group(1) != match.group(4):
            raise Unreadable(f"the loop header {self.text[slice(*statement.header)]!r}")
        name, first, bound, _, event = match.groups()
        begin = self.value(parse(first), mask)
        if isinstance(begin, Unknown):
            raise self.refusal(
                f"runs in a loop over {name} whose start {begin.why}", self._first(statement)
            )
        (body,) = statement.children
        self._forget(body.start, body.end, "which changes in a loop")
        counter = self.code.slot(by_lane=False)
        outer = self.names.get(name)
        self.names[name] = begin + symbol(counter)
        running = self.code.mask()
        self.code.write(c.ZERO, counter)
        self.code.write(c.JOIN, running, mask, mask)
        top = len(self.code.rows)
        found = self.condition(parse(bound), running)
        if isinstance(found, Unknown):
            raise self.refusal(
                f"runs in a loop over {name} whose end {found.why}", self._first(statement)
            )
        self.code.write(c.JOIN, running, found.mask, found.mask)
        leave = self.code.write(c.JUMP_IF_EMPTY, running)
        self._walk(body, running)
        if event:
            self.accesses(parse(event), running)
        self.code.write(c.NEXT, counter)
        self.code.write(c.JUMP, top)
        self.code.land(leave)
        self._forget(body.start, body.end, "which a loop sets")
        if outer is None:
            del self.names[name]
        else:
            self.names[name] = outer

    def _branches(self, statement: Statement, mask: int) -> None:
        tree = parse(self.text[slice(*statement.header)])
        self.accesses(tree, mask)
        inside = [child for child in statement.children if self._probes(child)]
        found = self.condition(tree, mask)
        if isinstance(found, Unknown):
            if inside:
                raise self.refusal(
                    f"runs under a condition that {found.why}", self._first(inside[0])
                )
            self._forget(statement.start, statement.end, "which a condition sets")
            return
        chosen = [found.mask]
        if len(statement.children) > 1:
            chosen.append(self.code.mask())
            self.code.write(c.MINUS, chosen[1], mask, found.mask)
        before = self.names
        ends = [] if len(statement.children) > 1 else [before]
        for child, own in zip(statement.children, chosen, strict=True):
            self.names = dict(before)
            skip = self.code.write(c.JUMP_IF_EMPTY, own)
            self._walk(child, own)
            self.code.land(skip)
            ends.append(self.names)
        self.names = dict(before)
        for name in assigned_in(self.text[statement.start : statement.end]):
            # A lane that skipped the only assignment has no value that it could use.
            values = {names[name] for names in ends if name in names}
            unknown = Unknown(f"depends on {name}, which a condition sets")
            if values:
                self.names[name] = values.pop() if len(values) == 1 else unknown

    def _simple(self, statement: Statement, mask: int) -> None:
        start, end = statement.start, statement.end
        text = self.text[start:end]
        equals = assignment_offset(self.text, start, end)
        probes = _PROBE.search(text) is not None
        if equals is None:
            declared = _DECLARED.match(_without_comments(text))
            if declared is not None and declared.group(1).strip():
                self.types[declared.group(2)] = _type(declared.group(1))
            if probes:
                self.accesses(parse(_without_comments(text).rsplit(";", 1)[0]), mask)
            return
        named = _NAMED.match(_without_comments(self.text[start:equals]))
        if named is None and not probes:
            return
        if named is not None and named.group(1).strip():
            self.types[named.group(2)] = _type(named.group(1))
        kind = "" if named is None else self.types.get(named.group(2), "")
        if not probes and kind not in _INTEGERS | _TRUTHS:
            if named is not None:
                self.names[named.group(2)] = _no_integer(named.group(2), kind)
            return
        right = parse(self.text[equals + 1 : end].rsplit(";", 1)[0])
        self.accesses(right, mask)
        if named is None:
            self.accesses(parse(_left(_without_comments(self.text[start:equals]))), mask)
            return
        self.names[named.group(2)] = self._assigned(named.group(2), kind, right, mask)

    def _assigned(self, name: str, kind: str, right: Node, mask: int) -> Value:
        if kind in _INTEGERS or (kind in _TRUTHS and is_truth(right)):
            value = self.value(right, mask)
            return Unknown(value.why) if isinstance(value, Unknown) else value
        loaded = self.loaded(right)
        return Unknown(loaded) if loaded else _no_integer(name, kind)

    def _forget(self, start: int, end: int, why: str) -> None:
        for name in assigned_in(self.text[start:end]):
            self.names[name] = Unknown(f"depends on {name}, {why}")

    def _first(self, statement: Statement) -> int:
        return first_position(self.text, statement.start, statement.end)

    def _probes(self, statement: Statement) -> bool:
        return _PROBE.search(self.text, statement.start, statement.end) is not None


def _argument(argument: Any, values: Mapping[str, Any]) -> Value:
    dtype = np.dtype(argument.dtype.numpy_dtype)
    if dtype.kind == "i" and argument.name in values:
        return Affine(int(values[argument.name]))
    kind = "an unsigned number, which wraps" if dtype.kind == "u" else "which is no integer"
    return Unknown(f"depends on {argument.name}, {kind}")


def _no_integer(name: str, kind: str) -> Unknown:
    what = "a real number" if kind in _REALS else "which is no signed integer"
    return Unknown(f"depends on {name}, {what}")


def _type(words: str) -> str:
    return " ".join(word for word in words.split() if word not in _QUALIFIERS)


def _left(text: str) -> str:
    """The left side of an assignment, without the type of a declaration."""
    return re.sub(r"^\s*(?:[A-Za-z_]\w*\s+)+(?=[A-Za-z_])", "", text)


def _without_comments(text: str) -> str:
    return re.sub(r"/\*.*?\*/|//[^\n]*|^[ \t]*#[^\n]*$", " ", text, flags=re.DOTALL | re.MULTILINE)
