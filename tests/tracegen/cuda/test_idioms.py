"""What strangers' CUDA C++ uses of CUDA's headers and of the libraries of C and C++: NVRTC compiles it at the first try."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracegen
from memsim.errors import KernelError
from memsim.machine import load_machine
from tests.support.cuda_kernels import floats, needs_both, run, workload
from tests.tracegen.cuda.everywhere import everywhere
from tracegen import CudaWorkload
from tracegen.options import TraceOptions
from tracegen.tools.toolchain import CURAND, cuda_headers

pytestmark = [
    *needs_both,
    pytest.mark.skipif(len(cuda_headers()) < 3, reason="CUDA's headers are not installed"),
]

I = np.arange(32, dtype=np.int32)  # noqa: E741
X = np.linspace(0.25, 8, 32, dtype=np.float32)
# Of programs that are compiled apart, so that none has the headers of another: what stands before the kernel, what is done with
# int *p (0 to 31) and float *x (X), what is left in one of them
IDIOMS: dict[str, dict[str, tuple[str, str, Any]]] = {
    "what needs no library": {
        "stdint.h": ("#include <stdint.h>", "uint32_t a = p[i]; int8_t b = (int8_t)a; uint64_t c = a * 3ull; p[i] = (int)(a + b + c);", 5 * I),
        "cstdint": ("#include <cstdint>", "std::uint32_t a = p[i]; std::int64_t b = a; p[i] = (int)(b * 3);", 3 * I),
        "inttypes.h": ("#include <inttypes.h>", "int64_t a = (int64_t)p[i] << 33; p[i] = (int)(a >> 32);", 2 * I),
        "getopt": ("#include <getopt.h>\nstatic struct option given[] = {\n  {\"n\", 1, NULL, 'n'},\n  {0, 0, 0}\n};", "p[i] = 2 * p[i];", 2 * I),
        "UINT8_C": ("#include <cstdint>", "p[i] = p[i] + UINT8_C(3) + (INTMAX_C(5) < UINTPTR_MAX);", I + 4),
        "register": ("", "register int a = p[i]; p[i] = 2 * a;", 2 * I),
        "__int128": ("", "unsigned __int128 a = (unsigned __int128)p[i] << 70; p[i] = (int)(a * 3 >> 70);", 3 * I),
        "uint": ("", "uint a = p[i]; ulong b = a; ushort c = a; p[i] = a + b + c;", 3 * I),
        "float.h": ("#include <float.h>", "x[i] = fminf(x[i], FLT_MAX) + FLT_EPSILON; p[i] = x[i] < DBL_MAX;", I * 0 + 1),
        "climits": ("#include <climits>", "p[i] = p[i] == INT_MAX ? INT_MIN : p[i] + CHAR_BIT;", I + 8),
        "INFINITY": ("#include <math.h>", "float m = -INFINITY; m = fmaxf(m, x[i]); x[i] = isnan(m) ? NAN : m;", X),
        "M_PI": ("#define _USE_MATH_DEFINES\n#include <cmath>", "x[i] = std::sqrt(x[i]) + std::abs(-x[i]) + (float)M_PI;", np.sqrt(X) + X + np.float32(np.pi)),
        "assert, printf": ("#include <cassert>\n#include <cstdio>", 'assert(p[i] > -5); printf("%d", p[i]); p[i] = 3;', I * 0 + 3),
        "string.h": ("#include <string.h>\n#include <stddef.h>\n#include <stdbool.h>", "float v; int b = p[i]; memcpy(&v, &b, sizeof v); bool t = v > 0; p[i] = t + (int)offsetof(uint4, z);", (I > 0) + 8),
        "shared memory with a size": ("extern __shared__ int s[32];", "s[i ^ 1] = p[i]; __syncthreads(); p[i] = s[i];", I ^ 1),
        "instructions of PTX": ("", """unsigned lane, all, bits; float v; asm("mov.u32 %0, %laneid;" : "=r"(lane)); asm("prmt.b32 %0, %1, %1, 0x0123;" : "=r"(all) : "r"(p[i]));
      asm("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(bits) : "r"(lane), "r"(1), "r"(2)); asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(v) : "l"(x + i));
      asm("bfe.u32 %0, %1, 24, 8;" : "=r"(all) : "r"(all)); p[i] = bits + 100 * all + (v > 1 ? 10000 : 0);""", (I ^ 3) + 100 * I + 10000 * (X > 1)),
        "types of the host": ("""#include <vector>
#include <string>
#include <iostream>
#include <cublas_v2.h>
#include <mpi.h>
struct Config {
  std::vector<float> weights;
  std::string name = "a";
  cublasHandle_t handle;
  MPI_Comm world;
  explicit Config(int n) : weights(n) {}
  float sum() const { float s = 0; for (auto w : weights) s += w; std::cout << s << std::endl; return s; }
};
std::vector<int> sizes(3);
void fail(cublasStatus_t status) { if (status != CUBLAS_STATUS_SUCCESS) throw std::runtime_error("no"); }
void start() { cudaLaunchAttribute a[1]; a[0].id = cudaLaunchAttributeClusterDimension; }""", "p[i] = 3;", I * 0 + 3),
        "values of types of the host": ("#include <map>\n#include <string>\nclass Log { enum Level { low, high }; const std::map<Level, const std::string> names = {{low, \"low\"}, {high, \"high\"}}; std::vector<int> v{1, 2}; };", "p[i] += 1;", I + 1),
        "macros called as our names": ("#define T float\n#define P int\n#define list 3\n#define value 4", "T a = x[i]; P b = p[i]; x[i] = a * list; p[i] = b + value;", I + 4),
    },
    "the C++ library": {
        "algorithm": ("#include <algorithm>", "p[i] = std::min(std::max(p[i], 3), 7); int a = 1, b = 2; std::swap(a, b); p[i] += a;", np.clip(I, 3, 7) + 2),
        "limits": ("#include <limits>", "x[i] = std::min(x[i], std::numeric_limits<float>::max()); p[i] = std::numeric_limits<int>::lowest();", np.full(32, -(2**31))),
        "type_traits": ("#include <type_traits>", "if constexpr (std::is_same<decltype(p[0] + 0), int>::value && std::is_integral_v<int>) p[i] = 3; std::conditional_t<true, int, float> a = 1; p[i] += a;", I * 0 + 4),
        "array": ("#include <array>", "std::array<int, 4> a = {1, 2, 3, 4}; p[i] = a[p[i] & 3] + (int)a.size();", I % 4 + 5),
        "tuple": ("#include <utility>\n#include <tuple>", "std::pair<int, float> a(p[i], x[i]); auto t = std::make_tuple(a.first, 2); p[i] = std::get<1>(t) + std::move(a.first);", I + 2),
    },
    "the toolkit": {
        "cub": ("#include <cub/cub.cuh>", "typedef cub::BlockReduce<int, 32> R; __shared__ typename R::TempStorage held; int s = R(held).Sum(p[i]); if (i == 0) p[0] = s;", np.where(I == 0, 496, I)),
        "cuda_fp8.h": ("#include <cuda_fp8.h>", "__nv_fp8_e4m3 h(float(1 << (p[i] & 7))); x[i] = float(h);", 2.0 ** (I & 7)),
        "mma.h": ("#include <mma.h>\nusing namespace nvcuda;", """__shared__ half s[256]; __shared__ float r[256];
      for (int k = i; k < 256; k += 32) s[k] = __float2half(k % 17 == 0 ? 2.0f : k == 1 ? 1.0f : 0.0f);
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a; wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> c; wmma::fill_fragment(c, 1.0f); __syncthreads();
      wmma::load_matrix_sync(a, s, 16); wmma::load_matrix_sync(b, s, 16); wmma::mma_sync(c, a, b, c);
      wmma::store_matrix_sync(r, c, 16, wmma::mem_row_major); __syncthreads(); x[i] = r[i];""", (1 + (2 * np.eye(16) + np.eye(16, k=1) * (np.arange(16)[:, None] == 0)) @ (2 * np.eye(16) + np.eye(16, k=1) * (np.arange(16)[:, None] == 0))).ravel()[:32]),
        "cuda/barrier": ("#include <cuda/barrier>", "__shared__ cuda::barrier<cuda::thread_scope_block> b; if (!i) init(&b, 32); __syncthreads(); auto t = b.arrive(); b.wait(std::move(t)); p[i] += 1;", I + 1),
        "cuda/pipeline": ("#include <cuda/pipeline>", "__shared__ int s[32]; auto q = cuda::make_pipeline(); q.producer_acquire(); cuda::memcpy_async(s + i, p + i, sizeof(int), q); q.producer_commit(); q.consumer_wait(); p[i] = s[i] + 1; q.consumer_release();", I + 1),
        "thrust/iterator": ("#include <thrust/device_vector.h>\n#include <thrust/iterator/counting_iterator.h>", "thrust::counting_iterator<int> c(1); p[i] = c[i];", I + 1),
    },
    "random numbers": {
        "thrust/random.h": ("#include <thrust/random.h>", "thrust::minstd_rand r(p[i] + 1); r(); p[i] = r();", 48271**2 * (I + 1).astype(np.int64) % (2**31 - 1)),
        "cuda_awbarrier_primitives.h": ("#include <cuda_awbarrier_primitives.h>", "__shared__ __mbarrier_t b; if (!i) __mbarrier_init(&b, 32); __syncthreads(); auto t = __mbarrier_arrive(&b); while (!__mbarrier_test_wait(&b, t)); p[i] += 1;", I + 1),
    },
    "swaps": {
        "thrust/swap.h": ("#include <thrust/swap.h>", "if (i % 2 == 0) thrust::swap(p[i], p[i + 1]);", I ^ 1),
    },
}  # fmt: skip
HOST = """
int main() {
  int *d; cudaMalloc(&d, 4); std::vector<int> v(3); k<<<1, 32>>>(d, nullptr);
  cudaDeviceSynchronize(); std::cout << v.size(); return 0;
}
"""


def _xorwow(seed: int) -> int:
    """The first number of cuRAND's default generator. Marsaglia, "Xorshift RNGs", 2003, with cuRAND's seeds."""
    low, high, most = 1099087573 * (seed ^ 0xAAD26B49), 2591861531 * 0xF7DCEFDD, 2**32
    v0, v4 = (123456789 + low) % most, (5783321 + low) % most
    t = v0 ^ (v0 >> 2)
    new = (v4 ^ (v4 << 4)) ^ (t ^ (t << 1))
    return (new + 6615241 + low + high + 362437) % most


@pytest.mark.skipif(
    not any((folder / CURAND).exists() for folder in cuda_headers()),
    reason="cuRAND's headers are not installed",
)
def test_random_numbers_of_curand() -> None:
    text = """#include <curand_kernel.h>
__global__ void k(unsigned *y) {
  curandState state; curand_init(threadIdx.x, 0, 0, &state); y[threadIdx.x] = curand(&state);
}"""
    given = CudaWorkload(source=text, arguments=[np.zeros(32, np.uint32)], grid=1, block=32)
    np.testing.assert_array_equal(run(given, compiler="nvrtc")["y"], [*map(_xorwow, range(32))])
    with pytest.raises(
        KernelError, match=r":3: code of cuRAND needs NVIDIA's compiler and headers"
    ):
        run(given, "mi250x")


@everywhere
def test_an_overloaded_kernel_is_chosen_by_its_types(machine: str, compiler: Any) -> None:
    text = """__global__ void add(float *x, int n) { x[threadIdx.x] += n; }
__global__ void add(const float *__restrict__ a, float *b) { b[threadIdx.x] = 2 * a[threadIdx.x]; }"""
    for kernel, given, expected in (
        ("add(float*,int)", {"x": X.copy(), "n": 3}, ("x", X + 3)),
        ("add(const float *, float *)", {"a": X, "b": X.copy()}, ("b", 2 * X)),
    ):
        one = CudaWorkload(source=text, kernel=kernel, arguments=given, grid=1, block=32)
        np.testing.assert_array_equal(
            run(one, machine, compiler=compiler)[expected[0]], expected[1]
        )


@pytest.mark.parametrize("machine", ["a100", "mi250x"])
def test_defaults_of_a_template_and_classes_as_arguments(machine: str) -> None:
    """A class without fields, one that contains an array, and one with its own copies."""
    text = """struct Twice { __device__ float operator()(float v) const { return 2 * v; } };
struct View { float *data; int extents[2]; };
struct Copied {
  const float *data; int n;
  __host__ __device__ Copied(const Copied &o) : data(o.data), n(o.n) {}
  __host__ __device__ ~Copied() {}
};
template <class F = Twice, int U = 2> __global__ void k(F f, View v, Copied c) {
  for (int u = 0; u < U; ++u) {
    int i = threadIdx.x * v.extents[1] + u;
    v.data[i] = f(v.data[i]) + c.data[i % c.n];
  }
}"""
    view = {"data": X.copy(), "extents": [*np.int32([16, 2])]}
    copied = np.zeros(1, np.dtype([("data", "O"), ("n", "i4")], align=True))
    copied["data"][0], copied["n"] = X[:8].copy(), 8
    given = CudaWorkload(source=text, kernel="k", arguments=[None, view, copied[0]], grid=1, block=16)  # fmt: skip
    out = run(given, machine)
    np.testing.assert_array_equal(out["v.data"], 2 * X + np.tile(X[:8], 4))


TORCH = """#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
template <class scalar_t> __global__ void k(
    const torch::PackedTensorAccessor32<scalar_t, 3, torch::RestrictPtrTraits> x,
    torch::PackedTensorAccessor64<scalar_t, 1> y) {
  CUDA_KERNEL_LOOP(i, y.size(0)) {
    const auto row = x[i / 8 % 4];
    y[i] = row[i % 8][1] + x.stride(0);
  }
}
std::vector<torch::Tensor> run(torch::Tensor x) {
  TORCH_CHECK(x.is_cuda(), "on a GPU");
  auto y = torch::zeros({32}, x.options());
  AT_DISPATCH_FLOATING_TYPES(x.type(), "k", ([&] {
    k<scalar_t><<<1, 32>>>(x.packed_accessor32<scalar_t, 3, torch::RestrictPtrTraits>(), y.packed_accessor64<scalar_t, 1>());
  }));
  return {y};
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run, "of rows"); }"""


@everywhere
def test_an_array_is_an_accessor_of_pytorch(machine: str, compiler: Any) -> None:
    """Also one whose axes are exchanged."""
    x = np.random.default_rng(0).random((2, 8, 4), np.float32).T
    given = CudaWorkload(source=TORCH, kernel="k<float>", arguments=[x, X.copy()], grid=1, block=32)
    np.testing.assert_array_equal(
        run(given, machine, compiler=compiler)["y"], x[:, :, 1].ravel() + 1
    )
    trace = tracegen.trace(given, machine, groups=1, compiler=compiler)
    assert {one.name for one in trace.arrays} == {"x", "y"}
    assert trace.provenance["compiler"]["stand_ins"][0].startswith("Accessors of PyTorch's tensors")
    flat = dataclasses.replace(given, arguments=[x[0], X])
    with pytest.raises(
        KernelError,
        match="argument x of kernel k<float> takes an array with 3 axes, got one with 2",
    ):
        run(flat, machine, compiler=compiler)


@everywhere
def test_numbers_of_16_bits_by_the_names_of_pytorch(machine: str, compiler: Any) -> None:
    source = """#include <ATen/ATen.h>
