"""Nsight Compute's CSV: `ncu --csv` with the pages raw, details and source.

raw      a row of columns (`ID`, `Kernel Name`, `Grid Size`, ..., then a column per metric), a row of
         units, a row per launch
details  a row per metric: `Metric Name`, `Metric Unit`, `Metric Value`; also without --page
source   for each kernel `Kernel Name` (or `Function Name`), for each file `File Path`, then a row
         of columns with `Line No` (or `# Line`, `#`) and `Source`, and a row per line; rows of SASS
         between them are skipped, because a line's row is their sum

Output of the profiled program and of ncu (`==PROF==`) may precede them. Numbers may have units with
prefixes (`Mbyte`, `Ksector`) and either decimal sign, which is inferred from all numbers of a file.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from memsim.errors import TraceError
from memsim.formats.profilers.counter_file import (
    MOST_LAUNCHES,
    MOST_LINES,
    CounterFile,
    CounterSums,
    LaunchCounters,
    LineCounters,
    count,
    full_rows,
    is_european,
    n_groups,
    name_of,
)

_WANTED = re.compile(
    r"(l1tex__|lts__|dram__|smsp__inst_executed_op_global|L1/TEX Hit Rate|L2 Hit Rate)"
)
"""Metrics of the memory hierarchy; a full report has thousands of others."""
_LINE_COLUMNS = (
    "Instructions Executed",
    "L1 Tag Requests Global",
    "L2 Theoretical Sectors Global",
    "L2 Theoretical Sectors Global Ideal",
    "L2 Theoretical Sectors Global Excessive",
)
_METRIC = ("Metric Name", "Metric Unit", "Metric Value")
_PREFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_MOST_CELLS = 400_000
_UNITS = ("byte", "sector", "request", "inst", "wavefront", "warp")


def begins(row: list[str]) -> bool:
    """Whether a page of Nsight Compute begins with this row."""
    cells = [cell.strip() for cell in row]
    if "ID" in cells and "Kernel Name" in cells:
        return True
    return len(cells) >= 2 and cells[0] in ("Kernel Name", "Function Name", "File Path")


def read(path: Path, first: list[str], rows: Iterator[list[str]]) -> CounterFile:
    """The page that begins with row `first`; raises TraceError."""
    cells = [cell.strip() for cell in first]
    if "ID" not in cells:
        return _source_page(path, cells, rows)
    if "Metric Name" in cells:
        return _details_page(path, cells, rows)
    return _raw_page(path, cells, rows)


class _Launches:
    """Cells of launches as text; only all of them together show which decimal sign the file uses."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sums = CounterSums()
        self.groups: dict[tuple[str, ...], int | None] = {}
        self.cells: list[tuple[tuple[str, ...], str, str, str]] = []
        self.european = False

    def add(self, cells: Mapping[str, str], name: str, unit: str, cell: str) -> None:
        """cells : of the row, by column"""
        if len(self.cells) >= _MOST_CELLS:
            raise TraceError(f"there must be at most {_MOST_CELLS} counters")
        count(name, cell)  # a cell without a number is refused here, where the line is known
        _scale(unit)
        self.european = self.european or is_european(cell)
        key = name_of("ID", cells["ID"]), name_of("Kernel Name", cells["Kernel Name"])
        self.groups.setdefault(key, n_groups(cells.get("Grid Size", "")))
        self.cells.append((key, name, unit, cell))

    def file(self) -> CounterFile:
        for key, name, unit, cell in self.cells:
            value = count(name, cell, european=self.european)
            if value is not None:
                self.sums.add(key, name, value * _scale(unit), MOST_LAUNCHES, "launches")
        launches = tuple(
            LaunchCounters(id=key[0], kernel=key[1], n_groups=self.groups[key], counters=values)
            for key, values in self.sums.values.items()
        )
        notes = () if launches else ("no metric of l1tex, lts or dram was collected",)
        return CounterFile(path=self.path, tool="nsight", launches=launches, notes=notes)


