"""How long `memsim profile` takes as a kernel grows, as a whole process: to the first provisional result and to the end.

Run alone: `pytest -m bench -s tests/bench/test_size_speed.py -k naive`. Each kernel is compiled before it is measured.
Beside the seconds: processor seconds and memory (of the largest process), windows, and what is reported with its interval.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support import sized_kernels

pytestmark = pytest.mark.bench

FOLDER = sized_kernels.FOLDER
COMPILED = {k: value for k, value in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
"""The environment, where Python too keeps what it has compiled."""
MATRICES = (1024, 2048, 4096, 8192)
SIZES: dict[str, tuple[str, tuple[int, ...]]] = {
    **dict.fromkeys(("naive", "coalesced", "tiled", "tiles_1d", "tiles_2d"), ("n", MATRICES)),
    "addition": ("log2", (20, 24, 27, 30)),
    "layer_norm": ("rows", (1 << 11, 1 << 14, 1 << 17)),
    "bodies": ("log2", (14, 17, 20)),
    "stencil": ("n", (128, 256, 512, 1024)),
    "spmv": ("entries", (1_000_000, 10_000_000, 50_000_000)),
}
"""Kernel -> setting of its size, and its values."""
ON_AN_H200 = ("tiled", "addition", "stencil", "spmv")
ON_AN_MI300A = ("naive", "tiled", "addition", "bodies", "stencil")
CASES = [(name, machine) for machine in ("rtx3090", "v100") for name in SIZES]
CASES += [(name, "h200") for name in ON_AN_H200]
CASES += [(name, "mi300a") for name in ON_AN_MI300A]


class Answer(NamedTuple):
    """first_s, end_s : to the first provisional result, and to the end;  processor_s, peak_mb : of all processes, of the largest"""

    first_s: float
    end_s: float
    processor_s: float
    peak_mb: float
    content: dict[str, Any]


def answered(kernel: str, setting: str, machine: str, folder: Path) -> Answer:
    path = folder / "answer.json"
    named = (f"kernels.cu:{kernel}", "--args", f"arguments.py:{kernel}", "--set", setting)
    command = ("profile", *named, "-m", machine, "--json", str(path))
    began, first_s = time.monotonic(), None
    with subprocess.Popen(
        [sys.executable, "-m", "memsim.commands.start", *command],
        cwd=FOLDER,
        env=COMPILED,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stderr is not None
        said = []
        for line in child.stderr:
            said.append(line)
            if first_s is None and "provisional" in line:
                first_s = time.monotonic() - began
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    end_s = time.monotonic() - began
    assert child.returncode == 0, "".join(said)
    return Answer(
        end_s if first_s is None else first_s,
        end_s,
        used.ru_utime + used.ru_stime,
        used.ru_maxrss / 1e3,
        json.loads(path.read_text()),
    )


def between(values: list[float], scale: float) -> str:
    low, high = values
    return f"{scale * low:.4g}..{scale * high:.4g}"


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("kernel", "machine"), CASES)
def test_seconds_over_size(kernel: str, machine: str, tmp_path: Path) -> None:
    name, sizes = SIZES[kernel]
    answered(kernel, f"{name}={sizes[0]}", machine, tmp_path)
    print(f"\n{kernel} on {machine}")
    for size in sizes:
        one = answered(kernel, f"{name}={size}", machine, tmp_path)
        notes = one.content["provenance"]["trace"]["compiler"]["notes"]
        windows = next((note.split()[7] for note in notes if "windows of it" in note), "no")
        hits = "".join(
            f", {level} {between(value['hit_ratio']['ci95'], 100)} %"
            for level, kinds in one.content["levels"].items()
            for kind, value in kinds.items()
            if kind in ("load", "read")
        )
        moved = one.content["launch"]["moved"]["DRAM"]["read_bytes"]["ci95"]
        print(
            f"  {name} {size}: first {one.first_s:.1f} s, end {one.end_s:.1f} s, processor {one.processor_s:.1f} s,"
            f" {one.peak_mb:.0f} MB, {windows} windows, {one.content['trials']} trials;"
            f" DRAM read {between(moved, 1e-6)} MB{hits}"
        )
        assert one.first_s <= one.end_s
