"""Statements of the OpenCL C that Loopy writes, with the spans of text that they take.

Only statements are parsed here; expressions stay text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

StatementKind = Literal["block", "for", "if", "do", "expression"]
Span = tuple[int, int]

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|^[ \t]*#[^\n]*$", re.DOTALL | re.MULTILINE)
_BLANK = re.compile(rf"(?:\s|{_COMMENT.pattern})*", re.DOTALL | re.MULTILINE)
_WORD = re.compile(r"[A-Za-z_]\w*")
_KERNEL = re.compile(rf"{_COMMENT.pattern}|\b(__kernel)\b", re.DOTALL | re.MULTILINE)
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_EQUALS = re.compile(r"(?<![=!<>])=(?!=)")
_LEFT_SIDE = re.compile(
    r"\s*((?:[A-Za-z_]\w*\s+)*)([A-Za-z_]\w*)\s*((?:\[.*\])?(?:\.\w+)?)\s*$", re.DOTALL
)
_DECLARATION = re.compile(r"\s*((?:[A-Za-z_]\w*\s+)+)([A-Za-z_]\w*)\s*;\s*$")


@dataclass(frozen=True)
class Statement:
    """One statement: text[start:end], blanks and comments before it included.

    header : between the parentheses of a for or if, or of the while of a do
    children : of a block, its statements; of an if, what runs where the condition holds and, if
        there is an else, what runs where it does not; of a loop, its body
    """

    kind: StatementKind
    start: int
    end: int
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
    """The header of a for: `counter = first; test; updates`."""

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
            after = _skip(text, word.end())
            if word.group() == "__attribute__":
                position = closing(text, after) + 1
            elif text[after] == "(":
                break
            else:
                position = word.end()
        arguments_end = closing(text, after)
        brace = _skip(text, arguments_end + 1)
        assert text[brace] == "{", "a __kernel without a body"
        has_arguments = _skip(text, after + 1) < arguments_end
        yield Function(word.group(), has_arguments, arguments_end, brace + 1, closing(text, brace))


def read_statements(text: str, start: int, end: int) -> tuple[Statement, ...]:
    """The statements between two offsets."""
    statements: list[Statement] = []
    while _skip(text, start) < end:
        statements.append(_statement(text, start))
        start = statements[-1].end
    return tuple(statements)


def closing(text: str, opening: int) -> int:
    """Offset of the bracket that closes the one at `opening`."""
    expected: list[str] = []
    position = opening
    while True:
        position = _skip(text, position)
        character = text[position]
        if character in _CLOSING:
            expected.append(_CLOSING[character])
        elif character in ")]}":
            assert character == expected[-1], "brackets do not match in generated code"
            expected.pop()
            if not expected:
                return position
        position += 1


def assignment(text: str, start: int, end: int) -> Assignment | None:
    """The assignment that a simple statement is; None where it is none."""
    equals = next((p for p in _outside_brackets(text, start, end) if _EQUALS.match(text, p)), None)
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
            names.add(loop_header(text[slice(*inner.header)]).counter)
    return frozenset(names - {""})


def loop_header(text: str) -> LoopHeader:
    """The text between a loop's parentheses."""
    (start, end), test, (update, update_end) = _split(text, 0, len(text), ";")
    begin = assignment(text, start, end)
    assert begin is not None, "a loop without a counter"
    spans = _split(text, update, update_end, ",")
    updates = [without_comments(text[slice(*span)]).strip() for span in spans]
    return LoopHeader(
        counter=begin.name,
        first=text[begin.equals + 1 : end].strip(),
        test=text[slice(*test)].strip(),
        updates=tuple(part for part in updates if part),
    )


def names_in(text: str) -> frozenset[str]:
    """The identifiers of an expression."""
    return frozenset(_WORD.findall(text))


def without_comments(text: str) -> str:
    """Comments and preprocessor directives replaced by a blank."""
    return _COMMENT.sub(" ", text)


def _skip(text: str, position: int) -> int:
    """Offset of the first code from a position on, behind blanks, comments and directives."""
    match = _BLANK.match(text, position)
    assert match is not None
    return match.end()


def _split(text: str, start: int, end: int, separator: str) -> list[Span]:
    """The spans that a separator outside all brackets cuts text[start:end] into."""
    spans, first = [], start
    for position in _outside_brackets(text, start, end):
        if text[position] == separator:
            spans.append((first, position))
            first = position + 1
    return [*spans, (first, end)]


def _outside_brackets(text: str, start: int, end: int) -> Iterator[int]:
    """Offsets of code that is in no bracket or comment."""
    position = start
    while (position := _skip(text, position)) < end:
        if text[position] in _CLOSING:
            position = closing(text, position)
        else:
            yield position
        position += 1


def _statement(text: str, start: int) -> Statement:
    first = _skip(text, start)
    if text[first] == "{":
        end = closing(text, first)
        return Statement("block", start, end + 1, children=read_statements(text, first + 1, end))
    word = _word(text, first)
    if word in ("for", "if"):
        return _headed(text, start, first, word)
    if word == "do":
        body = _statement(text, first + len(word))
        opening = text.index("(", text.index("while", body.end))
        end = closing(text, opening)
        return Statement("do", start, text.index(";", end) + 1, (opening + 1, end), (body,))
    end = next(p for p in _outside_brackets(text, first, len(text)) if text[p] == ";")
    return Statement("expression", start, end + 1)


def _headed(text: str, start: int, first: int, word: str) -> Statement:
    """A statement that begins with a keyword and a header in parentheses."""
    opening = _skip(text, first + len(word))
    end = closing(text, opening)
    children = [_statement(text, end + 1)]
    after = _skip(text, children[-1].end)
    if word == "if" and _word(text, after) == "else":
        children.append(_statement(text, after + len("else")))
    kind: StatementKind = "for" if word == "for" else "if"
    return Statement(kind, start, children[-1].end, (opening + 1, end), tuple(children))


def _word(text: str, position: int) -> str:
    match = _WORD.match(text, position)
    return match.group() if match is not None else ""
