"""Commands that are killed at random moments leave whole files, and the next run removes the rest."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from calib.history import Key, Store
from memsim import Replay, load_machine, read_trace
from memsim.disk_cache import fingerprint
from memsim.trace.file import write_trace
from tests.support.kernel_matrix import KERNELS
from tests.support.traces import make_trace

KILLS = int(os.environ.get("MEMSIM_TEST_KILLS", "100"))
MEMSIM = [sys.executable, "-m", "memsim.commands.start"]
SPMV = [f"{KERNELS / 'spmv.py'}:spmv", "--set", "n=900"]
TILED = [f"{KERNELS / 'matmul.py'}:tiled", "--set", "n=64"]
ON = ["-m", "v100"]
MODEL = """
name = "tiny"
expression = "p_launch * f_sync_kernel_launch + p_group * f_thread_groups"
[[measure]]
tags = ["empty_kernel", "n_groups:16,1024,16384"]
"""
LAUNCH = Key(kernel="k", device="d", layout=0)
RECORD = """
import sys
from calib.history import Key, Store
with Store(sys.argv[1], keep_samples=True) as store, open(sys.argv[2], "a+") as said:
    said.seek(0)
    first = len(said.readlines())
    for number in range(first, first + 300):
        store.add(Key(kernel="k", device="d", layout=0), 1.0 + number * 1e-6)
        print(number, file=said, flush=True)  # acknowledged
