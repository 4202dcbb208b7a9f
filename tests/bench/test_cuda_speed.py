"""The speed of tracing CUDA C++, from the compiled kernel to the columns of its trace, warm.

Lane-accesses for each second of processor time, that of the kernel's own process included.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

from tests.support.cuda_kernels import needs_clang
from tracegen import CudaWorkload, cuda
from tracegen.options import TraceOptions

pytestmark = [pytest.mark.bench, needs_clang]

REPEATS = 5
SOURCE = """
__global__ void stencil(const float *__restrict__ a, float *__restrict__ b, int n) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < 1 || y < 1 || x >= n - 1 || y >= n - 1) return;
  int i = y * n + x;
  b[i] = a[i] + a[i - 1] + a[i + 1] + a[i - n] + a[i + n];
}
__global__ void column_sums(const float *__restrict__ a, float *__restrict__ b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int j = 0; j < n; ++j) sum += a[j * n + i];
  b[i] = sum;
}
__global__ void transposed(const float *__restrict__ a, float *__restrict__ b, int n) {
  __shared__ float tile[32][33];
  int x = threadIdx.x, y = threadIdx.y;
  for (int j = 0; j < 32; j += 8) tile[y + j][x] = a[(blockIdx.y * 32 + y + j) * n + blockIdx.x * 32 + x];
  __syncthreads();
  for (int j = 0; j < 32; j += 8) b[(blockIdx.x * 32 + y + j) * n + blockIdx.y * 32 + x] = tile[x][y + j];
}
"""
N = 2048
LAUNCHES = {
    "stencil": ((64, 128), (32, 16), 40e6),
    "column_sums": ((16,), (128,), 40e6),
    "transposed": ((64, 64), (32, 8), 20e6),
}


def seconds() -> float:
    """Processor time of this process and of those that it waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@pytest.mark.parametrize("kernel", LAUNCHES)
def test_lane_accesses_per_second(kernel: str, capsys: pytest.CaptureFixture[str]) -> None:
    grid, block, least = LAUNCHES[kernel]
    a = np.random.default_rng(0).random((N, N), np.float32)
    prepared = cuda.prepare(
        CudaWorkload(
            source=SOURCE, kernel=kernel, arguments=[a, np.zeros_like(a), N], grid=grid, block=block
        ),
        32,
    )
    taken = []

    def observer(launch: cuda.CudaLaunch) -> None:
        run = cuda.CudaRun(prepared, launch, TraceOptions())
        groups = np.arange(launch.n_groups)
        for _ in range(REPEATS):
            start = seconds()
            columns = run.columns(groups)
            taken.append((seconds() - start) / int(columns["lanes"].sum(dtype=np.int64)))

    prepared.run(observer)
    best = 1 / min(taken)
    with capsys.disabled():
        print(f"\n{kernel}: {best / 1e6:.1f} M lane-accesses/s")
    assert best > least