typedef at::BFloat16 bf16;
template <class F> __global__ void k(const F *x, F *y, c10::Half *z) {
  int i = threadIdx.x;
  y[i] = F(2 * float(x[i]));
  z[i] = at::Half(float(x[i]));
}"""
    x = (X.view(np.uint32) >> 16).astype(np.uint16)
    value = (x.astype(np.uint32) << 16).view(np.float32)
    given = [x, np.zeros_like(x), np.zeros(32, np.float16)]
    out = run(
        CudaWorkload(source=source, kernel="k<bf16>", arguments=given, grid=1, block=32),
        machine,
        compiler=compiler,
    )
    np.testing.assert_array_equal(out["y"], ((2 * value).view(np.uint32) >> 16))
    np.testing.assert_array_equal(out["z"], value.astype(np.float16))


@pytest.mark.weekly(2)
@pytest.mark.parametrize("name", IDIOMS)
def test_idioms(name: str) -> None:
    group = IDIOMS[name].values()
    before = "\n".join(one for one, _, _ in group)
    bodies = "\n".join(
        f"  {{ int *p = all_p + {32 * k}; float *x = all_x + {32 * k}; {body} }}"
        for k, (_, body, _) in enumerate(group)
    )
    text = f"#include <cuda_runtime.h>\n{before}\n__global__ void k(int *all_p, float *all_x) {{\n  int i = threadIdx.x;\n{bodies}\n}}\n{HOST}"
    arrays = np.tile(I, len(group)), np.tile(X, len(group))
    out = run(workload(text, *arrays, shared_bytes=128), compiler="nvrtc")
    for k, (idiom, (_, _, expected)) in enumerate(IDIOMS[name].items()):
        found = out["all_p" if np.asarray(expected).dtype.kind == "i" else "all_x"]
        np.testing.assert_allclose(found[32 * k :][:32], expected, rtol=1e-6, err_msg=idiom)


COLUMNS = """{}
__global__ void k(const {} *x, {} *y, int rows, int cols) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows) return;
  {} s = 0;
  for (int c = 0; c < cols; ++c) s += x[c * rows + i] * 3u + (s >> 7);
  y[i] = s;
}}"""


def test_a_standard_header_changes_nothing() -> None:
    code = []
    for before, kind in (("#include <stdint.h>", "uint32_t"), ("", "unsigned")):
        source = COLUMNS.format(before, *[kind] * 3)
        given = workload(source, np.ones(64 * 64, np.uint32), np.zeros(64, np.uint32), 64, 64, grid=2)  # fmt: skip
        compiler = tracegen.trace(given, "a100").provenance["compiler"]
        assert "nvrtc" in compiler
        code.append((compiler["registers_per_item"], compiler["code"]["text"]))
    assert code[0] == code[1]
    assert code[0][0] == 32


LOAD = """#pragma once
#include <mpi.h>
#include <string>
struct Handle { MPI_Comm c; std::string s; };
inline void send(cublasHandle_t h) { h.nothing(); MPI_Send(missing); }


