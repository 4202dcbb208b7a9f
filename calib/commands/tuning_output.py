"""What the commands tune and sweep write: JSON, a table on the terminal, and other files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memsim.commands import EXIT_INTERRUPTED, check_outputs, console, json_help, wrote_json
from memsim.files import write_text
from memsim.options import Options, option

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True, kw_only=True)
class TuningFiles(Options):
    """The files that both commands write."""

    html: Path | None = option(None, "Write a page with tables and charts.", metavar="FILE")
    json: Path | None = option(None, json_help("all results"), metavar="FILE")
    csv: Path | None = option(
        None, "Write a row for each machine and configuration.", metavar="FILE"
    )

    def check(
        self,
        more: Mapping[str, Path | None] | None = None,
        kinds: Mapping[str, str] | None = None,
    ) -> None:
        """Raises MemsimError where a file cannot be written later.

        more : further files by option;  kinds : what they contain, see memsim.commands.check_outputs
        """
        outputs = {"--html": self.html, "--json": self.json, "--csv": self.csv, **(more or {})}
        check_outputs(outputs, kinds={"--csv": "predictions", **(kinds or {})})


def as_text(document: Any) -> str:
    """JSON, one value a line."""
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def write_results(
    document: Any,
    json_path: Path | None,
    lines: Callable[[], Iterable[RenderableType]],
    files: Mapping[Path | None, Callable[[], str]],
    *,
    interrupted: bool,
) -> int:
    """Shows results unless JSON goes to standard output, and writes the files that were asked for; returns the exit code.

    lines : what the terminal shows
    files : path -> the text of its file; nothing is written for None
    """
    if not wrote_json(lambda: as_text(document).rstrip("\n"), json_path):
        for line in lines():
            console().print(line)
        if interrupted:
            console().print("interrupted: this is what was predicted until then", style="bold")
    for path, text in files.items():
        if path is not None:
            write_text(path, text())
            click.echo(f"wrote {path}", err=True)
    return EXIT_INTERRUPTED if interrupted else 0
