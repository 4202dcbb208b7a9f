"""Compilers run with a bounded time, and leave nothing behind."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from memsim.errors import KernelError
from tracegen.tools.process import run


def test_status_and_texts(tmp_path: Path) -> None:
    """No shell reads the arguments."""
    assert run(["echo", "$HOME; `id`", "*"]).output == "$HOME; `id` *\n"
    finished = run(["sh", "-c", "echo $TMPDIR; echo bad >&2; exit 3"], tmp_path)
    assert (finished.status, finished.output, finished.errors) == (3, f"{tmp_path}\n", "bad\n")


def test_a_program_that_cannot_be_started(tmp_path: Path) -> None:
    with pytest.raises(KernelError, match="cannot be run: No such file"):
        run([str(tmp_path / "none")])


def test_a_program_that_does_not_finish_is_ended_with_its_children(tmp_path: Path) -> None:
    began = time.monotonic()
    script = "sleep 60 & echo $! > child; sleep 60"
    with pytest.raises(KernelError, match=r"^sh did not finish in 0\.5 seconds$"):
        run(["sh", "-c", script], tmp_path, seconds=0.5)
    assert time.monotonic() - began < 30
    child = int((tmp_path / "child").read_text())
    for _ in range(100):  # until init has seen the end of it
        if _state(child) in ("", "Z"):
            return
        time.sleep(0.05)
    pytest.fail("the child still runs")


def _state(process: int) -> str:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""
