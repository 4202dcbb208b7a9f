"""The name under which compiled loops are cached changes with every source that they inline."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import memsim
from memsim import compile as compile_

_SHOW = "import {0}; from memsim.compile import fingerprint; print(fingerprint('{0}'))"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of memsim's sources, to be damaged."""
    source = Path(memsim.__file__).parent
    shutil.copytree(source, tmp_path / "memsim", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def _fingerprint(folder: Path, module: str = "memsim.hierarchy.core_stage") -> str:
    done = subprocess.run(
        [sys.executable, "-c", _SHOW.format(module)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_renamed_module_changes_the_fingerprint(package: Path) -> None:
    before = _fingerprint(package)
    folder = package / "memsim"
    (folder / "hierarchy" / "rng.py").rename(folder / "hierarchy" / "random_numbers.py")
    for path in folder.rglob("*.py"):
        path.write_text(
            path.read_text().replace("memsim.hierarchy.rng", "memsim.hierarchy.random_numbers")
        )
    assert _fingerprint(package) != before


def test_a_change_in_any_imported_source_changes_the_fingerprint(package: Path) -> None:
    before = _fingerprint(package)
    assert _fingerprint(package) == before
    # memsim.hierarchy.cache imports rng, and core_stage imports memsim.hierarchy.cache.
    _replace(
        package / "memsim" / "hierarchy" / "rng.py",
        "import numpy as np",
        "import numpy as np  # changed",
    )
    assert _fingerprint(package) != before


def test_other_sources_do_not(package: Path) -> None:
    before = _fingerprint(package)
    (package / "memsim" / "commands" / "output.py").write_text("raise AssertionError")
    assert _fingerprint(package) == before


def test_a_package_that_is_still_loading(tmp_path: Path) -> None:
    """A hot module imports its package, whose next import has not run when the loop is compiled."""
    folder = tmp_path / "memsim_user"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "from . import loops\nfrom memsim_user.tables import TABLE\n"
    )
    (folder / "loops.py").write_text(
        "import memsim_user\nfrom memsim.compile import fingerprint\nprint(fingerprint(__name__))\n"
    )
    prints = []
    for table in (1, 1, 2):
        (folder / "tables.py").write_text(f"TABLE = {table}\n")
        command = [sys.executable, "-B", "-c", "import memsim_user"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        prints.append(done.stdout)
    assert prints[0] == prints[1] != prints[2]


def test_what_comes_through_a_face_counts() -> None:
    """`from memsim.trace import coalesce` inlines from a file that the statement does not name."""
    import tracegen.instrumented.merge

    reached = set(compile_._closure(tracegen.instrumented.merge.__name__))
    assert "memsim.trace.coalescing" in reached


LOOP = """
import numpy as np
from memsim.compile import hot

@hot
def total(values):
    sum_ = 0
    for i in range(len(values)):
        sum_ += values[i]
    return sum_

print(total(np.arange(10)))
"""


def _run(folder: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "loop"],
        cwd=folder,
        env=os.environ | {"NUMBA_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("kind", ["*.nbi", "*.nbc"])
def test_damaged_machine_code_is_compiled_again(tmp_path: Path, kind: str) -> None:
    """A disk that was full leaves empty files, which numba takes for the end of the input."""
    (tmp_path / "loop.py").write_text(LOOP)
    cache = tmp_path / "cache"
    assert _run(tmp_path, cache).stdout == "45\n"
    assert compile_.damaged_cache_files(cache) == []
    [file] = cache.rglob(kind)
    whole = file.stat().st_size
    whole_pickle = b"\x80\x04K\x01."
    for damage in (b"\x80\x05", b"not a pickle", b"", whole_pickle):
        file.write_bytes(damage)
        cut = damage != whole_pickle or kind == "*.nbi"
        assert compile_.damaged_cache_files(cache) == ([file] if cut else []), damage
    for damage in (b"", whole_pickle):
        file.write_bytes(damage)
        done = _run(tmp_path, cache)
        assert (done.stdout, done.returncode) == ("45\n", 0), (damage, done.stderr)
        assert compile_.damaged_cache_files(cache) == [], damage
        assert file.stat().st_size > whole / 2, damage


def test_where_no_folder_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "loop.py").write_text(LOOP)
    occupied = tmp_path / "file"
    occupied.write_text("")
    done = _run(tmp_path, occupied / "cache")
    assert done.stdout == "45\n", done.stderr


ALLOCATES = """
import numpy as np
from memsim.compile import compiled

@compiled
def doubled(values):
    result = np.empty(len(values), values.dtype)
    for i in range(len(values)):
        result[i] = 2 * values[i]
    return result

print(doubled(np.arange(3)).sum())
"""


def test_machine_code_that_allocates_runs_when_it_is_loaded(tmp_path: Path) -> None:
    """The second process loads it, and needs numba's runtime, which compiling would have set up."""
    (tmp_path / "loop.py").write_text(ALLOCATES)
    for _ in range(2):
        done = _run(tmp_path, tmp_path / "cache")
        assert (done.stdout, done.returncode) == ("6\n", 0), done.stderr


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


REPLAY = """
import memsim
from tests.support.small_machines import few_cores
from tests.support.traces import make_trace
accesses = [(0, range(8)), (1, [40]), (0, [100, 101])]
trace = make_trace([[[*accesses, (0, [50 * g])]] * 2 for g in range(9)], ("load", "store"))
print(memsim.replay(trace, few_cores("v100"), trials=2).dataset["hits"].values.tolist())
"""


def test_interpreted_loops_give_the_same_numbers() -> None:
    compiled, interpreted = (
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", REPLAY],
            cwd=Path(__file__).parents[2],
            env=os.environ | {"NUMBA_DISABLE_JIT": disable},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for disable in ("0", "1")
    )
    assert interpreted == compiled != ""