__device__ inline float load(const float *x, int i) {
  return x[i] + FURTHER;
}
"""


@everywhere
def test_included_files_have_their_own_lines_and_no_host_code(
    machine: str, compiler: Any, tmp_path: Path
) -> None:
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc" / "load.h").write_text(LOAD)
    (tmp_path / "k.cu").write_text(
        '#include "inc/../inc/load.h"\n__global__ void k(const float *x, float *y, int by) {\n'
        "  y[threadIdx.x] = load(x, threadIdx.x + by);\n}\n"
    )
    x, path = floats(32), tmp_path / "k.cu"
    arguments = {"x": x, "y": np.zeros_like(x), "by": 0}
    options = "-DFURTHER=1 -std=c++14 -O3 --use_fast_math"
    given = CudaWorkload(path=path, arguments=arguments, grid=1, block=32, build_options=options)
    np.testing.assert_array_equal(run(given, machine, compiler=compiler)["y"], x + 1)
    trace = tracegen.trace(given, machine, options=TraceOptions(compiler=compiler))
    places = {site.array: (site.source.user_file, site.source.user_line) for site in trace.sites}
    assert places == {"x": (str(tmp_path / "inc" / "load.h"), 9), "y": (str(path), 3)}
    if compiler != "nvrtc":
        assert {site.name for site in trace.sites} == {"x[i]", "store y[threadIdx.x]"}
    given = dataclasses.replace(given, arguments=arguments | {"by": 40})
    with pytest.raises(KernelError, match=r"^\S*inc/load.h:9: access x\[.*\] is out of bounds"):
        run(given, machine, compiler=compiler)


PAIRS = """#include <cuda_fp16.h>
#include <cuda_bf16.h>
template <class T> __device__ void shuffled(int *x) {
  T v, w;
  memcpy(&v, x, 4);
  w = __shfl_xor_sync(0xffffffff, v, 5);
  v = __shfl_sync(0xffffffff, w, threadIdx.x ^ 1);
  memcpy(x, &v, 4);
}
__global__ void k(int *x, int *y) { shuffled<__half2>(x + threadIdx.x); shuffled<__nv_bfloat162>(y + threadIdx.x); }
"""


@everywhere
def test_pairs_are_shuffled(machine: str, compiler: Any) -> None:
    """With counted arithmetic and known registers."""
    given = workload(PAIRS, I * 3, I * 5)
    out = run(given, machine, compiler=compiler)
    np.testing.assert_array_equal(out["x"], (I ^ 4) * 3)
    np.testing.assert_array_equal(out["y"], (I ^ 4) * 5)
    trace = tracegen.trace(given, machine, options=TraceOptions(compiler=compiler))
    assert trace.work_table.sum() > 0
    assert trace.launch.registers_per_item


def test_hip_brings_along_what_its_own_header_does() -> None:
    source = """#include <hip/hip_runtime.h>
