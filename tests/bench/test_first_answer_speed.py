"""How soon the README's first command answers, everything compiled: provisionally, finally, and with --quick.

The medians of five runs, in seconds of wall time, and the processor time of all processes of a run.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.bench

ROOT = Path(__file__).resolve().parents[2]
COMPILED = {k: value for k, value in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
"""The environment, where Python too keeps what it has compiled."""
COMMAND = ("profile", "experiments/kernels/spmv.py:spmv", "-m", "v100", "--set", "matrix=fem")
RUNS = 5


def answered(*options: str) -> tuple[float, float, float]:
    """Seconds to the first provisional result (or the end), to the end, and of processor time."""
    before = os.times()
    began = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-m", "memsim.commands.start", *COMMAND, *options],
        cwd=ROOT,
        env=COMPILED,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stderr is not None
        first = None
        for line in child.stderr:
            assert "compiling" not in line, "this run compiled: everything must be compiled before"
            if first is None and "provisional" in line:
                first = time.monotonic() - began
    end = time.monotonic() - began
    assert child.returncode == 0
    after = os.times()
    used = after.children_user + after.children_system
    used -= before.children_user + before.children_system
    return end if first is None else first, end, used


@pytest.mark.parametrize("options", [(), ("--html", "{}/spmv.html"), ("--quick",)])
def test_time_to_first_and_final_table(options: tuple[str, ...], tmp_path: Path) -> None:
    given = [option.format(tmp_path) for option in options]
    subprocess.run(
        [sys.executable, "-m", "memsim.commands.start", *COMMAND, *given],
        cwd=ROOT,
        env=COMPILED,
        capture_output=True,
        check=True,
    )
    runs = [answered(*given) for _ in range(RUNS)]
    first, end, used = (statistics.median(column) for column in zip(*runs, strict=True))
    print(
        f"\n{' '.join(options) or 'table'}: first {first:.1f} s, end {end:.1f} s, processor {used:.1f} s"
    )
    assert first <= end
