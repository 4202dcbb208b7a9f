"""The text of an OpenCL C program as a walk over its statements needs it, each part read once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tracegen.c_source.expressions import Node, Unreadable, parse
from tracegen.c_source.statements import Span, Statement, closing, read_statements, skip

_FUNCTION = re.compile(r"([A-Za-z_]\w*)\s*\(")
_ATTRIBUTE = re.compile(r"\b__attribute__\s*(?=\()")
_BLANKED = re.compile(r'/\*.*?\*/|//[^\n]*|(?P<string>"(?:[^"\\\n]|\\.)*")', re.DOTALL)
_DECLARED = re.compile(
    r"\s*(?P<words>(?:[A-Za-z_]\w*\s+)*?[A-Za-z_]\w*)"
    r"(?P<star>\s*\*[\s*]*(?:(?:const|restrict|volatile)\b\s*)*|\s+)"
    r"(?P<name>[A-Za-z_]\w*)\s*(?P<extents>(?:\[[^\]]*\]\s*)*)$"
)
_FURTHER = re.compile(r"(?P<star>[\s*]*)(?P<name>[A-Za-z_]\w*)\s*(?P<extents>(?:\[[^\]]*\]\s*)*)$")
_EXTENT = re.compile(r"\[([^\]]*)\]")
_OPERATOR = re.compile(r"(<<|>>|[-+*/%&|^])\s*$")


@dataclass(frozen=True)
class Expression:
    """tree : None where the text cannot be read;  start : offset that the tree's offsets count from"""

    text: str
    tree: Node | None
    start: int


@dataclass(frozen=True)
class Assignment:
    """`left sign= value`; `++left` and its like add or subtract 1."""

    left: Expression
    sign: str
    value: Operand


@dataclass(frozen=True)
class Declaration:
    """words : the type and its qualifiers, without stars;  extents : of an array, as text"""

    words: str
    name: str
    is_pointer: bool
    extents: tuple[str, ...]
    value: Operand | None = None


Operand = Expression | Assignment


@dataclass(frozen=True)
class Function:
    parameters: tuple[Declaration, ...]
    body: Span


_ONE = Expression("1", Node("number", "1"), 0)


class Text:
    """A program; every offset counts in the text that was given.

    functions : those that it defines, by name
    """

    def __init__(self, text: str) -> None:
        self.text = _plain(text)
        self.functions = dict(self._functions())
        self._statements: dict[Span, tuple[Statement, ...]] = {}
        self._pieces: dict[Span, tuple[Operand | Declaration, ...]] = {}
        self._operands: dict[Span, Operand] = {}

    def statements(self, body: Span) -> tuple[Statement, ...]:
        if body not in self._statements:
            self._statements[body] = read_statements(self.text, *body)
        return self._statements[body]

    def pieces(self, span: Span) -> tuple[Operand | Declaration, ...]:
        """What a simple statement declares, assigns or evaluates, between its commas."""
        if span not in self._pieces:
            self._pieces[span] = tuple(self._read(span))
        return self._pieces[span]

    def operand(self, span: Span) -> Operand:
        """An expression, or an assignment, which has a value too."""
        if span not in self._operands:
            self._operands[span] = self._operand(*span)
        return self._operands[span]

    def cut(self, span: Span, separator: str) -> list[Span]:
        """The spans that a separator outside all brackets cuts a span into."""
        spans, (first, end), depth = [], span, 0
        for match in re.finditer(rf"[()\[\]{{}}{separator}]", self.text[first:end]):
            sign, at = match.group(), span[0] + match.start()
            if sign in "([{":
                depth += 1
            elif sign in ")]}":
                depth -= 1
            elif not depth:
                spans.append((first, at))
                first = at + 1
        return [*spans, (first, end)]

    def _read(self, span: Span) -> Iterator[Operand | Declaration]:
        words = ""
        for number, (first, last) in enumerate(self.cut(span, ",")):
            equals = self._equals(first, last)
            left = self.text[first : last if equals is None else equals]
            if not left.strip():
                continue
            match = _DECLARED.match(left) if not number else _FURTHER.match(left) if words else None
            if match is None or _OPERATOR.search(left):
                yield self.operand((first, last))
                continue
            words = words or match["words"]
            value = None if equals is None else self.operand((equals + 1, last))
            yield _declaration(match, words, value)

    def _operand(self, start: int, end: int) -> Operand:
        equals = self._equals(start, end)
        if equals is not None:
            sign = _OPERATOR.search(self.text[start:equals])
            last = equals if sign is None else start + sign.start()
            value = self.operand((equals + 1, end))
            return Assignment(self._expression(start, last), sign[1] if sign else "", value)
        first, end_of_code = self._trimmed(start, end)
        for step in ("++", "--"):
            if self.text.startswith(step, first, end_of_code):
                return self._stepped(step, first + 2, end_of_code)
            if self.text.endswith(step, first, end_of_code):
                return self._stepped(step, first, end_of_code - 2)
        return self._expression(start, end)

    def _stepped(self, step: str, start: int, end: int) -> Assignment:
        return Assignment(self._expression(*self._trimmed(start, end)), step[0], _ONE)

    def _trimmed(self, start: int, end: int) -> Span:
        """The span without the blanks around it."""
        text = self.text[start:end]
        return end - len(text.lstrip()), start + len(text.rstrip())

    def _expression(self, start: int, end: int) -> Expression:
        text = self.text[start:end]
        try:
            return Expression(text, parse(text), start)
        except Unreadable:
            return Expression(text, None, start)

    def _equals(self, start: int, end: int) -> int | None:
        """Offset of the `=` of an assignment."""
        for _, at in self.cut((start, end), "=")[:-1]:
            before = self.text[at - 2 : at]
            is_shift = before in ("<<", ">>")
            if self.text[at + 1] != "=" and (is_shift or before[-1] not in "=!<>"):
                return at
        return None

    def _functions(self) -> Iterator[tuple[str, Function]]:
        position = 0
        while (match := _FUNCTION.search(self.text, position)) is not None:
            end = closing(self.text, match.end() - 1)
            brace = skip(self.text, end + 1)
            position = end + 1
            if self.text[brace : brace + 1] == "{":
                position = closing(self.text, brace) + 1
                parts = self.cut((match.end(), end), ",")
                found = (_DECLARED.match(self.text[slice(*part)]) for part in parts)
                parameters = tuple(_declaration(one, one["words"]) for one in found if one)
                yield match[1], Function(parameters, (brace + 1, position - 1))


def _declaration(match: re.Match[str], words: str, value: Operand | None = None) -> Declaration:
    extents = tuple(_EXTENT.findall(match["extents"]))
    return Declaration(words, match["name"], "*" in match["star"], extents, value)


def _plain(text: str) -> str:
    """The text without comments and attributes, and with 0 for strings; all offsets as before."""
    text = _BLANKED.sub(lambda match: _blank(match.group(), "0" if match["string"] else ""), text)
    for match in reversed(list(_ATTRIBUTE.finditer(text))):
        end = closing(text, match.end()) + 1
        text = text[: match.start()] + _blank(text[match.start() : end]) + text[end:]
    return text


def _blank(text: str, instead: str = "") -> str:
    return instead + re.sub(r"[^\n]", " ", text[len(instead) :])
