"""The marks in marked code, and the text without them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tracegen.instrumented.statements import closing

CALL = re.compile(r"\b_tg_(?:load|store|atomic|clamp)_(\d+)\(")
COMMENT = re.compile(r"/\*@tg ([a-z])(\d*)\*/")
COMMENT_LINE = re.compile(r"^[ \t]*(?:/\*@tg [a-z]\d*\*/)+\n", re.MULTILINE)
Edit = tuple[int, int, str]
"""(start, end, replacement) of text[start:end]."""


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
