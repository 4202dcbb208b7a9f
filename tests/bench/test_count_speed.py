"""How quickly counts are made, read back and evaluated: the figures that the README quotes.

In seconds of the processor: all is done by one thread, so that on a machine which does nothing else they are
those of the clock, and on a busy one they say the same.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import calib
from calib.calibration import calibrate
from calib.kernels import ALL_GENERATORS, KernelCollection
from calib.model_file import Measurements, ModelFile, load_model_file
from calib.timing import WARMUP, find_context

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
    from calib.counting import kernel_counts
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
    found = subprocess.run(
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
    patterns, seconds = found.stdout.split()
    return int(patterns), float(seconds)


def test_the_access_patterns_of_the_dg_set(tmp_path: Path) -> None:
    """Three of each variant, of which seed 000 finds 11 distinct. In processes of their own: with
    nothing kept, then with what the first one kept."""
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
    """The shipped model of the matrix products, counts and all, for its two variants."""
    file = load_model_file("matmul")
    model = file.model("f_cl_wall_time")
    parameters = dict.fromkeys(model.parameters, 1e-9)
    for prefetch in (True, False):
        (kernel,) = KernelCollection(ALL_GENERATORS).generate_kernels(
            ["matmul_sq", "dtype:float32", f"prefetch:{prefetch}", "groups_fit:True", "n:256"]
        )
        model.eval_with_kernel(parameters, kernel, {"n": 16})
        start = time.process_time()
        told = model.eval_with_kernel(parameters, kernel, {"n": 16 * np.arange(1, 10_001)})
        seconds = time.process_time() - start
        print(f"\nprefetch:{prefetch}: the model at 10,000 sizes in {seconds:.2f} s")
        assert told.shape == (10_000,)
        assert seconds < 2


def test_what_calibrating_costs_beyond_running_kernels() -> None:
    """Kernels of 1 to 1000 ms, as the paper's, each built and counted before.

    T(trials) = overhead + trials x kernels, from two numbers of trials: the warming runs are kernels too. A kernel
    runs on every core, whose seconds add up.
    """
    general = load_model_file("general")
    tags = (
        ("gmem_pattern", "dtype:float32", "n_arrays:1,2,4", "nelements:4194304"),
        ("flops_add_pattern", "dtype:float32", "nelements:65536", "m:64,128"),
        ("flops_mul_pattern", "dtype:float32", "nelements:65536", "m:64,128"),
        ("flops_madd_pattern", "dtype:float32", "nelements:65536", "m:64,128"),
        ("lmem_move", "dtype:float32", "n_groups:512", "m:64,128"),
        ("barrier_pattern", "n_groups:1024", "m:256,1024"),
        ("empty_kernel", "n_groups:1024,16384"),
    )
    file = ModelFile(
        name="plain",
        expression=general.expression,
        costs={
            "c_gmem": "p_load * f_mem_access_global_float32_load"
            " + p_store * f_mem_access_global_float32_store",
            "c_onchip": "p_add * f_op_float32_add + p_mul * f_op_float32_mul"
            " + p_madd * f_op_float32_madd + p_local * f_mem_access_local_float32",
            "c_overhead": general.costs["c_overhead"],
        },
        measure=tuple(Measurements(tags=each) for each in tags),
    )
    calibrate(file, trials=1)
    spent = {}
    for trials in (2, 14):
        start = time.process_time()
        found = calibrate(file, trials=trials)
        spent[trials] = time.process_time() - start
    each = (spent[14] - spent[2]) / 12
    overhead = spent[2] - (2 + WARMUP) * each
    cores = find_context().devices[0].max_compute_units
    running = (60 + WARMUP) * each / cores
    print(
        f"\ncalibration with {len(found.saved.table)} kernels of {each / cores:.2f} s in all:"
        f" {overhead:.1f} s beyond 60 trials' {running:.1f} s on {cores} cores,"
        f" {overhead / running:.0%} more"
    )
    assert overhead / running < 0.2
