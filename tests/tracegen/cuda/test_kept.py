"""What is kept of compiled kernels between calls: when it is used, and when not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memsim import disk_cache
from tests.support.cuda_kernels import needs_clang, needs_nvrtc, run, workload
from tracegen.compiled.nvidia import back_end, nvidia_ptx, nvrtc
from tracegen.tools import headers, process

pytestmark = needs_clang

SOURCE = """
#include "step.h"
__global__ void k(int *y) { y[threadIdx.x] = STEP * threadIdx.x + OFFSET; }
"""


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of what is kept, at first empty."""
    monkeypatch.setenv("MEMSIM_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "compiled"


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The compilers' runs, by what they are."""
    made: list[str] = []

    def counted(command: Any, *others: Any) -> process.Finished:
        made.append("header" if command[-1].endswith(".pch") else "other")
        return process.run(command, *others)

    for module in (back_end, nvidia_ptx, nvrtc, headers):
        monkeypatch.setattr(module, "run", counted)
    return made


def result(folder: Path, compiler: Any, offset: int = 0) -> int:
    """What the program in a folder computes for the thread of number 1."""
    options = [f"-DOFFSET={offset}", f"-I{folder / 'headers'}"]
    path = str(folder / "program.cu")
    made = workload(SOURCE, np.zeros(32, np.int32), path=path, build_options=options)
    return int(run(made, compiler=compiler)["y"][1])


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "headers").mkdir()
    (tmp_path / "headers" / "step.h").write_text("#define STEP 3\n")
    return tmp_path


@pytest.mark.weekly(2)
@pytest.mark.parametrize("compiler", [pytest.param("nvrtc", marks=needs_nvrtc), "clang"])
def test_what_is_kept_is_that_of_the_program_its_headers_and_options(
    program: Path, kept: Path, runs: list[str], compiler: str
) -> None:
    assert result(program, compiler) == 3
    first = list(runs)
    assert first
    assert result(program, compiler) == 3
    assert runs == first
    assert result(program, compiler, 1) == 4
    assert len(runs) > len(first)
    # An included file that has another text, and the same time; one that is found before it.
    header = program / "headers" / "step.h"
    times = header.stat()
    header.write_text("#define STEP 5\n")
    os.utime(header, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert result(program, compiler) == 5
    (program / "step.h").write_text("#define STEP 7\n")
    assert result(program, compiler) == 7
    (program / "step.h").unlink()
    assert result(program, compiler) == 5
    # Forged files, whose checksums are right, and damaged ones, also of what compilers say of themselves.
    forged = [file.stem for file in kept.glob("*.json")]
    assert forged
    contents: tuple[Any, ...] = ({}, [], None, {"symbol": 3, "headers": {}})
    for content in contents:
        for name in forged:
            disk_cache.save("compiled", name, content)
        assert result(program, compiler) == 5, content
    for file in kept.iterdir():
        file.write_bytes(file.read_bytes()[:100])
    assert result(program, compiler) == 5


def test_nothing_need_be_kept(
    program: Path, runs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMSIM_CACHE_DIR", "")
    assert result(program, "clang") == 3
    n_runs = len(runs)
    assert result(program, "clang") == 3
    assert runs == 2 * runs[:n_runs]
    assert "header" not in runs
