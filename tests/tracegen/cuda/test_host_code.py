"""Programs whose host code does not compile here: their kernels do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracegen
from memsim.errors import KernelError
from tests.support.cuda_kernels import floats, needs_clang, needs_nvrtc, run, workload
from tracegen import CudaWorkload
from tracegen.cuda.host_code import without
from tracegen.workloads.load import load_kernel

pytestmark = needs_clang

# Libraries that are not there, types and functions that are declared nowhere, braces in texts and comments, a class of the host
# whose members macros make, a type without a name, and other code for the device that does not compile.
PROGRAM = """\
#include <cuda_runtime.h>
#include <thrust/device_vector.h>
#include <hipcub/hipcub.hpp>
#include <mpi.h>
#include <vector>
#include "graphs.h"
#include <boost/program_options.hpp>
namespace options = boost::program_options;
using namespace graphs;
struct __align__(16) Pair { float a, b; };
static struct { int x; } *unnamed;
#define NEXT(I) I &operator++() { return *this; } reference operator*() const { return *it; }
#define USING(T) using reference = host_library::of<T>;
template <class T>
class Iterator {
  T *it;
public:
  USING(T&)
  NEXT(Iterator)
};
template <class G> float ranked(const G &g, const std::vector<float> &start = {}, Options o = {}) {
  graph_t h = graph_of(g);
  return graph_rank(h, start);
}
__device__ float twice(float v) { return 2 * v; }
template <class T> __device__ T summed(T v) {
  typedef hipcub::BlockReduce<T, 64> Sums;
  __shared__ typename Sums::TempStorage room;
  return Sums(room).Sum(v);
}
template <class T> __global__ void all(const T *x, T *y) { y[0] = summed(x[threadIdx.x]); }
texture<float, 1, cudaReadModeElementType> table;
__global__ void looked_up(float *y) { y[threadIdx.x] = tex1Dfetch(table, threadIdx.x); }
__global__ void seed(State_t *s) {
  random_init(7, threadIdx.x, s);
}
namespace a { namespace {
enum Mode { add, multiply };
template <class T, unsigned n, Mode mode> __global__ void by(const T *x, T *y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = twice(mode == add ? x[i] + n : x[i] * n);
}
class Runner {
  void go() {
    const char *text = "}";
    thrust::device_vector<float> v(3);
    if (MPI_Init()) { cudaNothing(text); }
  }
};
template <class T> void run(const T *x, T *y) { by<T, 64u, multiply><<<1, 32>>>(x, y); } // {
} }
/* { */
void start() {
  int n;
  hipDeviceGetAttribute(&n, hipDeviceAttributeWarpSize, 0);
  if (cudaDeviceGetLimit(&n, cudaLimitStackSize)) puts(hipGetErrorName(n));
  cudaMemcpy(unnamed, unnamed, 4, cudaMemcpyDefault);
  a::run((float *)0, (float *)0);
}
int main() {
  cudaUnknown_t graph;
  return graph.run([&](int k) { return missing(k); });
}
"""
# What AMD's compiler, which links all kernels, does not take.
CALLING = """\
__device__ int elsewhere(int);
__global__ void calling(int *y) { y[threadIdx.x] = elsewhere(threadIdx.x); }
"""
LINE = 1 + PROGRAM[: PROGRAM.index("y[i] = ")].count("\n")
ARGS = """\
import numpy as np
from tracegen import CudaWorkload
def w(): return CudaWorkload(arguments=[np.arange(64, dtype=np.float32), np.zeros(64, np.float32)], grid=2, block=32)
"""


@pytest.mark.parametrize(
    ("machine", "compiler", "kernel"),
    [
        pytest.param("a100", "nvrtc", "a::by<float, 64, a::multiply>", marks=needs_nvrtc),
        ("mi250x", "clang", "by"),
    ],
)
def test_code_that_a_kernel_does_not_reach_need_not_compile(
    machine: str, compiler: Any, kernel: str, tmp_path: Path
) -> None:
    """In a .cpp file with a byte order mark. Without its namespace and the arguments of its template, a kernel is found where the
    program launches one of that name only."""
    file, args = tmp_path / "p.cpp", tmp_path / "args.py"
    text = PROGRAM + (CALLING if machine == "a100" else "")
    file.write_text(text, encoding="utf-8-sig")
    args.write_text(ARGS)
    given = load_kernel(f"{file}:{kernel}", {}, f"{args}:w")
    assert isinstance(given, CudaWorkload)
    np.testing.assert_array_equal(run(given, machine, compiler=compiler)["y"], 128 * np.arange(64))
    trace = tracegen.trace(given, machine, compiler=compiler)
    named = kernel if compiler == "nvrtc" else "a::by<float, 64, (a::Mode)1>"
    assert trace.launch.kernel == named
    assert {site.source.user_line for site in trace.sites} == {LINE}
    assert trace.user_source == text
    first = trace.provenance["compiler"]["stand_ins"][0]
    assert first == "Header graphs.h is not there: it is left out."


@pytest.mark.parametrize(("machine", "compiler"), [("a100", "nvrtc"), ("mi250x", "clang")])
def test_headers_of_a_project_are_found_without_its_options(
    machine: str, compiler: Any, tmp_path: Path
) -> None:
    """Beside the file, and in `include` up to the repository's folder; not outside, and not in place of other headers."""
    inside = tmp_path / "project" / "src" / "kernels"
    for folder in (inside, tmp_path / "project" / ".git", tmp_path / "project" / "include" / "p"):
        folder.mkdir(parents=True)
    (inside / "own.cuh").write_text("#include <p/factor.h>\n")
    (inside.parents[1] / "include" / "p" / "factor.h").write_text('#include "p/more.h"\n')
    (inside.parents[1] / "include" / "p" / "more.h").write_text("#define FACTOR 3\n")
    (inside / "math.h").write_text("#error not meant\n")
    (tmp_path / "outside.h").write_text("#define FACTOR 4\n")
    file = inside / "k.cu"
    text = "#include <own.cuh>\n#include <math.h>\n__global__ void k(int *y) { y[threadIdx.x] = FACTOR; }\n"
    file.write_text(text)
    given = CudaWorkload(path=file, arguments=[np.zeros(32, np.int32)], grid=1, block=32)
    assert set(run(given, machine, compiler=compiler)["y"]) == {3}
    notes = tracegen.trace(given, machine, compiler=compiler).provenance["compiler"]["notes"]
    assert f"Header own.cuh is in {inside}, which no build_options='-I FOLDER' names." in notes
    file.write_text(text.replace("own.cuh", "outside.h"))
    with pytest.raises(KernelError, match=r"k.cu:1: .*outside.h.*-I FOLDER"):
        run(given, machine, compiler=compiler)


