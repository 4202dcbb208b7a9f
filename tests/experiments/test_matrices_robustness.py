"""Damaged Matrix Market files: a matrix, or an error of ours in one line; SciPy's reader alone crashes."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from experiments.kernels.matrices import read_matrix_market
from tests.support import mutations

HEAD = "%%MatrixMarket matrix coordinate"
GOOD = (
    f"{HEAD} real general\n% c\n4 4 5\n1 1 1.5\n2 2 -2\n3 3 1e3\n4 4 7\n1 4 .25\n",
    f"{HEAD} pattern symmetric\n3 3 3\n1 1\n2 1\n3 2\n",
    f"{HEAD} complex hermitian\n2 2 2\n1 1 1 0\n2 1 1 -2\n",
    f"{HEAD} integer skew-symmetric\n3 3 2\n2 1 4\n3 2 -5\n",
    "%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n4\n",
)


def damaged_files(folder: Path, first: int, n: int) -> tuple[int, int]:
    """Reads n of them; returns how many were refused, and how many were read."""
    path, refused = folder / "a.mtx", 0
    for seed in range(first, first + n):
        rng = random.Random(seed)
        good = rng.choice(GOOD)
        if seed % 2:
            path.write_text(mutations.text(rng, good), encoding="utf-8", errors="replace")
        else:
            path.write_bytes(mutations.data(rng, good.encode()))
        try:
            refused += bool(mutations.refused(lambda: read_matrix_market(path)))
        except Exception as error:
            raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}") from error
    return refused, n - refused


def in_a_fork(folder: Path, n: int) -> int:
    """Reads n files in a process that may crash; returns how it ended."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            damaged_files(folder, 0, n)
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1]


@pytest.mark.parametrize("last", [" ", "\t", "J", "\0", "\x8a", "", "\n \n"])
@pytest.mark.parametrize("good", GOOD)
def test_what_follows_the_last_number(good: str, last: str, tmp_path: Path) -> None:
    path = tmp_path / "a.mtx"
    path.write_text(good.rstrip() + last, encoding="latin-1")
    if last.strip():
        match = "below its comments are numbers, got"
        assert match in mutations.refused(lambda: read_matrix_market(path))
    else:
        assert read_matrix_market(path).nnz > 0


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_damaged_files(tmp_path: Path) -> None:
    assert in_a_fork(tmp_path, 100) == 0
    refused, read = damaged_files(tmp_path, 0, 100)
    assert refused > 50
    assert read > 0


@pytest.mark.slow
def test_thousands_of_damaged_files(tmp_path: Path) -> None:
    assert in_a_fork(tmp_path, 10_000) == 0
    print(f"10000 Matrix Market files, refused and read: {damaged_files(tmp_path, 0, 10_000)}")
