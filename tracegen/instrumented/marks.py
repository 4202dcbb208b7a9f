"""The marks of one code generation, in the order in which they were written, and marked text without them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from loopy.symbolic import TaggedVariable

from tracegen.instrumented.statements import closing

CALL = re.compile(r"\b_tg_(?:load|store|atomic|clamp)_(\d+)\(")
COMMENT = re.compile(r"/\*@tg ([a-z])(\d*)\*/")
COMMENT_LINE = re.compile(r"^[ \t]*(?:/\*@tg [a-z]\d*\*/)+\n", re.MULTILINE)
Edit = tuple[int, int, str]
"""(start, end, replacement) of text[start:end]."""

MarkKind = Literal["load", "store", "atomic", "clamp"]


@dataclass
class Mark:
    """One marked subscript.

    expression : the subscript in the kernel before code generation
    instruction : id of the instruction; "" for a predicate that guards several
    occurrence : number of earlier marks of the same text in the instruction
    component : of a vector element, None for the whole element
    axes : axis and marked C text of each index whose range only a run can check
    """

    kind: MarkKind
    array: str
    expression: Any
    instruction: str
    occurrence: int
    tag: str | None = None
    component: int | None = None
    field_name: str | None = None
    axes: list[tuple[int, str]] = field(default_factory=list)


@dataclass
class MarkTable:
    """The marks of one code generation; a mark's number indexes `marks`.

    instructions : ids, by the number in their statement's comment
    before : of each atomic update, the marked texts of the left side as it is read, of the right side,
        and of the left side as it is swapped
    struct_types : arrays of structs or complex numbers -> C type of an element
    """

    marks: list[Mark] = field(default_factory=list)
    instructions: list[str] = field(default_factory=list)
    before: list[tuple[str, str, str]] = field(default_factory=list)
    arrays: set[str] = field(default_factory=set)
    struct_types: dict[str, str] = field(default_factory=dict)
    instruction: Any = None
    storing: Any = None
    clamping: bool = False
    reading_old: bool = False
    stack: list[Any] = field(default_factory=list)
    seen: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    def add(self, array: str) -> tuple[MarkKind, int]:
        expression = self.stack[-1]
        kind: MarkKind = "load"
        if self.storing is not None and expression is self.storing:
            atomic = any(update.var_name == array for update in self.instruction.atomicity)
            kind = "clamp" if self.reading_old else "atomic" if atomic else "store"
        if self.clamping:
            kind = "clamp"
        name = self.instruction.id if self.instruction is not None else ""
        key = (name, kind, str(expression))
        mark = Mark(kind, array, expression, name, self.seen[key], _access_tag(expression))
        self.seen[key] += 1
        self.marks.append(mark)
        self.arrays.add(array)
        return kind, len(self.marks) - 1


def _access_tag(expression: Any) -> str | None:
    aggregate = getattr(expression, "aggregate", expression)
    if not isinstance(aggregate, TaggedVariable):
        return None
    names = sorted(str(getattr(tag, "value", tag)) for tag in aggregate.tags)
    return ",".join(names)


def strip(marked: str) -> str:
    """The plain code: marked code without its marks."""
    return COMMENT.sub("", strip_calls(COMMENT_LINE.sub("", marked)))


def strip_calls(text: str) -> str:
    edits: list[Edit] = []
    for match in CALL.finditer(text):
        end = closing(text, match.end() - 1)
        edits += [(match.start(), match.end(), ""), (end, end + 1, "")]
    return edited(text, edits)


def edited(text: str, edits: Iterable[Edit], start: int = 0, end: int | None = None) -> str:
    """text[start:end] after edits, all of which lie inside."""
    pieces, position = [], start
    for first, last, replacement in sorted(edits):
        pieces += [text[position:first], replacement]
        position = last
    return "".join([*pieces, text[position:end]])


def calls(text: str, start: int, end: int) -> list[tuple[re.Match[str], int]]:
    matches = [(match, closing(text, match.end() - 1)) for match in CALL.finditer(text, start, end)]
    return sorted(matches, key=lambda call: call[1])
