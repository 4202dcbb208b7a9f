"""What is refused, or ends a run: each in one line with the user's position. And what once was."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracegen
from memsim.errors import KernelError
from tests.support.cuda_kernels import floats, needs_clang, run, workload
from tracegen import CudaWorkload
from tracegen.compiled import cuda_signature
from tracegen.tools import headers

pytestmark = needs_clang

GROUPS = "#include <cooperative_groups.h>\n"
TILE = "  auto t = cooperative_groups::tiled_partition<64>(cooperative_groups::this_thread_block());\n}"
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
POINTER = (
    "__device__ int one(int n) { return n; }\n__device__ int two(int n) { return 2 * n; }\n"
    "__global__ void k(int *y) {\n  int (*f)(int) = y[0] ? one : two;\n  y[0] = f(y[1]);\n}"
)
HEAP = "__global__ void k(int *y) {{\n  int *p = {};\n  p[y[0]] = 2; y[0] = p[y[1]];\n}}"


@pytest.mark.weekly(2)
@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("__global__ void k(int *y) {\n  y[0] = tex2D<float>(1, 1, 2);\n}", r"t.cu:1: kernel k: a texture cannot be traced: TEX"),
        ("__global__ void k(int *y) {\n  y[0] = surf2Dread<float>(1, 1, 2);\n}", "t.cu:1: kernel k: a surface cannot be traced: SULD"),
        ("__global__ void f(int *y);\n__global__ void k(int *y) {\n  f<<<1, 32>>>(y);\n}", "t.cu:3: reference to __global__ function 'f' in __global__ function"),
        (GROUPS + "__global__ void k(int *y) {\n  cooperative_groups::this_grid().sync();\n}", "t.cu: grid-wide synchronisation cannot be traced"),
        (GROUPS + "__global__ void k(int *y) {\n  cooperative_groups::this_cluster().sync();\n}", "t.cu: a cluster of thread blocks before sm_90, or without NVRTC, cannot be traced"),
        (GROUPS + "__global__ void k(int *y) {\n" + TILE, "t.cu: a tile of more than a warp cannot be traced"),
        (BARRIER.format(32, BULK), "memcpy_async_tx_is_not_supported_before_SM_90"),
        (ROLES, "t.cu: a pipeline whose threads have roles, or are not a block, cannot be traced"),
        (HEAP.format("(int *)malloc(16)"), r"t.cu:2: memory that a kernel allocates \(malloc\) cannot be traced"),
        (HEAP.format("new int[4]"), r"t.cu:2: memory that a kernel allocates \(malloc\) cannot be traced"),
        ("__global__ void k(int *y) {\n  free(y);\n}", "t.cu:2: memory that a kernel frees cannot be traced"),
        (POINTER, "t.cu: a call through a pointer cannot be traced"),
        ("__global__ void k(int *y) {\n  y[0] = z;\n}", "t.cu:2: use of undeclared identifier 'z'"),
        ("__global__ void k(int *y, int n) {}\n__global__ void k(int *y, float n) {}", r"t.cu has several kernels k: name one of k\(int \*, int\), k\(int \*, float\)"),
        ("__global__ void k(int *y);\nint main() { k<<<1, 1>>>(0); }", "t.cu declares kernel k, but does not define it"),
        ("#include \"nowhere.h\"\n__global__ void k(int *y) { y[0] = LEVEL; }", "t.cu:1: 'nowhere.h' file not found; build_options='-I FOLDER' says where it is"),
        ("#include <helper_math.h>\n__device__ float4 f(float4 a) { return a + a; }\n__global__ void k(float4 *y) { y[0] = f(y[1]); }", "t.cu:1: 'helper_math.h' file not found"),
        ("__device__ int f(int);\n__global__ void k(int *y) { y[0] = f(1); }", "t.cu:2: function f is not available for sm_80 with these arguments"),
    ],
)  # fmt: skip
def test_texts_that_are_refused(source: str, message: str) -> None:
    given = workload(source, np.zeros(64, np.int32), path="t.cu", kernel="k")
    with pytest.raises(KernelError, match=rf"^[^\n]*{message}[^\n]*$"):
        run(given)


def test_a_function_of_another_file_is_named_as_the_user_has_it() -> None:
    source = "__device__ int f(int);\n__global__ void k(int *y) { y[0] = f(1); }"
    with pytest.raises(KernelError, match=r"^function f is not available for gfx90a$"):
        run(workload(source, np.zeros(64, np.int32), path="t.hip", kernel="k"), "mi250x")


def test_what_machine_code_can_do() -> None:
    """Inline assembly, recursion, a division by zero as NVIDIA's code has it; an assertion that holds."""
    source = """
    #include <cassert>
    __device__ int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); }
    __global__ void k(int *y, int zero) {
      int i = threadIdx.x;
      asm("mov.u32 %0, %%laneid;" : "=r"(y[i]));
      y[32 + i] = f(i % 8);
      y[64 + i] = i / zero;
      assert(zero == 0); printf("%d", zero);
      y[96 + i] = 3;
    }"""
    lanes, numbers, quotients, after = run(workload(source, np.zeros(128, np.int32), 0))["y"].reshape(4, 32)  # fmt: skip
    np.testing.assert_array_equal(lanes, np.arange(32))
    np.testing.assert_array_equal(numbers, np.resize([0, 1, 1, 2, 3, 5, 8, 13], 32))
    assert set(quotients) == {-1}
    assert set(after) == {3}


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
        ({"kernel": "n::copied"}, r"has no kernel n::copied \(.*\); it has copied<typename T>, other"),
        ({"kernel": "n::copied<float, 3>"}, r"has no kernel n::copied<float, 3> .* it has copied<typename T>"),
        ({"kernel": None}, "several kernels: name one of copied<typename T>, other"),
        ({"kernel": None, "source": "\n"}, r"kernel\.cu has no kernel \(a function that is __global__\)"),
        ({"arguments": [1]}, r"kernel n::copied<float> takes 3 arguments \(x, y, n\), got 1"),
        ({"arguments": {"x": None}}, "needs a value for y, n; it has x, y, n"),
        ({"arguments": {"z": 1}}, "has no argument z; it has x, y, n"),
        ({"arguments": [np.zeros(4), floats(4), 4]}, "x of kernel .* takes an array of float32"),
        ({"arguments": [3, floats(4), 4]}, "x of kernel .* takes a numpy array, got 3"),
        ({"arguments": [floats(8)[::2], floats(4), 4]}, "x of kernel .* takes an array without gaps"),
        ({"arguments": [np.ma.masked_array(floats(4)), floats(4), 4]}, "takes an array without a mask"),
        ({"arguments": [floats(4), floats(4), -1]}, "n of kernel .* an integer from 0 to 4294967295"),
        ({"arguments": [floats(4), floats(4), 1.5]}, "n of kernel .* takes an integer, got 1.5"),
        ({"block": 2048}, "block of kernel n::copied<float> may have 1024 threads, got 2048"),
        ({"block": (1, 1, 1, 1)}, "one to three axes"),
        ({"grid": 0}, "grid of kernel .* at least 1"),
        ({"symbols": {"k": 1}}, "uses no variable k; it has none"),
        ({"build_options": "-DX='"}, "build_options must be a text whose quotation marks are closed"),
        ({"grid": 1 << 40}, "may have 2147483647 groups along an axis, got 1099511627776"),
        ({"build_options": "-I"}, "build option -I needs a value"),
        ({"source": None, "path": "nowhere.cu"}, "no such kernel file: nowhere.cu"),
        ({"source": None, "path": None}, "needs a path or a source"),
    ],
)  # fmt: skip
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
"""


@pytest.mark.parametrize("kernel", ["twice<16>", "declared"])
def test_a_block_larger_than_its_launch_bounds(kernel: str) -> None:
    """A device refuses such a launch."""

    def traced(block: tuple[int, int]) -> None:
        tracegen.trace(workload(BOUNDED, floats(2048), kernel=kernel, block=block))

    traced((16, 2))
    what = f"block of kernel {kernel} may have 32 threads"
    with pytest.raises(KernelError, match=rf"^{what}[^\n]*, got 34$"):
        traced((17, 2))


FAULTS = """
#include <cassert>
struct S { int v[4]; long w; };
__constant__ int table[8];
__global__ void k(const int *x, int *y, S given) {
  int i = threadIdx.x;
BODY
}
"""


@pytest.mark.weekly(2)
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("y[i] = x[i + 1];", r"k.cu:7: access x\[i \+ 1\] is out of bounds: index 32 in array x of shape \(32,\) \(4 bytes, load\) \(work-item 31 of group 0\)"),
        ("y[i - 1] = 2;", r"k.cu:7: access store y\[i - 1\] is out of bounds: index -1 in array y of shape \(32,\)"),
        ("atomicAdd(&y[i + 8], 1);", r"access atomicAdd\(&y\[i \+ 8\], 1\) is out of bounds: index 32 in array y"),
        ("*(int2 *)(y + i) = make_int2(1, 2);", r"is misaligned: its address 0x\w+ is no multiple of 8 \(work-item 1 "),
        ("__shared__ int s[16]; s[i] = 1; __syncthreads(); y[i] = s[0];", r"k.cu:7: access .* is out of bounds: byte 64 of 64 bytes of local memory"),
        ("int own[4]; for (int j = 0; j < 4; ++j) own[(x[i] + j) % 4] = j; y[0] = own[x[i] - 300];", r"k.cu:7: .*private memory"),
        ("int *p = (int *)(8 + 4 * (long)x[0]); y[i] = p[0];", r"k.cu:7: .* its address 0x8 lies in no array"),
        ("volatile int *v = y; while (v[i] == 0) {}", "group 0 does not end, or waits for a group that runs later"),
        ("assert(x[i] == 0 && i < 5);", r"k.cu:7: an assertion failed in work-item 5 of group 0"),
        ("if (x[i] == 0 && i == 7) __trap();", r"k.cu:7: __trap was called in work-item 7 of group 0"),
        ("if (i < 16) while (x[i] == 0) asm volatile(\"bar.sync 1, 64;\");", r"group 0 waits for ever at a barrier that others never reach: sub-group 0 at k.cu:7"),
    ],
)  # fmt: skip
def test_faults_of_a_run(body: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracegen.execution.run.MOST_STEPS", 1 << 20)
    struct = np.zeros((), [("v", np.int32, 4), ("w", np.int64)])
    arrays = np.zeros(32, np.int32), np.zeros(32, np.int32)
    given = workload(FAULTS.replace("BODY", body), *arrays, struct, path="k.cu")
    with pytest.raises(KernelError, match=rf"^[^\n]*{message}[^\n]*$"):
        run(given)


def test_without_clang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_signature, "find_clang", lambda _: None)
    given = workload(PLAIN, floats(4), kernel="other")
    with pytest.raises(KernelError, match=r"need clang, version 15 or later \(apt-get install"):
        tracegen.trace(given, "mi250x")


def test_other_tracers_refuse_it() -> None:
    given = workload(PLAIN, floats(64), kernel="other")
    with pytest.raises(KernelError, match="tracer 'polyhedral' reads Loopy kernels"):
        tracegen.trace(given, tracer="polyhedral")


def test_positions_are_those_of_the_file_as_it_is_named(tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_text("\n\n__global__ void k(int *y) {\n  y[0] = missing;\n}\n")
    with pytest.raises(KernelError, match=rf"^{re.escape(str(path))}:4: use of undeclared"):
        tracegen.trace(CudaWorkload(path=path, arguments=[np.zeros(1, np.int32)], grid=1, block=1))


def test_what_both_compilers_refuse_is_compiled_once_by_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What headers that take a minute to read would make long. And types of thousands of characters are not shown whole."""
    ran, run_clang = [], headers.run
    monkeypatch.setattr(headers, "run", lambda *given: ran.append(given) or run_clang(*given))
    long = "a_type_with_a_rather_long_name" * 20
    source = f"struct {long} {{}};\n__global__ void k(int *y) {{\n  {long} x = y[0];\n}}"
    with pytest.raises(KernelError, match=r"^t.cu:3: no viable conversion .* \[\.\.\.\] ") as error:
        run(workload(source, np.zeros(4, np.int32), path="t.cu", kernel="k"), "a100")
    assert len(str(error.value)) < 450
    assert sum("-emit-pch" not in given[0] for given in ran) == 1
