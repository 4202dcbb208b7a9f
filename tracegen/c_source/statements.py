"""Statements of OpenCL C, with the spans of text that they take.

This reads the C that Loopy writes, and the control flow of any C that the preprocessor has been
through. Only statements are parsed here; expressions stay text (see `expressions.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

StatementKind = Literal[
    "block", "for", "while", "if", "do", "jump", "expression", "unsupported"
]  # fmt: skip

Span = tuple[int, int]

_BLANK = re.compile(r"(?:\s|/\*.*?\*/|//[^\n]*|^[ \t]*#[^\n]*$)*", re.DOTALL | re.MULTILINE)
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|^[ \t]*#[^\n]*$", re.DOTALL | re.MULTILINE)
_WORD = re.compile(r"[A-Za-z_]\w*")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_KERNEL = re.compile(
    rf"{_COMMENT.pattern}|{_STRING.pattern}|\b((?:__)?kernel)\b", re.DOTALL | re.MULTILINE
)
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_EQUALS = re.compile(r"(?<![=!<>])=(?!=)")
_LEFT_SIDE = re.compile(
    r"\s*((?:[A-Za-z_]\w*\s+)*)([A-Za-z_]\w*)\s*((?:\[.*\])?(?:\.\w+)?)\s*$", re.DOTALL
)
_DECLARATION = re.compile(r"\s*((?:[A-Za-z_]\w*\s+)+)([A-Za-z_]\w*)\s*;\s*$")
_JUMPS = ("return", "break", "continue")
_LABELS = ("case", "default")
_UNSUPPORTED = ("switch", "goto", "asm", "__asm", *_LABELS)


@dataclass(frozen=True)
class Statement:
    """One statement: text[start:end], blanks and comments before it included.

    first : offset of its first word or bracket
    header : between the parentheses of a for, while or if, or of the while of a do
    children : of a block, its statements; of an if, what runs where the condition holds and, if
        there is an else, what runs where it does not; of a loop, its body
    """

    kind: StatementKind
    start: int
    end: int
    first: int
    header: Span = (0, 0)
    children: tuple[Statement, ...] = ()

    def walk(self) -> Iterator[Statement]:
        """The statement and everything inside it, in textual order."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True)
class Function:
    """A `__kernel` function: where its parameters end, and where its body, braces excluded, lies."""

    name: str
    has_arguments: bool
    arguments_end: int
    body_start: int
    body_end: int

    def further(self, arguments: str) -> str:
        """The text that declares further parameters behind the function's own."""
        return f", {arguments}" if self.has_arguments else arguments


@dataclass(frozen=True)
class Assignment:
    """An assignment `type_words name selector = ...`.

    type_words : empty where nothing is declared
    name : empty where the left side does not begin with a variable
    selector : a subscript, a field, or both
    equals : offset of the `=`
    """

    type_words: str
    name: str
    selector: str
    equals: int


@dataclass(frozen=True)
class LoopHeader:
    """The header of a for: `counter = first; test; updates`. Without an assignment, counter is ""."""

    counter: str
    first: str
    test: str
    updates: tuple[str, ...]


def kernel_functions(text: str) -> Iterator[Function]:
    """The kernels of an OpenCL program in textual order."""
    for match in _KERNEL.finditer(text):
        if not match[1]:
            continue
        position = match.end()
        while True:
            word = _WORD.search(text, position)
            assert word is not None, "a __kernel without a name"
            after = skip(text, word.end())
            if word.group() == "__attribute__":
                position = closing(text, after) + 1
            elif text[after] == "(":
                break
            else:
                position = word.end()
        arguments_end = closing(text, after)
        brace = skip(text, arguments_end + 1)
        assert text[brace] == "{", "a __kernel without a body"
        has_arguments = skip(text, after + 1) < arguments_end
        yield Function(word.group(), has_arguments, arguments_end, brace + 1, closing(text, brace))


def read_statements(text: str, start: int, end: int) -> tuple[Statement, ...]:
    """The statements between two offsets.

    Everything after a case label becomes one unsupported statement.
    """
    statements: list[Statement] = []
    while (first := skip(text, start)) < end:
        if _word(text, first) in _LABELS:
            statements.append(Statement("unsupported", start, end, first))
            break
        statements.append(_statement(text, start))
        start = statements[-1].end
    return tuple(statements)


def skip(text: str, position: int) -> int:
    """Offset of the first code from a position on, behind blanks, comments and directives."""
    match = _BLANK.match(text, position)
    assert match is not None
    return match.end()


def closing(text: str, opening: int) -> int:
    """Offset of the bracket that closes the one at `opening`."""
    expected: list[str] = []
    position = opening
    while True:
        position = skip(text, position)
        character = text[position]
        if character in _CLOSING:
            expected.append(_CLOSING[character])
        elif character == '"':
            position = _string_end(text, position)
        elif character in ")]}":
            assert character == expected[-1], "brackets do not match in generated code"
            expected.pop()
            if not expected:
                return position
        position += 1


