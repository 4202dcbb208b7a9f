"""Changed bits and cells of a history, and one of an earlier version."""

from __future__ import annotations

import contextlib
import random
import shutil
import sqlite3
from pathlib import Path

import pytest

from calib.history.errors import HistoryError
from calib.history.key import Key
from calib.history.store import Store
from tests.support.mutated_inputs import history, history_samples


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return history(tmp_path_factory.mktemp("good"))


@pytest.mark.parametrize("n", [150, pytest.param(3000, marks=pytest.mark.slow)])
def test_flipped_bits_do_not_pass(n: int, good: Path, tmp_path: Path) -> None:
    """What is read of a file in which a bit has changed is what was written, or an error."""
    path, content = tmp_path / "h.db", good.read_bytes()

    def read() -> list[object]:
        with Store(path) as store:
            records = [(r.key, r.size_bytes, dict(r.terms), r.accepted, r.seen, r.first_at)
                       for r in store.records()]  # fmt: skip
            return [*records, *(list(store.samples(r[0])) for r in records)]

    path.write_bytes(content)
    expected = read()
    rng = random.Random(0)
    for _ in range(n):
        for left in tmp_path.glob("h.db*"):
            left.unlink()
        changed = bytearray(content)
        at = rng.randrange(100, len(changed))
        changed[at] ^= 1 << rng.randrange(8)
        path.write_bytes(changed)
        with contextlib.suppress(HistoryError):
            assert read() == expected, at


def test_a_history_without_checksums_is_upgraded(good: Path, tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    shutil.copy(good, path)
    with Store(path) as store:
        expected = store.records()
        store.prune()
    with sqlite3.connect(path) as connection:
        connection.execute("ALTER TABLE entry DROP COLUMN sum")
        connection.execute("ALTER TABLE sample DROP COLUMN sum")
        connection.execute("PRAGMA user_version = 1")
    connection.close()
    with Store(path) as store:
        for old, new in zip(expected, store.records(), strict=True):
            assert (old.key, old.accepted) == (new.key, new.accepted)
        assert len(store.samples(expected[0].key)) == 12
        store.add_many(history_samples())
    with Store(path) as store:
        assert len(store.samples(expected[0].key)) == 24


def test_a_changed_cell_is_named(good: Path, tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    shutil.copy(good, path)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE entry SET mean = mean * 2 WHERE layout = 3")
    connection.close()
    with Store(path) as store:
        with pytest.raises(
            HistoryError, match=r"h\.db is a damaged history .*'gemm', layout 3, has"
        ):
            store.records()
        assert store.get(Key(kernel="gemm", device="cpu", driver="1", layout=4)) is not None
