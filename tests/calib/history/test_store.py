"""The store: many writers, kills, forks, damaged and foreign files, drivers that changed."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from calib.history.errors import HistoryError, HistoryWarning
from calib.history.key import Key
from calib.history.records import WINDOW, Sample
from calib.history.statistics import running
from calib.history.store import Store

KEY = Key(kernel="gemm", device="cpu", driver="1", layout=7)

WRITER = """
import sys
from calib.history import Key, Sample, Store

path, writer = sys.argv[1], int(sys.argv[2])
store = Store(path, keep_samples=True)
shared = Key(kernel="shared", device="d", layout=0)
own = Key(kernel=f"own{writer}", device="d", layout=0)
number = 0
while True:
    # The time is its own name: writer and number can be read from it.
    time_s = 1.0 + (writer * 1_000_000 + number) * 1e-9
    store.add_many([Sample(key=shared, time_s=time_s), Sample(key=own, time_s=time_s)])
    print(number, flush=True)
    number += 1
"""


def named(time_s):
    return divmod(round((time_s - 1.0) * 1e9), 1_000_000)


def test_four_writers_and_a_kill_lose_nothing_acknowledged(tmp_path):
    path = tmp_path / "h.db"
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(w)], stdout=subprocess.PIPE, text=True
        )
        for w in range(4)
    ]
    acknowledged = {w: [] for w in range(4)}

    def listen(w):
        for line in writers[w].stdout:
            if line.endswith("\n"):
                acknowledged[w].append(int(line))

    def wait_for(least):
        end = time.monotonic() + 60
        while any(len(acknowledged[w]) < n for w, n in least.items()) and time.monotonic() < end:
            time.sleep(0.01)

    ears = [threading.Thread(target=listen, args=(w,)) for w in range(4)]
    for ear in ears:
        ear.start()
    try:
        wait_for(dict.fromkeys(range(4), 6))
        for writer in writers[:2]:  # in the middle of whatever they are doing
            writer.send_signal(signal.SIGKILL)
        reached = {w: len(acknowledged[w]) + 5 for w in range(2, 4)}
        wait_for(reached)
    finally:
        for writer in writers:
            writer.kill()
        for ear in ears:
            ear.join()
        for writer in writers:
            writer.wait()
            writer.stdout.close()
    assert all(len(acknowledged[w]) >= 6 for w in range(4))
    assert all(len(acknowledged[w]) >= n for w, n in reached.items()), "survivors went on"

    with Store(path) as store:
        shared = Key(kernel="shared", device="d", layout=0)
        stored = Counter(named(t) for t in store.samples(shared))
        assert set(stored.values()) == {1}
        for w in range(4):
            mine = sorted(number for writer, number in stored if writer == w)
            # All reported samples are stored, and at most one sample that was not reported.
            assert mine[: len(acknowledged[w])] == acknowledged[w]
            assert len(mine) <= len(acknowledged[w]) + 1
            own = store.samples(Key(kernel=f"own{w}", device="d", layout=0))
            assert [number for _, number in map(named, own)] == mine, "all of a batch or none"
        record = store.get(shared)
        assert record.seen == sum(stored.values())
        assert record.accepted.n + record.rejected == record.seen


def test_threads_of_one_store(store):
    threads = [
        threading.Thread(target=lambda: [store.add(KEY, 1e-3) for _ in range(20)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.get(KEY).accepted.n == 80


def test_a_fork_does_not_share_the_connection(store):
    store.add(KEY, 1e-3)
    with warnings.catch_warnings():
        # Later Pythons warn of any fork of a process with threads.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            store.add(KEY, 1e-3)
            os._exit(0)
        except BaseException:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    store.add(KEY, 1e-3)
    assert store.get(KEY).accepted.n == 3


@pytest.mark.parametrize("n", [9, 63, 64])
def test_a_first_launch_a_thousand_times_too_long_leaves_no_trace(store, n):
    good = 1e-3 * (1 + 0.01 * np.random.default_rng(1).standard_normal(n))
    for t in (1.0, *good):
        store.add(KEY, t)
    record = store.get(KEY)
    want = running(good)
    assert (record.rejected, record.accepted.n) == (1, n)
    assert record.accepted.mean == pytest.approx(want.mean, rel=1e-12)
    assert record.accepted.deviation == pytest.approx(want.deviation, rel=1e-9)


@pytest.mark.parametrize("keep_samples", [True, False])
@pytest.mark.parametrize("parts", [(200,), (63, 1, 1, 135), (10, 100, 90)])
def test_statistics_are_those_of_the_samples_in_whatever_parts_they_come(
    tmp_path, parts, keep_samples
):
    times = 1e-3 * (1 + 0.02 * np.random.default_rng(7).standard_normal(200))
    times[[0, 30, 90, 150]] *= 100
    with Store(tmp_path / "h.db", keep_samples=keep_samples) as store:
        for part in np.split(times, np.cumsum(parts)[:-1]):
            store.add_many(Sample(key=KEY, time_s=t, size_bytes=64, terms={"n": 2.0}) for t in part)
        record = store.get(KEY)
        kept = times if keep_samples else times[-WINDOW:]
        assert store.samples(KEY).tolist() == kept.tolist()
    good = np.delete(times, [0, 30, 90, 150])
    assert (record.seen, record.rejected, record.accepted.n) == (200, 4, 196)
    assert record.accepted.mean == pytest.approx(good.mean(), rel=1e-12)
    assert record.accepted.deviation == pytest.approx(good.std(ddof=1), rel=1e-9)
    assert (record.accepted.low, record.accepted.high) == (good.min(), good.max())
    assert (record.size_bytes, record.terms) == (64, {"n": 2.0})


def test_what_is_no_time_refuses_the_whole_batch(store):
    with pytest.raises(HistoryError, match="time must lie between"):
        store.add_many([Sample(key=KEY, time_s=1.0), Sample(key=KEY, time_s=float("nan"))])
    assert store.get(KEY) is None


def test_another_driver_is_kept_aside(store):
    newer = Key(kernel="gemm", device="cpu", driver="2", layout=7)
    store.add_many([Sample(key=KEY, time_s=1e-3)] * 12)
    store.add(newer, 2e-3)
    assert store.get(newer).accepted.n == 1
    assert store.get(KEY).accepted.n == 12
    assert [r.key for r in store.other_drivers(newer)] == [KEY]


def test_imported_statistics_are_not_overwritten_nor_mixed(store):
    store.add(KEY, 1e-3)
    other = replace(store.get(KEY), key=replace(KEY, layout=8), source="StarPU")
    store.put([other])
    with pytest.raises(HistoryError, match=r"already in .* not overwritten"):
        store.put([replace(other, key=replace(KEY, layout=9)), other])
    assert store.get(replace(KEY, layout=9)) is None, "all or none"
    with pytest.raises(HistoryError, match="imported from StarPU"):
        store.add(other.key, 1e-3)


def test_prune(store):
    other = Key(kernel="trsm", device="cpu", layout=1)
    store.add_many(Sample(key=key, time_s=1e-3) for key in (KEY, other) for _ in range(70))
    assert store.prune(keys=[KEY], samples_only=True) == 1
    assert len(store.samples(KEY)) == WINDOW
    assert store.get(KEY).accepted.n == 70
    assert store.prune(keys=[KEY, other]) == 2
    assert store.records() == []
    assert len(store.samples(other)) == 0


def damage(path):
    """Overwrites pages in the middle, as a bad disk does; header and schema stay."""
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (path.stat().st_size - 4096))


def execute(path, statement):
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()


def filled(path):
    with Store(path, keep_samples=True) as store:
        store.add_many(Sample(key=KEY, time_s=1e-3) for _ in range(300))
    return path


def test_a_damaged_history_is_refused_and_left_or_put_aside_where_asked(tmp_path):
    path = filled(tmp_path / "h.db")
    for number in (1, 2):
        damage(path)
        before = path.read_bytes()
        with pytest.raises(HistoryError, match=r"damaged history .* left unchanged"):
            Store(path)
        assert path.read_bytes() == before
        with pytest.warns(HistoryWarning, match=rf"renamed to h.db.damaged-{number}"):
            store = Store(path, damaged_aside=True)
        with store:
            assert store.records() == []
            store.add_many(Sample(key=KEY, time_s=1e-3) for _ in range(300))
        assert (tmp_path / f"h.db.damaged-{number}").read_bytes() == before


@pytest.mark.parametrize(
    ("prepare", "error"),
    [
        (lambda path: execute(path, "CREATE TABLE entry (id INTEGER)"), "of another program"),
        (lambda path: path.write_text("not a database"), "not an SQLite file"),
        (
            lambda path: execute(filled(path), "PRAGMA user_version = 99"),
            "of version 99, this memsim reads version 2",
        ),
    ],
)
def test_what_others_wrote_is_never_touched(tmp_path, prepare, error):
    path = tmp_path / "theirs"
    prepare(path)
    before, files = path.read_bytes(), sorted(tmp_path.iterdir())
    for aside in (False, True):
        with pytest.raises(HistoryError, match=error):
            Store(path, damaged_aside=aside)
    assert path.read_bytes() == before
    assert sorted(tmp_path.iterdir()) == files


def test_a_folder_and_a_closed_store(tmp_path):
    with pytest.raises(HistoryError, match="must be a file"):
        Store(tmp_path)
    store = Store(tmp_path / "h.db")
    store.close()
    with pytest.raises(HistoryError, match="is closed"):
        store.add(KEY, 1e-3)


FULL = """
import resource, signal, sys
from pathlib import Path
from calib.history import Key, Store
from calib.history.errors import HistoryError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
path, key = Path(sys.argv[1]), Key(kernel="k", device="d", layout=0)
with Store(path, keep_samples=True) as store:
    for number in range(20):
        store.add(key, 1.0 + number)
    print(number + 1)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size,) * 2)
    try:
        for number in range(20, 4000):
            store.add(key, 1.0 + number)
            print(number + 1)
    except HistoryError as error:
        print(error)
"""


def test_a_full_disk_is_one_line_and_loses_nothing_acknowledged(tmp_path):
    """A bound on the size of files stands for it."""
    path = tmp_path / "h.db"
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=True
    )
    *added, error = done.stdout.splitlines()
    assert error == f"history {path}: disk I/O error"
    with Store(path) as store:
        key = Key(kernel="k", device="d", layout=0)
        assert len(store.samples(key)) == int(added[-1])
        assert store.get(key).seen == int(added[-1])


def test_names_are_text_everywhere(tmp_path):
    names = ["=cmd()", "a\x1b[31mb", "n\nl", "\u202egpj", "\ud800", "<script>"]
    with Store(tmp_path / "h") as store:
        for name in names:
            store.add(Key(kernel=name, device="d\x07", layout=1), 1.0)
        records = store.records()
    assert sorted(record.key.kernel for record in records) == sorted(
        ["=cmd()", r"a\x1b[31mb", r"n\nl", r"\u202egpj", r"\ud800", "<script>"]
    )
    assert {record.key.device for record in records} == {r"d\x07"}
