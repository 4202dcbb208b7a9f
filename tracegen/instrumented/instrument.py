"""From marked code to plain code, probed code, and the table of probes.

Every mark becomes a probe with a position of its own. Positions ascend in the order of evaluation:
operands before the operation, the right side before the left, a loop's back-edge after its body. The
merge uses this order to bring diverged lanes together again.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, replace

from memsim.errors import KernelError
from tracegen.instrumented.flow import Flow, Need
from tracegen.instrumented.marks import (
    CALL,
    COMMENT,
    COMMENT_LINE,
    Edit,
    MarkTable,
    calls,
    edited,
    strip,
    strip_calls,
)
from tracegen.instrumented.probes import Probe, Program
from tracegen.instrumented.statements import (
    Function,
    Statement,
    assigned_names,
    assignment,
    kernel_functions,
    loop_header,
    names_in,
    read_statements,
)
from tracegen.instrumented.tokens import ARGUMENTS, EPILOGUE, PROBE_SOURCE, PROLOGUE

MAX_POSITIONS = 1 << 16


@dataclass(frozen=True)
class Instrumented:
    plain: str
    probed: str
    programs: tuple[Program, ...]
    table: MarkTable

    def program(self, name: str) -> Program:
        return next(program for program in self.programs if program.name == name)


def instrument(marked: str, table: MarkTable) -> Instrumented:
    """The plain and the probed code of marked code, with the probes of each kernel function."""
    edits: list[Edit] = []
    programs = [
        _Numbering(marked, table, function, edits).run() for function in kernel_functions(marked)
    ]
    probed = edited(marked, edits)
    probed = re.sub(
        r"^#define gid\(N\) \(\((\w+)\) get_group_id\(N\)\)$",
        r"#define gid(N) ((\1) _tg_gid##N)",
        probed,
        flags=re.MULTILINE,
    )
    return Instrumented(strip(marked), PROBE_SOURCE + probed, tuple(programs), table)


class _Numbering:
    """Walks one kernel function in the order of evaluation and assigns positions."""

    def __init__(self, text: str, table: MarkTable, function: Function, edits: list[Edit]) -> None:
        self.text, self.table, self.function, self.edits = text, table, function, edits
        self.probes: list[Probe] = []
        self.sizes: list[tuple[str, int | None]] = []
        self.guards: list[int] = []
        self.flow = Flow()
        self.line_ends = [match.start() for match in re.finditer("\n", text)]
        self.removed_lines = [match.end() for match in COMMENT_LINE.finditer(text)]

    def run(self) -> Program:
        function = self.function
        for statement in read_statements(self.text, function.body_start, function.body_end):
            self._walk(statement)
        if len(self.probes) >= MAX_POSITIONS:
            raise KernelError(
                f"kernel {function.name} has {len(self.probes)} accesses, loops and barriers after"
                f" unrolling; at most {MAX_POSITIONS} can be traced"
            )
        sizes = "".join(f", const long _tg_n{k}" for k in range(len(self.sizes)))
        self.edits += [
            (function.arguments_end, function.arguments_end, function.further(ARGUMENTS + sizes)),
            (function.body_start, function.body_start, PROLOGUE),
            (function.body_end, function.body_end, EPILOGUE),
        ]
        probes = tuple(
            replace(probe, index_feeds=index_feeds, feeds=feeds)
            for probe, (index_feeds, feeds) in zip(self.probes, self.flow.feeds(), strict=True)
        )
        return Program(function.name, probes, tuple(self.sizes))

    def _walk(self, statement: Statement) -> None:
        start, end = statement.header
        if statement.kind == "for":
            self._loop(statement)
        elif statement.kind == "if":
            feeds = self._expression(start, end, "")
            self.guards += feeds
            with self.flow.under(self._names(start, end), feeds):
                for child in statement.children:
                    self._walk(child)
        elif statement.kind == "expression":
            self._simple(statement)
        else:
            for child in statement.children:
                self._walk(child)
            if statement.kind == "do":
                self._expression(start, end, "")

    def _loop(self, statement: Statement) -> None:
        start, end = statement.header
        edge = COMMENT.search(self.text, start, end)
        assert edge is not None, "a loop without its mark"
        assert CALL.search(self.text, start, end) is None, "a loop bound that reads memory"
        variable = loop_header(self.text[start:end]).counter
        first = len(self.probes)
        bounds = self._names(start, end) - {variable}
        self.flow.assign(variable, bounds, ())
        with self.flow.under(bounds, ()):
            self._walk(statement.children[0])
        last = len(self.probes)
        if last == first:
            self.edits.append((edge.start(), edge.end(), ""))
            return
        assigned = assigned_names(self.text, statement.children[0])
        self._add(Probe("edge", index=variable, assigned=assigned), Need())
        self.edits.append((edge.start(), edge.end(), f", _tg_event(&_tg, TG_AT({last}))"))

    def _simple(self, statement: Statement) -> None:
        instruction = ""
        start, end = statement.start, statement.end
        for comment in COMMENT.finditer(self.text, start, end):
            kind, number = comment.group(1), comment.group(2)
            replacement = ""
            if kind == "i":
                instruction = self.table.instructions[int(number)]
                self._name_guards(instruction)
            elif kind == "p":
                replacement = self._before(int(number), instruction, comment.end())
            elif kind == "b":
                replacement = f"_tg_event(&_tg, TG_AT({self._add(Probe('barrier'), Need())})), "
            self.edits.append((comment.start(), comment.end(), replacement))
        assigned = assignment(self.text, start, end)
        if assigned is None:
            self._expression(start, end, instruction)
            return
        equals = assigned.equals
        right = self._names(equals, end)
        n_before = len(self.edits)
        value = self._expression(equals, end, instruction)
        stored = self._expression(start, equals, instruction, Need(right, tuple(value)))
        if stored:
            self._value_first(start, equals, end, n_before, self.probes[stored[-1]])
        if assigned.name and assigned.name not in self.table.arrays:
            self.flow.assign(assigned.name, right, value)

    def _value_first(self, start: int, equals: int, end: int, n_before: int, store: Probe) -> None:
        """Makes the store of a whole struct evaluate its right side before its address.

        Compilers do so for numbers; for structs, and so for complex numbers, they need not.
        """
        mark = self.table.marks[store.mark]
        type_name = self.table.struct_types.get(store.array)
        if store.kind != "store" or mark.field_name is not None or type_name is None:
            return
        made, self.edits[n_before:] = self.edits[n_before:], []
        comments = [match.end() for match in COMMENT.finditer(self.text, start, equals)]
        first = max([start, *comments])
        left = [edit for edit in made if edit[0] < equals]
        right = [edit for edit in made if edit[0] > equals]
        target = edited(self.text, left, first, equals)
        value = edited(self.text, right, equals + 1, end)
        statement = f" {{ {type_name} _tg_value = {value} {target.strip()} = _tg_value; }}"
        self.edits.append((first, end, statement))

    def _before(self, number: int, instruction: str, offset: int) -> str:
        lines: dict[str, int] = {}
        for match in CALL.finditer(self.text, offset):
            array = self.table.marks[int(match.group(1))].array
            lines.setdefault(array, self._line(match.start()))
        old, right, new = self.table.before[number]
        pieces, value = [], Need()
        for text, prefix in ((old, "(void) &("), (right, "(void) ("), (new, "(void) &(")):
            edits: list[Edit] = []
            positions = []
            for match, end in calls(text, 0, len(text)):
                line = lines.get(self.table.marks[int(match.group(1))].array, self._line(offset))
                added, position = self._probe(text, match, end, instruction, line, value)
                edits += added
                positions += position
            pieces.append(f"{prefix}{edited(text, edits)});")
            value = Need(names_in(strip_calls(text)), tuple(positions))
        return " ".join(pieces)

    def _expression(
        self, start: int, end: int, instruction: str, value: Need | None = None
    ) -> list[int]:
        positions: list[int] = []
        for match, close in calls(self.text, start, end):
            line = self._line(match.start())
            edits, position = self._probe(
                self.text, match, close, instruction, line, value or Need()
            )
            self.edits += edits
            positions += position
        return positions

    def _probe(
        self, text: str, match: re.Match[str], end: int, instruction: str, line: int, value: Need
    ) -> tuple[list[Edit], list[int]]:
        number = int(match.group(1))
        mark = self.table.marks[number]
        size = f", {self._size(mark.array, None)})"
        if mark.kind == "clamp":
            return [(match.start(), match.end(), "_tg_clamp("), (end, end + 1, size)], []
        inner = text[match.end() : end]
        index = strip_calls(inner)
        # Nested probes come just before the one that they feed.
        n_nested = sum(1 for call in CALL.finditer(inner) if "clamp" not in call.group())
        here = len(self.probes)
        probe = Probe(
            mark.kind,
            number,
            instruction or mark.instruction,
            mark.array,
            index,
            (mark.field_name or "") if mark.array in self.table.struct_types else "",
            n_nested > 0,
            line,
        )
        need = Need(names_in(index), tuple(range(here - n_nested, here)))
        self._add(probe, need, Need() if mark.kind == "load" else value)
        call = f"_tg_probe(&_tg, TG_AT({here}), "
        for axis, text_of_axis in mark.axes:
            extent = self._size(mark.array, axis)
            call += f"_tg_within(&_tg, {axis}, {self._kept(text_of_axis)}, {extent}, "
            size = f"){size}"
        return [(match.start(), match.end(), call), (end, end + 1, size)], [here]

    def _size(self, array: str, axis: int | None) -> str:
        """The kernel argument that holds an array's elements, or the extent of one axis."""
        if (array, axis) not in self.sizes:
            self.sizes.append((array, axis))
        return f"_tg_n{self.sizes.index((array, axis))}"

    def _kept(self, text: str) -> str:
        """An index without probes, whose own subscripts are clamped into their range."""
        edits: list[Edit] = []
        for match, end in calls(text, 0, len(text)):
            size = self._size(self.table.marks[int(match.group(1))].array, None)
            edits += [(match.start(), match.end(), "_tg_clamp("), (end, end + 1, f", {size})")]
        return edited(text, edits)

    def _add(self, probe: Probe, need: Need, value: Need | None = None) -> int:
        self.probes.append(probe)
        self.flow.use(need, value or Need())
        return len(self.probes) - 1

    def _names(self, start: int, end: int) -> frozenset[str]:
        return names_in(strip(self.text[start:end])) - self.table.arrays

    def _name_guards(self, instruction: str) -> None:
        for position in self.guards:
            if not self.probes[position].instruction:
                self.probes[position] = replace(self.probes[position], instruction=instruction)
        self.guards.clear()

    def _line(self, offset: int) -> int:
        removed = bisect_right(self.removed_lines, offset)
        return bisect_right(self.line_ends, offset - 1) + 1 - removed
