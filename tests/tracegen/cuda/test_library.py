"""Functions that CUDA and HIP declare for kernels, compared with numpy and scipy: as NVRTC, clang and AMD's libraries have them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy import special

import tracegen
from tests.support.cuda_kernels import floats, needs_clang, run, workload

pytestmark = needs_clang
TARGETS = [("a100", "auto"), ("a100", "clang"), ("mi250x", "auto")]


def everywhere(test: Any) -> Any:
    """With each compiler, one of them each week."""
    each = pytest.mark.parametrize(("machine", "compiler"), TARGETS)
    return pytest.mark.weekly(len(TARGETS))(each(test))


MATHEMATICS = {
    "rhypot(v, 1.0)": lambda v: 1 / np.hypot(v, 1),
    "norm3d(v, 1.0, 2.0)": lambda v: np.sqrt(v * v + 5),
    "rnorm4d(v, 1.0, 1.0, 1.0)": lambda v: 1 / np.sqrt(v * v + 3),
    "rcbrt(v)": lambda v: 1 / np.cbrt(v),
    "erfinv(v)": special.erfinv,
    "erfinv(-v)": lambda v: -special.erfinv(v),
    "erfcinv(v)": special.erfcinv,
    "erfcinv(1e-9 * v)": lambda v: special.erfcinv(1e-9 * v),
    "erfcinv(2 - v)": lambda v: special.erfcinv(2 - v),
    "normcdfinv(v)": special.ndtri,
    "erfcx(3 * v)": lambda v: special.erfcx(3 * v),
    "erfcx(40 + v)": lambda v: special.erfcx(40 + v),
    "cyl_bessel_i0(9 * v)": lambda v: special.i0(9 * v),
    "cyl_bessel_i1(9 * v)": lambda v: special.i1(9 * v),
    "j0(v) + y1(v)": lambda v: special.j0(v) + special.y1(v),
    "erfinvf(v)": special.erfinv,
    "__powf(v, 2.0f) + exp10f(v)": lambda v: v**2 + 10**v,
    "tgamma(v) + lgamma(v)": lambda v: special.gamma(v) + special.gammaln(v),
}


@everywhere
def test_mathematics(machine: str, compiler: Any) -> None:
    lines = "\n".join(f"  y[32 * {k} + i] = {text};" for k, text in enumerate(MATHEMATICS))
    source = f"__global__ void k(const double *x, double *y) {{\n  int i = threadIdx.x; double v = x[i];\n{lines}\n}}"
    v = 0.01 + 0.97 * floats(32).astype(np.float64)
    found = run(workload(source, v, np.zeros(32 * len(MATHEMATICS))), machine, compiler=compiler)[
        "y"
    ].reshape(-1, 32)
    for (text, expected), values in zip(MATHEMATICS.items(), found, strict=True):
        is_single = "f(" in text
        np.testing.assert_allclose(
            values, expected(v), rtol=1e-5 if is_single else 1e-9, err_msg=text
        )


def bytes_of(words: Any, dtype: Any) -> Any:
    return words.view(dtype).reshape(len(words), -1).astype(np.int64)


WORDS = {
    "__rhadd((int)a, (int)b)": lambda a, b: (a.view(np.int32).astype(np.int64) + b.view(np.int32) + 1) >> 1,
    "__urhadd(a, b)": lambda a, b: (a.astype(np.int64) + b + 1) >> 1,
    "__funnelshift_lc(a, b, 5)": lambda a, b: (b.astype(np.int64) << 5) | (a >> 27),
    "__funnelshift_lc(a, b, 40)": lambda a, b: a,
    "__funnelshift_rc(a, b, 9)": lambda a, b: ((b.astype(np.int64) << 32) | a) >> 9,
}  # fmt: skip
EACH = {
    "__vadd": ("u", lambda a, b, m: a + b),
    "__vsub": ("u", lambda a, b, m: a - b),
    "__vabsdiffu": ("u", lambda a, b, m: abs(a - b)),
    "__vavgu": ("u", lambda a, b, m: (a + b + 1) // 2),
    "__vaddus": ("u", lambda a, b, m: np.minimum(a + b, m)),
    "__vsubus": ("u", lambda a, b, m: np.maximum(a - b, 0)),
    "__vmaxu": ("u", lambda a, b, m: np.maximum(a, b)),
    "__vcmpgtu": ("u", lambda a, b, m: np.where(a > b, -1, 0)),
    "__vseteq": ("u", lambda a, b, m: a == b),
    "__vcmpleu": ("u", lambda a, b, m: np.where(a <= b, -1, 0)),
    "__vsetges": ("i", lambda a, b, m: a >= b),
    "__vcmpne": ("u", lambda a, b, m: np.where(a != b, -1, 0)),
    "__vmins": ("i", lambda a, b, m: np.minimum(a, b)),
    "__vaddss": ("i", lambda a, b, m: np.clip(a + b, -m // 2, m // 2)),
    "__vsubss": ("i", lambda a, b, m: np.clip(a - b, -m // 2, m // 2)),
    "__vabsss": ("i", lambda a, b, m: np.minimum(abs(a), m // 2)),
    "__vnegss": ("i", lambda a, b, m: np.minimum(-a, m // 2)),
    "__vcmplts": ("i", lambda a, b, m: np.where(a < b, -1, 0)),
}


@everywhere
def test_integers_and_several_in_a_word(machine: str, compiler: Any) -> None:
    is_amd = machine == "mi250x"
    names = [
        *WORDS,
        *(
            f"{name}{n}({'a' if name.endswith('sss') or 'neg' in name else 'a, b'})"
            for name in EACH
            for n in (2, 4)
            # clang 19 for AMD compares the upper two of four bytes with nothing.
            if not (is_amd and (name, n) == ("__vabsdiffu", 4))
        ),
    ]
    lines = "\n".join(f"  y[32 * {k} + i] = {text};" for k, text in enumerate(names))
    source = f"__global__ void k(const unsigned *x, unsigned *y) {{\n  int i = threadIdx.x; unsigned a = x[2 * i], b = x[2 * i + 1];\n{lines}\n}}"
    x = np.random.default_rng(0).integers(0, 1 << 32, 64, dtype=np.uint32)
    x[:8:2] = x[1:8:2]
    found = run(
        workload(source, x, np.zeros(32 * len(names), np.uint32)), machine, compiler=compiler
    )["y"].reshape(-1, 32)
    a, b = x[::2].copy(), x[1::2].copy()
    for name, values in zip(names, found, strict=True):
        if name in WORDS:
            expected = (WORDS[name](a, b) & 0xFFFFFFFF).astype(np.uint32)
        else:
            size = 4 // int(name.partition("(")[0][-1])
            kind, step = EACH[name.partition("(")[0][:-1]]
            dtype = np.dtype(f"{kind}{size}")
            each = step(bytes_of(a, dtype), bytes_of(b, dtype), 256**size - 1)
            expected = each.astype(np.int64).astype(dtype).view(np.uint32).ravel()
        np.testing.assert_array_equal(values, expected, err_msg=name)


HALVES = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
__global__ void k(const half *x, half *y, unsigned short *bits, half *sum, const __nv_bfloat16 *b, __nv_bfloat16 *c) {
  int i = threadIdx.x;
  half v = __hadd(__habs(x[i]), __ushort_as_half(0x3c00));
  bits[i] = __half_as_ushort(v);
  half2 p = __hmax2(__halves2half2(v, x[i]), __float2half2_rn(0.5f));
  y[i] = __hisnan(v) ? half(0) : __hadd(__hadd(p.x, p.y), hfloor(v));
  atomicAdd(sum, half(1));
  c[i] = __hmax(hrcp(b[i]), __float2bfloat16(0.25f));
}
"""