def test_a_function_of_the_host_may_be_called_as_a_kernel() -> None:
    source = """__global__ void k(int *y) { y[threadIdx.x] = 1; }
int k(int n) { k<<<1, 32>>>(nullptr); return n; }
int main() { return k(3); }
"""
    given = workload(source, np.zeros(32, np.int32), kernel="k")
    assert set(run(given, compiler="clang")["y"]) == {1}


@pytest.mark.weekly(2)
@pytest.mark.parametrize(
    ("before", "body", "machine", "message"),
    [
        # A function for the device whose qualifier a macro hides is not host code.
        ("DEV float hidden(float v) { return missing(v); }", "y[0] = hidden(x[0]);", "a100", r"p.cu:3: use of undeclared identifier 'missing'"),
        ("#include <cub/cub.cuh>", "y[0] = cub::something(x[0]);", "mi250x", r"p.cu:4: code of cub cannot be traced: its headers are not read"),
        ("#include <cub/cub.cuh>\nnamespace c = cub;", "y[0] = c::something(x[0]);", "mi250x", r"p.cu:5: code of cub cannot be traced"),
        ("", 'asm("sqrt.approx.f32 %0, %1;" : "=f"(y[0]) : "f"(x[0]));', "mi250x", r"p.cu:4: asm is in PTX, which only NVIDIA's GPUs have"),
        ("#include <settings.h>", "y[0] = LEVEL;", "a100", r"p.cu:3: 'settings.h' file not found"),
        ("struct C { unknown_t a; };", "y[0] = sizeof(C::b);", "a100", r"p.cu:4: no member named 'b' in 'C'"),
        # Another one would take its calls.
        ("__device__ float of(double v) { return 1; }\n__device__ __attribute__((launch_bounds())) float of(float v) { return 2; }", "y[0] = of(1.0f);", "mi250x", r"p.cu:4: 'launch_bounds' attribute takes"),
    ],
)  # fmt: skip
def test_code_that_the_kernel_reaches_must_compile(
    before: str, body: str, machine: str, message: str
) -> None:
    source = f"#define DEV __device__\nvoid host() {{ absent(); }}\n{before}\n__global__ void k(const float *x, float *y) {{ {body} }}\n"
    with pytest.raises(KernelError, match=rf"^{message}[^\n]*$"):
        tracegen.trace(workload(source, floats(32), floats(32), path="p.cu"), machine)


