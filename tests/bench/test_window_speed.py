"""How long tracing and replaying take as a kernel grows: a line that is flat where long groups are traced in windows.

Products of n x n matrices of single precision on an RTX 3090, and a vector addition; seconds of this process and of wall time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import memsim
import tracegen
from experiments.kernels.matmul_steps import product
from tracegen.options import TraceOptions

pytestmark = pytest.mark.bench

ADDITION = """
extern "C" __global__ void add(const float *a, const float *b, float *c)
{
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  c[i] = a[i] + b[i];
}
"""


def addition(log2: int) -> tracegen.CudaWorkload:
    arrays = {name: np.zeros(1 << log2, np.float32) for name in "abc"}
    return tracegen.CudaWorkload(
        source=ADDITION, kernel="add", arguments=arrays, grid=(1 << log2) // 256, block=256
    )


KERNELS: dict[str, tuple[Callable[[int], Any], tuple[int, ...]]] = {
    "naive": (lambda n: product("naive", n), (1024, 2048, 4096, 8192)),
    "blocks": (lambda n: product("blocks", n), (1024, 2048, 4096, 8192)),
    "addition": (addition, (20, 24, 28)),
}


@pytest.mark.parametrize("name", KERNELS)
def test_seconds_over_size(name: str) -> None:
    make, sizes = KERNELS[name]
    machine = memsim.load_machine("rtx3090")
    print()
    for n in sizes:
        workload = make(n)
        taken = []
        for _ in range(2):  # the first one compiles the kernel
            begin = time.monotonic(), time.process_time()
            traces = tracegen.trace_snapshots(
                workload, machine, snapshots=3, options=TraceOptions(start=True)
            )
            traced = time.monotonic(), time.process_time()
            replay = memsim.replay(traces, machine, seed=0)
            end = time.monotonic(), time.process_time()
            taken = [
                b - a for a, b in (*zip(begin, traced, strict=True), *zip(traced, end, strict=True))
            ]
        part = sum(one.traced_part for one in traces)
        print(
            f"{name} {n}: trace {taken[0]:.1f} s (processor {taken[1]:.1f}), replay {taken[2]:.1f} s"
            f" (processor {taken[3]:.1f}), {replay.n_trials} trials, {len(traces)} traces, part {part:.3g}"
        )
