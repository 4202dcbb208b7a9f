"""The loops of a kernel's text, and how often each iterates: as its header says, or as a run has counted."""

from __future__ import annotations

import operator
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tracegen.c_source.expressions import Node, Unreadable, integer, parse
from tracegen.c_source.statements import closing, loop_header, skip

_LOOP = re.compile(r"\b(?:(for|while)\s*(?=\()|(do)\b)")
_TEST = re.compile(r"while\s*(?=\()")
_CONSTANT = re.compile(
    r"\b(?:const|constexpr)\s+(?:unsigned\s+)?\w+\s+(\w+)\s*=\s*([^;,]+);"
    r"|^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+([^\n]+)",
    re.MULTILINE,
)
_NO_CODE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|(?<!\w)'(?:[^'\\\n]|\\.)+'""", re.DOTALL
)
"""Comments, strings and characters; but not the quotes between digits of a number."""
_UPDATE = re.compile(r"^(?:(\+\+|--)\s*(\w+)|(\w+)\s*(\+\+|--)|(\w+)\s*([+-])=\s*(.+))$", re.DOTALL)
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "!=": "!="}

_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "&": operator.and_,
    "|": operator.or_,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "/": lambda a, b: _quotient(a, b),
    "%": lambda a, b: a - b * _quotient(a, b),
}
_UNREADABLE = (Unreadable, RecursionError)


Position = tuple[int, int]
"""Line and column of the word that begins a loop, 1-based."""


@dataclass(frozen=True)
class Counted:
    """Iterations that a run has counted.

    mean : each time that a sub-group reaches the outermost loop without accesses around the loop, or the loop
        itself; lanes wait for the slowest one, so they are its iterations
    nest : where that outermost loop begins
    """

    mean: float
    nest: Position


@dataclass(frozen=True)
class SourceLoop:
    """A loop of the text.

    line, column : where it begins;  first_line, last_line : of its body, 1-based
    trips : iterations each time that it is reached; None if its header does not determine them
    counted : those of a run, where they are known only so
    """

    line: int
    column: int
    first_line: int
    last_line: int
    trips: float | None
    counted: Counted | None = None

    @property
    def at(self) -> Position:
        return self.line, self.column

    def holds(self, line: int) -> bool:
        """Whether a line belongs to the body."""
        return self.first_line <= line <= self.last_line


def source_loops(text: str, values: Mapping[str, int]) -> tuple[SourceLoop, ...]:
    """The loops in textual order, so outer loops before those inside them.

    values : integers that the text may name: the kernel's arguments and those of its template, macros of
        the command line
    """
    text = _NO_CODE.sub(_blank, text)
    known = _with_constants(text, values)
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    loops = []
    tests: set[int] = set()
    for match in _LOOP.finditer(text):
        if match.start() in tests:  # it ends a loop that begins with `do`
            continue
        try:
            end = match.end() - 1 if match[2] else closing(text, match.end())
            body = skip(text, end + 1)
            last = closing(text, body) if text[body] == "{" else text.index(";", body)
            header = text[match.end() + 1 : end]
            trips = _trips(header, known) if match[1] == "for" else None
            if match[2]:
                test = _TEST.match(text, skip(text, last + 1))
                if test is None:
                    continue
                tests.add(test.start())
                last = closing(text, test.end())
                trips = 1.0 if _never(text[test.end() + 1 : last]) else None
        except (AssertionError, IndexError, ValueError):
            continue
        line, first, final = (bisect_right(starts, at) for at in (match.start(), body, last))
        # What stands on the header's line may belong to the header.
        loops.append(
            SourceLoop(
                line,
                match.start() - starts[line - 1] + 1,
                max(first, line + 1) if final > line else line,
                final,
                trips,
            )
        )
    return tuple(loops)


def with_counted(
    loops: Sequence[SourceLoop], counted: Mapping[Position, Counted]
) -> tuple[SourceLoop, ...]:
    """The loops, those that headers do not determine with what a run has counted."""
    return tuple(
        loop if loop.trips is not None else replace(loop, counted=counted.get(loop.at))
        for loop in loops
    )