OTHERS = """\
#include <hipcub/hipcub.hpp>
template <class T> __device__ T summed(T v) {
  typedef hipcub::BlockReduce<T, 64> Sums;
  return Sums().Sum(v);
}
__device__ float through(float v) { return summed(v); }
template <class T> __global__ void all(const T *x, T *y) { y[0] = through(x[threadIdx.x]); }
template <class T> __global__ void copied(const T *x, T *y) { y[threadIdx.x] = x[threadIdx.x]; }
int main() {
  all<<<1, 64>>>((float *)0, (float *)0);
  copied<<<1, 32>>>((float *)0, (float *)0), copied<<<1, 32>>>((int *)0, (int *)0);
}
"""


def test_what_a_kernel_reaches_through_functions_and_files_must_compile(tmp_path: Path) -> None:
    given = workload(OTHERS, floats(64), floats(64), block=64, path="p.cu", kernel="all")

    def check(machine: str, message: str, compiler: Any = "clang", **changes: Any) -> None:
        with pytest.raises(KernelError, match=f"{message}$"):
            tracegen.trace(replace(given, **changes), machine, compiler=compiler)

    reason = "3: code of hipcub cannot be traced: its headers are not read"
    for machine in ("a100", "mi250x"):
        check(machine, f"^p.cu:{reason}", "auto")
    several = "^p.cu has several kernels copied: name one of copied<float>, copied<int>"
    check("a100", several, kernel="copied")
    check("a100", r"^p.cu:13: 'none.h' file not found.*", source=OTHERS + '#include "none.h"')
    before, kernels, behind = OTHERS.partition("template <class T> __global__")
    (tmp_path / "sums.h").write_text(before)
    (tmp_path / "q.cu").write_text(f'#include "sums.h"\n{kernels}{behind}')
    check("mi250x", f"sums.h:{reason}", source=None, path=tmp_path / "q.cu")


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("void f() {\n a;\n}\nint g;\n", 2, "void f() {memsim_left_out();\n\n}\nint g;\n"),
        ("void f(a b)\n{\n}\nint g;\n", 1, "           \n \n \nint g;\n"),
        ("struct S { int a; };\n__device__ void f() { a; }\n", 2, None),
        ("struct S {\n int a;\n};\n", 2, None),
        ("namespace n { void f() { a; } }\n", 1, "namespace n { void f() {memsim_left_out();} }\n"),
        ("int x = a;\nvoid f() { }\n", 1, None),
        ("void f() { {\n", 1, None),
        ("", 3, None),
        ("#if A\nint f(a)\n#else\nint g()\n#endif\n{\n}\n", 4, "#if A\n        \n#else\n       \n#endif\n \n \n"),
        ("void f(A a = {}, B b = g({1})) {\n c;\n}\n", 2, "void f(A a = {}, B b = g({1})) {memsim_left_out();\n\n}\n"),
    ],
)  # fmt: skip
def test_functions_are_found_by_their_braces(text: str, line: int, expected: str | None) -> None:
    assert without(text, line) == expected
