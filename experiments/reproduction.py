"""The results of a reproduction, and the page, pictures and summary that it writes.

A reproduced paper is a package with TITLE and FIGURES. FIGURES maps the name of a figure to the
function that makes it, which takes the folder for pictures and whether to make only a quick part.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from markupsafe import Markup

from memsim import report
from memsim.errors import MemsimError
from memsim.files import write_text

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class Case:
    """One quantity of one case.

    reference : the number in the paper or measured on hardware; None if there is none
    ours : None if we have no value; `note` then gives the reason
    ci95 : half-width of the 95 % confidence interval of ours
    """

    case: str
    quantity: str
    unit: str
    _: KW_ONLY
    reference: float | None = None
    ours: float | None
    ci95: float | None = None
    note: str = ""

    def record(self, figure: str) -> dict[str, str | float | None]:
        """The record of the case in summary.json."""
        values = dataclasses.asdict(self)
        return {
            "figure": figure,
            **{_RECORDED.get(name, name): value for name, value in values.items()},
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """The case of which this is the record."""
        return cls(
            **{f.name: record[_RECORDED.get(f.name, f.name)] for f in dataclasses.fields(cls)}
        )


_RECORDED = {"reference": "paper"}
"""Fields of a case that summary.json has under other names."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """The cases of a figure or table, findings as sentences, and the file names of its pictures.

    source : where the reference numbers come from
    reference_name : their column's title, `paper` or `measured`
    """

    title: str
    source: str
    cases: Sequence[Case]
    findings: Sequence[str]
    pictures: Sequence[str] = field(default_factory=tuple)
    reference_name: str = "paper"


MakeFigure = Callable[[Path, bool], Figure]


def number_text(value: float) -> str:
    """A number with four significant figures, without an exponent where it is of common size."""
    return f"{float(f'{value:.4g}'):,.0f}" if 1e4 <= abs(value) < 1e7 else f"{value:.4g}"


def reproduce(
    title: str,
    figures: Mapping[str, MakeFigure],
    out: Path,
    *,
    only: str | None = None,
    quick: bool = False,
    finished: Callable[[str, Figure], object],
) -> None:
    """Make the figures, give each with its name to `finished`, and write the page and the summary into `out`.

    The page and the summary are written after every figure, so an interrupted run keeps the
    finished ones. They lack a figure that fails. At the end an ExceptionGroup contains one group
    for each of those, with its name and its error; where one figure was chosen, that is raised.
    Raises MemsimError if `only` is not the name of a figure, or if `out` is a file.
    """
    chosen = list(figures)
    if only is not None:  # hyphens may be left out: figure5 is figure-5
        plain = only.replace("-", "")
        chosen = [name for name in figures if name.replace("-", "") == plain]
        if not chosen:
            raise MemsimError(f"no figure {only!r}: choose one of {', '.join(figures)}")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise MemsimError(f"--out must be a folder, got the file {out}") from error
    done: dict[str, Figure] = {}
    failed: list[ExceptionGroup[Exception]] = []
    for name in chosen:
        try:
            done[name] = figures[name](out, quick)
        except Exception as error:
            failed.append(ExceptionGroup(name, [error]))
            continue
        records = [case.record(figure) for figure, made in done.items() for case in made.cases]
        write_text(out / "summary.json", json.dumps(records, indent=1))
        write_text(out / "index.html", page(title, done))
        finished(name, done[name])
    if failed:
        message = f"{len(failed)} of {len(chosen)} figures failed"
        raise failed[0] if len(chosen) == 1 else ExceptionGroup(message, failed)


def table(figure: Figure) -> RenderableType:
    """The cases and findings of a figure, for the terminal."""
    from rich.console import Group
    from rich.text import Text

    texts = [[cell.text for cell in row] for row in map(_row, figure.cases)]
    (head, rows), equal = report.without_equal((_head(figure), texts), 1)
    lines = [*([equal] if equal else []), *figure.findings]
    return Group("", report.PlainTable(figure.title, head, rows), *(Text(line) for line in lines))


def page(title: str, figures: Mapping[str, Figure]) -> str:
    """All figures as one HTML page; it refers to the pictures in the same folder.  figures : name -> figure"""
    cases = [case for figure in figures.values() for case in figure.cases]
    compared = sum(case.reference is not None and case.ours is not None for case in cases)
    known = [change for change in map(_change, cases) if change is not None]
    off = sorted(map(abs, known))
    kinds = {case.unit == "%" for case in cases if _change(case) is not None}
    unit = " % or points" if len(kinds) > 1 else " points" if kinds == {True} else " %"
    some = len(cases) if compared == len(cases) else f"{compared} of {len(cases)}"
    half = ""
    if off:
        middle, most = (f"{100 * value:.1f}{unit}" for value in (off[len(off) // 2], off[-1]))
        half = f"; half of them differ by at most {middle}, all by at most {most}"
    return report.page(
        title,
        f"{some} quantities are compared with published or measured numbers{half}",
        [
            report.Section(figure.title, _body(figure), name, name)
            for name, figure in figures.items()
        ],
        footer="Its pictures are PNG files in the same folder.",
    )


def _body(figure: Figure) -> Markup:
    pictures = Markup("").join(
        Markup('<a href="{0}"><img src="{0}" alt="{0}"></a>').format(name)
        for name in figure.pictures
    )
    rows = [_row(case) for case in figure.cases]
    head = _head(figure)
    texts = [[cell.text for cell in row] for row in rows]
    (kept, _), equal = report.without_equal((head, texts), 1)
    shown = [k for k, name in enumerate(head) if name in kept]
    left = [k for k, name in enumerate(kept) if name in ("case", "quantity", "note")]
    return Markup("{}{}<div class=pictures>{}</div>{}{}").format(
        report.paragraph(figure.source, "soft small"),
        report.bullets(figure.findings),
        pictures,
        report.data_table(kept, [[row[k] for k in shown] for row in rows], left=left),
        report.paragraph(equal, "soft small"),
    )


def _head(figure: Figure) -> list[str]:
    return ["case", "quantity", figure.reference_name, "ours", "difference", "note"]


def _change(case: Case) -> float | None:
    """By how much ours differs: a percentage by parts of the whole, anything else relatively."""
    if case.reference is None or case.ours is None:
        return None
    if case.unit == "%":
        return (case.ours - case.reference) / 100
    return case.ours / case.reference - 1 if case.reference else None


def _row(case: Case) -> list[report.Cell]:
    change = _change(case)
    words = report.UNKNOWN
    if change is not None:
        words = f"{100 * change:+.1f}".replace("-0.0", "0.0").replace("+0.0", "0.0")
        words += " points" if case.unit == "%" else " %"
    quantity = case.quantity.replace("_", " ")
    spread = "" if case.ci95 is None else f" ± {case.ci95:.2g}"
    return [
        report.Cell(case.case),
        report.Cell(f"{quantity}, {case.unit}" if case.unit else quantity),
        _number(case.reference),
        _number(case.ours, spread),
        report.Cell(words, value=change),
        report.Cell(case.note),
    ]


def _number(value: float | None, spread: str = "") -> report.Cell:
    return report.Cell(
        report.UNKNOWN if value is None else number_text(value) + spread, value=value
    )
