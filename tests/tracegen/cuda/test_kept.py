"""What is kept of compiled kernels between calls: when it is used, and when not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memsim import disk_cache
from tests.support.cuda_kernels import needs_clang, run, workload
from tracegen.cuda import front_end
from tracegen.tools import precompiled, process

pytestmark = needs_clang

SOURCE = """
#include "step.h"
__global__ void k(int *y) { y[threadIdx.x] = STEP * threadIdx.x + N; }
"""


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of what is kept, at first empty."""
    monkeypatch.setenv("MEMSIM_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "compiled"


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The compilers' runs, by what they write."""
    made: list[str] = []

    def counted(command: Any, *others: Any) -> process.Finished:
        made.append(os.path.splitext(command[-1])[1])
        return process.run(command, *others)

    for module in (front_end, precompiled):
        monkeypatch.setattr(module, "run", counted)
    return made


def result(folder: Path, n: int = 0) -> list[int]:
    """What the program in a folder computes for the thread of number 1."""
    options = [f"-DN={n}", f"-I{folder / 'headers'}"]
    path = str(folder / "program.cu")
    made = workload(SOURCE, np.zeros(32, np.int32), path=path, build_options=options)
    return list(run(made)["y"][1:2])


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "headers").mkdir()
    (tmp_path / "headers" / "step.h").write_text("#define STEP 3\n")
    return tmp_path


def test_a_kernel_is_compiled_once(program: Path, runs: list[str]) -> None:
    assert result(program) == [3]
    assert runs == [".pch", ".ll", ".ll", ".o", ".so"]
    assert result(program) == [3]
    assert len(runs) == 5
    assert result(program, n=1) == [4]
    assert runs[5:] == [".ll", ".ll", ".so"]  # the headers and the runtime serve every kernel


def test_included_files_are_part_of_the_program(program: Path, runs: list[str]) -> None:
    assert result(program) == [3]
    times = (program / "headers" / "step.h").stat()
    (program / "headers" / "step.h").write_text("#define STEP 5\n")
    os.utime(program / "headers" / "step.h", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert result(program) == [5]
    (program / "step.h").write_text("#define STEP 7\n")  # it is found before the other
    assert result(program) == [7]
    (program / "step.h").unlink()
    assert result(program) == [5]


def forged(kept: Path, content: Any) -> None:
    """Gives every kept text another content, with a right checksum."""
    for file in kept.glob("*.json"):
        disk_cache.save("compiled", file.stem, content)


@pytest.mark.parametrize(
    "content",
    [{}, [], None, {"llvm": 3, "code": None, "headers": {}}, {"llvm": "x", "code": "x"}],
)
def test_damaged_and_forged_files_are_compiled_again(
    program: Path, kept: Path, content: Any
) -> None:
    assert result(program) == [3]
    forged(kept, content)
    assert result(program) == [3]
    for file in kept.iterdir():
        file.write_bytes(file.read_bytes()[:100])
    assert result(program) == [3]


def test_files_that_others_may_write_are_not_used(
    program: Path, kept: Path, runs: list[str]
) -> None:
    assert result(program) == [3]
    n_runs = len(runs)
    for file in kept.iterdir():
        file.chmod(0o666)
    assert result(program) == [3]
    assert runs[n_runs:] == runs[:n_runs]
    kept.chmod(0o777)
    assert result(program) == [3]
    assert runs[2 * n_runs :] == runs[:n_runs]


def test_nothing_need_be_kept(
    program: Path, runs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMSIM_CACHE_DIR", "")
    assert result(program) == [3]
    assert result(program) == [3]
    assert runs == [".ll", ".ll", ".o", ".so"] * 2


def test_a_definition_that_contradicts_the_compiled_headers(program: Path, runs: list[str]) -> None:
    """They are then read as text."""
    source = "__global__ void k(int *y) { y[0] = __CUDA_ARCH__; }"
    made = workload(source, np.zeros(32, np.int32), build_options="-D__CUDA_ARCH__=900")
    assert run(made)["y"][0] == 900
