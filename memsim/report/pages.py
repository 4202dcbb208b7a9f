"""One page for every report: a headline, sections, and the parts that sections are made of.

    page("Tuning of gemm", "16x16 tiles are 2.1 times faster", [
        Section("What was tried", data_table(["tile", "time"], [["8x8", "1.2 ms"], ["16x16", "0.6 ms"]])),
        Section("Time by tile", bar_chart([Bar("8x8", 1.2, "1.2 ms"), Bar("16x16", 0.6, "0.6 ms")])),
    ])

A page is one file that loads nothing but pictures that lie beside it, where a section refers to any. It follows the reader's light or dark scheme, fits a window of
500 pixels and prints on A4 and Letter. Text is escaped wherever it is not Markup; no part of a page may be
made Markup by hand where it contains text from outside. Line charts and heat maps are in
`memsim.report.svg`. Every table of the class `sortable` sorts by the columns whose head has `data-sort`;
n and p move between the elements that have `data-stop`.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from memsim.report import source_view, text

MOST_ROWS = 30
"""A longer table scrolls within the height of the window, its heads in view; paper has all rows."""


@dataclass(frozen=True)
class Section:
    """A part of a page under its own heading.

    body : text, which is escaped, or Markup
    name : its name in the page's navigation; by default the title. Without a heading (title "") a
        section is not in the navigation
    anchor : id of the heading; by default made from the name
    """

    title: str
    body: Markup | str
    name: str = ""
    anchor: str = ""

    @property
    def label(self) -> str:
        return self.name or self.title

    @property
    def id(self) -> str:
        return self.anchor or re.sub(r"[^a-z0-9]+", "-", self.label.lower()).strip("-")


LONG = 24
"""Characters: a longer line of a cell is wrapped."""


@dataclass(frozen=True)
class Cell:
    """A cell of a table: its text, a smaller second line, and the number that it is sorted by."""

    text: Markup | str
    note: Markup | str = ""
    value: float | None = None

    @property
    def is_long(self) -> bool:
        """Whether its text is wrapped where the table has little room."""
        lines = Markup.escape(self.text).split("<br>")
        return any(len(line.striptags()) > LONG for line in lines)


@dataclass(frozen=True)
class Bar:
    """A bar of a bar chart.

    value : its length, in the unit of the chart, >= 0
    shown : the value as text
    mark : another value on the same scale, drawn as a line, such as a lower bound
    kind : `bar`, `better`, `worse` or `soft`
    """

    name: Markup | str
    value: float
    shown: str
    mark: float | None = None
    kind: str = "bar"


def page(
    title: Markup | str,
    headline: str,
    sections: Sequence[Section],
    *,
    subtitle: Markup | str = "",
    lead: Markup | str = "",
    first: Sequence[str] = (),
    footer: str = "This page is one self-contained file and loads nothing.",
) -> str:
    """The page as HTML.

    title : what was examined; headline : the finding, in one sentence
    lead : what follows the headline in its box
    first : what readers must know before anything else, a sentence each
    footer : what the page says of itself at its end
    """
    return _with_units_beside_numbers(
        render(
            "base.html.j2",
            title=title,
            tab=title.striptags() if isinstance(title, Markup) else title,
            headline=headline,
            subtitle=subtitle,
            lead=lead,
            first=first,
            sections=sections,
            footer=footer,
            script=Markup(_script()),
            policy=_policy(_script()),
        )
    )


_VERBATIM = (
    r"<(?P<tag>style|script|pre|code)\b.*?</(?P=tag)>|<td class=\"[^\"]*\bcode\b.*?</td>|<[^>]*>"
)
_UNIT = r"(?<=\d) (?=(?:%|[numk]?s|(?:[KMGTP]i|[KMGT])?B|[KMGT]?(?:B|FLOP)/s|cycles)(?!\w)|\xb1)|(?<=\xb1) "


def _with_units_beside_numbers(html: str) -> str:
    """The page with non-breaking spaces in `43 %`, `718 us` and `12 ± 3`; tags and code stay as they are."""
    return re.sub(
        f"(?P<kept>{_VERBATIM})|{_UNIT}",
        lambda found: found["kept"] or "\N{NO-BREAK SPACE}",
        html,
        flags=re.S,
    )


def embedded(body: Markup | str) -> str:
    """Parts of a page with their style, for a notebook."""
    framed = Markup('<style>{}</style><div class="memsim" style="padding:12px">{}</div>')
    return str(framed.format(style(), body))  # plain text: Markup would escape what is added to it


def data_table(
    head: Sequence[str],
    rows: Iterable[Sequence[Cell | Markup | str]],
    *,
    left: Sequence[int] = (0,),
    sortable: bool = True,
) -> Markup:
    """A table. Columns are as narrow as their content, but for those in `left`, which are wrapped where they are long.

    left : numbers of the columns that are aligned to the left, which hold words
    """
    plain = [[cell if isinstance(cell, Cell) else Cell(cell) for cell in row] for row in rows]
    return Markup(render("table.html.j2", head=head, rows=plain, left=left, sortable=sortable))


def bar_chart(bars: Sequence[Bar], *, longest: float | None = None) -> Markup:
    """Horizontal bars, one below the other, with their values.

    longest : the value of a bar as long as the chart; by default the largest of all
    """
    values = [bar.value for bar in bars] + [bar.mark or 0.0 for bar in bars]
    return Markup(render("bars.html.j2", bars=bars, whole=longest or max(values, default=0) or 1.0))


def paragraph(content: Markup | str, kind: str = "") -> Markup:
    """A paragraph; kind: CSS classes such as `soft small`."""
    return Markup('<p class="{}">{}</p>').format(kind, content)


def bullets(items: Iterable[Markup | str], kind: str = "") -> Markup:
    """A list of points; nothing where there are none."""
    inside = Markup("").join(Markup("<li>{}</li>").format(item) for item in items)
    return Markup('<ul class="{}">{}</ul>').format(kind, inside) if inside else inside


def fold(summary: Markup | str, body: Markup | str) -> Markup:
    """A part that is closed until the reader opens it, and is printed as it stands."""
    return Markup("<details><summary>{}</summary>{}</details>").format(summary, body)


def figure(title: Markup | str, image: Markup, note: str = "") -> Markup:
    """A chart with its caption."""
    return Markup(
        '<figure><figcaption>{} <span class="soft note">{}</span></figcaption>{}</figure>'
    ).format(title, note, image)


def figures(charts: Iterable[Markup]) -> Markup:
    """Figures beside each other, as many as fit."""
    return Markup('<div class="charts">{}</div>').format(Markup("").join(charts))


def render(template: str, **values: Any) -> str:
    """A template of this package; `t` is memsim.report.text."""
    return _environment().get_template(template).render(**values)


def style() -> Markup:
    """The style sheet of all pages."""
    return Markup(_asset("style.css") + source_view.colours())


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("memsim", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(t=text, style=style, MOST_ROWS=MOST_ROWS)
    return environment


@cache
def _script() -> str:
    return _asset("page.js")


def _asset(name: str) -> str:
    content = resources.files("memsim.report").joinpath(name).read_text(encoding="utf-8")
    return re.sub(r"\n{2,}", "\n", content)


def _policy(script: str) -> str:
    """Content security policy: this script and inline style alone, and pictures in the page's folder."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline';"
        " img-src data: 'self' file:; base-uri 'none'; form-action 'none'"
    )
