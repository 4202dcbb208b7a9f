"""Insertions into a text: prefixes and suffixes of nested spans come out nested."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

_Key = tuple[int, int, int, int]


@dataclass
class Edits:
    """Collects changes of one text. Spans that are wrapped may nest, but not cross."""

    made: dict[tuple[_Key, int], str] = field(default_factory=dict)

    def wrap(self, start: int, end: int, prefix: str, suffix: str, rank: int = 0) -> None:
        """Inserts text before and behind text[start:end]; of equal spans, that of higher rank is inside."""
        self.made[(start, 1, -end, rank), start] = prefix
        self.made[(end, 0, -start, -rank), end] = suffix

    def insert(self, offset: int, text: str) -> None:
        """Text behind what ends at the offset and before what begins there, in the order of the calls.

        The same text once only: a function's body is walked at each of its calls.
        """
        for nth in count():
            if self.made.setdefault(((offset, 0, 1, nth), offset), text) == text:
                return

    def replace(self, start: int, end: int, text: str) -> None:
        """In place of text[start:end], within which nothing else may be changed."""
        self.made[(start, 1, -start, 0), end] = text

    def applied(self, text: str) -> str:
        pieces, position = [], 0
        for ((start, _, _, _), end), new in sorted(self.made.items()):
            assert start >= position, "edits cross"
            pieces += [text[position:start], new]
            position = end
        return "".join([*pieces, text[position:]])
