"""Outcomes on disk."""

from __future__ import annotations

import dataclasses
import json
import math
import random
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from calib.tuning import Outcome, OutcomeStore, Subject, Task
from calib.tuning.store import StoreError, fingerprint_of
from memsim.disk_cache import fingerprint
from tracegen.commands import KernelSpec
from tracegen.options import TraceOptions
from tracegen.own_process import Limits


@pytest.fixture
def subject(tmp_path: Path) -> Subject:
    kernel = tmp_path / "kernel.py"
    kernel.write_text("knl = None\n")
    return subject_of(kernel)


def subject_of(kernel: Path) -> Subject:
    return Subject(kernel=KernelSpec(f"{kernel}:knl", {"n": "4"}, None), limits=Limits())


def task(subject: Subject, value: str = "1", machine: str = "v100", effort: int = 0) -> Task:
    return Task(subject=subject, configuration={"b": value}, machine=machine, effort=effort)


def outcome(time_s: float = 1.0, failure: str = "", value: str = "1") -> Outcome:
    return Outcome(
        configuration={"b": value},
        machine="v100",
        effort=0,
        failure=failure,
        time_s=time_s,
        cold_s=1.5 * time_s,
        warm_s=time_s,
        occupancy=0.5,
        hit_ratios={"L1": 0.5},
        read_bytes={"DRAM": 1.0},
        write_bytes={"DRAM": 0.0},
    )


def refused(path: Path, subject: Subject, words: str | None = None) -> str:
    """The line with which a store is not opened."""
    with pytest.raises(StoreError, match=words) as raised:
        OutcomeStore(path, subject)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_other_compilers_may_write_other_code(
    tmp_path: Path, subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = {"clang": "19.1.7"}
    monkeypatch.setattr("calib.tuning.store.versions_for", lambda target: dict(versions))
    with OutcomeStore(tmp_path / "store", subject) as store:
        store.add(task(subject), outcome())
        assert store.get(task(subject)) == outcome()
        versions["nvrtc"] = "12.9"
        assert store.get(task(subject)) is None


def test_what_was_added_is_read_by_a_later_run(tmp_path: Path, subject: Subject) -> None:
    path = tmp_path / "store"
    with OutcomeStore(path, subject) as store:
        assert store.get(task(subject)) is None
        store.add(task(subject), outcome())
        store.add(task(subject, "2"), outcome(failure="no", value="2"))
    with OutcomeStore(path, subject) as store:
        assert store.get(task(subject)) == outcome()
        failed = store.get(task(subject, "2"))
        assert failed.failure == "no"
        for other in (task(subject, "3"), task(subject, machine="a100"), task(subject, effort=1)):
            assert store.get(other) is None


def test_another_kernel_text_setting_or_tracer_needs_another_store(
    tmp_path: Path, subject: Subject
) -> None:
    path = tmp_path / "store"
    OutcomeStore(path, subject).__exit__()
    OutcomeStore(path, subject).__exit__()
    other = dataclasses.replace(subject, kernel=KernelSpec("other.py:knl", {}, None))
    refused(path, other, "not of other")
    sized = dataclasses.replace(subject.kernel, settings={"n": "5"})
    refused(path, dataclasses.replace(subject, kernel=sized), "another text")
    by_source = dataclasses.replace(subject, tracing=TraceOptions(tracer="polyhedral"))
    refused(path, by_source, "another text")
    (tmp_path / "kernel.py").write_text("knl = 1\n")
    refused(path, subject, "another text")


@pytest.mark.parametrize("spec", ["{0}/k.cu:n::k<1>", "{0}/k.py:k", "pack.k:k"])
@pytest.mark.parametrize("changed", ["k.cu", "tiles.h", "deep/more.h", "k.py", "pack/part.py"])
def test_a_change_of_what_a_kernel_includes_or_imports_needs_another_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: str, changed: str
) -> None:
    monkeypatch.chdir(tmp_path)
    texts = {
        "k.cu": '#include <math.h>\n # include "tiles.h"\n',
        "tiles.h": '#include "deep/more.h"\n#include "absent.h"\n',
        "deep/more.h": '#include "../tiles.h"\n',
        "k.py": "import numpy\nfrom pack.part import x\n",
        "pack/k.py": "def k():\n    from . import part\n",
        "pack/__init__.py": "",
        "pack/part.py": "x = 1\n",
    }
    for name, text in texts.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text)
    kernel = KernelSpec(spec.format(tmp_path), {}, None)
    subject = Subject(kernel=kernel, limits=Limits())
    before = fingerprint_of(subject)
    assert fingerprint_of(subject) == before
    Path(changed).write_text(texts[changed] + "\n")
    used = {"k.cu": ["k.cu", "tiles.h", "deep/more.h"], "k.py": ["k.py", "pack/part.py"]}
    ours = next((of for name, of in used.items() if name in spec), ["pack/part.py"])
    assert (fingerprint_of(subject) != before) == (changed in ours)


