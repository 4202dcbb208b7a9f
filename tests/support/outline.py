"""An HTML page taken apart: what a browser would run, and what it would show; and what a terminal shows."""

from __future__ import annotations

import io
from html.parser import HTMLParser

from rich.console import Console


def printed(table: object, width: int, *, terminal: bool = False) -> str:
    file = io.StringIO()
    Console(file=file, width=width, force_terminal=terminal).print(table)
    return file.getvalue()


def in_one_kind_of_space(page: str) -> str:
    """The page with a plain space between a number and its unit, where it has one that does not break."""
    return page.replace("\N{NO-BREAK SPACE}", " ")


class Outline(HTMLParser):
    """The tags of a page with their attributes, the scripts, and the text outside scripts and styles."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.text: list[str] = []
        self._inside: list[str] = []
        self.feed(content)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "br", "line", "rect", "polyline", "polygon"):
            self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._inside:
            assert self._inside.pop() == tag, "tags must nest"

    def handle_data(self, data: str) -> None:
        if self._inside and self._inside[-1] == "script":
            self.scripts.append(data)
        elif not self._inside or self._inside[-1] != "style":
            self.text.append(in_one_kind_of_space(data))