"""
LONG = ("measure",)
"""Commands of half a minute: one kill in twelve is theirs."""


def whole_page(path: Path) -> None:
    assert path.read_text(encoding="utf-8").rstrip().endswith(("</html>", "</svg>"))


def whole_json(path: Path) -> None:
    json.loads(path.read_text(encoding="utf-8"))


def whole_text(path: Path) -> None:
    assert path.read_bytes().endswith(b"\n")


def whole_picture(path: Path) -> None:
    assert path.read_bytes().endswith(b"IEND\xaeB`\x82")


WHOLE: dict[str, Callable[[Path], object]] = {
    ".html": whole_page,
    ".json": whole_json,
    ".trace": read_trace,
    ".nc": Replay.load,
    ".ptx": whole_text,
    ".sass": whole_text,
    ".png": whole_picture,
    ".toml": load_machine,
}


def commands(folder: Path, out: Path) -> dict[str, list[str]]:
    """Name -> command line."""
    (folder / "tiny.toml").write_text(MODEL)
    write_trace(make_trace([[[(0, [g, g + 9])]] for g in range(2000)]), folder / "k.trace")
    pages = ["--trials", "2", "--html", f"{out}/p.html", "--json", f"{out}/p.json"]
    more = ["--save", f"{out}/p.nc", "--trace-out", f"{out}/p.trace"]
    saved = [*pages, "--jobs", "2", "--save", f"{out}/p.nc"]
    tried = ["--over", "tile=4,8,16", "--store", f"{folder}/outcomes.db"]
    tiny = [f"{folder}/tiny.toml", "--trials", "5", "--trial", "0.005"]
    words = {
        "trace": ["trace", *SPMV, *ON, "-o", f"{out}/t.trace"],
        "replay": ["replay", f"{folder}/k.trace", *ON, *[w.replace("/p.", "/r.") for w in saved]],
        "profile": ["profile", *TILED, *ON, *pages, *more],
        "predict": ["predict", *TILED, *ON, *[w.replace("/p.", "/q.") for w in pages]],
        "tune": ["tune", *TILED, *ON, *tried, "--json", f"{out}/u.json"],
        "count": ["count", *TILED, "f_op_float32_madd", "--json", f"{out}/c.json"],
        "compile": ["compile", *TILED, *ON, "-o", f"{out}/k.sass"],
        "blocks": ["blocks", *TILED, "--json", f"{out}/b.json", "--plot", f"{out}/b.png"],
        "calibrate": ["calibrate", *tiny, "-o", f"{out}/f.json"],
        "measure": ["machines", "measure", "--memory", "8", "-o", f"{out}/m.toml"],
    }
    record = [sys.executable, "-c", RECORD, f"{folder}/runs.db", f"{folder}/acknowledged"]
    return {**{name: [*MEMSIM, *each] for name, each in words.items()}, "record": record}


class Places:
    """Folders of outputs, caches and temporary files, and the environment that names them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.outcomes: dict[str, str] = {}
        self.out, self.cache, self.temporary = (folder / n for n in ("out", "cache", "tmp"))
        for place in (self.out, self.cache, self.temporary):
            place.mkdir()
        names = {"MEMSIM_CACHE_DIR": self.cache, "TMPDIR": self.temporary, "HOME": folder}
        self.environment = {**os.environ, **{name: str(place) for name, place in names.items()}}

    def start(self, words: list[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            words,
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def run(self, words: list[str]) -> float:
        begin = time.monotonic()
        process = self.start(words)
        _, error = process.communicate(timeout=600)
        assert process.returncode == 0, error.decode()
        return time.monotonic() - begin

    def check_outputs(self) -> int:
        """That every file that is there is whole; returns their number."""
        found = [path for path in self.out.iterdir() if not path.name.startswith(".")]
        for path in found:
            WHOLE[path.suffix](path)
        return len(found)

    def check_history(self) -> None:
        """That no acknowledged launch is lost, and none was counted that is not stored."""
        acknowledged = self.folder / "acknowledged"
        if acknowledged.exists():
            said = {int(line) for line in acknowledged.read_text().split()}
            with Store(self.folder / "runs.db") as store:
                stored = [round((time - 1.0) * 1e6) for time in store.samples(LAUNCH)]
                record = store.get(LAUNCH)
            assert said <= set(stored)
            assert record.seen == len(stored)

    def check_outcomes(self) -> None:
        """That no stored outcome of `tune` is lost or changed."""
        if not (self.folder / "outcomes.db").exists():
            return
        with closing(sqlite3.connect(self.folder / "outcomes.db")) as store:
            tables = store.execute("select name from sqlite_master").fetchall()
            rows = store.execute("select * from outcomes").fetchall() if tables else []
        stored = {key: outcome for key, outcome, _ in rows}
        assert all(checksum == fingerprint([key, outcome]) for key, outcome, checksum in rows)
        assert self.outcomes.items() <= stored.items()
        self.outcomes = stored

    def forget(self) -> None:
        """Removes what makes a second run shorter."""
        shutil.rmtree(self.cache)
        self.cache.mkdir()
        (self.folder / "outcomes.db").unlink(missing_ok=True)
        self.outcomes = {}

    def left(self) -> list[Path]:
        """What killed runs left."""
        hidden = [path for path in self.out.iterdir() if path.name.startswith(".")]
        hidden += self.folder.glob("*.db-*")  # SQLite's journals
        hidden += [path for path in self.cache.rglob(".*") if path.is_file()]
        return hidden + [path for path in self.temporary.iterdir() if path.name.startswith("mem")]


def running(session: int) -> list[int]:
    """The processes of a session."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


def kill_at_random(folder: Path, n: int) -> Counter[str]:
    """Kills n runs; returns how many of each command were killed before their end."""
    places, rng, killed = Places(folder), random.Random(0), Counter[str]()
    listed = commands(folder, places.out)
    often = [name for name in sorted(listed) if name not in LONG]
    seconds = {name: places.run(words) for name, words in listed.items()}
    for k in range(n):
        name = rng.choice(LONG if rng.random() < 1 / 12 else often)
        if rng.random() < 0.5:
            places.forget()
        process = places.start(listed[name])
        time.sleep(rng.uniform(0, seconds[name]))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        killed[name] += process.returncode == -signal.SIGKILL
        end = time.monotonic() + 20
        while running(process.pid) and time.monotonic() < end:
            time.sleep(0.05)
        assert not running(process.pid), f"{name}, kill {k}: its processes go on"
        places.check_outputs()
        places.check_history()
        places.check_outcomes()
    time.sleep(2.1)  # younger files may belong to runs that are about to lock them
    for words in listed.values():
        places.run(words)
    assert places.check_outputs() == len(list(places.out.iterdir()))
    places.check_history()
    places.check_outcomes()
    assert len(places.outcomes) >= 3
    assert places.left() == []
    return killed


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_kills_leave_nothing_half_written(tmp_path: Path) -> None:
    killed = kill_at_random(tmp_path, KILLS)
    print(f"{killed.total()} of {KILLS} runs were killed before their end: {dict(killed)}")
    assert killed.total() > KILLS / 3


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_an_interrupted_replay_leaves_whole_files_alone(tmp_path: Path, jobs: str) -> None:
    places = Places(tmp_path)
    words = [*commands(tmp_path, places.out)["replay"], "--jobs", jobs]
    places.run(words)
    process = places.start([*words, "--trials", "1000000"])
    time.sleep(8)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode > 0
    assert places.check_outputs() == 3
    assert places.left() == []


@pytest.mark.slow
def test_two_runs_to_one_output(tmp_path: Path) -> None:
    places = Places(tmp_path)
    words = commands(tmp_path, places.out)["profile"]
    both = [places.start(words), places.start(words)]
    for process in both:
        _, error = process.communicate(timeout=600)
        assert process.returncode == 0, error.decode()
    assert places.check_outputs() == 4
    assert places.left() == []