def halves() -> list[Any]:
    h = (np.arange(32, dtype=np.float16) - 16) / 4
    powers = (2.0 ** np.arange(-16, 16)).astype(
        np.float32
    )  # bfloat16 holds these and their reciprocals
    b = (powers.view(np.uint32) >> 16).astype(np.uint16)
    return [h, np.zeros_like(h), np.zeros(32, np.uint16), np.zeros(1, np.float16), b, np.zeros_like(b)]  # fmt: skip


@everywhere
def test_half_and_bfloat16(machine: str, compiler: Any) -> None:
    arguments = halves()
    out = run(workload(HALVES, *arguments), machine, compiler=compiler)
    h, v = arguments[0], np.abs(arguments[0]) + np.float16(1)
    np.testing.assert_array_equal(out["bits"].view(np.float16), v)
    expected = np.maximum(v, 0.5) + np.maximum(h, 0.5) + np.floor(v)
    np.testing.assert_array_equal(out["y"], expected.astype(np.float16))
    assert out["sum"] == 32
    widened = (out["c"].astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_array_equal(widened, np.maximum(2.0 ** -np.arange(-16.0, 16), 0.25))


GROUPS = """
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
using namespace cooperative_groups;
__device__ int sum(thread_group group, int *held, int v) {
  int rank = group.thread_rank();
  for (int k = group.size() / 2; k > 0; k /= 2) {
    held[rank] = v;
    group.sync();
    if (rank < k) v += held[rank + k];
    group.sync();
  }
  return v;
}
__device__ int next(int *counter) {
  coalesced_group group = coalesced_threads();
  int first;
  if (group.thread_rank() == 0) first = atomicAdd(counter, group.size());
  return group.shfl(first, 0) + group.thread_rank();
}
__global__ void k(const int *x, int *y, int *kept, int *n) {
  __shared__ int held[64];
  auto block = this_thread_block();
  thread_block_tile<16, thread_block> tile = tiled_partition<16>(block);
  auto quarter = tiled_partition<4>(tile);
  int i = block.thread_rank();
  y[i] = reduce(tile, x[i], plus<int>()) + 1000 * quarter.shfl(i, 0);
  if (x[i] % 3 == 0) {
    kept[next(n)] = x[i];
    auto group = coalesced_threads();
    y[i] += 100000 * group.ballot(group.thread_rank() == 1) + 1000000 * group.all(x[i] % 3 == 0);
  }
  int total = sum(block, held, x[i]), part = sum(tiled_partition(block, 8), held + i / 8 * 8, x[i]);
  if (i == 0) y[64] = total;
  if (i % 8 == 0) y[65 + i / 8] = part;
}
"""


def grouped() -> list[Any]:
    x = np.random.default_rng(0).integers(0, 100, 64).astype(np.int32)
    return [x, np.zeros(73, np.int32), np.zeros(64, np.int32), np.zeros(1, np.int32)]


@pytest.mark.weekly(2)
@pytest.mark.parametrize("machine", ["a100", "h200"])
def test_nvrtc_reduces_over_chosen_lanes(machine: str) -> None:
    """`REDUX` behind `WARPSYNC.EXCLUSIVE`; the expected values are of each lane's warp and of the lanes alike in it."""
    x = np.random.default_rng(0).integers(-50, 50, 64).astype(np.int32)
    given = workload(CHOSEN, x, np.zeros(192, np.int32), block=64)
    least, sums, parts = run(given, machine, compiler="nvrtc")["y"].reshape(3, 64)
    np.testing.assert_array_equal(least, x.reshape(4, 16).min(1).repeat(16))
    for i in range(64):
        warp = np.arange(i // 32 * 32, i // 32 * 32 + 32)
        assert sums[i] == x[warp[warp % 3 == i % 3]].sum()
        alike = x[warp[(x[warp] > 0) == (x[i] > 0)]]
        assert parts[i] == (np.bitwise_and.reduce(alike) if x[i] > 0 else alike.max())


@everywhere
def test_tiles_and_coalesced_threads(machine: str, compiler: Any) -> None:
    x = grouped()[0]
    out = run(workload(GROUPS, *grouped(), block=64), machine, compiler=compiler)
    i, chosen = np.arange(64), x % 3 == 0
    expected = x.reshape(4, 16).sum(1).repeat(16) + 1000 * (i // 4 * 4)
    np.testing.assert_array_equal(out["y"][:64], expected + chosen * (200000 + 1000000))
    assert out["y"][64] == x.sum()
    np.testing.assert_array_equal(out["y"][65:], x.reshape(8, 8).sum(1))
    assert out["n"] == chosen.sum()
    np.testing.assert_array_equal(np.sort(out["kept"][: chosen.sum()]), np.sort(x[chosen]))


@everywhere
def test_complex_numbers(machine: str, compiler: Any) -> None:
    source = """
    #include <cuComplex.h>
    #include <math_constants.h>
    __global__ void k(const cuFloatComplex *x, cuFloatComplex *y, cuDoubleComplex *z) {
      int i = threadIdx.x;
      y[i] = cuCdivf(cuCmulf(x[i], make_cuFloatComplex(1, 2)), cuConjf(x[i]));
      z[i] = make_cuDoubleComplex(cuCabsf(x[i]), CUDART_PI);
    }
    """
    x = 1 + np.arange(64, dtype=np.float32)
    out = run(workload(source, x, np.zeros_like(x), np.zeros(64)), machine, compiler=compiler)
    c = x.view(np.complex64)
    np.testing.assert_allclose(out["y"].view(np.complex64), c * (1 + 2j) / c.conj(), rtol=1e-5)
    np.testing.assert_allclose(out["z"].view(np.complex128), np.abs(c) + np.pi * 1j, rtol=1e-6)


HIP = """
#include <hip/hip_runtime.h>
#include <hip/hip_bfloat16.h>
#include <hip/hip_complex.h>
__global__ __launch_bounds__(64) void k(const int *x, int *y, hipFloatComplex *z) {
  int i = hipThreadIdx_x, lane = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0));
  int first = __builtin_amdgcn_readfirstlane(x[i]), next = __builtin_amdgcn_ds_bpermute((i + 1) % 64 * 4, x[i]);
  __builtin_amdgcn_s_barrier();
  y[i] = first + 1000 * next + 1000000 * lane;
  z[i] = hipCmulf(make_hipFloatComplex(i, 1), make_hipFloatComplex(0, 1));
}
"""


def test_names_of_amd() -> None:
    x = np.random.default_rng(0).integers(0, 100, 64).astype(np.int32)
    given = workload(HIP, x, np.zeros_like(x), np.zeros(128, np.float32), block=64, path="k.hip")
    out = run(given, "mi250x")
    i = np.arange(64)
    np.testing.assert_array_equal(out["y"], x[0] + 1000 * np.roll(x, -1) + 1000000 * i)
    np.testing.assert_array_equal(out["z"].view(np.complex64), (i + 1j) * 1j)


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
CHOSEN = """
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
__global__ void k(const int *x, int *y) {
  int i = threadIdx.x, v = x[i];
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  y[i] = cg::reduce(cg::tiled_partition<16>(warp), v, cg::less<int>());
  y[i + 64] = cg::reduce(cg::labeled_partition(warp, i % 3), v, cg::plus<int>());
  auto part = cg::binary_partition(warp, v > 0);
  if (v > 0) y[i + 128] = cg::reduce(part, v, cg::bit_and<int>());
  else y[i + 128] = cg::reduce(part, v, cg::greater<int>());
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
PAIRS = """
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


@everywhere
def test_functions_overloaded_for_single_precision(machine: str, compiler: Any) -> None:
    x = floats(64)
    found = run(workload(SINGLES, x, np.zeros(32, np.float32)), machine, compiler=compiler)["y"]
    a, b = x[:32].astype(float), x[32:].astype(float)
    near, away = np.rint(a), np.floor(a + 0.5)  # 1 <= a + 1 < 2 has the exponent 0
    of_one = [
        np.arccosh(a + 1),
        np.arcsinh(a),
        np.arctanh(a / 2),
        np.cbrt(a),
        special.erf(a),
        special.erfc(a),
    ]
    of_one += [
        np.exp2(a),
        np.expm1(a),
        special.gammaln(a + 1),
        np.log1p(a),
        np.log2(a + 1),
        special.gamma(a + 1),
    ]
    of_two = [a, np.maximum(a - b, 0), np.maximum(a, b), np.minimum(a, b), np.hypot(a, b), a]
    of_two += [
        a - np.rint(a / (b + 1)) * (b + 1),
        a * b + a,
        4 * a,
        4 * a,
        np.maximum(a, b),
        np.hypot(a, b),
    ]
    np.testing.assert_allclose(found, sum(of_one + of_two) + 4 * near + 4 * away, rtol=1e-5)


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


@everywhere
def test_complex_numbers_of_cupy_and_thrust(machine: str, compiler: Any) -> None:
    x = (floats(32) + 1j * floats(32, seed=1)).astype(np.complex64)
    out = run(
        workload(COMPLEX, x, np.zeros_like(x), np.zeros(32, np.float32)), machine, compiler=compiler
    )
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


@everywhere
def test_scans_and_partitions(machine: str, compiler: Any) -> None:
    x = np.random.default_rng(0).integers(0, 99, 64).astype(np.int32)
    i = np.arange(64)
    out = run(workload(SCANS, x, np.zeros(321, np.int32), block=64), machine, compiler=compiler)[
        "y"
    ]
    np.testing.assert_array_equal(out[:64], np.cumsum(x.reshape(2, 32), axis=1).ravel())
    tiles = x.reshape(8, 8)
    np.testing.assert_array_equal(out[64:128], (np.cumsum(tiles, axis=1) - tiles).ravel())
    np.testing.assert_array_equal(out[128:192], np.repeat(np.bitwise_xor.reduce(tiles, axis=1), 8))
    together = (i[:, None] // 32 == i // 32) & (i[:, None] % 3 == i % 3)
    np.testing.assert_array_equal(out[192:256], together @ x)
    np.testing.assert_array_equal(out[256:320], 40 + i % 8 // 2)
    assert out[320] == 64


@everywhere
def test_atomic_operations(machine: str, compiler: Any) -> None:
    arrays = [np.zeros(2, np.int32), np.zeros(4, np.uint32), np.zeros(1, np.float32)]
    made = workload(ATOMICS, *arrays)
    out = run(made, machine, compiler=compiler)
    np.testing.assert_array_equal(out["y"], [32 * 4, 32767])
    np.testing.assert_array_equal(out["h"], [8] * 4)
    assert out["f"][0] == 16
    assert out["total"].view(np.int32)[0] == -32
    directions = {site.array: site.direction for site in tracegen.trace(made, machine, compiler=compiler).sites if site.name != "store y[1]"}  # fmt: skip
    assert directions["h"] == directions["f"] == directions["total"] == "atomic"


def _pairs() -> list[Any]:
    x = (floats(64) - 0.5).astype(np.float16)
    b = (floats(64).view(np.uint32) >> 16).astype(np.uint16)
    return [x, np.zeros(64, np.float16), b, np.zeros(2, np.float16)]


@everywhere
def test_two_short_floats_at_a_time(machine: str, compiler: Any) -> None:
    given = _pairs()
    x, before = given[0].astype(np.float32), _single(given[2])
    out = run(workload(PAIRS, *given), machine, compiler=compiler)
    np.testing.assert_allclose(out["y"], np.sqrt(abs(x)) + x * x + np.exp(-x), rtol=4e-3)
    np.testing.assert_allclose(_single(out["b"]), (before**2 + 1) * before, rtol=2e-2)
    np.testing.assert_array_equal(out["sum"], [32, 64])


def _single(bits: Any) -> Any:
    return (bits.astype(np.uint32) << 16).view(np.float32)


@everywhere
def test_conversions(machine: str, compiler: Any) -> None:
    x = 10 * floats(34)
    out = run(
        workload("#include <assert.h>\n" + CONVERSIONS, x, np.zeros(32, np.int32)),
        machine,
        compiler=compiler,
    )["y"]
    np.testing.assert_array_equal(out, np.floor(x[1:33]) + 100 * np.ceil(x[2:]) + np.arange(32))


def test_a_function_as_an_argument_of_a_template() -> None:
    source = """
    typedef float (*Function)(float);
    __device__ float squared(float a) { return a * a; }
    template <Function f> __global__ void k(float *y) { y[threadIdx.x] = f(threadIdx.x); }"""
    out = run(workload(source, np.zeros(32, np.float32), kernel="k<squared>"))["y"]
    np.testing.assert_array_equal(out, np.arange(32) ** 2)


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
COPIES = """
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


@pytest.mark.weekly(2)
@pytest.mark.parametrize("source", [PRIMITIVES, COPIES, BARRIER, PIPELINE])
def test_copies_are_loads(source: str) -> None:
    """Each element is loaded once: by 4 bytes for each thread, or by 16 for a quarter of them where the program says that they are aligned."""
    made = _made(source)
    turned = floats(256).reshape(4, 64)[:, ::-1]
    np.testing.assert_array_equal(run(made)["y"].reshape(4, 64), turned)
    trace = tracegen.trace(made, "a100")
    assert "nvrtc" in trace.provenance["compiler"]
    loads = [k for k, site in enumerate(trace.sites) if site.direction == "load"]
    assert {trace.sites[k].array for k in loads} == {"x"}
    lanes: Counter[int] = Counter()
    for k in loads:
        lanes[trace.sites[k].itemsize_bytes] += int(trace.lanes[trace.site == k].sum(dtype=int))
    assert +lanes == ({16: 64} if source == BARRIER else {4: 256})


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


def test_what_lies_behind_an_array_is_not_copied() -> None:
    """44 bytes in chunks of 16: of the last one 4 bytes are zero, and a fourth chunk has none to copy."""
    source = """
    #include <cuda_pipeline.h>
    __global__ void k(const char *x, char *y, int n) {
      __shared__ __align__(16) char s[64];
      int i = threadIdx.x, left = max(0, min(16, n - 16 * i));
      if (i < 4) __pipeline_memcpy_async(s + 16 * i, x + 16 * i, 16, 16 - left);
      __pipeline_commit();
      __pipeline_wait_prior(0);
      __syncthreads();
      y[i] = s[i];
    }"""
    x = np.arange(1, 45, dtype=np.int8)
    for machine in ("a100", "h200"):
        out = run(
            workload(source, x, np.full(64, 9, np.int8), 44, block=64), machine, compiler="nvrtc"
        )["y"]
        np.testing.assert_array_equal(out, [*x, *[0] * 20])


def test_pairs_by_the_names_of_amd() -> None:
    source = """
    #include <hip/hip_runtime.h>
    #include <hip/hip_fp16.h>
    #include <hip/hip_bf16.h>
    __global__ void k(__half2 *h, __hip_bfloat162 *b, float *y) {
      float v = threadIdx.x % 4;
      unsafeAtomicAdd(h, __half2(v, 1.0f));
      unsafeAtomicAdd(b, __hip_bfloat162(v, __float2bfloat16(1.0f)));
      __half one = 1.0f;
      y[threadIdx.x] = (float)(+one * one) * __bfloat1622float2(__hip_bfloat162(v, v + 1)).y;
    }
    """
    given = np.zeros(2, np.float16), np.zeros(2, np.uint16), np.zeros(64, np.float32)
    out = run(workload(source, *given, block=64, path="k.hip"), "mi250x")
    np.testing.assert_array_equal(out["h"], [96, 64])
    np.testing.assert_array_equal(_single(out["b"]), [96, 64])
    np.testing.assert_array_equal(out["y"], np.arange(64) % 4 + 1)


@pytest.mark.parametrize(
    ("kind", "bits", "bias", "largest", "nan"),
    [("e4m3", 3, 7, 448, 0x7F), ("e5m2", 2, 15, 57344, 0x7F), ("e4m3_fnuz", 3, 8, 240, 0x80), ("e5m2_fnuz", 2, 16, 57344, 0x80)],
)  # fmt: skip
def test_numbers_of_8_bits_by_the_names_of_amd(
    kind: str, bits: int, bias: int, largest: float, nan: int
) -> None:
    """Each code, and single-precision numbers that lie between two: the nearer one, or that with an even code."""
    source = f"""
    #include <hip/hip_runtime.h>
    #include <hip/hip_fp8.h>
    __global__ void k(const unsigned char *codes, float *values, const float *x, unsigned *made) {{
      int i = threadIdx.x;
      __hip_fp8_{kind} v;
      v.__x = codes[i];
      values[i] = v.__default_interpret == __HIP_{kind.upper()} ? (float)v : -1.0f;
      float4 four = __hip_fp8x4_{kind}(float4(x[i], -x[i], 1, 0));
      made[i] = __hip_fp8x4_{kind}(four).__x;
    }}
    """
    codes = np.arange(256, dtype=np.uint8)
    exponent, units = (codes & 127) >> bits, (codes & (1 << bits) - 1).astype(np.float64)
    sizes = np.where(exponent, units + (1 << bits), units) * 2.0 ** (np.maximum(exponent, 1.0) - bias - bits)  # fmt: skip
    n = int(np.searchsorted(sizes[:128], largest)) + 1
    finite, rng = sizes[:n], np.random.default_rng(0)
    lower = rng.integers(0, n - 1, 253)
    share = rng.choice([0.0, 0.25, 0.5, 0.75], 253)
    x = np.concatenate([finite[lower] * (1 - share) + finite[lower + 1] * share, [1e30, np.inf, np.nan]])  # fmt: skip
    nearest = np.where(share == 0.5, lower + lower % 2, lower + (share > 0.5))
    given = codes, np.zeros(256, np.float32), x.astype(np.float32), np.zeros(256, np.uint32)
    out = run(workload(source, *given, block=256, path="k.hip"), "mi250x")
    np.testing.assert_array_equal(out["values"][:n], finite)
    positive = out["made"] & 0xFF
    np.testing.assert_array_equal(positive, [*nearest, n - 1, n - 1, nan])
    is_zero = (positive[:253] == 0) & ("fnuz" in kind)
    np.testing.assert_array_equal((out["made"] >> 8)[:253] & 0xFF, positive[:253] | ~is_zero * 0x80)
    assert set(out["made"] >> 16) == {bias << bits}
    start = 129 if "fnuz" in kind else 128
    np.testing.assert_array_equal(out["values"][start : 128 + n], -finite[start - 128 :])
    assert np.isnan(out["values"][nan])


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
    equal = (x[:, None] == x).astype(np.uint64)
    bits = np.left_shift(np.uint64(1), np.arange(64, dtype=np.uint64))
    whole = (equal * bits).sum(axis=1, dtype=np.uint64)
    half = np.where(np.arange(64) < 32, whole & np.uint64(0xFFFFFFFF), whole >> np.uint64(32))
    parts = np.repeat(np.bitwise_xor.reduce(x.reshape(8, 8), axis=1), 8)
    expected = whole + half + np.uint64(x.sum() + x.min()) + parts.astype(np.uint64)
    np.testing.assert_array_equal(run(made, "mi250x")["y"], expected)
