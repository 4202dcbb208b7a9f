"""Source listings: every line, highlighted, with the accesses on it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_for_filename
from pygments.lexers.c_cpp import CLexer, CppLexer
from pygments.lexers.python import PythonLexer
from pygments.util import ClassNotFound

from memsim.report.compiled import MachineInstruction
from memsim.report.numbers import SiteNumbers
from memsim.report.text import file_label

LIGHT_STYLE, DARK_STYLE = "xcode", "github-dark"
_PLAIN = ("n", "p", "w")
"""Names, punctuation and blanks have the page's own colour; marking them would double a page of many accesses."""


@dataclass(frozen=True, kw_only=True)
class SourceLine:
    """One line; code : HTML;  share : of all accesses on the line together;  machine : what it
    was compiled to"""

    number: int
    code: Markup
    indent: int
    sites: tuple[SiteNumbers, ...]
    machine: tuple[MachineInstruction, ...] = ()

    @property
    def share(self) -> float:
        return sum(site.share.mean for site in self.sites if site.latency_cycles.is_defined)


CONTEXT_LINES = 3
"""Lines before and after an access that are shown with it."""
SHORTEST_FOLD = 5
"""Fewer lines without an access are shown: a button would hardly be shorter."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """Consecutive lines; cold ones are far from any access, and folded."""

    is_cold: bool
    lines: tuple[SourceLine, ...]


@dataclass(frozen=True, kw_only=True)
class Listing:
    """A source with its accesses.

    file : its path; "" for generated code
    unplaced : accesses whose line is unknown or outside the source
    unplaced_machine : instructions of that kind
    """

    title: str
    file: str
    lines: tuple[SourceLine, ...]
    unplaced: tuple[SiteNumbers, ...]
    unplaced_machine: tuple[MachineInstruction, ...] = ()

    @property
    def runs(self) -> list[Run]:
        """All lines, in runs of those near an access and of those far from any."""
        near = {
            number
            for line in self.lines
            if line.sites
            for number in range(line.number - CONTEXT_LINES, line.number + CONTEXT_LINES + 1)
        }
        runs: list[Run] = []
        for is_near, found in groupby(self.lines, lambda line: line.number in near):
            lines = tuple(found)
            is_cold = not is_near and len(lines) >= SHORTEST_FOLD and bool(near)
            if runs and not is_cold and not runs[-1].is_cold:
                lines = runs.pop().lines + lines
            runs.append(Run(is_cold=is_cold, lines=lines))
        return runs

    @property
    def has_machine_code(self) -> bool:
        return bool(self.unplaced_machine) or any(line.machine for line in self.lines)


def generated_listing(
    source: str, sites: Sequence[SiteNumbers], machine: Sequence[MachineInstruction] = ()
) -> Listing | None:
    """The traced OpenCL with its machine code; None where the trace does not contain it.

    A program in CUDA C++ or HIP is the user's own, whose accesses may mostly lie in files that it includes.
    """
    if not source.strip():
        return None
    places = [(site, site.source_line) for site in sites]
    title, lexer = ("CUDA C++", CppLexer) if is_cuda(source) else ("Generated OpenCL", CLexer)
    if any(site.user_file.endswith(".cl") for site in sites):
        title = "Preprocessed OpenCL"
    return _listing(title, "", source, lexer(**_VERBATIM), places, machine)


def is_cuda(source: str) -> bool:
    """Whether a text is a program in CUDA C++ or HIP."""
    return "__global__" in source


def user_listing(
    source: str, sites: Sequence[SiteNumbers], machine: Sequence[MachineInstruction] = ()
) -> Listing | None:
    """The user's own file, with machine code where it was compiled as it is; None where it is unknown
    or no access is located in it."""
    files = Counter(site.user_file for site in sites if site.user_file and site.user_line)
    if not source.strip() or not files:
        return None
    name = files.most_common(1)[0][0]
    places = [(site, site.user_line if site.user_file == name else None) for site in sites]
    return _listing(file_label(name), name, source, _lexer(name), places, machine)


def colours() -> str:
    """Style sheet of the listings, for light and for dark pages."""
    dark = "\n".join(_rules(DARK_STYLE))
    light = "\n".join(_rules(LIGHT_STYLE))
    return f"{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}"


_VERBATIM = {"stripnl": False, "ensurenl": False}  # a dropped blank line would shift the numbers


def _lexer(name: str) -> Lexer:
    if name.endswith(".py"):
        return PythonLexer(**_VERBATIM)
    try:
        return get_lexer_for_filename(name, **_VERBATIM)
    except ClassNotFound:
        return CLexer(**_VERBATIM)


def _listing(
    title: str,
    file: str,
    source: str,
    lexer: Lexer,
    places: Sequence[tuple[SiteNumbers, int | None]],
    machine: Sequence[MachineInstruction],
) -> Listing:
    plain = source.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n").split("\n")
    marked = highlight("\n".join(plain), lexer, HtmlFormatter(nowrap=True))
    coloured = re.sub(f'<span class="(?:{"|".join(_PLAIN)})">([^<]*)</span>', r"\1", marked).split(
        "\n"
    )
    of_line: dict[int | None, list[MachineInstruction]] = {}
    for one in machine:
        known = one.line is not None and one.line <= len(plain)
        of_line.setdefault(one.line if known else None, []).append(one)
    lines = tuple(
        SourceLine(
            number=number,
            code=Markup(code),
            indent=len(text) - len(text.lstrip()),
            sites=tuple(site for site, line in places if line == number),
            machine=tuple(of_line.get(number, ())),
        )
        for number, (text, code) in enumerate(zip(plain, coloured, strict=False), start=1)
    )
    unplaced = tuple(site for site, line in places if line is None or line > len(plain))
    return Listing(
        title=title,
        file=file,
        lines=lines,
        unplaced=unplaced,
        unplaced_machine=tuple(of_line.get(None, ())),
    )


def _rules(style: str) -> list[str]:
    rules = str(HtmlFormatter(style=style).get_style_defs(".code")).splitlines()
    unused = tuple(f".code .{kind} " for kind in (*_PLAIN, "err"))
    return [rule for rule in rules if rule.startswith(".code .") and not rule.startswith(unused)]
