"""The speed of tracing CUDA C++, from the compiled kernel to the columns of its trace, warm.

Lane-accesses for each second of processor time, that of the kernel's own process included.
"""

from __future__ import annotations

import resource

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
__global__ void product(const float *__restrict__ a, float *__restrict__ c, int n) {
  __shared__ float rows[16][16], columns[16][16];
  int x = threadIdx.x, y = threadIdx.y, i = blockIdx.y * 16 + y, j = blockIdx.x * 16 + x;
  float sum = 0;
  for (int k = 0; k < n; k += 16) {
    rows[y][x] = a[i * n + k + x];
    columns[y][x] = a[(k + y) * n + j];
    __syncthreads();
    for (int m = 0; m < 16; ++m) sum += rows[y][m] * columns[m][x];
    __syncthreads();
  }
  c[i * n + j] = sum;
}
__global__ void block_sums(const float *__restrict__ a, float *__restrict__ b, int n) {
  __shared__ float part[256];
  int i = threadIdx.x;
  float sum = 0;
  for (int k = i; k < n; k += 256) sum += a[blockIdx.x * n + k];
  part[i] = sum;
  for (int half = 128; half > 0; half /= 2) {
    __syncthreads();
    if (i < half) part[i] += part[i + half];
  }
  if (i == 0) b[blockIdx.x] = part[0];
}
__global__ void warp_sums(const float *__restrict__ a, float *__restrict__ b, int n) {
  float sum = 0;
  for (int k = threadIdx.x; k < n; k += 128) sum += a[blockIdx.x * n + k];
  for (int by = 16; by > 0; by /= 2) sum += __shfl_xor_sync(0xffffffff, sum, by);
  b[blockIdx.x * 128 + threadIdx.x] = sum;
}
"""
LAUNCHES = {
    "stencil": (2048, (64, 128), (32, 16), 40e6),
    "column_sums": (2048, (16,), (128,), 40e6),
    "transposed": (2048, (64, 64), (32, 8), 20e6),
    "product": (512, (32, 32), (16, 16), 20e6),
    "block_sums": (2048, (2048,), (256,), 20e6),
    "warp_sums": (2048, (2048,), (128,), 20e6),
}
"""Kernel -> n, blocks, threads of a block, and the least of lane-accesses a second."""


def seconds() -> float:
    """Processor time of this process and of those that it waited for."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


@pytest.mark.parametrize("kernel", LAUNCHES)
def test_lane_accesses_per_second(kernel: str, capsys: pytest.CaptureFixture[str]) -> None:
    n, grid, block, least = LAUNCHES[kernel]
    a = np.random.default_rng(0).random((n, n), np.float32)
    prepared = cuda.prepare(
        CudaWorkload(
            source=SOURCE, kernel=kernel, arguments=[a, np.zeros_like(a), n], grid=grid, block=block
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
