"""Outcomes on disk: what was predicted once is not predicted again, and an interrupt loses nothing.

The store is an SQLite file for one kernel with its settings. An outcome is on disk when `add` returns.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import hashlib
import json
import re
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from calib.tuning.evaluation import Subject, Task
from calib.tuning.outcome import EFFORTS, Outcome
from memsim.disk_cache import fingerprint
from memsim.errors import MemsimError, one_line
from memsim.machine import load_machine
from memsim.visible import shown
from tracegen.tools import versions_for

SCHEMA = 3
_TABLES = """
create table if not exists about (kernel text not null, fingerprint text not null, schema integer not null);
create table if not exists outcomes (
    key text primary key, outcome text not null, checksum text not null
);
"""
_NOT_THE_FILES_FAULT = (
    *(sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY),
    *(sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_BUSY),
)


class StoreError(MemsimError):
    """A file is not a store, is one of another kernel, or cannot be written."""


class OutcomeStore:
    """The outcomes of one subject, in a file or, without one, in memory. Raises StoreError."""

    def __init__(self, path: Path | None, subject: Subject) -> None:
        self._path = path
        is_new = path is not None and not path.exists()
        try:
            self._open(subject)
        except StoreError:
            if path is not None and is_new:
                path.unlink(missing_ok=True)
            raise

    def _open(self, subject: Subject) -> None:
        with self._errors():
            self._connection = sqlite3.connect(
                ":memory:" if self._path is None else str(self._path), timeout=10
            )
            with self._connection:
                self._check_tables()
                self._connection.executescript(_TABLES)
                self._check(subject)

    def __enter__(self) -> OutcomeStore:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def get(self, task: Task) -> Outcome | None:
        """What is known of a task. Raises StoreError where the file is damaged."""
        with self._errors():
            row = self._connection.execute(
                "select key, outcome, checksum from outcomes where key in (?, ?)",
                (_key(task), _key(task, failed=True)),
            ).fetchone()
            if row is not None and row[2] != fingerprint([row[0], str(row[1])]):
                raise ValueError("the checksum of an outcome is wrong")
            return None if row is None else _read(row[1], task)

    def add(self, task: Task, outcome: Outcome) -> None:
        key = _key(task, failed=bool(outcome.failure))
        text = json.dumps(dataclasses.asdict(outcome))
        with self._errors(), self._connection:
            self._connection.execute(
                "insert or replace into outcomes values (?, ?, ?)",
                (key, text, fingerprint([key, text])),
            )

    def forget_failures(self) -> None:
        """The next run tries again what failed: the reason may lie outside of the kernel."""
        with self._errors(), self._connection:
            self._connection.execute(
                """delete from outcomes where outcome not like '%"failure": ""%'"""
            )

    def _check_tables(self) -> None:
        """Raises StoreError where the file is another program's."""
        names = {
            name
            for (name,) in self._connection.execute(
                "select name from sqlite_master where type = 'table'"
            )
        }
        if names and names != {"about", "outcomes"}:
            raise StoreError(
                f"{self._path} is a database of something else, not a store of outcomes"
            )

    def _check(self, subject: Subject) -> None:
        """Raises StoreError where the store is of another kernel, or another version of it."""
        row = self._connection.execute("select kernel, fingerprint, schema from about").fetchone()
        kernel, fingerprint = subject.kernel.spec, fingerprint_of(subject)
        if row is None:
            self._connection.execute(
                "insert into about values (?, ?, ?)", (kernel, fingerprint, SCHEMA)
            )
        elif row[0] != kernel:
            raise StoreError(f"{self._path} is the store of {shown(str(row[0]))}, not of {kernel}")
        elif row[1:] != (fingerprint, SCHEMA):
            raise StoreError(
                f"{self._path} was made with other settings, another text of {kernel} or another version"
                " of memsim: name another store, or remove it"
            )

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, msgspec.ValidationError, ValueError, RecursionError) as error:
            reason = one_line(error)
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in _NOT_THE_FILES_FAULT:
                raise StoreError(f"{self._path} cannot be written: {reason}") from error
            raise StoreError(
                f"{self._path} is no store of outcomes, or is damaged: {reason}"
            ) from error


