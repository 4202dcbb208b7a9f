"""The disk cache of counts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from calib.counting import feature_counts as counting
from calib.counting.feature_counts import KernelCounts, kernel_counts
from calib.counting.scheduled import translation_unit
from memsim import disk_cache
from tests.support import counted_kernels
from tests.support.kernel_matrix import KERNELS

ROOT = Path(__file__).resolve().parents[3]
CACHES = ("XDG_CACHE_HOME", "MEMSIM_CACHE_DIR", "POCL_CACHE_DIR")
MADD = "f_op_float32_madd"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MEMSIM_CACHE_DIR", str(tmp_path))
    return tmp_path / "counts"


def fresh(kernel: Any) -> KernelCounts:
    t_unit = translation_unit(kernel)
    return KernelCounts(t_unit, counting.fingerprint(t_unit))


def madds(counts: KernelCounts) -> int:
    return counts.count(MADD, counting.CountOptions()).at(n=64)


def test_counts_are_read_from_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = counted_kernels.paper_matmul()
    first = fresh(kernel)
    assert not first.from_disk
    assert madds(first) == 64**3 // 32
    assert len(list(folder.iterdir())) == 1

    def never(*_: Any) -> Any:
        raise AssertionError("counted again")

    monkeypatch.setattr(counting, "take_inventory", never)
    monkeypatch.setattr(counting, "solve", never)
    again = fresh(kernel)
    assert again.from_disk
    assert again.inventory == first.inventory
    assert madds(again) == 64**3 // 32


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: "[]",
        lambda text: json.dumps({"fingerprint": "x", "sha256": "y", "content": {}}),
        lambda text: text.replace("a_dim", "b_dim"),
        lambda text: "[" * 100_000,
    ],
    ids=["empty", "half", "list", "foreign", "changed", "deep"],
)
def test_a_damaged_file_is_ignored_and_replaced(folder: Path, spoil: Any) -> None:
    kernel = counted_kernels.paper_matmul()
    madds(fresh(kernel))
    (path,) = folder.iterdir()
    whole = path.read_text()
    path.write_text(spoil(whole))
    again = fresh(kernel)
    assert not again.from_disk
    assert madds(again) == 64**3 // 32
    assert json.loads(path.read_text()) == json.loads(whole)


def test_content_of_another_format_is_ignored(folder: Path) -> None:
    """An intact file whose inventory refers to a domain that does not exist."""
    kernel = counted_kernels.paper_matmul()
    counts = fresh(kernel)
    content = disk_cache.load(counting.KIND, counts.key)
    content["inventory"]["domains"] = content["inventory"]["domains"][:1]
    disk_cache.save(counting.KIND, counts.key, content)
    assert not fresh(kernel).from_disk


def test_an_unwritable_folder_is_not_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("MEMSIM_CACHE_DIR", str(tmp_path / "file"))
    disk_cache._warn.cache_clear()
    with pytest.warns(UserWarning, match="counts cannot be written .*: results are not kept"):
        assert madds(fresh(counted_kernels.paper_matmul())) == 64**3 // 32


FULL = """\
mount -t tmpfs -o size=64k none "$HOME" || exit 77
head -c 100000 /dev/zero > "$HOME/fill" 2> /dev/null
"$@"
code=$?
find "$HOME" -type f
exit $code
"""


@pytest.mark.skipif(not shutil.which("unshare"), reason="needs a name space for a full disk")
def test_counts_are_given_where_the_home_is_full(tmp_path: Path) -> None:
    """A file system of 64 KiB without room, in a name space of its own."""
    kernel = str(KERNELS / "matmul.py:naive")
    command = [sys.executable, "-m", "memsim.commands.start", "count", kernel, "f_op_float32_madd"]
    environment = {k: v for k, v in os.environ.items() if k not in CACHES}
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", FULL, "sh", *command],
        capture_output=True,
        text=True,
        check=False,
        env={**environment, "HOME": str(tmp_path)},
        cwd=ROOT,
    )
    if done.returncode == 77 or done.stderr.startswith("unshare: "):
        pytest.skip("this user may not mount a file system in a name space")
    assert (done.returncode, done.stderr) == (
        0,
        f"memsim: warning: {tmp_path}/.cache cannot be written (No space left on device): caches are"
        " temporary; XDG_CACHE_HOME names another folder\n",
    )
    assert "n^3/32" in done.stdout
    assert done.stdout.splitlines()[-1] == f"{tmp_path}/fill"


def test_default_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty one keeps nothing."""
    monkeypatch.setenv("MEMSIM_CACHE_DIR", "")
    assert disk_cache.folder(counting.KIND) is None
    assert madds(fresh(counted_kernels.paper_matmul())) == 64**3 // 32
    monkeypatch.delenv("MEMSIM_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert disk_cache.folder(counting.KIND) == Path("/somewhere/memsim/counts")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert disk_cache.folder(counting.KIND) == Path.home() / ".cache" / "memsim" / "counts"


def test_other_kernels_have_other_fingerprints() -> None:
    import loopy as lp

    kernel = counted_kernels.triangle()
    kernels = (
        kernel,
        lp.assume(kernel, "n >= 3"),
        lp.tag_inames(kernel, {"i": "g.0"}),
        lp.fix_parameters(kernel, n=8),
        counted_kernels.rising(),
    )
    assert len({counting.fingerprint(each) for each in kernels}) == 5
    assert kernel_counts(counted_kernels.rising()) is kernel_counts(counted_kernels.rising())


def test_the_fingerprint_is_the_same_in_another_process() -> None:
    program = (
        "from tests.support import counted_kernels; from calib.counting.feature_counts import fingerprint;"
        "print(fingerprint(counted_kernels.paper_matmul()))"
    )
    here = counting.fingerprint(counted_kernels.paper_matmul())
    finished = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": str(ROOT)},
    )
    assert finished.stdout.strip() == here
