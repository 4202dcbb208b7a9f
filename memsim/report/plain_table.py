"""The terminal's table of whatever is not the accesses of a replay: a head, and rows of plain texts."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from memsim.report import text
from memsim.report.table import LONGEST_NAME
from memsim.visible import visible

_NUMBER = re.compile(rf"[-+<]?\d|± |[-{text.UNKNOWN}]?$|\?$")
Texts = tuple[list[str], list[list[str]]]
"""The heads of a table's columns, and its rows."""
_LEAST_WIDTH = 20
"""Characters of a line of text below which a column is hard to read."""


class PlainTable(Table):
    """Columns of numbers to the right and in one line each, other columns to the left. On a console that is
    too narrow for that, every row stands on lines of its own, a line for each column."""

    def __init__(
        self, title: str, columns: Sequence[str], rows: Iterable[Sequence[str | Text]]
    ) -> None:
        super().__init__(
            title=Text(visible(title)) if title else None,
            title_justify="left",
            header_style="bold",
            box=None,
            pad_edge=False,
        )
        self._texts = [[_text(cell) for cell in row] for row in rows]
        self._heads, self._lines = list(columns), list[str]()
        self._columns_needed = self._columns_wanted = -2
        for k, head in enumerate(columns):
            cells = [row[k].plain for row in self._texts]
            longest = max((len(line) for cell in cells for line in cell.split("\n")), default=0)
            is_short = 0 < longest <= _LEAST_WIDTH
            numbers = k > 0 and is_short and all(map(_NUMBER.match, cells))
            words = max(map(len, head.split()), default=0)
            self._lines.append(textwrap.fill(head, max(longest, words, 1)) if numbers else head)
            self.add_column(
                Text(head),
                justify="right" if numbers else "left",
                no_wrap=numbers,
                overflow="ellipsis" if numbers else "fold",
            )
            self._columns_needed += 2 + max(min(longest, _LEAST_WIDTH), words)
            self._columns_wanted += 2 + max(longest, len(head))
        for row in self._texts:
            self.add_row(*row)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if options.max_width >= self._columns_needed:
            heads = self._heads if options.max_width >= self._columns_wanted else self._lines
            for column, head in zip(self.columns, heads, strict=True):
                column.header = Text(head)
            yield from super().__rich_console__(console, options)
            return
        if self.title:
            yield self.title
        for row in self._texts:
            for k, (head, cell) in enumerate(zip(self._heads, row, strict=True)):
                if cell and not k:
                    yield Text("", style="bold", overflow="fold").append(cell)
                elif cell:
                    what = f"  {head}: " if head else "  "
                    yield Text(what, overflow="fold").append(Text(", ").join(cell.split()))


def without_equal(table: Texts, kept: int) -> tuple[Texts, str]:
    """A table without the columns behind the first `kept` that hold one value only, and these in words:
    `In all: occupancy 100 %, registers 23.`; of a single row, only what is empty is left out."""
    head, rows = table
    values = [{row[k] for row in rows} for k in range(len(head))]
    equal = [
        k for k in range(kept, len(head)) if values[k] == {""} or len(rows) > 1 == len(values[k])
    ]
    left = [k for k in range(len(head)) if k not in equal]
    words = ", ".join(f"{head[k]} {rows[0][k]}" for k in equal if rows[0][k])
    rest = [head[k] for k in left], [[row[k] for k in left] for row in rows]
    return rest, f"In all: {words}." if words else ""


def _text(cell: str | Text) -> Text:
    return (
        cell
        if isinstance(cell, Text)
        else Text(visible(text.shortened(cell, LONGEST_NAME), keep="\n"))
    )
