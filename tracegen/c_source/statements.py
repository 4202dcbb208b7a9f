"""The statements of a kernel that Loopy wrote: just enough C to know what runs after what."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

StatementKind = Literal["block", "for", "if", "do", "expression"]

_BLANK = re.compile(r"(?:\s|/\*.*?\*/|//[^\n]*|^[ \t]*#[^\n]*$)*", re.DOTALL | re.MULTILINE)
_WORD = re.compile(r"[A-Za-z_]\w*")
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_PLAIN_ASSIGNMENT = re.compile(r"(?<![=!<>])=(?!=)")


@dataclass(frozen=True)
class Statement:
    """One statement: text[start:end], blanks and comments before it included.

    header : span between the parentheses of a for, an if or the while of a do
    """

    kind: StatementKind
    start: int
    end: int
    header: tuple[int, int] = (0, 0)
    children: tuple[Statement, ...] = field(default=())


@dataclass(frozen=True)
class Function:
    """A `__kernel` function: where its arguments end and its body, braces excluded, lies."""

    name: str
    has_arguments: bool
    arguments_end: int
    body_start: int
    body_end: int

    def further(self, arguments: str) -> str:
        """What declares further arguments where its own end."""
        return f", {arguments}" if self.has_arguments else arguments


def kernel_functions(text: str) -> Iterator[Function]:
    """The kernels of an OpenCL program in textual order."""
    for match in re.finditer(r"\b__kernel\b", text):
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


def statements(text: str, start: int, end: int) -> list[Statement]:
    """The statements between two offsets."""
    found = []
    while _skip(text, start) < end:
        statement = _statement(text, start)
        found.append(statement)
        start = statement.end
    return found


def closing(text: str, opening: int) -> int:
    """Offset of the bracket that closes the one at `opening`."""
    wanted: list[str] = []
    position = opening
    while True:
        position = _skip(text, position)
        character = text[position]
        if character in _CLOSING:
            wanted.append(_CLOSING[character])
        elif character == '"':
            position = _string_end(text, position)
        elif character in ")]}":
            assert character == wanted[-1], "brackets do not match in generated code"
            wanted.pop()
            if not wanted:
                return position
        position += 1


def assignment_offset(text: str, start: int, end: int) -> int | None:
    """Offset of the `=` of an assignment outside all brackets, None where there is none."""
    position = start
    while (position := _skip(text, position)) < end:
        if text[position] in _CLOSING:
            position = closing(text, position)
        elif text[position] == '"':
            position = _string_end(text, position)
        elif _PLAIN_ASSIGNMENT.match(text, position):
            return position
        position += 1
    return None


def _statement(text: str, start: int) -> Statement:
    position = _skip(text, start)
    if text[position] == "{":
        end = closing(text, position)
        return Statement(
            "block", start, end + 1, children=tuple(statements(text, position + 1, end))
        )
    word = _WORD.match(text, position)
    name = word.group() if word else ""
    if name == "__attribute__":
        hint_end = closing(text, _skip(text, position + len(name))) + 1
        inner = _statement(text, hint_end)
        return Statement(inner.kind, start, inner.end, inner.header, inner.children)
    if name in ("for", "if"):
        opening = _skip(text, position + len(name))
        end = closing(text, opening)
        body = [_statement(text, end + 1)]
        after = _skip(text, body[-1].end)
        if name == "if" and re.compile(r"else\b").match(text, after):
            body.append(_statement(text, after + len("else")))
        return Statement(
            "for" if name == "for" else "if",
            start,
            body[-1].end,
            (opening + 1, end),
            tuple(body),
        )
    if name == "do":
        inner = _statement(text, position + len(name))
        opening = text.index("(", text.index("while", inner.end))
        end = closing(text, opening)
        return Statement("do", start, text.index(";", end) + 1, (opening + 1, end), (inner,))
    while text[position] != ";":
        if text[position] in _CLOSING:
            position = closing(text, position)
        elif text[position] == '"':
            position = _string_end(text, position)
        position = _skip(text, position + 1)
    return Statement("expression", start, position + 1)


def _skip(text: str, position: int) -> int:
    match = _BLANK.match(text, position)
    assert match is not None
    return match.end()


def _string_end(text: str, position: int) -> int:
    match = re.compile(r'"(?:[^"\\]|\\.)*"').match(text, position)
    assert match is not None, "a string without an end in generated code"
    return match.end() - 1