def _blank(match: re.Match[str]) -> str:
    """Blanks in the place of a comment or string; what follows keeps its line and column."""
    return re.sub(r"[^\n]", " ", match[0])


def _with_constants(text: str, values: Mapping[str, int]) -> dict[str, int]:
    """The values, and those of the constants and macros that the text declares."""
    known = dict(values)
    for match in _CONSTANT.finditer(text):
        name, written = (match[1], match[2]) if match[1] else (match[3], match[4])
        value = _value(written, known)
        if value is not None and name not in values:
            known[name] = value
    return known


def defined(build_options: Sequence[str]) -> dict[str, int]:
    """The macros of -D options whose values are integers; one without a value is 1."""
    macros = [option[2:].partition("=") for option in build_options if option.startswith("-D")]
    values = {name: _value(text if equals else "1", {}) for name, equals, text in macros}
    return {name: value for name, value in values.items() if value is not None}


def _trips(header: str, values: Mapping[str, int]) -> float | None:
    parts = loop_header(header)
    if parts is None or not parts.counter or len(parts.updates) != 1:
        return None
    first = _value(parts.first, values)
    step = _step(parts.updates[0], parts.counter, values)
    bound = _bound(parts.test, parts.counter, values)
    if first is None or not step or bound is None:
        return None
    sign, last = bound
    distance = last - first
    if sign in ("<=", ">="):
        distance += 1 if sign == "<=" else -1
    wrong = (sign in ("<", "<=") and step < 0) or (sign in (">", ">=") and step > 0)
    if wrong or (sign == "!=" and distance % step):
        return None
    return float(max(0, -(-distance // step)))


def _never(test: str) -> bool:
    """Whether a condition is written as false."""
    return test.strip() == "false" or _value(test, {}) == 0


def _step(update: str, counter: str, values: Mapping[str, int]) -> int | None:
    match = _UPDATE.match(update)
    if match is None:
        return None
    before, name, other, behind, assigned, sign, by = match.groups()
    if (name or other or assigned) != counter:
        return None
    if assigned:
        amount = _value(by, values)
        return None if amount is None else amount if sign == "+" else -amount
    return 1 if (before or behind) == "++" else -1


def _bound(test: str, counter: str, values: Mapping[str, int]) -> tuple[str, int] | None:
    """(comparison, value) of `counter < value` and the like."""
    try:
        tree = parse(test)
        if tree.kind != "binary" or tree.text not in _MIRRORED:
            return None
        left, right = tree.children
        if left.kind == "name" and left.text == counter:
            value, sign = _evaluated(right, values), tree.text
        elif right.kind == "name" and right.text == counter:
            value, sign = _evaluated(left, values), _MIRRORED[tree.text]
        else:
            return None
    except _UNREADABLE:
        return None
    return None if value is None else (sign, value)


def _value(text: str, values: Mapping[str, int]) -> int | None:
    try:
        return _evaluated(parse(text), values)
    except _UNREADABLE:
        return None


def _evaluated(tree: Node, values: Mapping[str, int]) -> int | None:
    """None where it is unknown, undefined, or needs more than 64 bits."""
    if tree.kind == "number":
        return integer(tree.text)
    if tree.kind == "name":
        return values.get(tree.text)
    if tree.kind not in ("unary", "binary", "condition", "cast"):
        return None
    parts = [_evaluated(child, values) for child in tree.children]
    numbers = [part for part in parts if part is not None]
    if len(numbers) < len(parts):
        return None
    if tree.kind == "cast":
        return numbers[0]
    if tree.kind == "condition":
        return numbers[1] if numbers[0] else numbers[2]
    if tree.kind == "unary":
        return {"-": -numbers[0], "+": numbers[0]}.get(tree.text)
    if tree.text in ("/", "%") and numbers[1] == 0:
        return None
    if tree.text in ("<<", ">>") and not 0 <= numbers[1] < 64:
        return None
    known = _ARITHMETIC.get(tree.text)
    result = None if known is None else int(known(*numbers))
    return None if result is None or abs(result) >> 64 else result


def _quotient(a: int, b: int) -> int:
    """Rounded towards zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