def split(text: str, start: int, end: int, separator: str) -> list[Span]:
    """The spans that a separator outside all brackets cuts text[start:end] into."""
    spans, first = [], start
    for position in _outside_brackets(text, start, end):
        if text[position] == separator:
            spans.append((first, position))
            first = position + 1
    return [*spans, (first, end)]


def find(text: str, start: int, characters: str) -> int:
    """Offset of the first of these characters that is outside all brackets."""
    return next(p for p in _outside_brackets(text, start, len(text)) if text[p] in characters)


def assignment_offset(text: str, start: int, end: int) -> int | None:
    """Offset of the `=` of an assignment outside all brackets, None where there is none."""
    for position in _outside_brackets(text, start, end):
        if text[position] == "=" and _EQUALS.match(text, position):
            return position
    return None


def assignment(text: str, start: int, end: int) -> Assignment | None:
    """The assignment that a simple statement is; None where it is none."""
    equals = assignment_offset(text, start, end)
    if equals is None:
        return None
    match = _LEFT_SIDE.match(without_comments(text[start:equals]))
    words, name, selector = match.groups() if match is not None else ("", "", "")
    return Assignment(words.strip(), name, selector, equals)


def declaration(text: str, start: int, end: int) -> tuple[str, str] | None:
    """Type words and name of the one variable that a statement declares without a value."""
    match = _DECLARATION.match(without_comments(text[start:end]))
    return None if match is None else (match.group(1).strip(), match.group(2))


def assigned_names(text: str, statement: Statement) -> frozenset[str]:
    """The variables and arrays that a statement, or one inside it, assigns to."""
    names = set()
    for inner in statement.walk():
        if inner.kind == "expression":
            assigned = assignment(text, inner.start, inner.end)
            names.add(assigned.name if assigned is not None else "")
        elif inner.kind == "for":
            header = loop_header(text[slice(*inner.header)])
            names.add(header.counter if header is not None else "")
    return frozenset(names - {""})


def loop_header(text: str) -> LoopHeader | None:
    """The text between a loop's parentheses; None where it has not the three parts of a for."""
    parts = split(text, 0, len(text), ";")
    if len(parts) != 3:
        return None
    (start, end), test, (update, update_end) = parts
    begin = assignment(text, start, end)
    updates = [
        without_comments(text[slice(*span)]) for span in split(text, update, update_end, ",")
    ]
    return LoopHeader(
        counter="" if begin is None or begin.selector else begin.name,
        first="" if begin is None else text[begin.equals + 1 : end].strip(),
        test=text[slice(*test)].strip(),
        updates=tuple(part.strip() for part in updates if part.strip()),
    )


def without_comments(text: str) -> str:
    """Comments and preprocessor directives replaced by a blank."""
    return _COMMENT.sub(" ", text)


def _outside_brackets(text: str, start: int, end: int) -> Iterator[int]:
    """Offsets of code that is in no bracket, string or comment."""
    position = start
    while (position := skip(text, position)) < end:
        if text[position] in _CLOSING:
            position = closing(text, position)
        elif text[position] == '"':
            position = _string_end(text, position)
        else:
            yield position
        position += 1


def _statement(text: str, start: int) -> Statement:
    first = skip(text, start)
    if text[first] == "{":
        end = closing(text, first)
        return Statement(
            "block", start, end + 1, first, children=read_statements(text, first + 1, end)
        )
    word = _word(text, first)
    if word == "__attribute__":
        return _statement(text, closing(text, skip(text, first + len(word))) + 1)
    if word in ("for", "while", "if"):
        return _headed(text, start, first, word)
    if word == "do":
        body = _statement(text, first + len(word))
        opening = text.index("(", text.index("while", body.end))
        end = closing(text, opening)
        return Statement("do", start, text.index(";", end) + 1, first, (opening + 1, end), (body,))
    if word == "switch":
        end = closing(text, skip(text, closing(text, skip(text, first + len(word))) + 1)) + 1
        return Statement("unsupported", start, end, first)
    position = first
    while text[position] != ";":
        if text[position] in _CLOSING:
            position = closing(text, position)
        elif text[position] == '"':
            position = _string_end(text, position)
        position = skip(text, position + 1)
    kind: StatementKind = "jump" if word in _JUMPS else "expression"
    return Statement("unsupported" if word in _UNSUPPORTED else kind, start, position + 1, first)


def _headed(text: str, start: int, first: int, word: str) -> Statement:
    """A statement that begins with a keyword and a header in parentheses."""
    opening = skip(text, first + len(word))
    end = closing(text, opening)
    children = [_statement(text, end + 1)]
    after = skip(text, children[-1].end)
    if word == "if" and _word(text, after) == "else":
        children.append(_statement(text, after + len("else")))
    kind: StatementKind = "for" if word == "for" else "while" if word == "while" else "if"
    return Statement(kind, start, children[-1].end, first, (opening + 1, end), tuple(children))


def _word(text: str, position: int) -> str:
    match = _WORD.match(text, position)
    return match.group() if match is not None else ""


def _string_end(text: str, position: int) -> int:
    match = _STRING.match(text, position)
    assert match is not None, "a string without an end in generated code"
    return match.end() - 1
