"""Output of commands: checks of files before the work begins, tables, saved replays in other tools' formats.

Imports nothing heavy: the group's help loads it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memsim.commands.showing import console
from memsim.errors import MemsimError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from memsim.montecarlo.result import Replay

STDOUT = Path("-")


def json_help(what: str) -> str:
    """The help of every --json, which takes a file or `-`."""
    return f"Write {what} as JSON; {STDOUT} for standard output."


def check_outputs(
    outputs: Mapping[str, Path | None],
    inputs: tuple[Path, ...] = (),
    kinds: Mapping[str, str] | None = None,
) -> None:
    """Raises MemsimError, naming option and path, where an output could not be written later.

    outputs : option -> path, or None where it was not given; only `--json` may be STDOUT
    inputs : files that no output may replace, and folders whose files none may replace
    kinds : option -> what it writes, a key of MARKS, besides those that KINDS lists. A file that does not
        begin like that was not written by memsim, and is not replaced
    """
    kinds = {**KINDS, **(kinds or {})}
    taken: dict[Path, str] = {_real(path): "the input" for path in inputs}
    folders = {path for path in taken if path.is_dir()}
    for option, path in outputs.items():
        if path is None:
            continue
        if path == STDOUT:
            if option != "--json":
                raise MemsimError(f"{option} must be a file: only --json writes to standard output")
            continue
        target = _real(path)
        if target in taken:
            raise MemsimError(f"{option} must not be {path}: that is {taken[target]}")
        if folders.intersection(target.parents) and target.exists():
            raise MemsimError(f"{option} must not be {path}: that is a part of the input")
        taken[target] = f"what {option} writes"
        _check_writable(option, path)
        _check_replaced(option, path, kinds.get(option))


def _real(path: Path) -> Path:
    """Where a path leads; links that lead back to themselves stay."""
    return Path(os.path.realpath(path))


MARKS: Mapping[str, tuple[bytes, ...]] = {
    "html": (b"<!doctype html", b"<html"),
    "json": (b"{", b"["),
    "netcdf": (b"\x89hdf\r\n\x1a\n",),
    "trace": (b"arrow1",),
    "cachegrind": (b"desc: memsim",),
    "csv": (b"site",),
    "predictions": (b"machine,",),
    "results": (b'{\n "written_by": "memsim',),
}
"""What begins the files that memsim writes, in lower case."""
KINDS = {"--html": "html", "--json": "json", "--save": "netcdf", "--trace-out": "trace"}


def _check_replaced(option: str, path: Path, kind: str | None) -> None:
    if kind is None or not path.is_file():
        return
    try:
        with open(path, "rb") as file:
            begin = file.read(64).lstrip().lower()
    except OSError:  # write-only: it cannot be told
        return
    if begin and not begin.startswith(MARKS[kind]):
        raise MemsimError(
            f"{option} must not replace {path}: memsim did not write it; remove it, or choose another name"
        )


def _check_writable(option: str, path: Path) -> None:
    folder = path.parent
    if path.is_dir():
        raise MemsimError(f"{option} must be a file, got the folder {path}")
    if path.exists() and not path.is_file():  # a pipe or a terminal
        return
    if not folder.is_dir():
        raise MemsimError(f"{option} {path} cannot be written: there is no folder {folder}")
    if path.exists() and not os.access(path, os.W_OK):
        raise MemsimError(f"{option} {path} cannot be written: it is read-only")
    try:  # permissions, a read-only mount or a full disk show only when a file is made
        with tempfile.NamedTemporaryFile(dir=folder, prefix=f".{path.name[:40]}-"):
            pass
    except OSError as error:
        raise MemsimError(f"{option} {path} cannot be written: {error.strerror}") from error


def write_tables(
    tables: Sequence[RenderableType], content: Callable[[], str], json: Path | None
) -> None:
    """Prints tables, or their content as JSON where that goes to standard output; else writes its file."""
    if not wrote_json(content, json):
        for table in tables:
            console().print(table)


def wrote_json(content: Callable[[], str], json: Path | None) -> bool:
    """Writes JSON where it was requested; whether standard output has it, and must have nothing else."""
    from memsim.files import write_text

    if json == STDOUT:
        click.echo(content())
    elif json is not None:
        write_text(json, content() + "\n")
        click.echo(f"wrote {json}", err=True)
    return json == STDOUT


def write_launches_report(replays: Sequence[Replay], json: Path | None) -> None:
    """Prints a row per launch, or writes JSON of all launches to standard output or a file."""
    from memsim.report.summary import summarise
    from memsim.report.variants import launch_table, launches_json

    summaries = [summarise(replay.dataset, by_site=json is not None) for replay in replays]
    write_tables([launch_table(summaries)], lambda: launches_json(summaries), json)


def write_variants_report(variants: Sequence[tuple[str, Replay]], json: Path | None) -> None:
    """Prints a row per replay, each with what tells it from the others; or writes JSON of all."""
    from memsim.report.summary import summarise
    from memsim.report.variants import variants_json, variants_table

    named = [(name, summarise(replay.dataset)) for name, replay in variants]
    write_tables([variants_table(named)], lambda: variants_json(named), json)


REPLAY_FORMATS = ("cachegrind", "csv", "json")


def export_replay(source: Path, to: str, output: Path) -> None:
    """Writes a saved replay, and reports the file on standard error."""
    from memsim.montecarlo.result import Replay

    check_outputs({"--out": output}, inputs=(source,), kinds={"--out": to})
    replay = Replay.load(source)
    if to == "cachegrind":
        from memsim.report.cachegrind import write

        files = write(replay.dataset, output)
    elif to == "csv":
        from memsim.report.access_csv import write_site_csv
        from memsim.report.summary import summarise

        files = [write_site_csv(summarise(replay.dataset), output)]
    else:
        replay.to_json(output)
        files = [output]
    for file in files:
        click.echo(f"wrote {file}", err=True)