extern __shared__ int s[32];
std::string name(int n) { return std::to_string(n); }
__global__ void k(int *y) {
  s[threadIdx.x ^ 1] = y[threadIdx.x]; assert(y[0] == 0); __syncthreads(); y[threadIdx.x] = s[threadIdx.x];
}"""
    out = run(workload(source, I.copy(), shared_bytes=128), "mi250x")
    np.testing.assert_array_equal(out["y"], I ^ 1)


def test_an_argument_of_a_type_of_the_host_is_refused() -> None:
    source = "#include <vector>\nstruct C { int n; std::vector<int> v; };\n__global__ void k(C c, int *y) { y[0] = c.n; }"
    with pytest.raises(KernelError, match=r"parameter c of kernel k has a type of the host"):
        run(workload(source, np.zeros(1, np.int32), np.zeros(4, np.int32)), compiler="nvrtc")


def test_the_first_line_says_why_another_compiler_is_used() -> None:
    source = "typedef float F __attribute__((ext_vector_type(4)));\n__global__ void k(float *y) { F f = y[0]; y[0] = f.x; }"
    trace = tracegen.trace(workload(source, X.copy(), path="f.cu"), load_machine("a100"))
    first = trace.provenance["compiler"]["stand_ins"][0]
    assert first.startswith("clang compiled it, for NVRTC refuses it: f.cu:2: ")
