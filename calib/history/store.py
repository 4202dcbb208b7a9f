"""The store of a history: for each key its running statistics and its latest samples, or all of them."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from calib.history import database
from calib.history.errors import HistoryError
from calib.history.key import Key
from calib.history.records import OWN, Record, Sample
from calib.history.rows import OF_KEY, add_samples, empty, read_one, read_samples, select, write_one
from calib.history.statistics import check_time
from memsim.errors import one_line

T = TypeVar("T")


class Store:
    """A history in an SQLite file, which many threads and processes may use concurrently.

    Samples are on the disk when `add` or `add_many` returns; a process that is killed later loses none.

    keep_samples : keep every sample, not only the latest 64 of each key
    damaged_aside : rename a damaged history and create a new one, instead of raising an error

    Raises HistoryError where the file is not a history, is damaged, or cannot be written.
    """

    def __init__(
        self, path: Path | str, *, keep_samples: bool = False, damaged_aside: bool = False
    ) -> None:
        self.path = Path(path)
        self.keep_samples = keep_samples
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = database.open_database(
            self.path, damaged_aside=damaged_aside
        )
        self._process = database.process()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file. Using the store afterwards raises HistoryError."""
        with self._lock:
            if self._connection is not None and self._process == database.process():
                self._connection.close()
            self._connection = None

    def add(
        self,
        key: Key,
        time_s: float,
        *,
        size_bytes: int = 0,
        terms: Mapping[str, float] | None = None,
    ) -> None:
        """Adds one sample. Raises HistoryError where its time is not between 0 and LONGEST_S."""
        self.add_many([Sample(key=key, time_s=time_s, size_bytes=size_bytes, terms=terms or {})])

    def add_many(self, samples: Iterable[Sample]) -> None:
        """Adds samples, all or none of them. Raises HistoryError where a time is invalid."""
        now = time.time()
        by_key: dict[Key, list[Sample]] = {}
        for sample in samples:
            check_time(sample.time_s)
            by_key.setdefault(sample.key, []).append(sample)
        if by_key:
            self._do(lambda connection: self._add(connection, by_key, now))

    def _add(
        self, connection: sqlite3.Connection, by_key: Mapping[Key, Sequence[Sample]], now: float
    ) -> None:
        with database.transaction(connection):
            for key, samples in by_key.items():
                record = read_one(connection, key) or empty(key, samples[0], now)
                if record.source != OWN:
                    raise HistoryError(
                        f"{key.kernel} on {key.device} (layout {key.layout:08x}) was imported from"
                        f" {record.source}: measured samples are not mixed into it"
                    )
                # A size or terms that earlier samples did not have are taken from a later one.
                record = replace(
                    record,
                    size_bytes=record.size_bytes or samples[-1].size_bytes,
                    terms=record.terms or samples[-1].terms,
                )
                at = [now if sample.at is None else sample.at for sample in samples]
                record = record.with_samples([s.time_s for s in samples], min(at), max(at))
                entry = write_one(connection, record)
                if self.keep_samples:
                    add_samples(connection, entry, [s.time_s for s in samples], at)

    def put(self, records: Iterable[Record]) -> None:
        """Adds imported statistics, all or none. Raises HistoryError where a key is already present."""
        records = list(records)

        def work(connection: sqlite3.Connection) -> None:
            with database.transaction(connection):
                for record in records:
                    key = record.key
                    if read_one(connection, key) is not None:
                        raise HistoryError(
                            f"{key.kernel} on {key.device} (layout {key.layout:08x}) is already in"
                            f" {self.path}: it is not overwritten; prune it first"
                        )
                    write_one(connection, record)

        self._do(work)

    def get(self, key: Key) -> Record | None:
        """The statistics of this key; None where there are none."""
        return self._do(lambda connection: read_one(connection, key))

    def records(
        self, *, kernel: str | None = None, device: str | None = None, driver: str | None = None
    ) -> list[Record]:
        """The statistics of all keys, or of those of a kernel, device or driver, sorted by key and size."""
        return self._do(
            lambda connection: select(connection, kernel=kernel, device=device, driver=driver)
        )

    def other_drivers(self, key: Key) -> list[Record]:
        """The statistics of the same launch on the same device under other drivers."""
        records = self._do(
            lambda connection: select(
                connection, kernel=key.kernel, device=key.device, layout=key.layout
            )
        )
        return [record for record in records if record.key.driver != key.driver]

    def samples(self, key: Key) -> npt.NDArray[np.float64]:
        """The kept samples of a key in seconds, oldest first: all of them, or the latest 64."""

        def work(connection: sqlite3.Connection) -> npt.NDArray[np.float64]:
            kept = read_samples(connection, key)
            record = read_one(connection, key)
            recent = np.empty(0) if record is None else record.recent
            return kept if len(kept) >= len(recent) else recent

        return self._do(work)

    def prune(self, *, keys: Iterable[Key] = (), samples_only: bool = False) -> int:
        """Removes keys, or only their kept samples; returns how many of the keys existed."""
        keys = list(keys)

        def work(connection: sqlite3.Connection) -> int:
            gone = 0
            with database.transaction(connection):
                for key in keys:
                    if samples_only:
                        entries = f"SELECT id FROM entry WHERE {OF_KEY}"
                        connection.execute(
                            f"DELETE FROM sample WHERE entry IN ({entries})", vars(key)
                        )
                        gone += read_one(connection, key) is not None
                    else:
                        entry = connection.execute(f"DELETE FROM entry WHERE {OF_KEY}", vars(key))
                        gone += entry.rowcount
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return gone

        return self._do(work)

    def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._lock:
            connection = self._open_here()
            try:
                return database.patiently(lambda: work(connection))
            except sqlite3.OperationalError as error:
                raise HistoryError(f"history {self.path}: {one_line(error)}") from error
            except (sqlite3.DatabaseError, ValueError) as error:
                raise HistoryError(
                    f"{self.path} is a damaged history ({one_line(error)}); it is left unchanged"
                ) from error

    def _open_here(self) -> sqlite3.Connection:
        if self._connection is None:
            raise HistoryError(f"history {self.path} is closed")
        if self._process != database.process():
            # After a fork the parent's connection is kept and not closed: closing would free its locks.
            _ABANDONED.append(self._connection)
            self._connection = database.open_database(self.path)
            self._process = database.process()
        return self._connection


_ABANDONED: list[sqlite3.Connection] = []
