"""Random damage to good files: texts, JSON values, cells of databases, bytes."""

from __future__ import annotations

import contextlib
import json
import random
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from memsim.errors import MemsimError

NUMBERS = (
    *("0", "-0", "1", "-1", "2", "255", "65536", "4294967295", "9223372036854775807"),
    *("9223372036854775808", "18446744073709551616", "1e-320", "1e-16", "1e9", "1e100", "1e300"),
    *("1e999", "-1e999", "nan", "inf", "0.1", "1_000", "0x10", "\u00b2", "9" * 400, "9" * 5000),
)
WORDS = ("", " ", "\n", "\0", "\t", ",", '"', "'", "=", "#", "%", "\u202e", "\ud800", "(" * 200)
WORDS += ("\x1b[31m", "<b>", "../..", "a" * 300, "null", "[]", "{}", "=cmd()")
VALUES = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**400, 0.0, -1.5, 1e300, 1e-300),
    *(float("inf"), float("-inf"), float("nan"), "", "text", "1", "\ud800", [], [[]], {}, {"a": 1}),
)
CELLS = (
    *(0, -1, 1, 2, 10, 2**31, 2**63 - 1, -(2**63), 0.0, -0.0, 0.5, 1e-320, 1e-16, 1e9, 1e300),
    *(float("inf"), float("-inf"), "", "text", "{}", "[1]", "null", '{"a": "b"}', '{"a": 1e400}'),
    *('{"a": 1e99}', "[" * 3000, b"", b"\xff" * 8, b"\0" * 8, b"\0" * 512, b"abc", "9" * 5000),
)


def text(rng: random.Random, good: str) -> str:
    """Numbers out of range, cuts, repeated and shuffled lines, odd words."""
    for _ in range(rng.randint(1, 4)):
        begin = rng.randrange(len(good) + 1)
        end = min(begin + rng.choice((0, 1, 4, 30, 400)), len(good))
        kind = rng.random()
        numbers = [found.span() for found in re.finditer(r"-?\d[\d.e+-]*", good)]
        if kind < 0.5 and numbers:
            begin, end = rng.choice(numbers)
            good = good[:begin] + rng.choice(NUMBERS) + good[end:]
        elif kind < 0.6:
            good = good[:begin]
        elif kind < 0.7:
            good = good[:end] + good[begin:end] * rng.randint(1, 30) + good[end:]
        elif kind < 0.8:
            lines = good.splitlines(keepends=True)
            rng.shuffle(lines)
            good = "".join(lines[: rng.randint(0, len(lines))])
        else:
            good = good[:begin] + rng.choice(WORDS) + good[end:]
    return good


def data(rng: random.Random, good: bytes) -> bytes:
    """Flipped bits and overwritten, cut or inserted bytes."""
    changed = bytearray(good)
    for _ in range(rng.choice((1, 1, 2, 20))):
        at = rng.randrange(len(changed) + 1)
        kind = rng.random()
        if kind < 0.6 and at < len(changed):
            changed[at] ^= 1 << rng.randrange(8)
        elif kind < 0.75:
            changed[at : at + 8] = rng.randbytes(rng.choice((0, 8)))
        elif kind < 0.85:
            del changed[at:]
        else:
            changed[at:at] = rng.choice((b"\0", b"\xff", b" ", b"\n", b"\r", b"9"))
    return bytes(changed)


def value(rng: random.Random, good: Any) -> Any:
    """A copy of a JSON value in which a few values are replaced, dropped or repeated."""
    changed = json.loads(json.dumps(good))
    for _ in range(rng.choice((1, 1, 2, 4))):
        places: list[tuple[Any, Any]] = []
        _collect(changed, places)
        if not places:
            break
        parent, key = rng.choice(places)
        kind = rng.random()
        if kind < 0.7:
            parent[key] = rng.choice(VALUES)
        elif kind < 0.85:
            del parent[key]
        elif isinstance(parent, list):
            parent.insert(key, parent[key])
        else:
            parent[rng.choice(("", "x", "\ud800"))] = parent[key]
    return changed


def _collect(of: Any, places: list[tuple[Any, Any]]) -> None:
    keys = of.keys() if isinstance(of, dict) else range(len(of)) if isinstance(of, list) else ()
    for key in keys:
        places.append((of, key))
        _collect(of[key], places)


def cells(
    rng: random.Random, path: Path, mend: Callable[[sqlite3.Connection], None] | None = None
) -> None:
    """Replaces a few cells of a database; mend : called before the changes are committed."""
    with sqlite3.connect(path) as connection:
        connection.text_factory = bytes
        tables = [
            row[0].decode()
            for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        connection.text_factory = str
        for _ in range(rng.choice((1, 1, 2, 4))):
            table = rng.choice(tables)
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            rows = connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            where = f"rowid = {rng.randint(1, max(rows, 1))}" if rng.random() < 0.7 else "1"
            change = f"UPDATE OR IGNORE {table} SET {rng.choice(columns)} = ? WHERE {where}"
            with contextlib.suppress(sqlite3.IntegrityError):  # a row's number must be one
                connection.execute(change, (rng.choice(CELLS),))
        if mend is not None:
            mend(connection)
    connection.close()


def refused(read: Callable[[], object]) -> str:
    """Why a reader refuses its input, "" where it accepts it; whatever else it raises is raised.

    Raises AssertionError where a refusal is not one line of printable length.
    """
    try:
        read()
    except MemsimError as error:
        message = str(error)
        assert message
        assert "\n" not in message, message
        assert len(message) < 2000, message
        return message
    return ""
