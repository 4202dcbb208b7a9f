"""Functions that CUDA and HIP declare for kernels, compared with numpy and scipy: as NVRTC, clang and AMD's libraries have them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy import special

import tracegen
from tests.support.cuda_kernels import floats, needs_clang, run, workload
from tests.tracegen.cuda.everywhere import everywhere

pytestmark = needs_clang

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


OF_NUMBERS = """
#include <assert.h>
#include <cmath>
#include <cuComplex.h>
#include <math_constants.h>
__global__ void k(const double *doubles, double *of_doubles, const float *singles, float *of_singles, int *converted,
                  const cuFloatComplex *c, cuFloatComplex *quotients, cuDoubleComplex *sizes) {
  int i = threadIdx.x;
  { double v = doubles[i], *y = of_doubles;
MATHEMATICS
  }
  {
    float a = singles[i], b = singles[i + 32];
    of_singles[i] = acosh(a + 1) + asinh(a) + atanh(a / 2) + cbrt(a) + erf(a) + erfc(a) + exp2(a) + expm1(a) + lgamma(a + 1)
       + log1p(a) + log2(a + 1) + logb(a + 1) + nearbyint(a) + rint(a) + round(a) + tgamma(a + 1) + trunc(a)
       + ilogb(a + 1) + lrint(a) + lround(a) + llrint(a) + llround(a) + copysign(a, b) + fdim(a, b) + fmax(a, b)
       + fmin(a, b) + hypot(a, b) + nextafter(a, b) + remainder(a, b + 1) + fma(a, b, a) + scalbn(a, 2) + scalbln(a, 2l) + std::round(a)
       + std::fmax(a, b) + std::hypot(a, b);
  }
  float parts[3];
  memcpy(parts, singles + i, sizeof parts);
  assert(parts[0] == singles[i] && "the same");
  converted[i] = __float2int_rd(10 * parts[1]) + 100 * __float2int_ru(10 * parts[2]) + (int)__int2float_rn(i);
  quotients[i] = cuCdivf(cuCmulf(c[i], make_cuFloatComplex(1, 2)), cuConjf(c[i]));
  sizes[i] = make_cuDoubleComplex(cuCabsf(c[i]), CUDART_PI);
}
"""


def of_singles(a: Any, b: Any) -> Any:
    near, away = np.rint(a), np.floor(a + 0.5)  # 1 <= a + 1 < 2 has the exponent 0
    of_one = [
        *(
            f(a)
            for f in (np.arcsinh, np.cbrt, special.erf, special.erfc, np.exp2, np.expm1, np.log1p)
        ),
        *(f(a + 1) for f in (np.arccosh, special.gammaln, np.log2, special.gamma)),
        np.arctanh(a / 2),
    ]
    least, most, length = np.minimum(a, b), np.maximum(a, b), np.hypot(a, b)
    of_two = [a, np.maximum(a - b, 0), most, least, length, a]
    of_two += [a - np.rint(a / (b + 1)) * (b + 1), a * b + a, 4 * a, 4 * a, most, length]
    return sum(of_one + of_two) + 4 * near + 4 * away


@everywhere
def test_functions_of_real_and_complex_numbers(machine: str, compiler: Any) -> None:
    lines = "\n".join(f"  y[32 * {k} + i] = {text};" for k, text in enumerate(MATHEMATICS))
    v, x = 0.01 + 0.97 * floats(32).astype(np.float64), floats(64)
    c = (1 + np.arange(64, dtype=np.float32)).view(np.complex64)
    given = workload(
        OF_NUMBERS.replace("MATHEMATICS", lines), v, np.zeros(32 * len(MATHEMATICS)), x,
        np.zeros(32, np.float32), np.zeros(32, np.int32), c, np.zeros_like(c), np.zeros(64),
    )  # fmt: skip
    out = run(given, machine, compiler=compiler)
    found = out["of_doubles"].reshape(-1, 32)
    for (text, expected), values in zip(MATHEMATICS.items(), found, strict=True):
        rtol = 1e-5 if "f(" in text else 1e-9
        np.testing.assert_allclose(values, expected(v), rtol=rtol, err_msg=text)
    a, b = x.reshape(2, 32).astype(float)
    np.testing.assert_allclose(out["of_singles"], of_singles(a, b), rtol=1e-5)
    tens = 10 * x
    whole = np.floor(tens[1:33]) + 100 * np.ceil(tens[2:34]) + np.arange(32)
    np.testing.assert_array_equal(out["converted"], whole)
    np.testing.assert_allclose(out["quotients"], c * (1 + 2j) / c.conj(), rtol=1e-5)
    np.testing.assert_allclose(out["sizes"].view(complex), np.abs(c) + np.pi * 1j, rtol=1e-6)


@pytest.mark.weekly(2)
@pytest.mark.parametrize("machine", ["a100", "mi250x"])
def test_complex_numbers_of_cupy_and_thrust(machine: str) -> None:
    source = """
    #include <cupy/complex.cuh>
    __global__ void k(const complex<float> *x, complex<float> *y, float *z) {
      int i = threadIdx.x;
      complex<float> c = x[i];
      c *= complex<float>(1, 2);
      y[i] = exp(c / complex<float>(3, 0)) + conj(c) * 2.0f;
      z[i] = abs(c) + norm(c) + c.real() + arg(c);
    }
    """
    x = (floats(32) + 1j * floats(32, seed=1)).astype(np.complex64)
    out, c = (
        run(workload(source, x, np.zeros_like(x), np.zeros(32, np.float32)), machine),
        x * (1 + 2j),
    )
    np.testing.assert_allclose(out["y"], np.exp(c / 3) + 2 * np.conj(c), rtol=1e-5)
    expected = abs(c) + abs(c) ** 2 + c.real + np.angle(c)
    np.testing.assert_allclose(out["z"], expected, rtol=1e-5)


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
    given = workload(source, x, np.zeros(32 * len(names), np.uint32))
    found = run(given, machine, compiler=compiler)["y"].reshape(-1, 32)
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
__global__ void k(const half *x, half *y, unsigned short *bits, half *sum, const __nv_bfloat16 *b, __nv_bfloat16 *c,
                  const __half2 *pairs, __half2 *roots, __nv_bfloat162 *cubes, __half2 *sums) {
  int i = threadIdx.x;
  half v = __hadd(__habs(x[i]), __ushort_as_half(0x3c00));
  bits[i] = __half_as_ushort(v);
  half2 p = __hmax2(__halves2half2(v, x[i]), __float2half2_rn(0.5f));
  y[i] = __hisnan(v) ? half(0) : __hadd(__hadd(p.x, p.y), hfloor(v));
  atomicAdd(sum, half(1));
  c[i] = __hmax(hrcp(b[i]), __float2bfloat16(0.25f));
  __half2 w = h2sqrt(__habs2(pairs[i]));
  w += __hfma2(pairs[i], pairs[i], h2exp(-pairs[i]));
  roots[i] = w;
  cubes[i] = __hfma2(cubes[i], cubes[i], __float2bfloat162_rn(1.0f)) * cubes[i];
  atomicAdd(sums, __floats2half2_rn(1.0f, __low2float(cubes[i]) > 0 ? 2.0f : 0.0f));
}
"""