def test_failures_are_tried_again_within_other_limits(tmp_path: Path, subject: Subject) -> None:
    longer = dataclasses.replace(subject, limits=Limits(time_limit=7200.0))
    with OutcomeStore(tmp_path / "store", subject) as store:
        store.add(task(subject), outcome(failure="took more than 3600 s"))
        store.add(task(subject, "2"), outcome(value="2"))
        assert store.get(task(subject)) is not None
        assert store.get(task(longer)) is None
        assert store.get(task(longer, "2")) is not None
        store.forget_failures()
        assert store.get(task(subject)) is None
        assert store.get(task(subject, "2")) is not None


def test_files_that_are_no_store_are_refused_and_left_alone(
    tmp_path: Path, subject: Subject
) -> None:
    """Of a damaged schema, SQLite quotes the text, which has several lines."""
    text, database, damaged = (tmp_path / name for name in ("text", "other.db", "damaged"))
    text.write_text("not a database, but a text that is long enough to be read as one" * 20)
    connection = sqlite3.connect(database)
    connection.execute("create table mine (x)")
    connection.commit()
    connection.close()
    OutcomeStore(damaged, subject).__exit__()
    damaged.write_bytes(damaged.read_bytes().replace(b"(\n    key text", b"(\n    `ey text"))
    for path in (text, database, damaged, tmp_path, tmp_path / "no" / "folder"):
        before = path.read_bytes() if path.is_file() else None
        assert str(path) in refused(path, subject)
        assert before is None or path.read_bytes() == before


WRONG: tuple[dict[str, object], ...] = (
    *({"registers": "many"}, {"hit_ratios": {"L1": "x"}}, {"effort": 99}, {"binds": ["L1"]}),
    *({"time_s": value} for value in (math.nan, math.inf, -1.0, 0, 10**400)),
    *({"read_bytes": {}}, {"write_bytes": {}}, {"floors_s": {"DRAM": -1}}, {"occupancy": None}),
    *({"configuration": {"b": "2"}}, {"machine": "a100"}, {"effort": 1}),
)


@pytest.mark.parametrize(
    "content",
    [
        *("", "[]", "{}", '{"configuration": 1}', "1" * 5000, "[" * 100000, "nul\x00"),
        *(json.dumps({**dataclasses.asdict(outcome()), **change}) for change in WRONG),
    ],
)
def test_damaged_rows_are_one_line(tmp_path: Path, subject: Subject, content: str) -> None:
    path = tmp_path / "store"
    with OutcomeStore(path, subject) as store:
        store.add(task(subject), outcome())
    connection = sqlite3.connect(path)
    connection.create_function("checksum_of", 1, lambda key: fingerprint([key, content]))
    connection.execute("update outcomes set outcome = ?, checksum = checksum_of(key)", (content,))
    connection.commit()
    connection.close()
    with OutcomeStore(path, subject) as store, pytest.raises(StoreError) as raised:
        store.get(task(subject))
    assert "\n" not in str(raised.value)
    assert "checksum" not in str(raised.value)


def test_no_changed_byte_of_an_outcome_is_read(tmp_path: Path, subject: Subject) -> None:
    """A store with one byte changed has the outcome as it was, none, or is refused."""
    path, changed = tmp_path / "store", tmp_path / "changed"
    with OutcomeStore(path, subject) as store:
        store.add(task(subject), outcome())
    good, rng = path.read_bytes(), random.Random(0)
    first = good.index(b'{"configuration"')
    places = [*range(first, first + 400, 3), *(rng.randrange(len(good)) for _ in range(100))]
    ended: Counter[str] = Counter()
    for at in places:
        bad = bytearray(good)
        bad[at] ^= 1 << rng.randrange(8)
        changed.write_bytes(bad)
        try:
            with OutcomeStore(changed, subject) as store:
                found = store.get(task(subject))
        except StoreError:
            ended["refused"] += 1
        else:
            assert found in (None, outcome())
            ended["read" if found else "none"] += 1
    assert ended["refused"] >= 400 // 3
    assert ended["read"]


FULL = """
import resource, signal, sys
from pathlib import Path
from tests.calib.tuning.test_store import outcome, subject_of, task
from calib.tuning import OutcomeStore
from calib.tuning.store import StoreError

kernel, *paths = map(Path, sys.argv[1:])
subject = subject_of(kernel)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for path in paths:
    size = path.stat().st_size if path.exists() else 0
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    try:
        with OutcomeStore(path, subject) as store:
            for k in range(1000):
                store.add(task(subject, str(k + 2)), outcome())
    except StoreError as error:
        print(error)
"""


def test_a_full_disk_is_one_line_and_loses_nothing(tmp_path: Path, subject: Subject) -> None:
    """Files that may not grow, in a process of its own: what was added before is there, and no store is made."""
    full, new, kernel = (tmp_path / name for name in ("store", "new", "kernel.py"))
    with OutcomeStore(full, subject) as store:
        store.add(task(subject), outcome())
    ended = subprocess.run(
        [sys.executable, "-c", FULL, str(kernel), str(full), str(new)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
        timeout=120,
    )
    of_full, of_new = ended.stdout.splitlines()
    assert str(full) in of_full
    assert of_new == f"{new} cannot be written: disk I/O error"
    with OutcomeStore(full, subject) as store:
        assert store.get(task(subject)) == outcome()
    assert {*tmp_path.iterdir()} == {full, kernel}
