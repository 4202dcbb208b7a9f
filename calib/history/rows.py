"""Conversion between records and rows of the database."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

import numpy as np

from calib.history.key import Key
from calib.history.records import Record, Sample
from calib.history.statistics import Running


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


def read_one(connection: sqlite3.Connection, key: Key) -> Record | None:
    matches = select(
        connection, kernel=key.kernel, device=key.device, driver=key.driver, layout=key.layout
    )
    return matches[0] if matches else None


def select(connection: sqlite3.Connection, **equal: Any) -> list[Record]:
    wanted = {name: value for name, value in equal.items() if value is not None}
    where = " AND ".join(f"{name} = ?" for name in wanted) or "1"
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM entry WHERE {where} ORDER BY kernel, device, driver, size_bytes, layout",
        tuple(wanted.values()),
    )
    return [_record(row) for row in rows.fetchall()]


def _record(row: tuple[Any, ...]) -> Record:
    kernel, device, driver, layout, size_bytes, terms, source, *rest = row
    n, mean, m2, low, high, sum_ln, sum_ln2, seen, rejected, recent, first_at, last_at = rest
    return Record(
        key=Key(kernel=kernel, device=device, driver=driver, layout=layout),
        size_bytes=size_bytes,
        terms=json.loads(terms),
        accepted=Running(n=n, mean=mean, m2=m2, low=low, high=high, sum_ln=sum_ln, sum_ln2=sum_ln2),
        seen=seen,
        rejected=rejected,
        recent=np.frombuffer(recent, dtype="<f8").astype(np.float64),
        first_at=first_at,
        last_at=last_at,
        source=source,
    )


def write_one(connection: sqlite3.Connection, record: Record) -> int:
    key, state = record.key, record.accepted
    values = (
        *(key.kernel, key.device, key.driver, key.layout),
        *(record.size_bytes, json.dumps(dict(record.terms)), record.source),
        *(state.n, state.mean, state.m2, state.low, state.high, state.sum_ln, state.sum_ln2),
        *(record.seen, record.rejected, record.recent.astype("<f8").tobytes()),
        *(record.first_at, record.last_at),
    )
    names = [name.strip() for name in _COLUMNS.split(",")]
    changes = ", ".join(f"{name} = excluded.{name}" for name in names[4:])
    row = connection.execute(
        f"INSERT INTO entry ({_COLUMNS}) VALUES ({', '.join('?' * len(names))})"
        f" ON CONFLICT (kernel, device, driver, layout) DO UPDATE SET {changes} RETURNING id",
        values,
    ).fetchone()
    return int(row[0])
