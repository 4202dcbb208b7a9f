"""What CUDA's own C++ library offers in kernels, compared with numpy, and compiled for GPUs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import memsim
import tracegen
from memsim.errors import KernelError
from tests.support.compilers import needs_nvidia
from tests.support.cuda_kernels import floats, needs_clang, run, workload

pytestmark = needs_clang

SCANS = """
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
__global__ void k(const int *x, int *y) {
  auto block = cg::this_thread_block();
  auto warp = cg::tiled_partition<32>(block);
  auto tile = cg::tiled_partition<8>(warp);
  int i = block.thread_rank();
  y[i] = cg::inclusive_scan(warp, x[i]);
  y[i + 64] = cg::exclusive_scan(tile, x[i], cg::plus<int>());
  y[i + 128] = cg::reduce(tile, x[i], cg::bit_xor<int>());
  auto same = cg::labeled_partition(warp, i % 3);
  y[i + 192] = cg::reduce(same, x[i], cg::plus<int>());
  auto odd = cg::binary_partition(tile, i % 2);
  y[i + 256] = odd.size() * 10 + odd.thread_rank();
  cg::invoke_one(block, [&] { y[320] = block.size(); });
}
"""
ATOMICS = """
#include <cuda/atomic>
#include <cuda/std/array>
#include <cuda/std/limits>
__device__ cuda::atomic<unsigned, cuda::thread_scope_device> total;
__global__ void k(int *y, unsigned *h, float *f) {
  cuda::atomic_ref<int, cuda::thread_scope_device> sum(y[0]);
  sum.fetch_add(2, cuda::memory_order_relaxed);
  cuda::atomic_ref<unsigned, cuda::thread_scope_block> bin{h[threadIdx.x % 4]};
  ++bin;
  total.fetch_sub(1);
  cuda::std::array<int, 2> step{1, 2};
  int expected = sum.load();
  while (!sum.compare_exchange_weak(expected, expected + step[1])) {}
  cuda::atomic_ref<float> real(f[0]);
  real += 0.5f;
  y[1] = cuda::std::numeric_limits<short>::max();
}
"""
HALVES = """
#include <cuda_bf16.h>
#include <cuda_fp16.h>
__global__ void k(const __half2 *x, __half2 *y, __nv_bfloat162 *b, __half2 *sum) {
  int i = threadIdx.x;
  __half2 v = h2sqrt(__habs2(x[i]));
  v += __hfma2(x[i], x[i], h2exp(-x[i]));
  y[i] = v;
  b[i] = __hfma2(b[i], b[i], __float2bfloat162_rn(1.0f)) * b[i];
  atomicAdd(sum, __floats2half2_rn(1.0f, __low2float(b[i]) > 0 ? 2.0f : 0.0f));
}
"""
CONVERSIONS = """
__global__ void k(const float *x, int *y) {
  int i = threadIdx.x;
  float parts[3];
  memcpy(parts, x + i, sizeof parts);
  assert(parts[0] == x[i] && "the same");
  y[i] = __float2int_rd(parts[1]) + 100 * __float2int_ru(parts[2]) + (int)__int2float_rn(i);
}
"""


SINGLES = """
#include <cmath>
__global__ void k(const float *x, float *y) {
  int i = threadIdx.x;
  float a = x[i], b = x[i + 32];
  y[i] = acosh(a + 1) + asinh(a) + atanh(a / 2) + cbrt(a) + erf(a) + erfc(a) + exp2(a) + expm1(a) + lgamma(a + 1)
       + log1p(a) + log2(a + 1) + logb(a + 1) + nearbyint(a) + rint(a) + round(a) + tgamma(a + 1) + trunc(a)
       + ilogb(a + 1) + lrint(a) + lround(a) + llrint(a) + llround(a) + copysign(a, b) + fdim(a, b) + fmax(a, b)
       + fmin(a, b) + hypot(a, b) + nextafter(a, b) + remainder(a, b + 1) + fma(a, b, a) + scalbn(a, 2) + scalbln(a, 2l) + std::round(a)
       + std::fmax(a, b) + std::hypot(a, b);
}
"""
COMPLEX = """
#include <cupy/complex.cuh>
__global__ void k(const complex<float> *x, complex<float> *y, float *z) {
  int i = threadIdx.x;
  complex<float> c = x[i];
  c *= complex<float>(1, 2);
  y[i] = exp(c / complex<float>(3, 0)) + conj(c) * 2.0f;
  z[i] = abs(c) + norm(c) + c.real() + arg(c);
}
"""


def test_complex_numbers_of_cupy_and_thrust() -> None:
    x = (floats(32) + 1j * floats(32, seed=1)).astype(np.complex64)
    out = run(workload(COMPLEX, x, np.zeros_like(x), np.zeros(32, np.float32)))
    c = x * (1 + 2j)
    np.testing.assert_allclose(out["y"], np.exp(c / 3) + 2 * np.conj(c), rtol=1e-5)
    expected = abs(c) + abs(c) ** 2 + c.real + np.angle(c)
    np.testing.assert_allclose(out["z"], expected, rtol=1e-5)


def test_pointers_and_numbers_as_values_of_variables() -> None:
    source = """
    __device__ float *values;
    __constant__ const float *factors;
    __device__ float bias;
    __constant__ unsigned shift;
    __global__ void k(float *y) {
      y[threadIdx.x] = values[threadIdx.x + shift] * factors[1] + bias;
      values[threadIdx.x] = 5;
    }"""
    values = floats(33)
    symbols = {"values": values, "factors": np.array([1, 2], np.float32), "bias": 0.5, "shift": 1}
    out = run(workload(source, np.zeros(32, np.float32), symbols=symbols))
    np.testing.assert_allclose(out["y"], 2 * values[1:] + 0.5)
    np.testing.assert_array_equal(out["*values"], [5] * 32 + [values[32]])


def test_scans_and_partitions() -> None:
    x = np.random.default_rng(0).integers(0, 99, 64).astype(np.int32)
    i = np.arange(64)
    out = run(workload(SCANS, x, np.zeros(321, np.int32), block=64))["y"]
    np.testing.assert_array_equal(out[:64], np.cumsum(x.reshape(2, 32), axis=1).ravel())
    tiles = x.reshape(8, 8)
    np.testing.assert_array_equal(out[64:128], (np.cumsum(tiles, axis=1) - tiles).ravel())
    np.testing.assert_array_equal(out[128:192], np.repeat(np.bitwise_xor.reduce(tiles, axis=1), 8))
    together = (i[:, None] // 32 == i // 32) & (i[:, None] % 3 == i % 3)
    np.testing.assert_array_equal(out[192:256], together @ x)
    np.testing.assert_array_equal(out[256:320], 40 + i % 8 // 2)
    assert out[320] == 64


def test_atomic_operations() -> None:
    arrays = [np.zeros(2, np.int32), np.zeros(4, np.uint32), np.zeros(1, np.float32)]
    made = workload(ATOMICS, *arrays)
    out = run(made)
    np.testing.assert_array_equal(out["y"], [32 * 4, 32767])
    np.testing.assert_array_equal(out["h"], [8] * 4)
    assert out["f"][0] == 16
    assert out["total"].view(np.int32)[0] == -32
    directions = {site.array: site.direction for site in tracegen.trace(made).sites if site.name != "store y[1]"}  # fmt: skip
    assert directions["h"] == directions["f"] == directions["total"] == "atomic"


def _halves() -> list[Any]:
    x = (floats(64) - 0.5).astype(np.float16)
    b = (floats(64).view(np.uint32) >> 16).astype(np.uint16)
    return [x, np.zeros(64, np.float16), b, np.zeros(2, np.float16)]


def test_two_short_floats_at_a_time() -> None:
    given = _halves()
    x, before = given[0].astype(np.float32), _single(given[2])
    out = run(workload(HALVES, *given))
    np.testing.assert_allclose(out["y"], np.sqrt(abs(x)) + x * x + np.exp(-x), rtol=4e-3)
    np.testing.assert_allclose(_single(out["b"]), (before**2 + 1) * before, rtol=2e-2)
    np.testing.assert_array_equal(out["sum"], [32, 64])


def _single(bits: Any) -> Any:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def test_conversions() -> None:
    x = 10 * floats(34)
    out = run(workload("#include <assert.h>\n" + CONVERSIONS, x, np.zeros(32, np.int32)))["y"]
    np.testing.assert_array_equal(out, np.floor(x[1:33]) + 100 * np.ceil(x[2:]) + np.arange(32))


@needs_nvidia
@pytest.mark.parametrize("machine", ["v100", "a100", "mi250x"])
def test_they_compile_for_gpus(machine: str) -> None:
    integers = np.ones(64, np.int32)
    for source, arguments in (
        (SCANS, [integers, np.zeros(321, np.int32)]),
        (ATOMICS, [np.zeros(2, np.int32), np.zeros(4, np.uint32), np.zeros(1, np.float32)]),
        (HALVES, _halves()),
        ("#include <assert.h>\n" + CONVERSIONS, [floats(66), integers]),
        (SINGLES, [floats(64), np.zeros(32, np.float32)]),
        (COMPLEX, [np.ones(32, np.complex64), np.zeros(32, np.complex64), floats(32)]),
    ):
        made = workload(source, *arguments, block=64 if source == SCANS else 32)
        compiler = tracegen.trace(made, memsim.load_machine(machine)).provenance["compiler"]
        assert "missing" not in compiler, compiler["missing"]


def test_a_function_as_an_argument_of_a_template() -> None:
    source = """
    typedef float (*Function)(float);
    __device__ float squared(float a) { return a * a; }
    template <Function f> __global__ void k(float *y) { y[threadIdx.x] = f(threadIdx.x); }"""
    out = run(workload(source, np.zeros(32, np.float32), kernel="k<squared>"))["y"]
    np.testing.assert_array_equal(out, np.arange(32) ** 2)


@pytest.mark.parametrize(
    ("source", "arguments", "message"),
    [
        (
            "#include <cub/cub.cuh>\n__global__ void k(int *y, int n) {\n"
            "  typedef cub::BlockReduce<int, 32> R;\n}",
            [np.zeros(4, np.int32), 1],
            r"t.cu:3: code of cub cannot be traced: its headers are not read",
        ),
        (
            "#include <cooperative_groups.h>\n__global__ void k(int *y, int n) {\n"
            "  cooperative_groups::this_cluster().sync();\n}",
            [np.zeros(4, np.int32), 1],
            r"t.cu:3: a cluster of thread blocks cannot be traced",
        ),
        (
            "__global__ void k(int *y, int n) {\n"
            "  y[0] = __builtin_amdgcn_update_dpp(0, n, 273, 15, 15, false);\n}",
            [np.zeros(4, np.int32), 1],
            r"t.cu:2: the instruction __builtin_amdgcn_update_dpp cannot be traced",
        ),
        (
            "__global__ void k(int *y, int n) {\n  y[0] = threadIdx.x / n;\n}",
            [np.zeros(4, np.int32), 0],
            r"the run of the kernel crashed \(SIGFPE\): it divided an integer by zero",
        ),
        (
            "__global__ void k(int *y, int n) {\n  y[n] = 1;\n}",
            [None, 0],
            r"t.cu:2: access store y\[n\] is through y, which is empty or None; thread 0 of block 0",
        ),
    ],
)
def test_refused(source: str, arguments: list[Any], message: str) -> None:
    with pytest.raises(KernelError, match=rf"^{message}$"):
        tracegen.trace(workload(source, *arguments, path="t.cu"))


def test_threads_give_way_and_no_access_is_lost() -> None:
    """Threads of a warp take turns of 128 tokens; each has 1000 here, and lanes differ in number."""
    source = """
    __global__ void k(const int *x, int *y) {
      int i = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;
      for (int j = 0; j < 500 + 13 * i; ++j) sum += x[64 * (j % 7) + i];
      y[i] = sum;
    }"""
    x = np.random.default_rng(0).integers(0, 99, (7, 64)).astype(np.int32)
    made = workload(source, x, np.zeros(64, np.int32), block=32, grid=2)
    turns = 500 + 13 * np.arange(64)
    expected = [x[np.arange(n) % 7, i].sum() for i, n in enumerate(turns)]
    np.testing.assert_array_equal(run(made)["y"], expected)
    trace = tracegen.trace(made, reduced=False)
    assert trace.lanes[trace.site == 0].sum(dtype=int) == turns.sum()
    first = trace.lanes[: trace.subgroup_offset[1]][trace.site[: trace.subgroup_offset[1]] == 0]
    assert list(first) == [int((turns[:32] > j).sum()) for j in range(turns[31])]
