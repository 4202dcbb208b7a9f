"""Functions that CUDA and HIP declare for kernels, compared with numpy and scipy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

import memsim
import tracegen
from tests.support.compilers import needs_nvidia
from tests.support.cuda_kernels import floats, needs_clang, run, workload

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


def test_mathematics() -> None:
    lines = "\n".join(f"  y[32 * {k} + i] = {text};" for k, text in enumerate(MATHEMATICS))
    source = f"__global__ void k(const double *x, double *y) {{\n  int i = threadIdx.x; double v = x[i];\n{lines}\n}}"
    v = 0.01 + 0.97 * floats(32).astype(np.float64)
    found = run(workload(source, v, np.zeros(32 * len(MATHEMATICS))))["y"].reshape(-1, 32)
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


def test_integers_and_several_in_a_word() -> None:
    names = [
        *WORDS,
        *(
            f"{name}{n}({'a' if name.endswith('sss') or 'neg' in name else 'a, b'})"
            for name in EACH
            for n in (2, 4)
        ),
    ]
    lines = "\n".join(f"  y[32 * {k} + i] = {text};" for k, text in enumerate(names))
    source = f"__global__ void k(const unsigned *x, unsigned *y) {{\n  int i = threadIdx.x; unsigned a = x[2 * i], b = x[2 * i + 1];\n{lines}\n}}"
    x = np.random.default_rng(0).integers(0, 1 << 32, 64, dtype=np.uint32)
    x[:8:2] = x[1:8:2]
    found = run(workload(source, x, np.zeros(32 * len(names), np.uint32)))["y"].reshape(-1, 32)
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


def test_half_and_bfloat16() -> None:
    arguments = halves()
    out = run(workload(HALVES, *arguments))
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
  auto tile = tiled_partition<16>(block);
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


def test_tiles_and_coalesced_threads() -> None:
    x = grouped()[0]
    out = run(workload(GROUPS, *grouped(), block=64))
    i, chosen = np.arange(64), x % 3 == 0
    expected = x.reshape(4, 16).sum(1).repeat(16) + 1000 * (i // 4 * 4)
    np.testing.assert_array_equal(out["y"][:64], expected + chosen * (200000 + 1000000))
    assert out["y"][64] == x.sum()
    np.testing.assert_array_equal(out["y"][65:], x.reshape(8, 8).sum(1))
    assert out["n"] == chosen.sum()
    np.testing.assert_array_equal(np.sort(out["kept"][: chosen.sum()]), np.sort(x[chosen]))


def test_complex_numbers() -> None:
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
    out = run(workload(source, x, np.zeros_like(x), np.zeros(64)))
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
    out = run(given, warp=64)
    i = np.arange(64)
    np.testing.assert_array_equal(out["y"], x[0] + 1000 * np.roll(x, -1) + 1000000 * i)
    np.testing.assert_array_equal(out["z"].view(np.complex64), (i + 1j) * 1j)


COUNTED = "__global__ void k(const int *x, int *y) { int i = threadIdx.x; y[i] = __syncthreads_count(x[i] > 2) + __shfl_sync(~0ull, (char)i, 3); }"
MATCHED = "__global__ void k(const int *x, int *y) { int i = threadIdx.x; y[i] = __match_any_sync(~0u, x[i]) + __dp4a(x[i], x[i], 1); __nanosleep(20); }"
REDUCED = "__global__ void k(const int *x, int *y) { int i = threadIdx.x; y[i] = __reduce_add_sync(~0u, x[i]) + __reduce_xor_sync(~0u, (unsigned)i); }"


@pytest.mark.parametrize(
    ("source", "machines"),
    [
        (HALVES, "v100 h100 mi250x"),
        (GROUPS, "v100 h100 mi250x"),
        (COUNTED, "v100 mi250x"),
        (MATCHED, "v100 h100"),
        (REDUCED, "h100"),
        (HIP, "mi250x"),
    ],
)
@needs_nvidia
def test_they_compile_for_gpus(source: str, machines: str) -> None:
    x = np.ones(64, np.int32)
    arguments = {HALVES: halves(), GROUPS: grouped(), HIP: [x, x.copy(), np.zeros(128, np.float32)]}
    for machine in machines.split():
        path = "k.hip" if source == HIP else None
        made = workload(
            source,
            *arguments.get(source, [x, x.copy()]),
            block=64 if source != HALVES else 32,
            path=path,
        )
        compiler = tracegen.trace(made, memsim.load_machine(machine)).provenance["compiler"]
        assert "missing" not in compiler, (machine, compiler["missing"])
