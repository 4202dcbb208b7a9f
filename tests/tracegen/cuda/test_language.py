"""What kernels in CUDA C++ and HIP compute, compared with numpy: the machine code is run."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import tracegen
from memsim.errors import KernelError
from tests.support.cuda_kernels import floats, needs_clang, run, workload
from tests.tracegen.cuda.everywhere import everywhere
from tracegen import CudaWorkload

pytestmark = needs_clang


def test_templates_namespaces_structs_lambdas_and_constant_memory() -> None:
    source = """
    #include <vector>
    struct Scale { float by; int shift; double unused; };
    __constant__ float weights[4];
    namespace outer { namespace inner {
    template <typename T, int N> struct Sum {
      T total = 0;
      __device__ void operator+=(T value) { total += value; }
    };
    template <typename T, int N>
    __global__ void __launch_bounds__(128) weighted(const T *__restrict__ x, T *y, Scale scale) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      auto at = [=](int k) -> T { return x[i + k + scale.shift]; };
      Sum<T, N> sum;
    #pragma unroll
      for (int k = 0; k < N; ++k) sum += weights[k] * at(k);
      y[i] = scale.by * sum.total;
    }
    } }
    int main() {
      float *x;
      cudaMalloc(&x, 4);
      std::vector<float> host(4);
      outer::inner::weighted<float, 4><<<1, 32>>>(x, x, Scale());
      return cudaDeviceSynchronize() != cudaSuccess;
    }
    """
    x, weights, i = floats(131), np.array([1, -2, 3, -4], np.float32), np.arange(128)
    layout = np.dtype([("by", np.float32), ("shift", np.int32), ("unused", np.float64)], align=True)
    arguments = (x, np.zeros(128, np.float32), np.array((2, 1, 0), layout))
    chosen: Any = {"kernel": "outer::inner::weighted<float, 4>", "grid": 2, "block": 64}
    given = workload(source, *arguments, **chosen, symbols={"weights": weights})
    with pytest.raises(KernelError, match=r"index 131 in array x of shape \(131,\)"):
        run(given)
    arguments = (floats(132), *arguments[1:])
    given = workload(source, *arguments, **chosen, symbols={"weights": weights})
    total = np.zeros(128, np.float32)
    for k, weight in enumerate(weights):  # a product and a sum are rounded once
        total = (weight.astype(float) * arguments[0][i + k + 1] + total).astype(np.float32)
    np.testing.assert_array_equal(run(given)["y"], 2 * total)


def test_a_symbol_gets_its_value_where_other_kernels_have_shared_memory_of_one_name() -> None:
    """The value once went to the variable before."""
    shared = "__shared__ float tile[32]; tile[threadIdx.x] = 1; y[0] = tile[0];"
    source = f"""
    __constant__ float weights[2];
    __global__ void first(float *y) {{ {shared} }}
    __global__ void second(float *y) {{ {shared} }}
    __constant__ float later[2];
    __global__ void third(float *y) {{ y[threadIdx.x] = 10 * weights[0] + later[1]; }}
    """
    symbols = {"weights": np.array([1, 2], np.float32), "later": np.array([3, 4], np.float32)}
    given = workload(source, np.zeros(32, np.float32), kernel="third", symbols=symbols)
    np.testing.assert_array_equal(run(given)["y"], 14)


def test_shared_memory_static_and_dynamic_with_barriers() -> None:
    """Threads that return early are not waited for."""
    source = """
    extern __shared__ float dynamic[];
    __global__ void reversed(const float *x, float *y, float *sums, float *others, int n) {
      __shared__ float tile[64];
      int i = threadIdx.x, block = 64 * blockIdx.x;
      tile[i] = x[block + i];
      dynamic[i] = 2 * tile[i];
      __syncthreads();
      y[block + i] = tile[63 - i] + dynamic[i ^ 1];
      for (int half = 32; half > 0; half /= 2) {
        __syncthreads();
        if (i < half) tile[i] += tile[i + half];
      }
      if (i == 0) sums[blockIdx.x] = tile[0];
      if (i >= n) return;
      dynamic[i] = x[block + i];
      __syncthreads();
      others[block + i] = dynamic[n - 1 - i];
    }
    """
    x, empty = floats(256), np.zeros(256, np.float32)
    given = workload(
        source, x, empty, np.zeros(4, np.float32), empty.copy(), 40, grid=4, block=64, shared_bytes=256
    )  # fmt: skip
    out, tiles = run(given), x.reshape(4, 64)
    pairs = tiles.reshape(4, 32, 2)[:, :, ::-1].reshape(4, 64)
    np.testing.assert_allclose(out["y"], (tiles[:, ::-1] + 2 * pairs).ravel(), rtol=1e-6)
    np.testing.assert_allclose(out["sums"], tiles.sum(axis=1), rtol=1e-5)
    np.testing.assert_array_equal(out["others"].reshape(4, 64)[:, :40], tiles[:, 39::-1])


WARPS = """
__global__ void warps(const float *x, float *y, unsigned *votes) {
  int i = threadIdx.x, lane = i % warpSize;
  float sum = x[i];
  for (int by = warpSize / 2; by > 0; by /= 2) sum += __shfl_down_sync(0xffffffff, sum, by);
  float all = __shfl_sync(0xffffffff, sum, 0);
  float other = __shfl_xor_sync(0xffffffff, x[i], 1);
  float before = __shfl_up_sync(0xffffffff, x[i], 1, 16);
  y[4 * i] = all;
  y[4 * i + 1] = other;
  y[4 * i + 2] = before;
  if (lane < 16) y[4 * i + 3] = __shfl_sync(0x0000ffff, x[i], 15);
  __syncwarp();
  votes[i] = __ballot_sync(0xffffffff, x[i] > 0.5f);
  if (__any_sync(0xffffffff, x[i] > 2)) votes[i] = 0;
  if (!__all_sync(0xffffffff, x[i] >= 0)) votes[i] = 0;
  if (__reduce_add_sync(0xffffffff, lane) != 496) votes[i] = 0;
  if (__match_any_sync(0xffffffff, lane / 8) != 0xffu << lane / 8 * 8) votes[i] = 0;
  if (lane % 2) { if (__popc(__activemask()) != 16) votes[i] = 0; }
}
"""


def test_shuffles_votes_and_reductions_of_a_warp() -> None:
    x = floats(64)
    out = run(workload(WARPS, x, np.zeros(256, np.float32), np.zeros(64, np.uint32), block=64))
    y, of_warp = out["y"].reshape(64, 4), x.reshape(2, 32)
    np.testing.assert_allclose(y[:, 0], np.repeat(of_warp.sum(axis=1), 32), rtol=1e-5)
    np.testing.assert_array_equal(y[:, 1], x.reshape(32, 2)[:, ::-1].ravel())
    before = x.reshape(4, 16).copy()
    before[:, 1:] = x.reshape(4, 16)[:, :-1]
    np.testing.assert_array_equal(y[:, 2], before.ravel())
    low = np.arange(64) % 32 < 16
    np.testing.assert_array_equal(y[low, 3], np.repeat(of_warp[:, 15], 16))
    bits = ((of_warp > 0.5) << np.arange(32)).sum(axis=1).astype(np.uint32)
    np.testing.assert_array_equal(out["votes"], np.repeat(bits, 32))


def test_a_lane_that_is_not_there_gives_a_shuffle_zero() -> None:
    """What GPUs do, undefined or not: the last step of reduce7 in NVIDIA's samples is right only so."""
    source = """
    __global__ void few(const int *x, int *y) {
      int i = threadIdx.x, sum = x[i];
      if (i < 4) {
        for (int by = 16; by > 0; by /= 2) sum += __shfl_down_sync(0xf, sum, by);
        if (i == 0) y[0] = sum;
      }
    }
    """
    x = np.arange(100, 132, dtype=np.int32)
    assert run(workload(source, x, np.zeros(1, np.int32)))["y"] == [x[:4].sum()]


