"""The SQLite file of a history: many processes may open it; it is checked, and never overwritten.

Acknowledged data are on the disk: write-ahead log, `synchronous=FULL`, one transaction per batch. A file
that is not a history is refused and left unchanged. A damaged history is refused, or renamed where the
caller requests that.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import sqlite3
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from calib.history.errors import HistoryError, HistoryWarning
from calib.history.rows import upgrade
from memsim.errors import one_line

APPLICATION_ID = 0x6D73686D
"""`mshm`: SQLite keeps it in the file's header, and file(1) shows it."""
VERSION = 2
"""Version 1 had no checksums; it is upgraded when it is opened."""
PATIENCE_S = 60.0
"""How long a writer waits for other writers."""
CHECKED_WHOLE_BYTES = 16 * 2**20
"""Files up to this size are checked page by page when opened, with their indices, in tens of milliseconds; larger ones when read."""

_MAGIC = b"SQLite format 3\0"
_BUSY = ("locked", "busy")

_SCHEMA = """
CREATE TABLE entry (
  id INTEGER PRIMARY KEY,
  kernel TEXT NOT NULL, device TEXT NOT NULL, driver TEXT NOT NULL, layout INTEGER NOT NULL,
  size_bytes INTEGER NOT NULL, terms TEXT NOT NULL, source TEXT NOT NULL,
  n INTEGER NOT NULL, mean REAL NOT NULL, m2 REAL NOT NULL, low REAL NOT NULL, high REAL NOT NULL,
  sum_ln REAL NOT NULL, sum_ln2 REAL NOT NULL,
  seen INTEGER NOT NULL, rejected INTEGER NOT NULL, recent BLOB NOT NULL,
  first_at REAL NOT NULL, last_at REAL NOT NULL, sum INTEGER NOT NULL,
  UNIQUE (kernel, device, driver, layout)
);
CREATE TABLE sample (
  entry INTEGER NOT NULL REFERENCES entry (id) ON DELETE CASCADE,
  time_s REAL NOT NULL, at REAL NOT NULL, sum INTEGER NOT NULL
);
CREATE INDEX sample_entry ON sample (entry);
"""

T = TypeVar("T")

VARIABLE = "MEMSIM_HISTORY"


def default_path() -> Path:
    """The path in MEMSIM_HISTORY, else `memsim/history.db` in the user's data folder (XDG)."""
    named = os.environ.get(VARIABLE, "").strip()
    if named:
        return Path(named)
    data = os.environ.get("XDG_DATA_HOME", "").strip()
    return (Path(data) if data else Path.home() / ".local" / "share") / "memsim" / "history.db"


def open_database(path: Path, *, damaged_aside: bool = False) -> sqlite3.Connection:
    """A connection to the history in this file; the file is created where it does not exist.

    damaged_aside : rename a damaged history to `NAME.damaged-N`, with a HistoryWarning

    Raises HistoryError where the file belongs to another program or a later memsim, or is damaged.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _check_header(path)  # before the lock: no lock file is made beside another program's file
        with _lock(path):  # no other process creates, checks or renames it meanwhile
            try:
                return _open(path)
            except _DamagedError as damaged:
                if not damaged_aside:
                    raise HistoryError(
                        f"{path} is a damaged history ({damaged}); it is left unchanged: choose another"
                        " file, or move it away"
                    ) from None
                aside = _put_aside(path)
                warnings.warn(
                    f"{path} is a damaged history ({damaged}): it was renamed to {aside.name}, and a new"
                    " history was created",
                    HistoryWarning,
                    stacklevel=3,
                )
                return _open(path)
    except OSError as error:
        raise HistoryError(f"history {path} cannot be opened: {error.strerror or error}") from error


class _DamagedError(Exception):
    pass


def _open(path: Path) -> sqlite3.Connection:
    _check_header(path)
    try:
        connection = sqlite3.connect(
            path, timeout=PATIENCE_S, isolation_level=None, check_same_thread=False
        )
    except sqlite3.Error as error:
        raise HistoryError(f"history {path} cannot be opened: {error}") from error
    try:
        with _reading(path):
            patiently(lambda: _prepare(connection, path))
        return connection
    except BaseException:
        connection.close()
        raise


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (
        sqlite3.OperationalError
    ) as error:  # missing rights, a full disk or a lock, but no damage
        raise HistoryError(f"history {path} cannot be used: {error}") from error
    except (sqlite3.DatabaseError, ValueError) as error:  # ValueError: text that is not UTF-8
        raise _DamagedError(one_line(error)) from error


def _check_header(path: Path) -> None:
    if not path.exists() or path.stat().st_size == 0:
        return
    if not path.is_file():
        raise HistoryError(f"history {path} must be a file")
    with path.open("rb") as file:
        head = file.read(100)
    if not head.startswith(_MAGIC):
        raise HistoryError(
            f"{path} is not a history: it is not an SQLite file and begins with {head[:16]!r}; it is"
            " left unchanged"
        )
    # Read here and not through SQLite, because opening another program's file may change it.
    identity = int.from_bytes(head[68:72], "big")
    if identity != APPLICATION_ID:
        raise HistoryError(
            f"{path} is an SQLite file of another program (application id {identity:#x}); it is left"
            " unchanged"
        )


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = FULL")
    identity = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if identity != APPLICATION_ID:  # an empty file, or one whose creation was interrupted
        _create(connection)
    elif version == 1:
        with transaction(connection):
            if connection.execute("PRAGMA user_version").fetchone()[0] == 1:
                upgrade(connection)
                connection.execute(f"PRAGMA user_version = {VERSION}")
    elif version != VERSION:
        raise HistoryError(
            f"{path} is a history of version {version}, this memsim reads version {VERSION}; it is"
            " left unchanged"
        )
    connection.execute("PRAGMA journal_mode = WAL")
    if path.stat().st_size <= CHECKED_WHOLE_BYTES:
        state = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if state != "ok":
            raise _DamagedError(" ".join(state.split()))


def _create(connection: sqlite3.Connection) -> None:
    with transaction(connection):
        for statement in _SCHEMA.split(";"):
            if statement.strip():
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    """A lock on `NAME.lock`, which the operating system releases when its owner ends."""
    with open(path.with_name(path.name + ".lock"), "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _put_aside(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    for suffix in ("-wal", "-shm"):
        companion = path.with_name(path.name + suffix)
        if companion.exists():
            companion.rename(aside.with_name(aside.name + suffix))
    return path.rename(aside)


def patiently(work: Callable[[], T]) -> T:
    """The result of `work`, repeated with growing random pauses while other writers lock the file.

    SQLite's own waiting covers neither two readers that both want to write nor a change of journal.
    """
    end = time.monotonic() + PATIENCE_S
    pause_s = 0.001
    while True:
        try:
            return work()
        except sqlite3.OperationalError as error:
            busy = any(word in str(error) for word in _BUSY)
            if not busy or time.monotonic() > end:
                raise
        time.sleep(pause_s * random.random())
        pause_s = min(2 * pause_s, 0.25)


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """A transaction: all statements or none; after a normal end the data are on the disk."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def process() -> int:
    """The id of this process; a connection must not be used in a process that was forked later."""
    return os.getpid()
