"""How fast other tools' traces are read: Accel-Sim's text, on one core.

Run alone, pinned to one core: `taskset -c 0 pytest -m bench tests/bench/test_format_speed.py -s`.
"""

from __future__ import annotations

import gzip
import resource
import time
from pathlib import Path

import numpy as np
import pytest

from memsim.formats import read_any
from memsim.formats.accel_sim_write import write
from memsim.launches import Launches

BYTES_PER_SECOND = 50e6
HEAD = (
    "-kernel name = k\n-grid dim = ({groups},1,1)\n-block dim = (128,1,1)\n-nregs = 32\n"
    "-accelsim tracer version = 4\n"
)

pytestmark = pytest.mark.bench


def text_of(groups: int, mode: str) -> str:
    """A gather's warps: addresses in a list, or all as base and stride."""
    rng = np.random.default_rng(0)
    lists = [
        " ".join(
            f"0x{0x7FB100000000 + 8 * at:016x}" for at in rng.integers(0, 1 << 22, 32).tolist()
        )
        for _ in range(512)
    ]
    pieces = [HEAD.format(groups=groups)]
    for group in range(groups):
        pieces.append(f"#BEGIN_TB\nthread block = {group},0,0\n")
        for warp in range(4):
            lines = []
            for j in range(32):
                base = 0x7FB000000000 + (group * 4 + warp) * 128 + j * (1 << 22)
                lines += [
                    "0000 ffffffff 1 R2 IMAD.WIDE 2 R2 R255 0 0",
                    f"0010 ffffffff 1 R4 LDG.E 1 R2 4 1 0x{base:x} 4 0",
                    "0030 ffffffff 1 R6 DFMA 3 R5 R4 R6 0 0",
                ]
                if mode == "list":
                    at = lists[(group * 128 + warp * 32 + j) % len(lists)]
                    lines.append(f"0020 ffffffff 1 R8 LDG.E.64 1 R4 8 0 {at} 0")
            pieces.append(f"warp = {warp}\ninsts = {len(lines)}\n" + "\n".join(lines) + "\n")
        pieces.append("#END_TB\n")
    return "".join(pieces)


@pytest.mark.parametrize("mode", ["list", "stride"])
def test_accel_sim_speed(tmp_path: Path, mode: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = text_of(1500 if mode == "list" else 5000, mode)
    path, packed = tmp_path / "k.traceg", tmp_path / "k.traceg.gz"
    path.write_text(text)
    packed.write_bytes(gzip.compress(text.encode(), 1))
    warm = tmp_path / "warm.traceg"
    warm.write_text(text_of(1, mode))
    write(read_any(warm), tmp_path / "warm")
    rates = []
    for file in (path, packed):
        begin = time.perf_counter()
        found = read_any(file)
        rates.append(len(text) / (time.perf_counter() - begin))
    begin = time.perf_counter()
    written = write(Launches(launches=found.launches), tmp_path / "out")[1].stat().st_size
    out = written / (time.perf_counter() - begin)
    with capsys.disabled():
        print(
            f"\naccel-sim, {mode}: {len(text) / 1e6:.0f} MB read at {rates[0] / 1e6:.0f} MB/s,"
            f" from gzip at {rates[1] / 1e6:.0f} MB/s; {written / 1e6:.0f} MB written at"
            f" {out / 1e6:.0f} MB/s;"
            f" at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f} MB held"
        )
    assert rates[0] >= BYTES_PER_SECOND