def _raw_page(path: Path, columns: list[str], rows: Iterator[list[str]]) -> CounterFile:
    wanted = [i for i, name in enumerate(columns) if _WANTED.match(name)]
    # A name may carry its unit: `dram__bytes_read.sum [Mbyte]`.
    parts = {i: re.fullmatch(r"(.*?)(?:\s*\[(.*)\])?", columns[i]) for i in wanted}
    names = {i: (part[1] if part else columns[i]) for i, part in parts.items()}
    units = {i: ((part[2] or "") if part else "") for i, part in parts.items()}
    launches = _Launches(path)
    for row in full_rows(rows, len(columns)):
        cells = dict(zip(columns, row, strict=True))
        if not cells["ID"].strip():
            units = {i: row[i].strip() or units[i] for i in wanted}
            continue
        for i in wanted:
            launches.add(cells, names[i], units[i], row[i])
    return launches.file()


def _details_page(path: Path, columns: list[str], rows: Iterator[list[str]]) -> CounterFile:
    for name in ("Metric Unit", "Metric Value"):
        if name not in columns:
            raise TraceError(f"the first row must have the column {name}")
    least = 1 + max(columns.index(name) for name in ("ID", "Kernel Name", *_METRIC))
    launches = _Launches(path)
    for row in rows:
        if not any(cell.strip() for cell in row):
            continue
        if len(row) < least:  # rows of rules leave the last columns out
            raise TraceError(f"a row must have {len(columns)} columns, got {len(row)}")
        cells = dict(zip(columns, row, strict=False))
        name, unit, value = (cells[column] for column in _METRIC)
        if _WANTED.match(name.strip()):
            launches.add(cells, name.strip(), unit.strip(), value)
    return launches.file()


def _source_page(path: Path, first: list[str], rows: Iterator[list[str]]) -> CounterFile:
    sums = CounterSums()
    sources: dict[tuple[str, ...], str] = {}
    times: dict[tuple[tuple[str, ...], str], int] = {}
    kernel = file = ""
    columns: list[str] = []
    n_sass = 0
    for row in itertools.chain([first], rows):
        cells = [cell.strip() for cell in row]
        if len(cells) >= 2 and cells[0] in ("Kernel Name", "Function Name"):
            kernel, columns = name_of("Kernel Name", cells[1]), []
        elif len(cells) >= 2 and cells[0] == "File Path":
            file, columns = name_of("File Path", cells[1]), []
        elif "Source" in cells and ("Address" in cells or _line_column(cells) is not None):
            columns = cells
        elif columns and any(cells):
            if len(cells) != len(columns):
                raise TraceError(f"a row must have {len(columns)} columns, got {len(cells)}")
            at = _line_column(columns)
            number = cells[at] if at is not None else ""
            if not re.fullmatch(r"[0-9]{1,9}", number) or int(number) == 0:
                n_sass += number in ("", "-", "...") or "Address" in columns
                continue
            key = (kernel, file, number)
            sources.setdefault(key, cells[columns.index("Source")][:200])
            for name in _LINE_COLUMNS:
                if name in columns:
                    value = count(name, cells[columns.index(name)])
                    if value is not None:
                        sums.add(key, name, value, MOST_LINES, "lines")
                        times[key, name] = times.get((key, name), 0) + 1
    lines = tuple(
        LineCounters(
            kernel=key[0],
            file=key[1],
            line=int(key[2]),
            source=sources[key],
            # Every launch of a kernel has a page; the value is their mean.
            counters={name: value / times[key, name] for name, value in values.items()},
        )
        for key, values in sums.values.items()
    )
    notes: tuple[str, ...] = ()
    if not lines:
        notes = (
            "the source page has no line of source: compile with -lineinfo and print it with"
            " --print-source cuda or cuda,sass"
            if n_sass
            else "the source page has no line",
        )
    return CounterFile(path=path, tool="nsight", lines=lines, notes=notes)


def _line_column(columns: list[str]) -> int | None:
    """The column of line numbers; the page of SASS alone numbers its instructions in `#`."""
    for name in ("Line No", "# Line", "Line"):
        if name in columns:
            return columns.index(name)
    return columns.index("#") if "#" in columns and "Address" not in columns else None


def _scale(unit: str) -> float:
    """The factor to base units; 1 for other units."""
    plain = unit.strip().lower()
    for base in _UNITS:
        if plain.removesuffix("s").endswith(base):
            prefix = plain.removesuffix("s").removesuffix(base)
            if prefix not in _PREFIXES:
                raise TraceError(f"Metric Unit must be a known unit, got {unit[:60]!r}")
            return _PREFIXES[prefix]
    return 1.0