def test_parameters_of_more_than_4_kib() -> None:
    source = """
    struct Table { int n[8000]; };
    __global__ void picked(const __grid_constant__ Table table, int *y) { y[threadIdx.x] = table.n[250 * threadIdx.x]; }
    """
    table = np.zeros((), np.dtype([("n", np.int32, (8000,))]))
    table["n"] = np.arange(8000)
    given = workload(source, table, np.zeros(32, np.int32))
    for target in ("a100", "h100"):
        np.testing.assert_array_equal(run(given, target)["y"], 250 * np.arange(32))


def test_lanes_of_a_mask_wait_for_each_other_in_different_branches() -> None:
    source = """
    __global__ void branches(const int *x, int *y) {
      __shared__ int s[32];
      int i = threadIdx.x, old = 0;
      if (i % 2) {
        s[i] = x[i];
        __syncwarp();
        y[i] = s[i - 1];
      } else {
        s[i] = 10 * x[i];
        __syncwarp();
        y[i] = s[i + 1];
      }
      // A leader for each group of equal values, as in aggregated atomics.
      unsigned same = __match_any_sync(0xffffffff, x[i] % 3);
      int leader = __ffs(same) - 1;
      if (i == leader) old = atomicAdd(y + 32 + x[i] % 3, __popc(same));
      old = __shfl_sync(same, old, leader);
      y[35 + i] = old + __popc(same & (1u << i) - 1);
    }
    """
    x = np.arange(32, dtype=np.int32)
    y = run(workload(source, x, np.zeros(35 + 32, np.int32)))["y"]
    np.testing.assert_array_equal(y[:32], np.where(x % 2, 10 * (x - 1), x + 1))
    np.testing.assert_array_equal(y[32:35], np.bincount(x % 3))
    np.testing.assert_array_equal(y[35:], x // 3)


def test_atomics_on_global_and_shared_memory() -> None:
    source = """
    __global__ void atomics(const int *x, int *counts, float *sum, unsigned *turns, int *most) {
      __shared__ int own[8];
      int i = threadIdx.x;
      if (i < 8) own[i] = 0;
      __syncthreads();
      atomicAdd(&own[x[i]], 1);
      __syncthreads();
      if (i < 8) atomicAdd(counts + i, own[i]);
      atomicAdd(sum, 0.5f);
      atomicInc(turns, 9);
      atomicMax(most, x[i]);
      int seen = most[1], expected;
      do { expected = seen; seen = atomicCAS(most + 1, expected, expected + x[i]); } while (seen != expected);
    }
    """
    x = np.random.default_rng(0).integers(0, 8, 96, dtype=np.int32)
    out = run(
        workload(
            source, x, np.zeros(8, np.int32), np.zeros(1, np.float32), np.zeros(1, np.uint32),
            np.zeros(2, np.int32), block=96,
        )
    )  # fmt: skip
    np.testing.assert_array_equal(out["counts"], np.bincount(x, minlength=8))
    assert out["sum"] == 48
    assert out["turns"] == 96 % 10
    assert list(out["most"]) == [x.max(), x.sum()]


def test_vectors_and_read_only_loads_are_one_access() -> None:
    source = """
    __global__ void swapped(const float4 *x, float4 *y, const double2 *a, float3 *b) {
      int i = threadIdx.x;
      float4 v = __ldg(&x[i]);
      y[i] = make_float4(v.w, v.z, v.y, v.x);
      double2 w = a[i];
      b[i] = make_float3(w.x, w.y, v.x);
    }
    """
    x, a = floats(128), np.arange(64, dtype=np.float64)
    given = workload(source, x, np.zeros(128, np.float32), a, np.zeros(96, np.float32))
    out = run(given)
    np.testing.assert_array_equal(out["y"].reshape(32, 4), x.reshape(32, 4)[:, ::-1])
    np.testing.assert_array_equal(out["b"].reshape(32, 3)[:, :2], a.reshape(32, 2))
    trace = tracegen.trace(given, "a100")
    # Both loads are issued before either is waited for. A float3 is aligned to 4 bytes only: its members are written one by one.
    sizes = {site.array: site.itemsize_bytes for site in trace.sites}
    assert sizes == {"x": 16, "a": 16, "y": 16, "b": 4}
    assert Counter(trace.sites[k].array for k in trace.site) == {"x": 1, "a": 1, "y": 1, "b": 3}
    assert set(trace.lanes) == {32}


def test_pointers_in_memory_and_in_structs() -> None:
    source = """
    struct Row { const float *values; int n; };
    __global__ void sums(const Row *rows, float **out, Row extra) {
      int i = threadIdx.x;
      float sum = extra.values[i % extra.n];
      for (int k = 0; k < rows[i].n; ++k) sum += rows[i].values[k];
      *out[i] = sum;
    }
    """
    layout = np.dtype([("values", object), ("n", np.int32)], align=True)
    parts = [floats(k + 1, k) for k in range(4)]
    table = np.zeros(4, layout)
    for k, part in enumerate(parts):
        table[k] = (part, len(part))
    results = [np.zeros(1, np.float32) for _ in range(4)]
    extra = {"values": np.array([10, 20], np.float32), "n": np.int32(2)}
    pointers = np.empty(4, object)
    pointers[:] = results
    given = workload(source, table, pointers, extra, block=4)
    out = run(given)
    for k, part in enumerate(parts):
        np.testing.assert_allclose(out[f"out[{k}]"], part.sum() + (10, 20)[k % 2], rtol=1e-6)
    trace = tracegen.trace(given, "a100")
    by_name = {site.name: site.array for site in trace.sites}
    assert by_name["extra.values[i % extra.n]"] == "extra.values"
    # Lanes of one store that meet several arrays are one access, of the first lane's.
    (store,) = (k for k, site in enumerate(trace.sites) if site.direction == "store")
    at = int(np.flatnonzero(trace.site == store)[0])
    first, last = trace.granule_offset[at : at + 2]
    bases = {one.name: one.base_bytes // 32 for one in trace.arrays}
    assert list(trace.granule[first:last]) == sorted(bases[f"out[{k}]"] for k in range(4))
    given = workload(source, table, pointers, extra | {"n": 2}, block=4)
    with pytest.raises(
        KernelError, match=r"field n of argument extra of kernel sums takes .*, got 2$"
    ):
        tracegen.trace(given, "a100")


def test_a_file_may_include_one_of_any_name(tmp_path: Any) -> None:
    """The name that the compiled text has is none that a program uses."""
    (tmp_path / "kernel.cu").write_text("__global__ void k(int *y) { y[threadIdx.x] = N; }\n")
    (tmp_path / "main.cu").write_text('int once;\n#define N 3\n#include "kernel.cu"\n')
    given = CudaWorkload(
        path=tmp_path / "main.cu", kernel="k", arguments=[np.zeros(32, np.int32)], grid=1, block=32
    )
    assert set(run(given)["y"]) == {3}


@pytest.mark.weekly(2)
@pytest.mark.parametrize("standard", ["c++11", "c++20"])
def test_standards_and_host_code(standard: str) -> None:
    """Clocks of both sides, a launch as formatters write it, host headers."""
    source = """
    #include <algorithm>
    #include <ctime>
    #if defined(__x86_64__) && __has_include(<immintrin.h>)
    #include <mm_malloc.h>
    #endif
    #include <malloc.h>
    #include <map>
    #include <string>
    #include <unistd.h>
    __global__ void timed(long long *y, clock_t *z) {
      register int unused;
      y[threadIdx.x] = 1 + 0 * clock64();
      z[threadIdx.x] = 2 + 0 * clock();
    }
    int main() {
      clock_t start = clock();
      std::map<std::string, float> seconds;
      timed << < 1, 32 >> > (nullptr, nullptr);
      cudaEvent_t event;
      cudaEventCreate(&event);
      if (cudaGetLastError() != cudaSuccess) fprintf(stderr, "%s", cudaGetErrorString(cudaGetLastError()));
      seconds["all"] = (clock() - start) / (float)CLOCKS_PER_SEC;
    }
    """
    given = workload(
        source, np.zeros(32, np.int64), np.zeros(32, np.int64), build_options=f"-std={standard}"
    )
    out = run(given)
    assert set(out["y"]) == {1}
    assert set(out["z"]) == {2}


@pytest.mark.parametrize("machine", ["v100", "mi250x"])
def test_hip_s_vectors_have_constructors_and_all_operators(machine: str) -> None:
    """Its launches compile, and a pitched pointer is an argument."""
    source = """
    #include <hip/hip_runtime.h>
    __global__ void k(const uchar4 *x, uchar4 *y, int2 *z, float4 *f, const float4 *a, float by, hipPitchedPtr rows, float *second) {
      HIP_DYNAMIC_SHARED(float, unused)
      int i = hipThreadIdx_x + hipBlockIdx_x * hipBlockDim_x;
      uchar b = x[i].y;
      y[i] = ~(x[i] ^ uchar4(b)) & (unsigned char)63;
      y[i] <<= uchar4(1, 0, 1, 0);
      int2 v(b, 3.9);
      v = -v;
      z[i] = v == int2(-b, -3) ? v % int2(5) : int2(0);
      float4 w = a[i] * by + a[i];
      w -= 1.0f;
      f[i] = 2.0f * w + (2 * float4(i) - float4(0, 1, 2.0, 3.f));
      second[i] = ((float *)((char *)rows.ptr + rows.pitch))[i];
    }
    int main() {
      float4 *x;
      if (hipMalloc(&x, 512) != hipSuccess) return 1;
      hipLaunchKernelGGL(k, dim3(1), dim3(32), 0, 0, nullptr, nullptr, nullptr, x, x, 2.0f, hipPitchedPtr(), nullptr);
      hipLaunchKernelGGL(HIP_KERNEL_NAME(k), 1, 32, 0, 0, nullptr, nullptr, nullptr, x, x, 2.0f, hipPitchedPtr(), nullptr);
      return hipDeviceSynchronize();
    }
    """
    x, a = np.arange(64, dtype=np.uint8).reshape(16, 4), floats(64)
    rows = {"ptr": a, "pitch": np.uint64(64), "xsize": np.uint64(64), "ysize": np.uint64(4)}
    out_of = [np.zeros(n, t) for n, t in ((64, np.uint8), (32, np.int32), (64, np.float32))]
    given = workload(source, x.ravel(), *out_of, a, 3.0, rows, np.zeros(16, np.float32), block=16, path="k.hip")  # fmt: skip
    out = run(given, machine)
    np.testing.assert_array_equal(
        out["y"].reshape(16, 4), (~(x ^ x[:, 1:2]) & 63) << np.array([1, 0, 1, 0], np.uint8)
    )
    b = -x[:, 1].astype(np.int32)
    np.testing.assert_array_equal(out["z"].reshape(16, 2), np.stack([np.fmod(b, 5), 0 * b - 3], 1))
    expected = 2 * (4 * a - 1) + (2.0 * np.arange(16)[:, None] - np.arange(4)).ravel()
    np.testing.assert_allclose(out["f"], expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(out["second"], a[16:32])


def test_pointers_to_several_arrays_of_every_kind() -> None:
    source = """
    struct Both { int *p; int *q; };
    __device__ int sum(const int *p, int n) {
      int total = 0;
      for (int k = 0; k < n; ++k) total += p[k];
      return total;
    }
    __device__ void fill(Both both, int n) {
      for (int k = 0; k < n; ++k) both.p[k] = both.q[k] + 1;
    }
    __global__ void k(const int *x, int *y) {
      __shared__ int s[32];
      int i = threadIdx.x, a[4] = {1, 2, 3, 4}, b[4] = {5, 6, 7, 8};
      s[i] = x[i];
      __syncthreads();
      const int *p[4] = {a, b, s, x};
      Both both = {i % 2 ? a : y + 4 * i, i % 3 ? b : s};
      int before = sum(p[x[i] % 4], 4) + sum(i % 2 ? a : b, 4);
      __syncthreads();
      fill(both, 4);
      y[128 + i] = before + a[3] + y[4 * i];
    }
    """
    x, i = np.random.default_rng(0).integers(0, 100, 32).astype(np.int32), np.arange(32)
    sums = np.array([10, 26, x[:4].sum(), x[:4].sum()])
    filled = np.where(i[:, None] % 3, [6, 7, 8, 9], x[:4] + 1)
    odd = i % 2 == 1
    expected = sums[x % 4] + np.where(odd, 10, 26) + np.where(odd, filled[:, 3], 4)
    expected += np.where(odd, 0, filled[:, 0])
    out = run(workload(source, x, np.zeros(160, np.int32)))
    np.testing.assert_array_equal(out["y"][128:], expected)


def test_lanes_may_shuffle_what_has_no_value() -> None:
    source = """
    __device__ int next(int *counter) {
      unsigned active = __activemask();
      int first = __ffs(active) - 1, lane = threadIdx.x & 31, base;
      if (lane == first) base = atomicAdd(counter, __popc(active));
      base = __shfl_sync(active, base, first);
      return base + __popc(active & ((1u << lane) - 1));
    }
    __global__ void large(int *kept, int *n, const int *x) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (x[i] > 50) kept[next(n)] = x[i];
    }
    """
    x = np.random.default_rng(0).integers(0, 100, 256).astype(np.int32)
    arrays = np.zeros(256, np.int32), np.zeros(1, np.int32), x
    out = run(workload(source, *arrays, grid=2, block=128), compiler="clang")
    expected = np.sort(x[x > 50])
    assert out["n"][0] == len(expected)
    np.testing.assert_array_equal(np.sort(out["kept"][: len(expected)]), expected)


@everywhere
def test_what_is_only_printed_is_computed(machine: str, compiler: Any) -> None:
    """A kernel of which nothing is left but what it prints reads as much as one that stores it."""
    text = """#include <cstdio>
__global__ void k(const float *x, int n) {
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += x[i];
  if (sum == 0.5f) printf("%f of %d %p\\n", sum, n, x);
}"""
    given = CudaWorkload(source=text, arguments=[np.ones(256, np.float32), 256], grid=1, block=32)
    trace = tracegen.trace(given, machine, compiler=compiler)
    assert trace.n_granule == 32
    assert "printf is left out." in trace.provenance["compiler"]["notes"]


@everywhere
def test_a_kernel_may_have_a_name_that_a_namespace_in_use_has(machine: str, compiler: Any) -> None:
    source = """namespace lib { template <class T> struct k {}; }
    using namespace lib;
    __global__ void k(float *y) { y[threadIdx.x] = 2; }"""
    made = workload(source, np.zeros(32, np.float32), block=32)
    assert set(run(made, machine, compiler=compiler)["y"]) == {2}
