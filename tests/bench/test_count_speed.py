"""The time to make, read back and evaluate counts.

Times are CPU time of a single thread: on an idle machine they equal wall time, and other programs do not
change them.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import calib
from calib.fitting.model_file import load_model_file, model_names
from calib.kernels import ALL_GENERATORS, KernelCollection
from calib.timing.trials import find_context

pytestmark = [
    pytest.mark.bench,
    pytest.mark.filterwarnings("ignore::loopy.diagnostic.LoopyWarning"),
]

ROOT = Path(__file__).resolve().parents[2]

DG = """
import sys, time
from calib.kernels import ALL_GENERATORS, KernelCollection
import calib
kernels = [
    k for variant in ("noPF", "uPF", "dPF", "dPFT")
    for k in KernelCollection(ALL_GENERATORS).generate_kernels(
        ["dg_diff", f"variant:{variant}", "dtype:float32", "nelements:4096"])
]
start = time.process_time()
patterns = set()
for kernel in kernels:
    from calib.counting.feature_counts import kernel_counts
    for access in kernel_counts(kernel).inventory.accesses:
        if access.memory == "global":
            strides = ";".join(f"{a}:{s}" for a, s in enumerate(access.local_strides))
            groups = ";".join(f"{a}:{s}" for a, s in enumerate(access.group_strides))
            text = (f"f_mem_access_global_{access.dtype}_{access.direction}"
                    f"_lstrides:{{{strides}}}_gstrides:{{{groups}}}_afr:>=1").replace(" ", "")
            patterns.add((kernel.name, access.array, access.direction, text))
            assert calib.count(kernel, text).at(nelements=4096) > 0
print(len(patterns), time.process_time() - start)
"""


def counted_in(folder: Path, loopy: Path) -> tuple[int, float]:
    finished = subprocess.run(
        [sys.executable, "-c", DG],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={
            **os.environ,
            "MEMSIM_CACHE_DIR": str(folder),
            "XDG_CACHE_HOME": str(loopy),  # Loopy's own cache, too, begins empty
            "PYTHONPATH": str(ROOT),
        },
    )
    patterns, seconds = finished.stdout.split()
    return int(patterns), float(seconds)


def test_the_access_patterns_of_the_dg_set(tmp_path: Path) -> None:
    """Three of each variant; Stevens and Klöckner (2020) find 11 distinct ones.

    Two processes: the first starts with empty caches, the second with those of the first.
    """
    patterns, cold = counted_in(tmp_path / "counts", tmp_path / "loopy")
    again, cached = counted_in(tmp_path / "counts", tmp_path / "loopy")
    print(
        f"\n{patterns} access patterns of DG differentiation: {cold:.2f} s cold, {cached:.3f} s cached"
    )
    assert again == patterns >= 11
    assert cold < 20
    assert cached < 1


def test_evaluation_at_a_new_size() -> None:
    (kernel,) = KernelCollection(ALL_GENERATORS).generate_kernels(
        ["matmul_sq", "dtype:float32", "prefetch:True", "groups_fit:False", "n:256"]
    )
    for feature in (
        "f_op_float32_madd",
        "f_mem_access_global_float32_load_lstrides:{1:>15}_afr:>1",
    ):
        count = calib.count(kernel, feature)
        count.at(n=1)
        start = time.process_time()
        for n in range(2, 502):
            count.at(n=n)
        each = (time.process_time() - start) / 500
        start = time.process_time()
        count.at_many(n=np.arange(1, 10_001))
        many = time.process_time() - start
        print(f"\n{feature}: {1e6 * each:.0f} us a size, {many:.2f} s for 10,000 sizes at once")
        assert each < 1e-3
        assert many < 2


def test_a_model_at_ten_thousand_sizes() -> None:
    """The shipped model of matrix products for its two variants, counts included."""
    file = load_model_file("matmul")
    model = file.model("f_cl_wall_time")
    parameters = dict.fromkeys(model.parameters, 1e-9)
    for prefetch in (True, False):
        (kernel,) = KernelCollection(ALL_GENERATORS).generate_kernels(
            ["matmul_sq", "dtype:float32", f"prefetch:{prefetch}", "groups_fit:True", "n:256"]
        )
        model.eval_with_kernel(parameters, kernel, {"n": 16})
        start = time.process_time()
        result = model.eval_with_kernel(parameters, kernel, {"n": 16 * np.arange(1, 10_001)})
        seconds = time.process_time() - start
        print(f"\nprefetch:{prefetch}: the model at 10,000 sizes in {seconds:.2f} s")
        assert result.shape == (10_000,)
        assert seconds < 2


LAUNCHES = """
import atexit, sys, time
from calib.timing import trials
from memsim.commands.cli import main

spent, plain = 0.0, trials._Run._launched

def launched(run, count):
    global spent
    start = time.process_time()
    try:
        return plain(run, count)
    finally:
        spent += time.process_time() - start

trials._Run._launched = launched
atexit.register(lambda: print("processor", spent, file=sys.stderr))
main()
"""


@dataclass(frozen=True)
class Spent:
    """Wall and CPU time in seconds of a `memsim calibrate`, in total and in timed launches."""

    wall: float
    timed: float
    processor: float
    launching: float


def calibrated(name: str, folder: Path) -> Spent:
    """Runs the whole command in a new process; all its caches lie in the folder."""
    (folder / "pocl").mkdir(parents=True, exist_ok=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    finished = subprocess.run(
        [sys.executable, "-c", LAUNCHES, "calibrate", name, "-o", str(folder / "fitted.json")],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={
            **os.environ,
            "MEMSIM_CACHE_DIR": str(folder / "memsim"),
            "XDG_CACHE_HOME": str(folder),
            "POCL_CACHE_DIR": str(folder / "pocl"),
        },
    )
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    timed = re.search(r"of them ([0-9.]+) s in timed launches", finished.stdout)
    launching = re.search(r"^processor ([0-9.]+)$", finished.stderr, re.MULTILINE)
    assert timed is not None
    assert launching is not None
    return Spent(wall, float(timed[1]), processor, float(launching[1]))


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", model_names())
def test_what_calibrating_a_shipped_model_costs_beyond_its_timed_launches(
    name: str, tmp_path: Path
) -> None:
    """Start-up, imports, code generation, builds, counts, warm-up launches and the fit.

    In the cold state the caches of memsim, Loopy and the OpenCL driver are empty. Wall time includes
    other programs; CPU time does not, but adds up the threads of a launch, which runs on every core.
    """
    cores = find_context().devices[0].max_compute_units
    beyond = {}
    for state in ("cold", "cached"):
        spent = calibrated(name, tmp_path)
        clock = spent.wall - spent.timed
        rest, launching = spent.processor - spent.launching, spent.launching / cores
        beyond[state] = rest / launching
        print(
            f"\n{name}, {state}: {spent.wall:.1f} s, {clock:.1f} s beyond {spent.timed:.1f} s in timed"
            f" launches: {clock / spent.timed:.0%}; by the processor {rest:.1f} s beyond"
            f" {launching:.1f} s on each of {cores} cores: {beyond[state]:.0%}"
        )
    assert beyond["cached"] < 0.2
