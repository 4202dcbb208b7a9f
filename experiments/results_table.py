"""The table of results in a Markdown file: what reproductions gave beside what a paper or a GPU
gave.

`memsim reproduce NAME --table FILE` replaces the rows of one reproduction. Rows of the others stay.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import memsim
from experiments.reproduction import Case, Figure, number_text
from memsim.errors import MemsimError
from memsim.files import write_whole

BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
HEAD = (
    "| reproduction | figure | quantity | case | paper or measured | ours | difference | date, version |",
    "|---|---|---|---|---|---|---|---|",
)
MOST_CASES = 6
"""A quantity with more cases gets one row, with their means and errors."""


def read_table(path: Path) -> tuple[str, list[str], str]:
    """The text before the table, its rows without the head, and the text after it.

    Raises MemsimError if the file cannot be read or does not have both marker lines once.
    """
    try:
        text = path.read_text(encoding="utf-8")
        before, rest = text.split(f"{BEGIN}\n")
        table, after = rest.split(f"{END}\n")
    except (OSError, UnicodeDecodeError) as error:
        raise MemsimError(f"--table {path} cannot be read: {error}") from error
    except ValueError:
        raise MemsimError(f"--table {path} must have the lines {BEGIN} and {END} once") from None
    return before, [line for line in table.splitlines() if line not in HEAD], after


def update_table(path: Path, name: str, figures: Sequence[Figure], *, quick: bool) -> None:
    """Replace the rows of these figures of reproduction `name`; raises MemsimError as read_table
    does."""
    before, rows, after = read_table(path)
    replaced = tuple(f"| {name} | {figure.name} |" for figure in figures)
    date = f"{datetime.date.today()}, {memsim.__version__}{', quick' if quick else ''}"
    rows = [row for row in rows if not row.startswith(replaced)]
    rows += [f"| {name} | {row} | {date} |" for figure in figures for row in table_rows(figure)]
    rows.sort(key=lambda row: row.split(" | ")[0])
    text = before + "\n".join([BEGIN, *HEAD, *rows, END]) + "\n" + after
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def table_rows(figure: Figure) -> list[str]:
    """The cells from `figure` to `difference`, for each quantity that has reference values."""
    rows = []
    compared = [c for c in figure.cases if c.reference is not None and c.ours is not None]
    for quantity in dict.fromkeys(case.quantity for case in compared):
        cases = [case for case in compared if case.quantity == quantity]
        head = f"{figure.name} | {_cell(quantity)}"
        if len(cases) <= MOST_CASES:
            rows += [f"{head} | {_single(case)}" for case in cases]
        else:
            rows.append(f"{head} | {_summary(cases)}")
    return rows


def _single(case: Case) -> str:
    reference, ours = case.reference or 0.0, case.ours or 0.0
    interval = "" if case.ci95 is None else f" ± {case.ci95:.2g}"
    if case.unit == "%":
        difference = f"{ours - reference:+.2g} points"
    elif case.unit and reference:
        difference = f"{100 * (ours / reference - 1):+.1f} %"
    else:
        difference = f"{ours - reference:+.2g}"
    return (
        f"{_cell(case.case)} | {_with_unit(reference, case.unit)}"
        f" | {number_text(ours)}{interval} | {difference}"
    )


def _summary(cases: Sequence[Case]) -> str:
    """Means of both sides, and the mean and largest error.

    The errors are points for percentages, absolute for numbers without a unit such as correlations, and
    relative for all others.
    """
    reference = np.array([case.reference for case in cases], np.float64)
    ours = np.array([case.ours for case in cases], np.float64)
    if cases[0].unit == "%":
        off = ours - reference
        mean, unit = f"mean {np.abs(off).mean():.2g} points", " points"
        worst = int(np.abs(off).argmax())
        largest = f"{off[worst]:+.2g}{unit}"
    elif cases[0].unit and (ours > 0).all() and (reference > 0).all():
        off = ours / reference - 1
        mean = f"geometric mean {100 * (np.exp(np.abs(np.log(ours / reference)).mean()) - 1):.1f} %"
        worst = int(np.abs(off).argmax())
        largest = f"{100 * off[worst]:+.1f} %"
    else:
        off = ours - reference
        mean = f"mean {np.abs(off).mean():.2g}"
        worst = int(np.abs(off).argmax())
        largest = f"{off[worst]:+.2g}"
    return (
        f"{len(cases)} cases | mean {_with_unit(reference.mean(), cases[0].unit)}"
        f" | mean {number_text(ours.mean())} | {mean}; largest {largest} ({_cell(cases[worst].case)})"
    )


def _with_unit(value: float, unit: str) -> str:
    return f"{number_text(value)} {_cell(unit)}".strip()


def _cell(text: str) -> str:
    return text.replace("|", "/")
