"""Conversion between records and rows of the database."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterable
from dataclasses import astuple
from typing import Any

import numpy as np
import numpy.typing as npt

from calib.history.errors import HistoryError
from calib.history.key import Key
from calib.history.records import Record, Sample, check_record
from calib.history.statistics import Running, check_time


def empty(key: Key, sample: Sample, now: float) -> Record:
    return Record(
        key=key,
        size_bytes=sample.size_bytes,
        terms=sample.terms,
        accepted=Running(),
        seen=0,
        rejected=0,
        recent=np.empty(0),
        first_at=now if sample.at is None else sample.at,
        last_at=now if sample.at is None else sample.at,
    )


_COLUMNS = (
    "kernel, device, driver, layout, size_bytes, terms, source, n, mean, m2, low, high, sum_ln,"
    " sum_ln2, seen, rejected, recent, first_at, last_at"
)
_KINDS = (str, str, str, int, int, str, str, int, *6 * (float,), int, int, bytes, float, float)
"""Of each column; SQLite itself keeps any type anywhere."""
OF_KEY = "kernel = :kernel AND device = :device AND driver = :driver AND layout = :layout"
"""Is true of the row of a key, whose fields are the parameters."""


def checksum(cells: Iterable[Any]) -> int:
    """What is kept with a row, so that a changed bit is noticed: the CRC-32 of its cells."""
    return zlib.crc32(repr(tuple(cells)).encode("utf-8", "surrogatepass"))


def read_one(connection: sqlite3.Connection, key: Key) -> Record | None:
    matches = select(connection, **vars(key))
    return matches[0] if matches else None


def select(connection: sqlite3.Connection, **equal: Any) -> list[Record]:
    wanted = {name: value for name, value in equal.items() if value is not None}
    where = " AND ".join(f"{name} = ?" for name in wanted) or "1"
    rows = connection.execute(
        f"SELECT {_COLUMNS}, sum FROM entry WHERE {where}"
        " ORDER BY kernel, device, driver, size_bytes, layout",
        tuple(wanted.values()),
    )
    return [_record(row[:-1], row[-1]) for row in rows.fetchall()]


def _record(row: tuple[Any, ...], kept: Any) -> Record:
    """Raises ValueError where a cell is not what `write_one` would write."""
    for name, kind, cell in zip(_COLUMNS.split(", "), _KINDS, row, strict=True):
        if type(cell) is not kind:
            raise ValueError(f"a row has a {type(cell).__name__} as its {name}")
    if checksum(row) != kept:
        raise ValueError(f"the row of {row[0][:80]!r}, layout {row[3]:x}, has changed")
    kernel, device, driver, layout, size_bytes, terms, source, *rest = row
    *state, seen, rejected, recent, first_at, last_at = rest
    try:
        return check_record(
            Record(
                key=Key(kernel=kernel, device=device, driver=driver, layout=layout),
                size_bytes=size_bytes,
                terms=json.loads(terms),
                accepted=Running(*state),
                seen=seen,
                rejected=rejected,
                recent=np.frombuffer(recent, dtype="<f8").astype(np.float64),
                first_at=first_at,
                last_at=last_at,
                source=source,
            )
        )
    except (HistoryError, RecursionError) as error:
        raise ValueError(str(error)) from error


def write_one(connection: sqlite3.Connection, record: Record) -> int:
    key, (n, *floats) = check_record(record).key, astuple(record.accepted)
    values = (
        *(key.kernel, key.device, key.driver, int(key.layout)),
        *(
            int(record.size_bytes),
            json.dumps({name: float(value) for name, value in record.terms.items()}),
            record.source,
        ),
        *(int(n), *map(float, floats)),
        *(int(record.seen), int(record.rejected), record.recent.astype("<f8").tobytes()),
        *(float(record.first_at), float(record.last_at)),
    )
    values += (checksum(values),)
    names = [*_COLUMNS.split(", "), "sum"]
    changes = ", ".join(f"{name} = excluded.{name}" for name in names[4:])
    row = connection.execute(
        f"INSERT INTO entry ({_COLUMNS}, sum) VALUES ({', '.join('?' * len(names))})"
        f" ON CONFLICT (kernel, device, driver, layout) DO UPDATE SET {changes} RETURNING id",
        values,
    ).fetchone()
    return int(row[0])


def add_samples(
    connection: sqlite3.Connection, entry: int, times_s: Iterable[float], at: Iterable[float]
) -> None:
    rows = [(entry, float(time_s), float(when)) for time_s, when in zip(times_s, at, strict=True)]
    connection.executemany(
        "INSERT INTO sample VALUES (?, ?, ?, ?)", [(*row, checksum(row)) for row in rows]
    )


def read_samples(connection: sqlite3.Connection, key: Key) -> npt.NDArray[np.float64]:
    """The kept samples of a key, oldest first. Raises ValueError where one has changed."""
    rows = connection.execute(
        "SELECT entry, time_s, at, sample.sum FROM sample JOIN entry ON entry.id = sample.entry"
        f" WHERE {OF_KEY} ORDER BY sample.rowid",
        vars(key),
    ).fetchall()
    for *row, kept in rows:
        if checksum(row) != kept:
            raise ValueError(f"a sample of {key.kernel[:80]!r}, layout {key.layout:x}, has changed")
    try:
        return np.array([check_time(row[1]) for row in rows], dtype=np.float64)
    except (HistoryError, TypeError) as error:
        raise ValueError(str(error)) from error


def upgrade(connection: sqlite3.Connection) -> None:
    """Adds the checksums, which version 1 does not have, to the rows as they are."""
    for table, columns in (("entry", _COLUMNS), ("sample", "entry, time_s, at")):
        connection.execute(f"ALTER TABLE {table} ADD COLUMN sum INTEGER NOT NULL DEFAULT 0")
        rows = connection.execute(f"SELECT rowid, {columns} FROM {table}").fetchall()
        connection.executemany(
            f"UPDATE {table} SET sum = ? WHERE rowid = ?",
            [(checksum(cells), rowid) for rowid, *cells in rows],
        )
