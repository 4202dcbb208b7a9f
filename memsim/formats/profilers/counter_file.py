"""Counters that a profiler measured, by launch and by source line, and what its readers share.

Values are in base units (bytes, sectors, requests); percentages stay per cent. The size of a row,
the number of launches and the number of counters are bounded: a file beyond the limits below is a
TraceError with file and line.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from memsim.errors import TraceError
from memsim.formats.text import Text
from memsim.visible import shown, visible

Tool = Literal["nsight", "rocprof"]
MOST_LAUNCHES = 100_000
MOST_LINES = 200_000
MOST_COLUMNS = 20_000
MOST_CELLS = 2_000_000
"""The most numbers that are kept of one file."""
LARGEST = 1e24
_MOST_NAME = 1 << 12


@dataclass(frozen=True, kw_only=True)
class LaunchCounters:
    """Counters of one launch of a kernel.

    id : the profiler's number of the launch
    n_groups : of the launch, None where the file does not say
    counters : the profiler's name -> value in base units
    """

    id: str
    kernel: str
    n_groups: int | None
    counters: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class LineCounters:
    """Counters of one line of source, the mean over the kernel's launches in the file."""

    kernel: str
    file: str
    line: int
    source: str
    counters: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class CounterFile:
    """The content of a profiler's file.

    notes : what the reader could not use, in words
    """

    path: Path
    tool: Tool
    launches: tuple[LaunchCounters, ...] = ()
    lines: tuple[LineCounters, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def kernels(self) -> tuple[str, ...]:
        """Names of the kernels, in the order of the file."""
        return tuple(
            dict.fromkeys(
                [*(one.kernel for one in self.launches), *(one.kernel for one in self.lines)]
            )
        )


@dataclass
class CounterSums:
    """Counters summed while a file is read; their number is bounded."""

    values: dict[tuple[str, ...], dict[str, float]] = field(default_factory=dict)
    n_cells: int = 0

    def add(self, key: tuple[str, ...], name: str, value: float, most: int, what: str) -> None:
        """Adds a value to a counter; a file may list one per instance of its hardware unit."""
        row = self.values.get(key)
        if row is None:
            if len(self.values) >= most:
                raise TraceError(f"there must be at most {most} {what}")
            row = self.values[key] = {}
        if name not in row:
            self.n_cells += 1
            if self.n_cells > MOST_CELLS:
                raise TraceError(f"there must be at most {MOST_CELLS} counters")
        row[name] = row.get(name, 0.0) + value


class Rows:
    """Rows of a CSV file without the messages of profilers (`==PROF==`).

    begun : set once the row of columns is found; lines before it need not be CSV

    Raises TraceError for a file that is not CSV, and for a row of more than MOST_COLUMNS cells.
    """

    def __init__(self, text: Text) -> None:
        self.begun = False
        self._text = text
        self._reader = csv.reader(self._lines())

    def __iter__(self) -> Iterator[list[str]]:
        return self

    def __next__(self) -> list[str]:
        row = next(self._reader)
        if len(row) > MOST_COLUMNS:
            raise TraceError(f"a row must have at most {MOST_COLUMNS} columns, got {len(row)}")
        return row

    def _lines(self) -> Iterator[str]:
        for line in self._text.decoded(skipped=b"=="):
            if line.count('"') % 2:
                # A quoted line break, which no profiler writes, would join the rest into one cell.
                if self.begun:
                    raise TraceError("not CSV: a quoted cell must end on its line")
                continue
            yield line


def full_rows(rows: Iterator[list[str]], n_columns: int) -> Iterator[list[str]]:
    """The rows that are not empty; raises TraceError for one with another number of columns."""
    for row in rows:
        if any(cell.strip() for cell in row):
            if len(row) != n_columns:
                raise TraceError(f"a row must have {n_columns} columns, got {len(row)}")
            yield row


def name_of(what: str, cell: str) -> str:
    """A name from a file, of bounded length, in letters that can be printed."""
    if len(cell) > _MOST_NAME:
        raise TraceError(f"{what} must be at most {_MOST_NAME} letters long")
    return visible(cell.strip())


def count(name: str, cell: str, *, european: bool = False, least: float = 0.0) -> float | None:
    """The number in a cell; None for an empty cell and for `n/a` and the like.

    european : `.` groups thousands and `,` precedes decimals
    """
    plain = cell.strip()
    if plain.lower() in ("", "-", "n/a", "nan", "(null)", "none"):
        return None
    if not re.fullmatch(r"[-+]?[0-9.,]{1,64}([eE][-+]?[0-9]{1,4})?", plain):
        raise TraceError(f"{name} must be a number, got {shown(cell)}")
    digits = plain.replace(".", "").replace(",", ".") if european else plain.replace(",", "")
    try:
        value = float(digits)
    except ValueError:
        raise TraceError(f"{name} must be a number, got {shown(cell)}") from None
    if not least <= value <= LARGEST or not math.isfinite(value):
        raise TraceError(f"{name} must be {least:g} to {LARGEST:g}, got {shown(cell)}")
    return value


def is_european(cell: str) -> bool:
    """Whether a number can only have been written with `,` before its decimals."""
    plain = cell.strip()
    if not re.fullmatch(r"[0-9][0-9.,]{0,63}", plain):
        return False
    if plain.count(".") > 1:
        return True
    comma, dot = plain.rfind(","), plain.rfind(".")
    if comma < 0:
        return False
    # 65,77 and 1.234,5: a comma that groups thousands is followed by three digits and a dot.
    return dot < comma and (dot >= 0 or not re.fullmatch(r"[0-9]{1,3}(,[0-9]{3})+", plain))


def n_groups(text: str) -> int | None:
    """Groups of a launch from `(128, 1, 1)`; None for any other text."""
    parts = re.fullmatch(r"\s*\(?\s*(\d{1,10})\s*,\s*(\d{1,10})\s*,\s*(\d{1,10})\s*\)?\s*", text)
    if parts is None:
        return None
    x, y, z = (int(part) for part in parts.groups())
    return x * y * z or None
