"""Launches of strangers' kernels whose times were once far off: few groups, many streams, bins that many add to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calib
from memsim.machine import load_machine
from tests.support.cuda_kernels import needs_both
from tracegen import CudaWorkload

pytestmark = needs_both
SINGLES = np.float32
READS = """__global__ void k(const float4 *x, float *y, int n) {
  float s = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    float4 v = x[i];
    s += v.x + v.y + v.z + v.w;
  }
  y[blockIdx.x * blockDim.x + threadIdx.x] = s;
}"""
STREAMS = """__global__ void k(const float *f, float *g, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v[19];
#pragma unroll
  for (int q = 0; q < 19; ++q) v[q] = f[q * n + i];
#pragma unroll
  for (int q = 0; q < 19; ++q) g[q * n + i] = 0.5f * v[q] + v[(q + 1) % 19];
}"""
BINS = """__global__ void k(float *sum, const float *x, int n, int bins) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&sum[i % bins], x[i]);
}"""


def predicted(source: str, machine: str, grid: int, block: int, *arguments: Any) -> Any:
    given = CudaWorkload(source=source, arguments=list(arguments), grid=grid, block=block)
    return calib.predict(given, machine)


def test_one_group_reads_what_it_has_in_flight() -> None:
    """1,024 threads wait for 16 bytes each, 256 times: an H200's DRAM takes 631 to 950 cycles for a read, and not the 54,000 in
    which all cores could read as much as one did."""
    n, machine = 1 << 18, load_machine("h200")
    found = predicted(READS, "h200", 1, 1024, np.ones(4 * n, SINGLES), np.zeros(1024, SINGLES), n)
    cycles = found.seconds.mean * machine.clock_hz / (n // 1024)
    assert 631 < cycles < 950
    assert found.limited_by == "latency"


@pytest.mark.slow
def test_many_streams_on_a_v100() -> None:
    """19 arrays are read and 19 written, as a lattice Boltzmann code's at 684 to 785 GB/s of the useful 319 MB."""
    n = 1 << 21
    arrays = np.ones(19 * n, SINGLES), np.zeros(19 * n, SINGLES)
    found = predicted(STREAMS, "v100", n // 64, 64, *arrays, n)
    assert 406e-6 < found.seconds.mean < 466e-6
    assert found.limited_by == "DRAM"


@pytest.mark.slow
@pytest.mark.parametrize(("bins", "least_us", "most_us"), [(1, 7300, 7700), (1024, 21, 29)])
def test_bins_that_many_add_to(bins: int, least_us: float, most_us: float) -> None:
    """4 Mi floats. One bin: 0.562 additions in a nanosecond. 1,024 bins, 32 lines: warps that each add to one of 64 lines in turn took
    an H200 12.4 us of their own, so that as many take on 32 lines 24 us."""
    n = 1 << 22
    found = predicted(BINS, "h200", n // 256, 256, np.zeros(bins, SINGLES), np.ones(n, SINGLES), n, bins)  # fmt: skip
    assert least_us < 1e6 * found.seconds.mean < most_us
    assert found.limited_by == "atomics on one line"
