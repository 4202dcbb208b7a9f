"""Programs whose host code does not compile here: their kernels do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tracegen
from memsim.errors import KernelError
from tests.support.cuda_kernels import floats, needs_clang, run, workload
from tracegen import CudaWorkload
from tracegen.cuda.host_code import without
from tracegen.workloads.load import load_kernel

pytestmark = needs_clang

PROGRAM = """\
#include <cuda_runtime.h>
#include <thrust/device_vector.h>
#include <mpi.h>
struct __align__(16) Pair { float a, b; };
template <class T> void on_host(cudaUnknown_t graph, T *x) { graph.run(x); } // {
__device__ float twice(float v) { return 2 * v; }
namespace inner {
__global__ void scaled(const float *x, float *y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = twice(x[i]);
}
class Runner {
  void go() {
    const char *text = "}";
    thrust::device_vector<float> v(3);
    if (MPI_Init()) { cudaNothing(text); }
  }
};
}
/* { */
int main() {
  cudaUnknown_t graph;
  return graph.run([&](int k) { return missing(k); });
}
"""


@pytest.mark.parametrize("machine", ["v100", "mi250x"])
def test_host_code_that_does_not_compile_is_left_out(machine: str) -> None:
    x = floats(128)
    given = workload(
        PROGRAM, x, np.zeros_like(x), grid=2, block=64, path="p.cu", kernel="inner::scaled"
    )
    np.testing.assert_array_equal(run(given, machine)["y"], 2 * x)
    trace = tracegen.trace(given, machine)
    assert {site.source.user_line for site in trace.sites} == {10}
    assert trace.user_source == PROGRAM


@pytest.mark.weekly(2)
@pytest.mark.parametrize(
    ("before", "body", "message"),
    [
        ("", "y[0] = missing(x[0]);", r"p.cu:4: use of undeclared identifier 'missing'"),
        # A function for the device whose qualifier a macro hides is not host code.
        ("DEV float hidden(float v) { return missing(v); }", "y[0] = hidden(x[0]);", r"p.cu:3: use of undeclared identifier 'missing'"),
        ("#include <cub/cub.cuh>", "y[0] = cub::something(x[0]);", r"p.cu:4: code of cub cannot be traced: its headers are not read"),
        ("#include <settings.h>", "y[0] = LEVEL;", r"p.cu:3: 'settings.h' file not found"),
        ('#include "settings.h"', "y[0] = 1;", r"p.cu:3: 'settings.h' file not found"),
        ("struct C { unknown_t a; };", "y[0] = sizeof(C::b);", r"p.cu:4: no member named 'b' in 'C'"),
    ],
)  # fmt: skip
def test_code_for_the_device_is_not(before: str, body: str, message: str) -> None:
    source = f"#define DEV __device__\nvoid host() {{ absent(); }}\n{before}\n__global__ void k(const float *x, float *y) {{ {body} }}\n"
    with pytest.raises(KernelError, match=rf"^{message}[^\n]*$"):
        tracegen.trace(workload(source, floats(32), floats(32), path="p.cu"))


def test_a_byte_order_mark_and_types_without_names(tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    text = """__global__ void k(int *y) { y[threadIdx.x] = 1; }
static struct { int x; } *host;
int main() { cudaMemcpy(host, host, 4, cudaMemcpyDefault); }
"""
    path.write_text(text, encoding="utf-8-sig")
    made = CudaWorkload(path=path, arguments=[np.zeros(32, np.int32)], grid=1, block=32)
    assert set(run(made)["y"]) == {1}
    assert [site.source.user_line for site in tracegen.trace(made).sites] == [1]


@pytest.mark.parametrize("machine", ["a100", "mi250x"])
def test_a_function_of_the_host_may_be_called_as_a_kernel(machine: str) -> None:
    source = """#include <memory>
#include <vector>
__global__ void k(int *y) { y[threadIdx.x] = 1; }
std::vector<int> k(const std::vector<int> &v) { k<<<1, 32>>>(nullptr); return v; }
int main() { return k(std::vector<int>(3)).size() + *std::make_shared<int>(1); }
"""
    assert set(run(workload(source, np.zeros(32, np.int32), kernel="k"), machine)["y"]) == {1}


def test_a_kernel_that_is_only_declared() -> None:
    source = "__global__ void k(float *y);\nint main() { k<<<1, 1>>>(0); }\n"
    with pytest.raises(KernelError, match=r"^p.cu declares kernel k, but does not define it$"):
        tracegen.trace(workload(source, floats(32), path="p.cu"))


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


OF_MACROS = """\
#include <vector>
#include <graphs.h>
#include <boost/program_options.hpp>
namespace options = boost::program_options;
using namespace graphs;
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
__global__ void doubled(const float *x, float *y) { y[threadIdx.x] = 2 * x[threadIdx.x]; }
"""
"""A class of the host whose members macros make, and a library's header that is not there."""


@pytest.mark.parametrize("compiler", ["nvrtc", "clang"])
def test_a_header_of_an_unknown_library_is_left_out(compiler: str, tmp_path: Path) -> None:
    x = floats(32)
    given = workload(OF_MACROS, x, np.zeros_like(x))
    np.testing.assert_array_equal(run(given, compiler=compiler)["y"], 2 * x)
    trace = tracegen.trace(given, "a100", compiler=compiler)
    first = trace.provenance["compiler"]["stand_ins"][0]
    assert first == "Header graphs.h is not there: it is left out."