def fingerprint_of(subject: Subject) -> str:
    """Changes with everything that decides outcomes: the files named, settings, options and version."""
    from memsim import __version__

    kernel = subject.kernel
    parts: list[Any] = [
        __version__,
        subject.tracing.tracer,
        subject.tracing.compiler,
        subject.seed,
        sorted(kernel.settings.items()),
    ]
    parts += [[dataclasses.asdict(effort) for effort in EFFORTS], kernel.arguments]
    parts += digests([kernel.spec, kernel.arguments or ""])
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _key(task: Task, *, failed: bool = False) -> str:
    """What fails within some limits of time and memory may not fail within others; and other compilers may write
    other code."""
    content, target = _content(task.machine)
    parts = [task.machine, content, sorted(task.configuration.items()), task.effort]
    if target:
        parts.append(versions_for(target))
    limits = [dataclasses.astuple(task.subject.limits)] if failed else []
    return json.dumps([*parts, *limits])


@functools.lru_cache(maxsize=64)
def _content(machine: str) -> tuple[str, str | None]:
    """The fingerprint of all parameters of a machine, and what compilers call it."""
    loaded = load_machine(machine)
    return hashlib.sha256(repr(loaded).encode()).hexdigest(), loaded.compiler_target


def _read(text: str, task: Task) -> Outcome:
    """The outcome of a row. Raises ValueError where it is none, or another task's."""
    outcome = msgspec.convert(json.loads(text), Outcome)
    fields = dataclasses.asdict(outcome).values()
    parts = [
        part
        for value in fields
        for part in (value.values() if isinstance(value, dict) else [value])
    ]
    if not outcome.failure and not all(
        isinstance(part, str) or 0 <= (part or 0) <= sys.float_info.max for part in parts
    ):
        raise ValueError("a number is out of range")
    of_task = dict(task.configuration), task.machine, task.effort
    if (outcome.configuration, outcome.machine, outcome.effort) != of_task:
        raise ValueError("an outcome is another configuration's")
    if not outcome.failure and not (outcome.time_s and outcome.read_bytes and outcome.write_bytes):
        raise ValueError("an outcome has no time or no bytes")
    return outcome


_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"\n]+)"', re.MULTILINE)
_OWN = frozenset(("memsim", "tracegen", "calib"))
"""Packages that the version of memsim stands for."""


def digests(specs: Sequence[str]) -> list[str]:
    """SHA-256 of the files of kernels and functions `FILE:NAME` or `PACKAGE.MODULE:NAME`, and of files that they
    include or import, directly or through others. Libraries that are installed elsewhere do not count."""
    waiting = [path for spec in specs for path in _named(spec)]
    reached: dict[Path, str] = {}
    while waiting:
        path = waiting.pop().resolve()
        if path in reached or not path.is_file():
            continue
        content = path.read_bytes()
        reached[path] = hashlib.sha256(content).hexdigest()
        text = content.decode(errors="replace")
        waiting += _imported(path, text) if path.suffix == ".py" else _included(path, text)
    return [reached[path] for path in sorted(reached)]


def _named(spec: str) -> Iterator[Path]:
    """A name may contain `::`, and the path of a file a colon."""
    place, _, _ = spec.rpartition(":")
    parts = spec.split(":")
    yield from (Path(":".join(parts[:n])) for n in range(1, len(parts) + 1))
    yield from _modules(Path.cwd(), place)


def _included(path: Path, text: str) -> list[Path]:
    return [path.parent / name for name in _INCLUDE.findall(text)]


def _imported(path: Path, text: str) -> Iterator[Path]:
    root = path.parent
    while (root / "__init__.py").is_file():
        root = root.parent
    with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield from _modules(root, alias.name)
            elif isinstance(node, ast.ImportFrom):
                above = (
                    path.parents[node.level - 1] if 0 < node.level <= len(path.parents) else root
                )
                for name in ("", *(alias.name for alias in node.names)):
                    yield from _modules(above, ".".join(filter(None, (node.module, name))))


def _modules(root: Path, name: str) -> Iterator[Path]:
    """The files of a module and of the packages around it."""
    parts = name.split(".")
    if not all(part.isidentifier() for part in parts) or parts[0] in _OWN:
        return
    for n in range(1, len(parts) + 1):
        place = root.joinpath(*parts[:n])
        yield from (place.with_name(f"{place.name}.py"), place / "__init__.py")
