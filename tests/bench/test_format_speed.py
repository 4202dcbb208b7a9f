"""The speed of reading Accel-Sim's text on one core, and the memory that a large trace takes.

Run alone, pinned to one core: `taskset -c 0 pytest -m bench tests/bench/test_format_speed.py`.
MEMSIM_BENCH_GB sets the size of the large trace, 1 GB by default. The temporary folder needs twice as
much space.
"""

from __future__ import annotations

import gzip
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from memsim.formats import read_any

BYTES_PER_SECOND = 50e6
VARIABLE = "MEMSIM_BENCH_GB"
MOST_OWN_BYTES = 500e6
"""Anonymous memory of the process, without file pages, which the system can reclaim."""
MOST_REPLAYED_BYTES = 2e9
"""A replay holds 8 bytes for each request that misses L1."""
HEAD = (
    "-kernel name = k\n-grid dim = ({groups},1,1)\n-block dim = (128,1,1)\n-nregs = 32\n"
    "-accelsim tracer version = 4\n"
)

pytestmark = pytest.mark.bench


def text_of(groups: int, mode: str) -> str:
    """The warps of a gather, whose addresses are a list or a base and a stride."""
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
def test_accel_sim_speed(tmp_path: Path, mode: str) -> None:
    text = text_of(1500 if mode == "list" else 5000, mode)
    path, packed = tmp_path / "k.traceg", tmp_path / "k.traceg.gz"
    path.write_text(text)
    packed.write_bytes(gzip.compress(text.encode(), 1))
    warm = tmp_path / "warm.traceg"
    warm.write_text(text_of(1, mode))
    read_any(warm)
    rates = []
    for file in (path, packed):
        begin = time.perf_counter()
        read_any(file)
        rates.append(len(text) / (time.perf_counter() - begin))
    print(
        f"\naccel-sim, {mode}: {len(text) / 1e6:.0f} MB read at {rates[0] / 1e6:.0f} MB/s,"
        f" from gzip at {rates[1] / 1e6:.0f} MB/s;"
        f" at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f} MB resident"
    )
    assert rates[0] >= BYTES_PER_SECOND


READ = """
import resource, sys, threading, time
import memsim
from memsim.formats import read_any

def own():
    with open("/proc/self/status") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith("RssAnon"))

most, running = 0, True
def watch():
    global most
    while running:
        most = max(most, own())
        time.sleep(0.05)

read_any(sys.argv[2])
threading.Thread(target=watch, daemon=True).start()
begin, busy = time.perf_counter(), time.process_time()
(trace,) = read_any(sys.argv[1]).launches
seconds, busy = time.perf_counter() - begin, time.process_time() - busy
print(seconds, busy, most, trace.n_access, trace.n_granule, flush=True)
if sys.argv[3] == "replay":
    begin = time.perf_counter()
    memsim.replay(trace, "v100", trials=1)
    print(time.perf_counter() - begin, most, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def write_large(path: Path, size_bytes: int) -> int:
    """Writes a kernel's text of about this size by repeating the thread blocks of a smaller one."""
    blocks = text_of(256, "list").split("#BEGIN_TB\n")[1:]
    bodies = [block.partition("\n")[2] for block in blocks]
    n_groups = size_bytes // len(bodies[0])
    with open(path, "w") as file:
        file.write(HEAD.format(groups=n_groups))
        for group in range(n_groups):
            file.write(f"#BEGIN_TB\nthread block = {group},0,0\n{bodies[group % len(bodies)]}")
    return path.stat().st_size


@pytest.mark.timeout(3600)
def test_large_trace(tmp_path: Path) -> None:
    path, warm = tmp_path / "k.traceg", tmp_path / "warm.traceg"
    size = write_large(path, int(float(os.environ.get(VARIABLE, "1")) * 1e9))
    write_large(warm, 200_000)
    what = "replay" if size < MOST_REPLAYED_BYTES else "read"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", READ, str(path), str(warm), what],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    reading, *replaying = (line.split() for line in done.stdout.splitlines())
    seconds, busy, own, n_access, n_granule = (float(word) for word in reading)
    print(
        f"\naccel-sim: {size / 1e9:.1f} GB, {n_access / 1e6:.0f} M accesses and"
        f" {n_granule / 1e6:.0f} M granules, read in {seconds:.0f} s, {busy:.0f} s of them on a"
        f" core ({size / 1e6 / busy:.0f} MB/s of it), with at most {own / 1e6:.0f} MB of its own"
    )
    for took, peak, resident in replaying:
        print(
            f"one trial on v100 in {float(took):.0f} s with at most {float(peak) / 1e6:.0f} MB"
            f" ({float(resident) / 1e3:.0f} MB with pages of files)"
        )
    assert own < MOST_OWN_BYTES
    path.unlink()
