"""Compiled loops: the name under which they are cached changes with every source that they inline; damaged files are replaced."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import memsim
import tracegen.instrumented.merge
from memsim import compile as compile_
from tests.support.small_machines import few_cores
from tests.support.traces import make_trace

USER = "memsim_user"
"""A package whose loops are compiled; no other module has its name."""


def _write(package: Path, **sources: str) -> None:
    package.mkdir(exist_ok=True)
    for name, source in {"__init__": "", **sources}.items():
        (package / f"{name}.py").write_text(source)


def _fingerprint(monkeypatch: pytest.MonkeyPatch) -> str:
    """That of the package's module `loops`, of which only the package is loaded, as in a new process."""
    for cached in (compile_._imported, compile_._home, compile_._source):
        cached.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == USER]:
        monkeypatch.delitem(sys.modules, name)
    package = importlib.import_module(USER)
    return getattr(package, "FINGERPRINT", None) or compile_.fingerprint(f"{USER}.loops")


def test_a_fingerprint_changes_with_each_source_that_loops_reach_and_with_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / USER
    _write(
        package,
        loops=f"from {USER} import steps\n",
        steps=f"import numpy\nfrom {USER}.numbers import drawn\n",
        numbers="drawn = 1\n",
        other="text = 1\n",
    )
    before = _fingerprint(monkeypatch)
    _write(package, other="raise AssertionError\n")
    assert _fingerprint(monkeypatch) == before
    _write(package, numbers="drawn = 2\n")
    changed = _fingerprint(monkeypatch)
    _write(package, numbers="drawn = 1\n")
    assert changed != before == _fingerprint(monkeypatch)


def test_a_fingerprint_of_a_package_that_is_still_loading_has_what_it_will_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hot module imports its package, whose next import has not run when the loop is compiled."""
    monkeypatch.syspath_prepend(tmp_path)
    prints = []
    for table in (1, 1, 2):
        _write(
            tmp_path / USER,
            __init__=f"from .loops import FINGERPRINT\nfrom {USER}.tables import TABLE\n",
            loops=f"import {USER}\nfrom memsim.compile import fingerprint\nFINGERPRINT = fingerprint(__name__)\n",
            tables=f"TABLE = {table}\n",
        )
        prints.append(_fingerprint(monkeypatch))
    assert prints[0] == prints[1] != prints[2]


def test_loops_of_a_replay_reach_their_random_numbers_and_no_command() -> None:
    reached = compile_._closure("memsim.hierarchy.core_stage")
    assert {"memsim.hierarchy.cache", "memsim.hierarchy.rng"} <= reached
    assert "memsim.commands.output" not in reached
    # `from memsim.trace import coalesce` inlines from a file that the statement does not name.
    assert "memsim.trace.coalescing" in compile_._closure(tracegen.instrumented.merge.__name__)


def _run(folder: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "loop"],
        cwd=folder,
        env=os.environ | {"NUMBA_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )


LOOPS = """
import numpy as np
from memsim.compile import compiled, hot

@hot
def total(values):
    sum_ = 0
    for i in range(len(values)):
        sum_ += values[i]
    return sum_

@compiled
def doubled(values):
    result = np.empty(len(values), values.dtype)
    for i in range(len(values)):
        result[i] = 2 * values[i]
    return result

print(doubled(np.arange(3)).sum(), total(np.arange(10)))
"""


def test_damaged_machine_code_is_compiled_again(tmp_path: Path) -> None:
    """A disk that was full leaves empty files, which numba takes for the end of the input."""
    (tmp_path / "loop.py").write_text(LOOPS)
    cache = tmp_path / "cache"

    def check() -> None:
        done = _run(tmp_path, cache)
        assert (done.stdout, done.returncode) == ("6 45\n", 0), done.stderr
        assert compile_.damaged_cache_files(cache) == []

    check()
    check()  # now it is loaded, and what allocates needs numba's runtime, which compiling would have set up
    files = {
        (name, kind): file
        for name in ("total", "doubled")
        for kind in ("nbi", "nbc")
        for file in cache.rglob(f"*{name}*.{kind}")
    }
    sizes = {of: file.stat().st_size for of, file in files.items()}
    assert len(files) == 4
    whole_pickle = b"\x80\x04K\x01."
    for kind in ("nbi", "nbc"):
        file = files["total", kind]
        content = file.read_bytes()
        for damage in (b"\x80\x05", b"not a pickle", b"", whole_pickle):
            file.write_bytes(damage)
            cut = damage != whole_pickle or kind == "nbi"
            assert compile_.damaged_cache_files(cache) == ([file] if cut else []), damage
        file.write_bytes(content)
    for emptied, other in (("nbi", "nbc"), ("nbc", "nbi")):
        files["total", emptied].write_bytes(b"")
        files["doubled", other].write_bytes(whole_pickle)
        check()
        for of, file in files.items():
            assert file.stat().st_size > sizes[of] / 2, of


def test_where_no_folder_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "loop.py").write_text(LOOPS)
    occupied = tmp_path / "file"
    occupied.write_text("")
    done = _run(tmp_path, occupied / "cache")
    assert done.stdout == "6 45\n", done.stderr


PARTS = """
import numpy as np
from memsim.compile import hot, inner

@inner
def one(values, i, whole):
    return values[i] if whole else values[0]

@hot
def from_to(values, begin, end):
    sum_ = 0
    for i in range(begin, end):
        sum_ += one(values, i, True) + one(values, i, False)
    return sum_

@hot
def total(values, n):
    return from_to(values, 0, n) + from_to(values, n - 1, n)

print(total(np.arange(10), 10), len(one.overloads))
try:
    total(np.arange(10), 11)
except IndexError as error:
    print(error)
"""


def test_a_loop_contains_what_it_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One file of machine code for three functions; an index out of range is an error in each, also once it is loaded."""
    monkeypatch.setenv("NUMBA_BOUNDSCHECK", "1")
    (tmp_path / "loop.py").write_text(PARTS)
    for compiled in (1, 0):  # for an argument True and one False at once; then not at all
        done = _run(tmp_path, tmp_path / "cache")
        assert done.stdout == f"54 {compiled}\nindex is out of bounds\n", done.stderr
    assert len(list((tmp_path / "cache").rglob("*.nbc"))) == 1


def replayed_hits() -> Any:
    accesses = [(0, range(8)), (1, [40]), (0, [100, 101])]
    trace = make_trace([[[*accesses, (0, [50 * g])]] * 2 for g in range(9)], ("load", "store"))
    return memsim.replay(trace, few_cores("v100"), trials=2).dataset["hits"].values.tolist()


def test_interpreted_loops_give_the_same_numbers() -> None:
    program = (
        f"from tests.memsim.{Path(__file__).stem} import replayed_hits; print(replayed_hits())"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == replayed_hits() != []
