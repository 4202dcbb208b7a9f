"""Expressions of the C that Loopy writes, as trees."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

NodeKind = Literal[
    "number", "real", "name", "unary", "binary", "condition", "call", "index", "member", "cast",
    "list",
]  # fmt: skip

_TOKEN = re.compile(
    r"""\s+|/\*.*?\*/
    |(?P<real>(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?[fFlL]?|\d+[eE][+-]?\d+[fFlL]?)
    |(?P<number>0[xX][0-9a-fA-F]+[uUlL]*|\d+[uUlL]*)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<sign><<|>>|<=|>=|==|!=|&&|\|\||->|[-+*/%<>!~&|^?:,.()\[\]{}])""",
    re.VERBOSE | re.DOTALL,
)
_LEVELS = {
    sign: level
    for level, signs in enumerate(
        ("||", "&&", "|", "^", "&", "== !=", "< > <= >=", "<< >>", "+ -", "* / %")
    )
    for sign in signs.split()
}
_TYPE_WORDS = frozenset(
    [
        "void",
        "bool",
        "char",
        "short",
        "int",
        "long",
        "float",
        "double",
        "half",
        "uchar",
        "ushort",
        "uint",
        "ulong",
        "unsigned",
        "signed",
        "const",
        "volatile",
        "__global",
        "__local",
        "__constant",
        "__private",
    ]
)
_LARGEST = (1 << 64) - 1
_VECTOR_TYPE = re.compile(r"(?:u?(?:char|short|int|long)|float|double|half)\d+|\w+_t")


class Unreadable(Exception):
    """The text is not an expression of the kind that Loopy writes."""


@dataclass(frozen=True)
class Node:
    """An expression.

    text : the digits, the name, the operator, the called function or the type of a cast
    """

    kind: NodeKind
    text: str
    children: tuple[Node, ...] = ()

    def is_call(self, name: str) -> bool:
        """Whether it calls a function of this name."""
        return self.kind == "call" and self.text == name


def parse(text: str) -> Node:
    """The tree of one expression; expressions separated by commas become a list.

    Raises Unreadable.
    """
    parser = _Parser(text)
    node = parser.comma()
    if parser.peek() != "":
        raise Unreadable(f"{parser.peek()!r} in {text.strip()!r}")
    return node


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """The kind of each token and its text."""
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise Unreadable(f"{text[position : position + 10]!r} in {text.strip()!r}")
        position = match.end()
        if match.lastgroup is not None:
            yield match.lastgroup, match.group()
    yield "end", ""


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens = list(_tokens(text))
        self.at = 0

    def peek(self, ahead: int = 0) -> str:
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)][1]

    def take(self, wanted: str | None = None) -> str:
        text = self.peek()
        if wanted is not None and text != wanted:
            raise Unreadable(f"{text!r} where {wanted!r} was expected")
        self.at += 1
        return text

    def comma(self) -> Node:
        children = [self.conditional()]
        while self.peek() == ",":
            self.take()
            children.append(self.conditional())
        return children[0] if len(children) == 1 else Node("list", ",", tuple(children))

    def conditional(self) -> Node:
        condition = self.binary(0)
        if self.peek() != "?":
            return condition
        self.take()
        then = self.comma()
        self.take(":")
        return Node("condition", "?:", (condition, then, self.conditional()))

    def binary(self, level: int) -> Node:
        left = self.unary()
        while _LEVELS.get(self.peek(), -1) >= level:
            sign = self.take()
            left = Node("binary", sign, (left, self.binary(_LEVELS[sign] + 1)))
        return left

    def unary(self) -> Node:
        if self.peek() in ("-", "+", "!", "~", "&", "*"):
            return Node("unary", self.take(), (self.unary(),))
        end = self._cast_end()
        if end:
            words = " ".join(self.take() for _ in range(end))
            return Node("cast", words.strip("() "), (self.unary(),))
        return self.postfix()

    def _cast_end(self) -> int:
        """The number of tokens of a cast that begins here, 0 where there is none."""
        if self.peek() != "(":
            return 0
        ahead = 1
        while self.tokens[self.at + ahead][0] == "name" or (ahead > 1 and self.peek(ahead) == "*"):
            ahead += 1
        if ahead == 1 or self.peek(ahead) != ")":
            return 0
        words = [self.peek(k) for k in range(1, ahead)]
        known = all(
            word in _TYPE_WORDS or word == "*" or _VECTOR_TYPE.fullmatch(word) for word in words
        )
        return ahead + 1 if known else 0

    def postfix(self) -> Node:
        node = self.primary()
        while True:
            sign = self.peek()
            if sign == "[":
                self.take()
                node = Node("index", "[]", (node, self.comma()))
                self.take("]")
            elif sign in (".", "->"):
                self.take()
                node = Node("member", self.take(), (node,))
            elif sign == "(" and node.kind == "name":
                self.take()
                arguments: tuple[Node, ...] = ()
                if self.peek() != ")":
                    listed = self.comma()
                    arguments = listed.children if listed.text == "," else (listed,)
                self.take(")")
                node = Node("call", node.text, arguments)
            else:
                return node

    def primary(self) -> Node:
        kind, text = self.tokens[self.at]
        if kind in ("number", "real", "name"):
            self.at += 1
            return Node(kind, text)  # type: ignore[arg-type]
        if text in ("(", "{"):
            self.take()
            node = self.comma()
            self.take(")" if text == "(" else "}")
            return node
        raise Unreadable(f"{text!r} where a value was expected")


def integer(text: str) -> int:
    """The value of a number of C: 010 is 8. Raises Unreadable where C has none."""
    digits = text.rstrip("uUlL").lower()
    base = 16 if digits.startswith("0x") else 8 if digits.startswith("0") else 10
    with contextlib.suppress(ValueError):  # 08, or thousands of digits
        value = int(digits, base)
        if value <= _LARGEST:
            return value
    raise Unreadable(f"{text[:40]!r} is no number of 64 bits")


def is_truth(tree: Node) -> bool:
    """Whether an expression is 0 or 1."""
    if tree.kind == "unary":
        return tree.text == "!"
    truths = ("&&", "||", "==", "!=", "<", ">", "<=", ">=")
    return tree.kind == "binary" and tree.text in truths
