"""What a command shows while it works: what it is doing, how far that is, and a provisional result.

On a terminal these stay in one place and vanish in the end. Elsewhere, and on a terminal that cannot move
its cursor, standard error gets a line where something takes long, and one for each provisional result.

Imports nothing heavy: the group's help loads it.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

from memsim.progress import AT_ONCE, heard_by, report

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

Progress = Callable[[int, int], None]
"""Called with (done, total) as work goes on."""

LINE_EVERY_S = 10.0
"""Without a terminal, work that takes longer is a line, and another one each time this has passed."""
ROWS_ABOVE = 12
"""Lines of a terminal that a provisional table leaves for its head, its caption and the prompt."""

LEAST_BAR = 6
"""Columns that a bar of progress needs."""

_current: list[Display] = []


class Display:
    """Shows reports of progress on a console, which is that of standard error."""

    in_place = False

    def __init__(self, screen: Console) -> None:
        self.title = ""
        self.what, self.done, self.total = "", 0, 0
        self.result: tuple[str, RenderableType | None] | None = None
        self._screen = screen
        self._began = self._lined = time.monotonic()
        self._said: set[str] = set()

    def hear(self, what: str, done: int = 0, total: int = 0) -> None:
        """Shows how far some work is; an empty `what` says that the same work goes on."""
        if what:
            if what != self.what:
                self._began = time.monotonic()
            self.what, self.done, self.total = what, done, total
        self.draw()

    @property
    def columns(self) -> int:
        """Columns of the terminal."""
        return self._screen.width

    def rows(self, lines: int) -> int:
        """Rows of so many lines that a provisional table may have."""
        return max((self._screen.height - ROWS_ABOVE) // lines, 1)

    def provisional(self, line: str, table: RenderableType | None = None) -> None:
        """Shows a result that will change: on a terminal `line` and the table, elsewhere `line` alone."""
        self.result = (line, table)
        self.draw()

    @property
    def doing(self) -> str:
        """What is being done, and for what."""
        return f"{self.title}: {self.what}" if self.title else self.what

    def amount(self) -> str:
        """How far the work is, and how long it has taken."""
        of = (
            f"{self.done} of at most {self.total}"
            if self.total
            else f"{self.done} so far"
            if self.done
            else ""
        )
        seconds = f"{time.monotonic() - self._began:.0f} s"
        return ", ".join(filter(None, (of, seconds)))

    def draw(self) -> None:
        """A line, where that is due."""
        if self.result is not None:
            self._line(f"{self.title}: {self.result[0]}" if self.title else self.result[0])
            self.result = None
        now = time.monotonic()
        if self.what in AT_ONCE - self._said:
            self._said.add(self.what)
            self._line(self.doing)
        elif now - max(self._began, self._lined) >= LINE_EVERY_S and self.what:
            self._line(f"{self.doing}: {self.amount()}")

    def _line(self, line: str) -> None:
        self._lined = time.monotonic()
        click.echo(f"memsim: {line}", err=True)


class LiveDisplay(Display):
    """A display that stays in one place of a terminal."""

    in_place = True

    def __init__(self, screen: Console) -> None:
        from rich.live import Live

        super().__init__(screen)
        # No thread draws: the process is forked while this is shown, and would inherit its locks.
        self.live = Live(console=screen, transient=True, auto_refresh=False)

    def draw(self) -> None:
        from rich.console import Group
        from rich.text import Text

        parts: list[RenderableType] = [self._status()] if self.what else []
        if self.result is not None:
            line, table = self.result
            parts.append(Text(line, style="bold yellow"))
            parts += [table] if table is not None else []
        self.live.update(Group(*parts), refresh=True)

    def _status(self) -> RenderableType:
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        row, amount = Table.grid(padding=(0, 1)), self.amount()
        cells: list[RenderableType] = [self.doing]
        room = self._screen.width - len(self.doing) - len(amount) - 2
        if self.total and room >= LEAST_BAR:
            cells.append(ProgressBar(self.total, self.done, min(24, room)))
        row.add_row(*cells, amount)
        return row


@contextlib.contextmanager
def display() -> Iterator[Display]:
    """The display of a command: one for all work inside the outermost `with` block."""
    if _current:
        yield _current[0]
        return
    screen = console(stderr=True)
    in_place = screen.is_terminal and not screen.is_dumb_terminal
    shown = LiveDisplay(screen) if in_place else Display(screen)
    _current.append(shown)
    try:
        with (
            heard_by(shown.hear),
            shown.live if isinstance(shown, LiveDisplay) else contextlib.nullcontext(),
        ):
            yield shown
    finally:
        _current.clear()


@contextlib.contextmanager
def working(what: str) -> Iterator[None]:
    """Shows what is being done, for work of unknown length."""
    with display():
        report(what)
        yield


@contextlib.contextmanager
def progress_bar(what: str) -> Iterator[Progress]:
    """Shows what is being done and how far it is."""
    with display():
        report(what)
        yield lambda done, total: report(what, done, total)


PIPE_COLUMNS = 160
"""Width of a table that is written to a file or a pipe; no column is cut at this width."""

LEAST_COLUMNS = 20


def console(*, stderr: bool = False) -> Console:
    """A console that is wide enough for every column where no terminal sets the width."""
    from rich.console import Console

    class Ours(Console):
        def on_broken_pipe(self) -> None:
            """Rich ends the process, with an exit code of its own."""
            raise BrokenPipeError

    plain = Ours(stderr=stderr)
    if not plain.is_terminal and "COLUMNS" not in os.environ:
        return Ours(stderr=stderr, width=PIPE_COLUMNS)
    # COLUMNS=0 says nothing of a width; rich would print nothing.
    return plain if plain.width >= LEAST_COLUMNS else Ours(stderr=stderr, width=LEAST_COLUMNS)
