"""What the commands tune and sweep write: JSON, a table on the terminal, and other files.

It imports nothing heavy at module level, because the help of the command group loads it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from memsim.commands import STDOUT
from memsim.files import write_text

TABLE = "predictions"
"""The kind of their CSV files, a key of memsim.commands.output.MARKS."""


def as_text(document: Any) -> str:
    """JSON, one value a line."""
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def write_results(
    document: Any,
    json_path: Path | None,
    show: Callable[[], None],
    others: Mapping[Path | None, Callable[[], str]],
) -> None:
    """Shows results unless JSON goes to standard output, and writes the files that were asked for.

    others : path -> the text of its file; nothing is written for None
    """
    if json_path == STDOUT:
        click.echo(as_text(document).rstrip("\n"))
    else:
        show()
    files = dict(others)
    if json_path is not None and json_path != STDOUT:
        files[json_path] = lambda: as_text(document)
    for path, text in files.items():
        if path is not None:
            write_text(path, text())
            click.echo(f"wrote {path}", err=True)
