"""One access in words for a terminal: why it is slow, how certain that is, and what to try."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from memsim.errors import MemsimError
from memsim.report import text
from memsim.report.numbers import Summary
from memsim.report.verdict import Finding, findings_on
from memsim.visible import shown, visible


def check_name(name: str, sites: Sequence[tuple[str, str]]) -> None:
    """Raises MemsimError, which lists the names, where no access and no array is called so.

    sites : name of an access, and of its array
    """
    names = list(dict.fromkeys(site for site, _ in sites))
    if name not in names and name not in {array for _, array in sites}:
        raise MemsimError(f"no access is called {shown(name)}: choose one of {', '.join(names)}")


def explanations(summary: Summary, name: str) -> Iterator[Group]:
    """A paragraph for each access that is called so, or that is of an array called so."""
    for finding in findings_on(summary, name):
        yield _paragraph(finding)


def _paragraph(finding: Finding) -> Group:
    site = finding.site
    where = text.place(site.user_file, site.user_line, site.source_line)
    head = f"{site.name} ({site.direction}{f', {where}' if where else ''}): {finding.headline}"
    lines = list(finding.reasons)
    if finding.certainty:
        lines.append(f"Certainty: {' '.join(finding.certainty)}")
    lines += [f"Try: {one.name}: {one.how} {one.gain}".rstrip() for one in finding.advice]
    inside = (Padding(Text(visible(line)), (0, 0, 0, 2)) for line in lines)
    return Group(Text(visible(head)), *inside)