def _single(bits: Any) -> Any:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _bfloat16(x: Any) -> Any:
    """The bits of numbers, whose lower halves are cut off."""
    return (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


@everywhere
def test_half_and_bfloat16_and_pairs_of_them(machine: str, compiler: Any) -> None:
    h = (np.arange(32, dtype=np.float16) - 16) / 4
    powers = 2.0 ** np.arange(-16, 16)  # bfloat16 holds these and their reciprocals
    pairs, b = (floats(64) - 0.5).astype(np.float16), _bfloat16(floats(64))
    given = workload(
        HALVES, h, np.zeros_like(h), np.zeros(32, np.uint16), np.zeros(1, np.float16), _bfloat16(powers),
        np.zeros(32, np.uint16), pairs, np.zeros(64, np.float16), b, np.zeros(2, np.float16),
    )  # fmt: skip
    before = _single(b)
    out = run(given, machine, compiler=compiler)
    v, x = np.abs(h) + np.float16(1), pairs.astype(np.float32)
    np.testing.assert_array_equal(out["bits"].view(np.float16), v)
    expected = np.maximum(v, 0.5) + np.maximum(h, 0.5) + np.floor(v)
    np.testing.assert_array_equal(out["y"], expected.astype(np.float16))
    assert out["sum"] == 32
    np.testing.assert_array_equal(_single(out["c"]), np.maximum(1 / powers, 0.25))
    np.testing.assert_allclose(out["roots"], np.sqrt(abs(x)) + x * x + np.exp(-x), rtol=4e-3)
    np.testing.assert_allclose(_single(out["cubes"]), (before**2 + 1) * before, rtol=2e-2)
    np.testing.assert_array_equal(out["sums"], [32, 64])


GROUPS = """
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
using namespace cooperative_groups;
namespace cg = cooperative_groups;
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
__global__ void k(const int *x, int *y, int *kept, int *n, int *scans) {
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

  auto warp = cg::tiled_partition<32>(block);
  auto eight = cg::tiled_partition<8>(warp);
  scans[i] = cg::inclusive_scan(warp, x[i]);
  scans[i + 64] = cg::exclusive_scan(eight, x[i], cg::plus<int>());
  scans[i + 128] = cg::reduce(eight, x[i], cg::bit_xor<int>());
  auto same = cg::labeled_partition(warp, i % 3);
  scans[i + 192] = cg::reduce(same, x[i], cg::plus<int>());
  auto odd = cg::binary_partition(eight, i % 2);
  scans[i + 256] = odd.size() * 10 + odd.thread_rank();
  cg::invoke_one(block, [&] { scans[320] = block.size(); });
}
"""


@everywhere
def test_groups_of_threads_reduce_and_scan(machine: str, compiler: Any) -> None:
    x = np.random.default_rng(0).integers(0, 100, 64).astype(np.int32)
    results = [np.zeros(n, np.int32) for n in (73, 64, 1, 321)]
    out = run(workload(GROUPS, x, *results, block=64), machine, compiler=compiler)
    i, chosen, tiles = np.arange(64), x % 3 == 0, x.reshape(8, 8)
    expected = x.reshape(4, 16).sum(1).repeat(16) + 1000 * (i // 4 * 4)
    np.testing.assert_array_equal(out["y"][:64], expected + chosen * (200000 + 1000000))
    assert out["y"][64] == x.sum()
    np.testing.assert_array_equal(out["y"][65:], tiles.sum(1))
    assert out["n"] == chosen.sum()
    np.testing.assert_array_equal(np.sort(out["kept"][: chosen.sum()]), np.sort(x[chosen]))
    warps, eights, xors, same, odd = out["scans"][:320].reshape(5, 64)
    np.testing.assert_array_equal(warps, np.cumsum(x.reshape(2, 32), axis=1).ravel())
    np.testing.assert_array_equal(eights, (np.cumsum(tiles, axis=1) - tiles).ravel())
    np.testing.assert_array_equal(xors, np.repeat(np.bitwise_xor.reduce(tiles, axis=1), 8))
    together = (i[:, None] // 32 == i // 32) & (i[:, None] % 3 == i % 3)
    np.testing.assert_array_equal(same, together @ x)
    np.testing.assert_array_equal(odd, 40 + i % 8 // 2)
    assert out["scans"][320] == 64


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


def test_variables_and_functions_as_arguments_of_templates() -> None:
    """Arrays, pointers and numbers as values of variables in global and constant memory."""
    source = """
    __device__ float table[32];
    static __device__ int calls;
    __device__ float *values;
    __constant__ const float *factors;
    __device__ float bias;
    __constant__ unsigned shift;
    typedef float (*Function)(float);
    __device__ float squared(float a) { return a * a; }
    template <Function f> __global__ void k(float *y) {
      int i = threadIdx.x;
      y[i] = f(i) * table[31 - i] + values[i + shift] * factors[1] + bias;
      values[i] = 5;
      atomicAdd(&calls, 1);
    }"""
    values, table = floats(33), floats(32, seed=1)
    symbols = {
        "table": table, "calls": np.int32(5), "values": values, "factors": np.array([1, 2], np.float32),
        "bias": 0.5, "shift": 1,
    }  # fmt: skip
    given = workload(source, np.zeros(32, np.float32), symbols=symbols, kernel="k<squared>")
    out = run(given)
    expected = np.arange(32) ** 2 * table[::-1] + 2 * values[1:] + 0.5
    np.testing.assert_allclose(out["y"], expected, rtol=1e-6)
    np.testing.assert_array_equal(out["*values"], [5] * 32 + [values[32]])
    assert out["calls"].view(np.int32)[0] == 37
    trace = tracegen.trace(given, "a100")
    assert {"table", "calls", "y"} < {site.array for site in trace.sites}
    assert {"table", "calls", "y"} < {extent.name for extent in trace.arrays}


COPIES = """
#include <cuda_pipeline.h>
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/barrier>
#include <cuda/pipeline>
namespace cg = cooperative_groups;
__device__ void primitives(const float *x, float *y) {
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
__device__ void copies(const float *x, float *y) {
  __shared__ float s[64];
  auto block = cg::this_thread_block();
  for (int b = 0; b < 4; ++b) {
    cg::memcpy_async(block, s, x + 64 * b, sizeof(float) * 64);
    cg::wait(block);
    y[64 * b + threadIdx.x] = s[63 - threadIdx.x];
    block.sync();
  }
}
__device__ void barriers(const float *x, float *y) {
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
constexpr int stages = 2;
__device__ void pipelines(const float *x, float *y) {
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


@pytest.mark.parametrize("machine", ["a100", "h100"])
def test_copies_of_a_warp_may_come_to_several_barriers(machine: str) -> None:
    """The address of a barrier is in a uniform register: the compiler makes a loop over the addresses that lanes have."""
    source = """__global__ void k(const float *x, float *y) {
      __shared__ unsigned long long bar[2];
      __shared__ float s[32];
      int i = threadIdx.x;
      unsigned mine = __cvta_generic_to_shared(&bar[i / 16]), other = __cvta_generic_to_shared(&bar[1 - i / 16]);
      if (i % 16 == 0) asm volatile("mbarrier.init.shared.b64 [%0], 16;" :: "r"(mine));
      __syncthreads();
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"((unsigned)__cvta_generic_to_shared(&s[31 - i])), "l"(x + i));
      asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" :: "r"(mine) : "memory");
      asm volatile("{ .reg .pred p; w: mbarrier.test_wait.parity.shared.b64 p, [%0], 0; @!p bra w; }" :: "r"(other) : "memory");
      y[i] = s[i];
    }"""
    x = floats(32, 1)
    made = workload(source, x, np.zeros(32, np.float32), block=32)
    assert run(made, machine)["y"].tolist() == x[::-1].tolist()


@pytest.mark.weekly(2)
@pytest.mark.parametrize("parts", [("primitives", "copies"), ("barriers", "pipelines")])
def test_copies_are_loads(parts: tuple[str, ...]) -> None:
    """Each element is loaded once: by 4 bytes for each thread, or by 16 for a quarter of them where the program says that they are aligned."""
    parameters = "".join(f"const float *of_{part}, " for part in parts)
    calls = "".join(f"  {part}(of_{part}, y + {256 * k});\n" for k, part in enumerate(parts))
    source = f"{COPIES}__global__ void k({parameters}float *y) {{\n{calls}}}\n"
    given = [floats(256, seed) for seed in range(len(parts))]
    made = workload(source, *given, np.zeros(256 * len(parts), np.float32), block=64)
    turned = np.array(given).reshape(-1, 64)[:, ::-1]
    np.testing.assert_array_equal(run(made)["y"].reshape(-1, 64), turned)
    trace = tracegen.trace(made, "a100")
    assert "nvrtc" in trace.provenance["compiler"]
    lanes: Counter[tuple[str, int]] = Counter()
    for k, site in enumerate(trace.sites):
        if site.direction == "load":
            lanes[site.array, site.itemsize_bytes] += int(
                trace.lanes[trace.site == k].sum(dtype=int)
            )
    sizes = {part: 16 if part == "barriers" else 4 for part in parts}
    assert +lanes == {(f"of_{part}", size): 1024 // size for part, size in sizes.items()}


def test_bytes_beyond_the_copied_ones_are_zero_and_not_read() -> None:
    """43 bytes in chunks of 16, of an array of 45: of the third one 11 are copied, and a fourth has none to copy."""
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
    x = np.arange(1, 46, dtype=np.int8)
    for machine in ("a100", "h200"):
        given = workload(source, x, np.full(64, 9, np.int8), 43, block=64)
        out = run(given, machine, compiler="nvrtc")["y"]
        np.testing.assert_array_equal(out, [*x[:43], *[0] * 21])


def test_names_of_amd() -> None:
    """Also matches, which HIP declares since ROCm 6.2, and reductions, since 7, of which AMD's targets make code."""
    source = """
    #include <cooperative_groups.h>
    #include <hip/hip_runtime.h>
    #include <hip/hip_bf16.h>
    #include <hip/hip_bfloat16.h>
    #include <hip/hip_complex.h>
    #include <hip/hip_fp16.h>
    __global__ __launch_bounds__(64) void k(const int *x, int *y, hipFloatComplex *z, unsigned long long *votes,
                                            unsigned long long *matches, __half2 *h, __hip_bfloat162 *b, float *f) {
      int i = hipThreadIdx_x, lane = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0));
      int first = __builtin_amdgcn_readfirstlane(x[i]), next = __builtin_amdgcn_ds_bpermute((i + 1) % 64 * 4, x[i]);
      __builtin_amdgcn_s_barrier();
      y[i] = first + 1000 * next + 1000000 * lane;
      z[i] = hipCmulf(make_hipFloatComplex(i, 1), make_hipFloatComplex(0, 1));
      int sum = x[i], all;
      for (int by = warpSize / 2; by > 0; by /= 2) sum += __shfl_down(sum, by);
      if (i == 0) y[64] = sum;
      votes[i] = __ballot(x[i] % 2);
      auto tile = cooperative_groups::tiled_partition<32>(cooperative_groups::this_thread_block());
      matches[i] = __match_any_sync(~0ull, x[i]) + __match_all_sync(~0ull, (double)x[i], &all) + all
                 + __reduce_add_sync(~0ull, x[i]) + __reduce_min_sync(~0ull, (unsigned)x[i])
                 + __reduce_xor_sync(0xffull << (i & ~7), (unsigned)x[i]) + tile.match_any(x[i]);
      float v = i % 4;
      unsafeAtomicAdd(h, __half2(v, 1.0f));
      unsafeAtomicAdd(b, __hip_bfloat162(v, __float2bfloat16(1.0f)));
      __half one = 1.0f;
      f[i] = (float)(+one * one) * __bfloat1622float2(__hip_bfloat162(v, v + 1)).y;
    }
    """
    x, i = np.random.default_rng(0).integers(0, 9, 64, np.int32), np.arange(64)
    results = [np.zeros(65, np.int32), np.zeros(128, np.float32), *np.zeros((2, 64), np.uint64)]
    results += [np.zeros(2, np.float16), np.zeros(2, np.uint16), np.zeros(64, np.float32)]
    out = run(workload(source, x, *results, block=64, path="k.hip"), "mi250x")
    np.testing.assert_array_equal(out["y"][:64], x[0] + 1000 * np.roll(x, -1) + 1000000 * i)
    np.testing.assert_array_equal(out["z"].view(np.complex64), (i + 1j) * 1j)
    assert out["y"][64] == x.sum()
    bits = np.left_shift(np.uint64(1), np.arange(64, dtype=np.uint64))
    assert set(out["votes"]) == {bits[x % 2 == 1].sum()}
    whole = ((x[:, None] == x).astype(np.uint64) * bits).sum(axis=1, dtype=np.uint64)
    half = np.where(i < 32, whole & np.uint64(0xFFFFFFFF), whole >> np.uint64(32))
    parts = np.repeat(np.bitwise_xor.reduce(x.reshape(8, 8), axis=1), 8).astype(np.uint64)
    np.testing.assert_array_equal(
        out["matches"], whole + half + np.uint64(x.sum() + x.min()) + parts
    )
    np.testing.assert_array_equal(out["h"], [96, 64])
    np.testing.assert_array_equal(_single(out["b"]), [96, 64])
    np.testing.assert_array_equal(out["f"], i % 4 + 1)


FP8 = """
#include <hip/hip_runtime.h>
#include <hip/hip_fp8.h>
template <class One, class Four>
__device__ void converted(const unsigned char *codes, float *values, const float *x, unsigned *made, int interpretation) {
  int i = threadIdx.x;
  One v;
  v.__x = codes[i];
  values[i] = v.__default_interpret == interpretation ? (float)v : -1.0f;
  float4 four = Four(float4(x[i], -x[i], 1, 0));
  made[i] = Four(four).__x;
}
__global__ void k(const unsigned char *codes, float *values, const float *x, unsigned *made) {
CALLS
}
"""
# bits of the fraction, bias of the exponent, largest number, code of what is not a number
KINDS = {"e4m3": (3, 7, 448, 0x7F), "e5m2": (2, 15, 57344, 0x7F), "e4m3_fnuz": (3, 8, 240, 0x80), "e5m2_fnuz": (2, 16, 57344, 0x80)}  # fmt: skip


def test_numbers_of_8_bits_by_the_names_of_amd() -> None:
    """Each code, and single-precision numbers that lie between two: the nearer one, or that with an even code."""
    codes, given, expected = np.arange(256, dtype=np.uint8), [], {}
    for kind, (bits, bias, largest, nan) in KINDS.items():
        exponent, units = (codes & 127) >> bits, (codes & (1 << bits) - 1).astype(np.float64)
        sizes = np.where(exponent, units + (1 << bits), units) * 2.0 ** (np.maximum(exponent, 1.0) - bias - bits)  # fmt: skip
        n = int(np.searchsorted(sizes[:128], largest)) + 1
        finite, rng = sizes[:n], np.random.default_rng(0)
        lower = rng.integers(0, n - 1, 253)
        share = rng.choice([0.0, 0.25, 0.5, 0.75], 253)
        x = finite[lower] * (1 - share) + finite[lower + 1] * share
        nearest = np.where(share == 0.5, lower + lower % 2, lower + (share > 0.5))
        given.append([*x, 1e30, np.inf, np.nan])
        expected[kind] = finite, [*nearest, n - 1, n - 1, nan]
    calls = "\n".join(
        f"  converted<__hip_fp8_{kind}, __hip_fp8x4_{kind}>(codes, values + {256 * k}, x + {256 * k}, made + {256 * k}, __HIP_{kind.upper()});"
        for k, kind in enumerate(KINDS)
    )
    arrays = codes, np.zeros(1024, np.float32), np.float32(given).ravel(), np.zeros(1024, np.uint32)
    made = workload(FP8.replace("CALLS", calls), *arrays, block=256, path="k.hip")
    out = run(made, "mi250x")
    results = zip(out["values"].reshape(4, 256), out["made"].reshape(4, 256), strict=True)
    for (kind, (bits, bias, _, nan)), (values, fours) in zip(KINDS.items(), results, strict=True):
        finite, positive = expected[kind]
        n = len(finite)
        np.testing.assert_array_equal(values[:n], finite, err_msg=kind)
        np.testing.assert_array_equal(fours & 0xFF, positive, err_msg=kind)
        codes_of = fours[:253] & 0xFF
        is_zero = (codes_of == 0) & ("fnuz" in kind)
        np.testing.assert_array_equal((fours >> 8)[:253] & 0xFF, codes_of | ~is_zero * 0x80)
        assert set(fours >> 16) == {bias << bits}
        start = 129 if "fnuz" in kind else 128
        np.testing.assert_array_equal(values[start : 128 + n], -finite[start - 128 :])
        assert np.isnan(values[nan])


def test_fields_of_bits_by_the_names_of_hip() -> None:
    source = """#include <hip/hip_runtime.h>
    __global__ void k(const unsigned *x, unsigned *y, unsigned long long *z) {
      int i = threadIdx.x;
      y[i] = __bitextract_u32(x[i], i, 9);
      z[i] = __bitinsert_u64(~0ull, x[i], 2 * i, 7);
    }"""
    x = np.random.default_rng(0).integers(0, 1 << 32, 32, dtype=np.uint32)
    given = workload(source, x, np.zeros(32, np.uint32), np.zeros(32, np.uint64))
    out = run(given, "mi250x")
    assert out["y"].tolist() == [int(v) >> k & 511 for k, v in enumerate(x)]
    cleared = [(1 << 64) - 1 & ~(127 << 2 * k) for k in range(32)]
    expected = [
        (low | (int(v) & 127) << 2 * k) & (1 << 64) - 1
        for k, (low, v) in enumerate(zip(cleared, x, strict=True))
    ]
    assert out["z"].tolist() == expected