@pytest.mark.parametrize("compiler", ["nvrtc", "clang"])
def test_another_kernel_that_does_not_compile_is_left_empty(compiler: str, tmp_path: Path) -> None:
    """Also in a .cpp file, which a command line may name."""
    file = tmp_path / "two.cpp"
    file.write_text(
        "__global__ void seed(State_t *s) {\n  random_init(7, threadIdx.x, s);\n}\n"
        "template <class T> __global__ void k(const T *x, T *y) {\n  y[threadIdx.x] = x[threadIdx.x] + 1;\n}\n"
    )
    args = tmp_path / "args.py"
    args.write_text(
        "import numpy as np\nfrom tracegen import CudaWorkload\n"
        "def w(): return CudaWorkload(arguments=[np.ones(32, np.float32), np.zeros(32, np.float32)], grid=1, block=32)\n"
    )
    given = load_kernel(f"{file}:k<float>", {}, f"{args}:w")
    assert isinstance(given, CudaWorkload)
    assert set(run(given, compiler=compiler)["y"]) == {2.0}


OTHERS = """\
#include <hipcub/hipcub.hpp>
template <class T> __device__ T summed(T v) {
  typedef hipcub::BlockReduce<T, 64> Sums;
  __shared__ typename Sums::TempStorage room;
  return Sums(room).Sum(v);
}
__device__ float through(float v) { return summed(v); }
template <class T> __global__ void all(const T *x, T *y) { y[0] = through(x[threadIdx.x]); }
__global__ void each(const float *x, float *y) { y[threadIdx.x] = 2 * x[threadIdx.x]; }
int main() { all<<<1, 64>>>((float *)0, (float *)0); }
"""


def test_a_function_is_not_left_out_where_another_one_would_take_its_calls() -> None:
    source = """__device__ float of(double v) { return 1; }
__device__ __attribute__((launch_bounds())) float of(float v) { return 2; }
__global__ void k(float *y) { y[0] = of(1.0f); }
"""
    with pytest.raises(KernelError, match=r"^p.cu:2: 'launch_bounds' attribute takes"):
        tracegen.trace(workload(source, floats(1), path="p.cu"), "mi250x")


@pytest.mark.parametrize("machine", ["a100", "mi250x"])
def test_other_code_for_the_device_need_not_compile(machine: str, tmp_path: Path) -> None:
    """What the kernel reaches must, also through another function, and in a file that is included."""
    x = floats(64)
    given = workload(OTHERS, x, np.zeros_like(x), block=64, path="p.cu", kernel="each")
    np.testing.assert_array_equal(run(given, machine)["y"], 2 * x)
    message = "3: code of hipcub cannot be traced: its headers are not read"
    with pytest.raises(KernelError, match=f"^p.cu:{message}$"):
        tracegen.trace(replace(given, kernel="all"), machine)
    path = tmp_path / "q.cu"
    with pytest.raises(
        KernelError, match=r"^p.cu has no kernel none \(.*\); it has all<class T>, each$"
    ):
        tracegen.trace(replace(given, kernel="none"), machine)
    with pytest.raises(KernelError, match=r"^p.cu:11: 'none.h' file not found$"):
        tracegen.trace(replace(given, source=OTHERS + '#include "none.h"'), machine)
    before, kernels, behind = OTHERS.partition("template <class T> __global__")
    (tmp_path / "sums.h").write_text(before)
    path.write_text(f'#include "sums.h"\n{kernels}{behind}')
    with pytest.raises(KernelError, match=f"sums.h:{message}$"):
        tracegen.trace(replace(given, source=None, path=path, kernel="all"), machine)


LAUNCHED = """\
#include <thrust/device_vector.h>
namespace a { namespace {
enum Mode { add, multiply };
template <class T, unsigned n, Mode mode> __global__ void by(const T *x, T *y) {
  y[threadIdx.x] = mode == add ? x[threadIdx.x] + n : x[threadIdx.x] * n;
}
template <class T> __global__ void copied(const T *x, T *y) { y[threadIdx.x] = x[threadIdx.x]; }
template <class T> void run(const T *x, T *y) {
  by<T, 64u, multiply><<<1, 32>>>(x, y);
  copied<<<1, 32>>>(x, y);
}
} }
void broken() { thrust::device_vector<float> v; }
int main() {
  int n;
  hipDeviceGetAttribute(&n, hipDeviceAttributeWarpSize, 0);
  if (cudaDeviceGetLimit(&n, cudaLimitStackSize)) puts(hipGetErrorName(n));
  a::run((float *)0, (float *)0);
  a::copied<<<1, 32>>>((int *)0, (int *)0);
}
"""


@pytest.mark.parametrize("machine", ["a100", "mi250x"])
def test_a_kernel_is_found_without_its_namespace_and_template_arguments(machine: str) -> None:
    """Where the program launches one of that name only."""
    x = floats(32)
    given = workload(LAUNCHED, x, np.zeros_like(x), path="p.cu", kernel="by")
    np.testing.assert_array_equal(run(given, machine)["y"], 64 * x)
    assert tracegen.trace(given, machine).launch.kernel == "a::by<float, 64, (a::Mode)1>"
    message = "p.cu has several kernels copied: name one of a::copied<float>, a::copied<int>"
    with pytest.raises(KernelError, match=f"^{message}$"):
        tracegen.trace(replace(given, kernel="copied"), machine)
