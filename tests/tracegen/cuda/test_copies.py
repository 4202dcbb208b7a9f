"""Asynchronous copies to shared memory: done at once here, and by their own instruction from sm_80 on."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import memsim
import tracegen
from tests.support.compilers import needs_nvidia
from tests.support.cuda_kernels import floats, needs_clang, run, workload

pytestmark = needs_clang

PRIMITIVES = """
#include <cuda_pipeline.h>
__global__ void k(const float *x, float *y) {
  __shared__ float s[2][64];
  int i = threadIdx.x;
  __pipeline_memcpy_async(&s[0][i], &x[i], sizeof(float));
  __pipeline_commit();
  for (int b = 0; b < 4; ++b) {
    if (b < 3) __pipeline_memcpy_async(&s[(b + 1) & 1][i], &x[64 * (b + 1) + i], 4);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    y[64 * b + i] = s[b & 1][63 - i];
    __syncthreads();
  }
}
"""
GROUPS = """
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
namespace cg = cooperative_groups;
__global__ void k(const float *x, float *y) {
  __shared__ float s[64];
  auto block = cg::this_thread_block();
  for (int b = 0; b < 4; ++b) {
    cg::memcpy_async(block, s, x + 64 * b, sizeof(float) * 64);
    cg::wait(block);
    y[64 * b + threadIdx.x] = s[63 - threadIdx.x];
    block.sync();
  }
}
"""
BARRIER = """
#include <cooperative_groups.h>
#include <cuda/barrier>
__global__ void k(const float *x, float *y) {
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  __shared__ alignas(16) float s[64];
  auto block = cooperative_groups::this_thread_block();
  if (block.thread_rank() == 0) init(&bar, block.size());
  block.sync();
  for (int b = 0; b < 4; ++b) {
    cuda::memcpy_async(block, s, x + 64 * b, cuda::aligned_size_t<16>(sizeof(float) * 64), bar);
    bar.arrive_and_wait();
    y[64 * b + threadIdx.x] = s[63 - threadIdx.x];
    bar.arrive_and_wait();
  }
}
"""
PIPELINE = """
#include <cooperative_groups.h>
#include <cuda/pipeline>
constexpr int stages = 2;
__global__ void k(const float *x, float *y) {
  __shared__ float s[stages * 64];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, stages> state;
  auto block = cooperative_groups::this_thread_block();
  auto pipe = cuda::make_pipeline(block, &state);
  for (int b = 0, f = 0; b < 4; ++b) {
    for (; f < 4 && f < b + stages; ++f) {
      pipe.producer_acquire();
      cuda::memcpy_async(block, s + (f % stages) * 64, x + 64 * f, sizeof(float) * 64, pipe);
      pipe.producer_commit();
    }
    pipe.consumer_wait();
    y[64 * b + threadIdx.x] = s[(b % stages) * 64 + 63 - threadIdx.x];
    pipe.consumer_release();
  }
}
"""


def _made(source: str) -> Any:
    return workload(source, floats(256), np.zeros(256, np.float32), block=64)


@pytest.mark.parametrize("source", [PRIMITIVES, GROUPS, BARRIER, PIPELINE])
def test_copies_are_loads(source: str) -> None:
    """Each element is loaded once: by 4 bytes for each thread, or by 16 for a quarter of them."""
    made = _made(source)
    turned = floats(256).reshape(4, 64)[:, ::-1]
    np.testing.assert_array_equal(run(made)["y"].reshape(4, 64), turned)
    trace = tracegen.trace(made)
    loads = [k for k, site in enumerate(trace.sites) if site.direction == "load"]
    assert all("memcpy_async(" in trace.sites[k].name for k in loads)
    lanes: Counter[int] = Counter()
    for k in loads:
        lanes[trace.sites[k].itemsize_bytes] += int(trace.lanes[trace.site == k].sum(dtype=int))
    assert +lanes == ({4: 256} if source == PRIMITIVES else {16: 64})


def test_bytes_beyond_the_copied_ones_are_zero() -> None:
    source = """
    __global__ void k(const char *x, char *y) {
      __shared__ __align__(16) char s[16];
      if (threadIdx.x == 0) __pipeline_memcpy_async(s, x, 16, 5);
      __syncthreads();
      y[threadIdx.x] = s[threadIdx.x];
    }"""
    x = np.arange(1, 17, dtype=np.int8)
    out = run(workload(source, x, np.full(16, 9, np.int8), block=16))["y"]
    np.testing.assert_array_equal(out, [*x[:11], 0, 0, 0, 0, 0])


@needs_nvidia
@pytest.mark.parametrize("source", [PRIMITIVES, BARRIER])
def test_targets_have_an_instruction_for_copies(source: str) -> None:
    """On an A100 a copy needs no register for its value, and every load of the trace has its instruction."""
    registers = {}
    for machine in ("v100", "a100"):
        trace = tracegen.trace(_made(source), memsim.load_machine(machine))
        assert "missing" not in trace.provenance["compiler"]
        assert sum(site.direction == "load" for site in trace.sites) >= 1
        registers[machine] = trace.launch.registers_per_item or 0
    assert registers["a100"] < registers["v100"]


def test_a_wave_matches_and_reduces_on_amd() -> None:
    """What HIP declares since ROCm 6.2 (matches) and 7 (reductions), of which AMD's targets make code."""
    source = """
    #include <cooperative_groups.h>
    __global__ void k(const int *x, unsigned long long *y) {
      int i = threadIdx.x, all;
      auto tile = cooperative_groups::tiled_partition<32>(cooperative_groups::this_thread_block());
      y[i] = __match_any_sync(~0ull, x[i]) + __match_all_sync(~0ull, (double)x[i], &all) + all
           + __reduce_add_sync(~0ull, x[i]) + __reduce_min_sync(~0ull, (unsigned)x[i])
           + __reduce_xor_sync(0xffull << (i & ~7), (unsigned)x[i]) + tile.match_any(x[i]);
    }"""
    x = np.random.default_rng(0).integers(0, 9, 64, np.int32)
    made = workload(source, x, np.zeros(64, np.uint64), block=64)
    trace = tracegen.trace(made, memsim.load_machine("mi250x"))
    assert "missing" not in trace.provenance["compiler"]
    equal = (x[:, None] == x).astype(np.uint64)
    bits = np.left_shift(np.uint64(1), np.arange(64, dtype=np.uint64))
    whole = (equal * bits).sum(axis=1, dtype=np.uint64)
    half = np.where(np.arange(64) < 32, whole & np.uint64(0xFFFFFFFF), whole >> np.uint64(32))
    parts = np.repeat(np.bitwise_xor.reduce(x.reshape(8, 8), axis=1), 8)
    expected = whole + half + np.uint64(x.sum() + x.min()) + parts.astype(np.uint64)
    np.testing.assert_array_equal(run(made, 64)["y"], expected)
