"""The command `memsim`, whose subcommands are the entry points of the group GROUP.

Names are listed without importing anything. A command is imported when it is called, or for its line
in the help, so a module of commands must be cheap to import.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import io
import os
import re
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import click

from memsim.commands.process import EXIT_INTERRUPTED, fix_hashes
from memsim.disk_cache import writable_caches, writable_temporary_files
from memsim.errors import MemsimError
from memsim.visible import visible

GROUP = "memsim.commands"
DEBUG_VARIABLE = "MEMSIM_DEBUG"
"""If this is set and not empty, errors show a traceback."""

EXIT_USER_ERROR = 2
EXIT_BUG = 70
EXIT_BROKEN_PIPE = 141
_LONGEST = 2000
"""Letters of a line of an error; what a hostile file contains may be longer."""
_LONG_WORD = re.compile(r"(\S{200})\S{200,}")
"""Shown by its beginning, so that the rule which it breaks fits into the line."""


@functools.cache
def _entry_points(group: str) -> dict[str, importlib.metadata.EntryPoint]:
    """Name -> entry point of a group of commands."""
    entries: dict[str, importlib.metadata.EntryPoint] = {}
    for entry in importlib.metadata.entry_points(group=group):
        ours = entry.dist is not None and entry.dist.name == "memsim"
        if ours or entry.name not in entries:  # other packages cannot replace a command of memsim
            entries[entry.name] = entry
    return entries


class EntryPointGroup(click.Group):
    """A click group whose commands are the entry points of `entry_point_group`, each loaded when it is first needed."""

    entry_point_group = GROUP

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_entry_points(self.entry_point_group))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = _entry_points(self.entry_point_group).get(cmd_name)
        if entry is None:
            return None
        try:
            command = entry.load()
        except Exception as error:  # an error in another package's module must not break the help
            return _broken(entry, f"{type(error).__name__}: {_first_line(error)}")
        if not isinstance(command, click.Command):
            return _broken(entry, f"not a click command but a {type(command).__name__}")
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # caught here because click would print an empty line first
            raise _Interrupted from None
        except EOFError as error:  # click would take it for an interrupt
            raise _Bug(error) from error
        except BrokenPipeError:
            raise _PipeClosed from None


class _Interrupted(Exception):
    pass


class _PipeClosed(Exception):
    pass


class _Bug(Exception):
    """An error that is nobody's but ours; the only argument."""


def _broken(entry: importlib.metadata.EntryPoint, why: str) -> click.Command:
    """A substitute for a command that cannot be loaded; calling it is an error with the reason."""
    package = entry.dist.name if entry.dist is not None else entry.module

    def complain(**_: Any) -> None:
        raise MemsimError(f"command {entry.name} of {package} cannot be loaded: {why}")

    return click.Command(
        entry.name,
        callback=complain,
        params=[click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED)],
        context_settings={"ignore_unknown_options": True},
        help=f"{entry.name} of {package} cannot be loaded: {why}",
        short_help=f"(of {package}: cannot be loaded)",
    )


@click.group(
    cls=EntryPointGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="memsim", prog_name="memsim", message="%(prog)s %(version)s")
@click.pass_context
def memsim(ctx: click.Context) -> None:
    """Profile every memory access of a GPU kernel, with no GPU and no hardware counters.

    \b
    Example:
      memsim profile experiments/kernels/spmv.py:spmv --machine v100 --set matrix=fem
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command line and returns its exit code: 2, with one line, for an error of the user.

    Further lines of an error, such as a build log, are printed unchanged. An error that nobody foresaw
    is a bug of ours: one line says so, and the exit code is 70.
    """
    if arguments is None:
        fix_hashes()
    if os.environ.get(DEBUG_VARIABLE):
        return _run(arguments)
    _print_any_text()
    try:
        with _warnings_in_one_line():
            return _run(arguments)
    except (_Interrupted, KeyboardInterrupt, click.Abort):
        return _fail("interrupted", EXIT_INTERRUPTED)
    except (_PipeClosed, BrokenPipeError):
        return _close_stdout()
    except Exception as error:
        return _fail(*_described(error))


def _described(error: Exception) -> tuple[str, int]:
    """What is said of an error, and the exit code; errors of a group have a line each."""
    match error:
        case ExceptionGroup():  # an error that is alone follows in the same line
            texts, codes = zip(*map(_described, error.exceptions), strict=True)
            several = [text.partition("\n")[0] for text in texts]
            rest = f": {texts[0]}" if len(texts) == 1 else "\n".join([":", *several])
            return f"{error.message}{rest}", max(codes)
        case click.ClickException():
            return _usage(error), error.exit_code
        case MemsimError():
            return "\n".join([str(error), *getattr(error, "__notes__", ())]), EXIT_USER_ERROR
        case MemoryError():
            reason = _first_line(error)
            return f"out of memory{f': {reason}' if reason else ''}", EXIT_USER_ERROR
        case OSError():  # a full disk, a file that went away
            where = error.filename if isinstance(error.filename, str) else _nameless_place(error)
            return f"{where[:_LONGEST]}: {error.strerror or error}", EXIT_USER_ERROR
        case _Bug():
            return _bug_line(error.args[0]), EXIT_BUG
    return _bug_line(error), EXIT_BUG


def _bug_line(error: Exception) -> str:
    reason = _first_line(error)
    return (
        f"a bug of memsim: {type(error).__name__}{f': {reason}' if reason else ''};"
        f" please report it with the traceback that {DEBUG_VARIABLE}=1 shows"
    )


def _print_any_text() -> None:
    """Letters that the terminal's encoding lacks are written as escapes instead of ending the run."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _run(arguments: Sequence[str] | None) -> int:
    args = None if arguments is None else list(arguments)
    # Outside standalone mode click returns what a command gave to ctx.exit, or what it returned.
    with writable_temporary_files(), writable_caches():
        code = memsim.main(args=args, prog_name="memsim", standalone_mode=False)
    if sys.stdout is not None:  # it is None where the descriptor was closed before the start
        sys.stdout.flush()
    return code if isinstance(code, int) else 0


def _usage(error: click.ClickException) -> str:
    message = _first_line(error.format_message())
    ctx = getattr(error, "ctx", None)
    if not isinstance(error, click.UsageError) or ctx is None:
        return message
    return f"{message.rstrip('.')}; see '{ctx.command_path} --help'"


def _first_line(error: object) -> str:
    return " ".join(line.strip() for line in str(error).splitlines() if line.strip())


def _nameless_place(error: OSError) -> str:
    try:
        os.getcwd()
    except OSError:
        return "the current folder"
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    printing = frame.f_globals.get("__name__") in ("click.utils", "rich.console", __name__)
    return "standard output" if printing else "system"


def _fail(message: str, code: int) -> int:
    lines = [visible(line, keep="\t") for line in message.split("\n")]
    lines[0] = _LONG_WORD.sub(r"\1...", lines[0])
    lines[0] = lines[0] if len(lines[0]) <= _LONGEST else f"{lines[0][:_LONGEST]}..."
    with contextlib.suppress(OSError):
        click.echo("\n".join([f"memsim: {lines[0]}", *lines[1:]]), err=True)
    return code


def _close_stdout() -> int:
    """The reader of standard output is gone: exit quietly, and discard what is still buffered."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return EXIT_BROKEN_PIPE


@contextlib.contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        _fail(f"warning: {_first_line(message)}", 0)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield
