"""The consoles that commands print to."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

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
