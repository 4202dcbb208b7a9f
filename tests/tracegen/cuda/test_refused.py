"""What is refused, each in one line with the user's position."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracegen
from memsim.errors import KernelError
from tests.support.cuda_kernels import floats, needs_clang, workload
from tracegen import CudaWorkload
from tracegen.cuda import front_end

pytestmark = needs_clang

TEXTURE = "__global__ void k(cudaTextureObject_t t, float *y) {\n  y[0] = tex2D<float>(t, 1, 2);\n}"
SURFACE = (
    "__global__ void k(cudaSurfaceObject_t t, float *y) {\n  y[0] = surf2Dread<float>(t, 1, 2);\n}"
)
MATRIX = (
    "#include <mma.h>\n__global__ void k(float *y) {\n"
    "  nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> f;\n"
    "  nvcuda::wmma::fill_fragment(f, 0.0f);\n}"
)
ASSEMBLER = '__global__ void k(int *y) {\n  asm("mov.u32 %0, %%laneid;" : "=r"(y[0]));\n}'
SPECIAL = '__global__ void k(int *y) {\n  asm("membar.gl;");\n}'
LAUNCHES = "__global__ void f(int *y);\n__global__ void k(int *y) {\n  f<<<1, 32>>>(y);\n}"
RECURSIVE = (
    "__device__ int f(int n) { return n < 2 ? 1 : f(n - 1) + f(n - 2); }\n"
    "__global__ void k(int *y) {\n  y[0] = f(y[1]);\n}"
)
POINTER = (
    "__device__ int one(int n) { return n; }\n__device__ int two(int n) { return 2 * n; }\n"
    "__global__ void k(int *y) {\n  int (*f)(int) = y[0] ? one : two;\n  y[0] = f(y[1]);\n}"
)
GRID = (
    "#include <cooperative_groups.h>\n__global__ void k(int *y) {\n"
    "  cooperative_groups::this_grid().sync();\n}"
)
HEAP = "__global__ void k(int *y) {{\n  int *p = {};\n  p[y[0]] = 2; y[0] = p[y[1]];\n}}"
BARRIER = (
    "#include <cuda/barrier>\n__global__ void k(int *y) {{\n"
    "  __shared__ cuda::barrier<cuda::thread_scope_block> b;\n  init(&b, {});\n  {}\n}}"
)
BULK = "cuda::device::memcpy_async_tx(y, y + 4, cuda::aligned_size_t<16>(16), b);"
ROLES = (
    "#include <cuda/pipeline>\n__global__ void k(int *y) {\n"
    "  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> s;\n"
    "  auto p = cuda::make_pipeline(cooperative_groups::this_thread_block(), &s, 16);\n}"
)


@pytest.mark.parametrize(
    ("source", "arguments", "message"),
    [
        (TEXTURE, [0], r"t.cu:2: .*a texture cannot be traced"),
        (SURFACE, [0], r"t.cu:2: .*a surface cannot be traced"),
        (MATRIX, [], r"t.cu:4: .*a matrix instruction \(wmma\) cannot be traced"),
        (ASSEMBLER, [], r"t.cu:2: inline assembler \(PTX\) cannot be traced"),
        (SPECIAL, [], r"t.cu:2: inline assembler \(PTX\) cannot be traced"),
        (LAUNCHES, [], r"t.cu:3: .*reference to __global__ function"),
        (
            RECURSIVE,
            [],
            r"t.cu:3: a recursive function, or one with the attribute noinline, cannot be traced",
        ),
        (POINTER, [], r"t.cu:5: a call through a pointer cannot be traced"),
        (GRID, [], r"t.cu:3: .*grid-wide synchronisation cannot be traced"),
        (
            BARRIER.format(32, "b.arrive();"),
            [],
            r"t.cu:5: .*a barrier at which threads arrive without waiting cannot be traced",
        ),
        (
            BARRIER.format(16, ""),
            [],
            r"t.cu:4: an assertion failed in thread 0 of block 0",
        ),
        (
            BARRIER.format(32, BULK),
            [],
            r"t.cu:5: .*a bulk copy \(TMA\) cannot be traced",
        ),
        (
            ROLES,
            [],
            r"t.cu:4: .*a pipeline whose threads have roles, or are not a block, cannot be",
        ),
        (
            HEAP.format("(int *)malloc(16)"),
            [],
            r"t.cu:2: memory that a kernel allocates \(malloc\)",
        ),
        ("#include <new>\n" + HEAP.format("new int[4]"), [], r"t.cu:3: memory that a kernel alloc"),
        (HEAP.format("new int[4]"), [], r"t.cu:2: memory that a kernel allocates \(new\)"),
        ("__global__ void k(int *y) {\n  free(y);\n}", [], r"t.cu:2: memory that a kernel frees"),
        (
            HEAP.format("(int *)alloca(y[2])"),
            [],
            r"t.cu:2: a private array whose size is not const",
        ),
        (
            "__global__ void k(int *y) {\n  y[0] = z;\n}",
            [],
            r"t.cu:2: use of undeclared identifier",
        ),
        (
            "__global__ void k(int *y, int n) {}\n__global__ void k(int *y, float n) {}",
            [],
            r"t.cu has several functions k: an overloaded kernel cannot be chosen",
        ),
        (
            "#include <nowhere.h>\n__global__ void k(int *y) {}",
            [],
            r"t.cu:1: 'nowhere.h' file not found",
        ),
        (
            "#include <cooperative_groups.h>\n__global__ void k(int *y) {\n  auto t ="
            " cooperative_groups::tiled_partition<64>(cooperative_groups::this_thread_block());\n}",
            [],
            r"t.cu:3: static assertion failed .*a tile is a power of two",
        ),
        (
            "__device__ int f(int);\n__global__ void k(int *y) { y[0] = f(1); }",
            [],
            r"t.cu: undefined reference to `f\(int\)'",
        ),
    ],
)
def test_what_cannot_be_traced_is_refused_by_line(
    source: str, arguments: list[Any], message: str
) -> None:
    kind = np.float32 if "float *y" in source else np.int32
    given = workload(source, *arguments, np.zeros(64, kind), path="t.cu", kernel="k")
    with pytest.raises(KernelError, match=rf"^{message}[^\n]*$"):
        tracegen.trace(given)


PLAIN = """
namespace n { template <typename T> __global__ void copied(const T *x, T *y, unsigned n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i];
} }
__global__ void other(float *y) { y[threadIdx.x] = 1; }
"""


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kernel": "nothing"}, r"has no kernel nothing \(.*\); it has copied<typename T>, other"),
        (
            {"kernel": "n::copied"},
            r"has no kernel n::copied \(.*\); it has copied<typename T>, other",
        ),
        (
            {"kernel": "n::copied<float, 3>"},
            r"has no kernel n::copied<float, 3> .* it has copied<typename T>",
        ),
        ({"kernel": None}, "several kernels: name one of copied<typename T>, other"),
        (
            {"kernel": None, "source": "\n"},
            r"kernel\.cu has no kernel \(a function that is __global__\)",
        ),
        ({"arguments": [1]}, r"kernel n::copied<float> takes 3 arguments \(x, y, n\), got 1"),
        ({"arguments": {"x": None}}, "needs a value for y, n; it has x, y, n"),
        ({"arguments": {"z": 1}}, "has no argument z; it has x, y, n"),
        ({"arguments": [np.zeros(4), floats(4), 4]}, "x of kernel .* takes an array of float32"),
        ({"arguments": [3, floats(4), 4]}, "x of kernel .* takes a numpy array, got 3"),
        (
            {"arguments": [floats(8)[::2], floats(4), 4]},
            "x of kernel .* takes an array without gaps",
        ),
        (
            {"arguments": [floats(4), floats(4), -1]},
            "n of kernel .* an integer from 0 to 4294967295",
        ),
        ({"arguments": [floats(4), floats(4), 1.5]}, "n of kernel .* takes an integer, got 1.5"),
        ({"block": 2048}, "block of kernel n::copied<float> may have 1024 threads, got 2048"),
        ({"block": (1, 1, 1, 1)}, "one to three axes"),
        ({"grid": 0}, "grid of kernel .* at least 1"),
        ({"symbols": {"k": 1}}, "uses no variable k; it has none"),
        ({"build_options": "-I"}, "build option -I needs a value"),
        ({"source": None, "path": "nowhere.cu"}, "no such kernel file: nowhere.cu"),
        ({"source": None, "path": None}, "needs a path or a source"),
    ],
)
def test_launches_that_do_not_fit(changes: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {
        "source": PLAIN,
        "kernel": "n::copied<float>",
        "arguments": [floats(64), floats(64), 64],
        "grid": 1,
        "block": 64,
    }
    with pytest.raises(KernelError, match=rf"^[^\n]*{message}[^\n]*$"):
        tracegen.trace(CudaWorkload(**(given | changes)))


BOUNDED = """
#define MOST 32
template <int N> __global__ void __launch_bounds__(2 * N, 1) twice(float *y) { y[threadIdx.x] = 1; }
__launch_bounds__(MOST) __global__ void declared(float *y);
__global__ void declared(float *y) { y[threadIdx.x] = 1; }
__global__ void unbound(float *y) { y[threadIdx.x] = 1; }
"""


@pytest.mark.parametrize(
    ("kernel", "most"), [("twice<16>", 32), ("declared", 32), ("unbound", 1024)]
)
def test_a_block_larger_than_its_launch_bounds(kernel: str, most: int) -> None:
    """A device refuses such a launch."""

    def traced(block: tuple[int, int]) -> None:
        tracegen.trace(workload(BOUNDED, floats(2048), kernel=kernel, block=block))

    traced((most // 2, 2))
    what = f"block of kernel {kernel} may have {most} threads"
    with pytest.raises(KernelError, match=rf"^{what}[^\n]*, got {most + 2}$"):
        traced((most // 2 + 1, 2))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("y[i] = x[i + 1];", r"k.cu:3: access x\[i \+ 1\] is out of bounds: index 32 in array x of shape \(32,\) \(4 bytes, load\); thread 31 of block 0"),
        ("y[i - 1] = 2;", r"access store y\[i - 1\] is out of bounds: index -1 in array y of shape \(32,\)"),
        ("atomicAdd(&y[i + 8], 1);", r"atomicAdd\(&y\[i \+ 8\], 1\) is out of bounds: index 32 in array y"),
        ("*(int2 *)(y + i) = make_int2(1, 2);", r"is misaligned: byte 4 of array y is not a multiple of 8"),
        ("__shared__ int s[16]; s[i] = 1; __syncthreads(); y[i] = s[0];", r"k.cu:3: index 16 is out of bounds: array s has 16 elements of 4 bytes"),
        ("int own[4]; own[i] = i; y[0] = own[x[i] % 4];", r"index 4 is out of bounds: array own has 4 elements"),
        ("y[i] = table[x[i] + 8];", r"index 8 is out of bounds: array table has 8 elements"),
        ("int *p = (int *)(8 + 4 * (long)x[0]); y[i] = p[0];", r"its address 0x8 lies in no array"),
        ("int a[2], b[4]; int *p = x[0] ? a : b; for (int k = 0; k < 9; ++k) p[k] = k; y[0] = a[1] + b[x[1]];", r"k.cu:3: an access through a pointer is out of bounds: it lies in none of the arrays a, b"),
        ("__shared__ int s[8]; int a[4]; int *p = x[0] ? a : s; p[i] = 1; y[i] = a[x[0]] + s[x[0]];", r"it lies in none of the arrays s, a"),
        ("int a[2], b[4]; int *p[2] = {a, b}; p[x[0]][i] = i; y[0] = a[x[0]] + b[x[1]];", r"its address 0x\w+ lies in no array"),
        ("int a[2]; int *p = x[0] ? y : a; p[i] = 1; y[1] = a[x[0]];", r"its address 0x\w+ lies in no array"),
        ("y[0] = given.v[i];", r"index 6 is out of bounds: array given has 6 elements of 4 bytes"),
        ("for (volatile int k = 0; k < 2;) y[i] = 1;", r"k.cu:3: the loops of thread 0 of block 0 took more than 1024 turns: this one may not end"),
        ("assert(x[i] == 0 && i < 5);", r"k.cu:3: an assertion failed in thread 5 of block 0"),
        ("if (x[i] == 0 && i == 7) __trap();", r"k.cu: __trap was called in thread 7 of block 0"),
        ("while (x[i] == 0) __syncthreads();", r"the loops of thread 0 of block 0 took more than 1024 turns"),
        ("volatile int *v = y; if (i == 0)\nwhile (v[1] == 0) {}\nif (i == 7) v[1] = 1; __syncthreads(); y[i] = x[i];", r"k.cu:4: the loops of thread 0 of block 0 took more than 1024 turns: this one may not end, or waits for a thread that runs later$"),
    ],
)  # fmt: skip
def test_faults_of_a_run(body: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tracegen.cuda import launch, library

    monkeypatch.setattr(library, "MOST_TURNS", 1024)
    monkeypatch.setattr(launch, "MOST_TURNS", 1024)
    source = f"#include <cassert>\nstruct S {{ int v[4]; long w; }}; __constant__ int table[8]; __global__ void k(const int *x, int *y, S given) {{ int i = threadIdx.x;\n{body}\n}}"
    struct = np.zeros((), [("v", np.int32, 4), ("w", np.int64)])
    given = workload(source, np.zeros(32, np.int32), np.zeros(32, np.int32), struct, path="k.cu")
    with pytest.raises(KernelError, match=rf"^[^\n]*{message}[^\n]*$"):
        tracegen.trace(given)


def test_without_clang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front_end, "find_clang", lambda _: None)
    given = workload(PLAIN, floats(4), kernel="other")
    with pytest.raises(KernelError, match=r"need clang, version 15 or later \(apt-get install"):
        tracegen.trace(given)


def test_other_tracers_and_block_counts_refuse_it() -> None:
    given = workload(PLAIN, floats(64), kernel="other")
    with pytest.raises(KernelError, match="the polyhedral tracer reads Loopy kernels"):
        tracegen.trace(given, tracer="polyhedral")
    with pytest.raises(
        KernelError, match="the basic blocks of CUDA C\\+\\+ and HIP are not counted"
    ):
        tracegen.count_blocks(given)


def test_positions_are_those_of_the_file_as_it_is_named(tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_text("\n\n__global__ void k(int *y) {\n  y[0] = missing;\n}\n")
    with pytest.raises(KernelError, match=rf"^{re.escape(str(path))}:4: use of undeclared"):
        tracegen.trace(CudaWorkload(path=path, arguments=[np.zeros(1, np.int32)], grid=1, block=1))
