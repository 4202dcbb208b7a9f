"""Damaged histories and StarPU files: an answer, or an error of ours in one line."""

from __future__ import annotations

import contextlib
import random
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from calib.history import rows
from calib.history.answers import answer
from calib.history.errors import HistoryError
from calib.history.exchange import from_starpu, to_starpu
from calib.history.key import Key
from calib.history.model_kinds import history_misfit, relative_speed_ups, verdicts
from calib.history.records import Sample
from calib.history.starpu_file import parse, render
from calib.history.statistics import two_modes
from calib.history.store import Store
from tests.support import mutations

FEW, MANY = 60, 4000


def samples() -> Iterator[Sample]:
    rng = np.random.default_rng(0)
    for device in ("cpu", "gpu"):
        for k in range(8):
            size = 1000 * 2**k
            for _ in range(12):
                time_s = 1e-6 * size**0.8 * rng.normal(1, 0.02) + 1e-5
                terms = {"n": float(k), "m": float(k * k)}
                key = Key(kernel="gemm", device=device, driver="1", layout=k)
                yield Sample(key=key, time_s=time_s, size_bytes=size, terms=terms, at=1e9 + k)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("good") / "good.db"
    with Store(path, keep_samples=True) as store:
        store.add_many(samples())
        store.prune()  # moves the log into the file
    return path


def use(path: Path) -> list[object]:
    """What the commands do with a history; returns what they would print."""
    found: list[object] = []
    with Store(path) as store:
        records = store.records()
        for kernel, device in sorted({(r.key.kernel, r.key.device) for r in records}):
            own = [r for r in records if (r.key.kernel, r.key.device) == (kernel, device)]
            found += [(v.kind, v.fits, v.reason) for v in verdicts(own)]
            found += [(r.key, r.accepted, r.last_at, history_misfit(r)) for r in own]
            found += [list(store.samples(r.key)) for r in own]
            found += [str(two_modes(store.samples(own[0].key)))]
            for key, size in (
                (own[0].key, 0),
                (Key(kernel=kernel, device=device, layout=99), 3000),
            ):
                for kind in (None, "history", "power law", "power law with offset"):
                    found.append(
                        mutations.refused(
                            lambda k=key, s=size, m=kind: answer(store, k, size_bytes=s, kind=m)
                        )  # type: ignore[misc]
                    )
        for kernel in sorted({r.key.kernel for r in records}):
            own = [r for r in records if r.key.kernel == kernel]
            found.append(parse(render(to_starpu(own))))
            found.append(mutations.refused(lambda r=own: relative_speed_ups(r, "cpu")))  # type: ignore[misc]
        for sample in list(samples())[:3]:
            mutations.refused(lambda s=sample: store.add_many([s]))  # type: ignore[misc]
    return found


def mend(connection: sqlite3.Connection) -> None:
    """Gives every row the checksum of its cells, as someone who means harm would."""
    for table, columns in (("entry", rows._COLUMNS), ("sample", "entry, time_s, at")):
        for rowid, *cells in connection.execute(f"SELECT rowid, {columns} FROM {table}").fetchall():
            connection.execute(
                f"UPDATE {table} SET sum = ? WHERE rowid = ?", (rows.checksum(cells), rowid)
            )


def damaged_databases(good: Path, folder: Path, n: int) -> tuple[int, int]:
    """Tries n of them; returns how many were refused, and how many were used."""
    refused = 0
    for seed in range(n):
        rng = random.Random(seed)
        path = folder / "h.db"
        shutil.copy(good, path)
        if seed % 3 == 0:
            path.write_bytes(mutations.data(rng, good.read_bytes()))
        else:
            mutations.cells(rng, path, mend if seed % 3 == 1 else None)
        try:
            refused += bool(mutations.refused(lambda of=path: use(of)))
        except Exception as error:
            raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}") from error
        for left in folder.glob("h.db*"):
            left.unlink()
    return refused, n - refused


def test_damaged_databases(good: Path, tmp_path: Path) -> None:
    refused, used = damaged_databases(good, tmp_path, FEW)
    assert refused > FEW / 3
    assert used > 0


@pytest.mark.slow
def test_thousands_of_damaged_databases(good: Path, tmp_path: Path) -> None:
    print(f"{MANY} databases, refused and used: {damaged_databases(good, tmp_path, MANY)}")


def flipped(good: Path, folder: Path, n: int) -> int:
    """Flips single bits; returns how many changed what is read unnoticed."""
    path, content = folder / "h.db", good.read_bytes()

    def read() -> list[object]:
        with Store(path) as store:
            records = [(r.key, r.size_bytes, dict(r.terms), r.accepted, r.seen, r.first_at)
                       for r in store.records()]  # fmt: skip
            return [*records, *(list(store.samples(r[0])) for r in records)]

    path.write_bytes(content)
    expected, unnoticed = read(), 0
    rng = random.Random(0)
    for _ in range(n):
        for left in folder.glob("h.db*"):
            left.unlink()
        changed = bytearray(content)
        at = rng.randrange(100, len(changed))
        changed[at] ^= 1 << rng.randrange(8)
        path.write_bytes(changed)
        with contextlib.suppress(HistoryError):
            unnoticed += read() != expected
    return unnoticed


def test_flipped_bits_do_not_pass(good: Path, tmp_path: Path) -> None:
    assert flipped(good, tmp_path, 150) == 0


@pytest.mark.slow
def test_thousands_of_flipped_bits_do_not_pass(good: Path, tmp_path: Path) -> None:
    assert flipped(good, tmp_path, 3000) == 0


def damaged_starpu_files(good: Path, folder: Path, n: int) -> tuple[int, int]:
    with Store(good) as store:
        content = render(to_starpu(store.records()))
    refused = 0

    def use_file(changed: str) -> None:
        records = from_starpu(parse(changed, "gemm.host"), "gemm", "host", 1e9)
        path = folder / "imported.db"
        with Store(path) as store:
            store.put(records)
        use(path)

    for seed in range(n):
        changed = mutations.text(random.Random(seed), content)
        try:
            refused += bool(mutations.refused(lambda text=changed: use_file(text)))  # type: ignore[misc]
        except Exception as error:
            raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}") from error
        for left in folder.glob("imported.db*"):
            left.unlink()
    return refused, n - refused


def test_damaged_starpu_files(good: Path, tmp_path: Path) -> None:
    refused, used = damaged_starpu_files(good, tmp_path, FEW)
    assert refused > FEW / 4
    assert used > 0


@pytest.mark.slow
def test_thousands_of_damaged_starpu_files(good: Path, tmp_path: Path) -> None:
    print(f"{MANY} StarPU files, refused and used: {damaged_starpu_files(good, tmp_path, MANY)}")


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
        store.add_many(samples())
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
