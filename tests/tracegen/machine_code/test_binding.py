"""Launches bound to machine code: banks, arguments, addresses and memory against the rules of C and of the makers."""

from __future__ import annotations

import re
import struct
from typing import Any

import numpy as np
import pytest

from experiments.kernels.fft import fft
from experiments.kernels.spmv import spmv
from memsim.errors import KernelError
from tests.support.compilers import needs_amd, needs_nvidia
from tracegen import CudaWorkload, OpenCLWorkload
from tracegen.compiled.cuda_signature import last_name
from tracegen.compiled.nvidia.cubin import read_cubin
from tracegen.executed.targets import lowered
from tracegen.execution.run import Execution
from tracegen.machine_code.binding import bind
from tracegen.machine_code.binding_amd import _content
from tracegen.machine_code.bound import BoundKernel

pytestmark = pytest.mark.weekly(2)  # each of these tests takes half of its targets each week

NVIDIA = [pytest.param(target, marks=needs_nvidia) for target in ("sm_80", "sm_90", "sm_100")]
"""Of each layout of constant bank 0 that has the arguments at another place."""
BOTH = [pytest.param("sm_80", marks=needs_nvidia), pytest.param("gfx90a", marks=needs_amd)]
PARAMETERS_AT = {"sm_80": 0x160, "sm_90": 0x210, "sm_100": 0x380}
"""Of constant bank 0."""


def one(
    workload: CudaWorkload | OpenCLWorkload, target: str, compiler: Any = "auto"
) -> BoundKernel:
    (bound,) = bind(workload, target, compiler)
    return bound


def cuda(source: str, *arguments: Any, **others: Any) -> CudaWorkload:
    return CudaWorkload(source=source, arguments=arguments, **{"grid": 1, "block": 32, **others})


def arguments_of(bound: BoundKernel) -> bytes:
    """The bytes of the arguments, from the first one on."""
    if bound.code.target.startswith("sm_"):
        return bytes(bound.machine.banks[0][PARAMETERS_AT[bound.code.target] :])
    return bytes({one.name: data for one, data in bound.machine.hidden}["arguments"])


SIZES = """__global__ void sizes(int *y) {
  y[0] = blockDim.x; y[1] = blockDim.y; y[2] = blockDim.z; y[3] = gridDim.x; y[4] = gridDim.y; y[5] = gridDim.z;
}"""


@pytest.mark.parametrize("target", [pytest.param("sm_75", marks=needs_nvidia), *NVIDIA])
def test_the_code_finds_the_sizes_of_the_launch_in_its_constant_bank(target: str) -> None:
    """The words that the code reads, besides its stack, arguments and descriptor, are the six sizes."""
    bound = one(cuda(SIZES, np.zeros(6, np.int32), grid=(3, 5, 7), block=(4, 2, 8)), target)
    bank = bound.machine.banks[0]
    read = set()
    for opcode, place in re.findall(r"(\w[\w.]*) [^;]*c\[0x0\]\[(0x\w+|RZ)\]", bound.code.listing):
        at = 0 if place == "RZ" else int(place, 16)
        words = 4 if ".128" in opcode else 2 if ".64" in opcode or "WIDE" in opcode else 1
        read |= {int(word) for word in bank[at : at + 4 * words].view(np.uint32)}
    assert {3, 5, 7, 4, 2, 8} <= read


STRUCTS = """struct S { char a; double b; short c[3]; };
__global__ void structs(char a, S s, short h, long long z, S t, float *out, bool on) {
  out[0] = a + s.b + s.c[1] + h + z + t.a + t.c[2] + on;
}"""
STRUCT = np.dtype([("a", np.int8), ("b", np.float64), ("c", np.int16, 3)], align=True)


@pytest.mark.parametrize("target", [*NVIDIA, BOTH[1]])
def test_arguments_lie_as_c_lays_out_a_struct_of_them(target: str) -> None:
    s, t = (np.array((k, k / 2, [k, k + 1, k + 2]), STRUCT) for k in (1, 3))
    out = np.zeros(1, np.float32)
    bound = one(cuda(STRUCTS, -5, s, 7, 1 << 40, t, out, True), target)
    made = arguments_of(bound)
    a, h, z, out, on = struct.unpack_from("<b31xhxxxxxxq24xQ?", made)
    assert (a, h, z, out, on) == (-5, 7, 1 << 40, bound.memory.bases["out"], True)
    for at, value in ((8, s), (48, t)):
        (found,) = np.frombuffer(made[at : at + STRUCT.itemsize], STRUCT)
        assert (found["a"], found["b"], *found["c"]) == (value["a"], value["b"], *value["c"])
    assert bound.settings == {"a": -5, "h": 7, "z": 1 << 40}
    assert set(bound.outputs()) == {"out"}


VARIABLES = """
namespace n { __device__ int numbers[4] = {1, 2, 3, 4}; __constant__ float factors[3]; }
__device__ int *third = &n::numbers[2];
__device__ float *given;
__device__ double unused;
static __device__ short total;
static __constant__ int shift;
__global__ void k(int *y) {
  y[threadIdx.x] = third[0] + n::numbers[y[0]] + (int)n::factors[y[1]] + (int)given[1] + total + shift;
}"""


@pytest.mark.parametrize("target", [*NVIDIA, BOTH[1]])
def test_variables_have_addresses_and_values(target: str) -> None:
    y, values = np.zeros(32, np.int32), np.arange(5, dtype=np.float32)
    symbols = {"factors": np.array([1, 2, 4], np.float32), "given": values, "total": 7, "shift": 3}
    bound = one(cuda(VARIABLES, y, symbols=symbols), target)
    memory, bases = bound.memory, bound.memory.bases
    assert {"y", "*given", "numbers", "third", "given", "total"} <= set(bases)
    assert "unused" not in bases
    np.testing.assert_array_equal(memory.views["numbers"].view(np.int32), [1, 2, 3, 4])
    assert memory.views["third"].view(np.uint64)[0] == bases["numbers"] + 8
    assert memory.views["given"].view(np.uint64)[0] == bases["*given"]
    assert memory.views["total"].view(np.int16)[0] == 7
    assert bound.symbol_addresses["_ZN1n7numbersE"] == bases["numbers"]
    if target.startswith("sm_"):
        bank = bound.machine.banks[3]
        places = read_cubin(bound.code.binary, bound.code.kernel).variables
        at = places["_ZN1n7factorsE"].offset
        np.testing.assert_array_equal(bank[at : at + 12].view(np.float32), [1, 2, 4])
        (shift,) = (place for name, place in places.items() if "shift" in name)  # NVRTC calls it so
        assert bank[shift.offset] == 3
        used = {bases[name] for name in ("numbers", "third", "given", "total")}
        assert used <= set(bound.machine.banks[4].view(np.uint64).tolist())
    else:
        np.testing.assert_array_equal(memory.views["factors"].view(np.float32), [1, 2, 4])
        assert memory.views["shift"].view(np.int32)[0] == 3
    memory.views["numbers"][:] = memory.views["third"][:1] = 0
    bound.restore()
    np.testing.assert_array_equal(memory.views["numbers"].view(np.int32), [1, 2, 3, 4])
    assert memory.views["third"].view(np.uint64)[0] == bases["numbers"] + 8


NODES = """
struct Node { float *data; int n; Node *next; };
__global__ void k(Node node, float *const *rows, const float *a, float *b, const Node *more) {
  b[threadIdx.x] = node.data[node.n] + rows[1][0] + a[0] + more[1].data[0];
}"""


@pytest.mark.parametrize("target", BOTH)
def test_pointers_in_arrays_and_structs_are_addresses_of_the_address_map(target: str) -> None:
    node = np.dtype([("data", object), ("n", np.int32), ("next", object)], align=True)
    x, y, z = (np.full(32, k, np.float32) for k in (1, 2, 3))
    rows, more = np.empty(2, object), np.zeros(2, node)
    rows[:] = [x, y]
    more["data"][0], more["data"][1], more["next"] = y, x, None
    whole = np.zeros((), node)
    whole["data"][()], whole["n"], whole["next"] = z, 4, None
    given = {"node": whole, "rows": rows, "a": x, "b": x, "more": more}
    bound = one(CudaWorkload(source=NODES, arguments=given, grid=1, block=32), target)
    at, views = bound.memory.address, bound.memory.views
    assert len(bound.memory.bases) == 5  # x, y and z, rows, more
    passed = struct.unpack_from("<Qi4xQQQQQ", arguments_of(bound))
    assert passed == (at(z), 4, 0, at(rows), at(x), at(x), at(more))
    assert views["rows"].view(np.uint64).tolist() == [at(x), at(y)]
    pointers = views["more"].view(np.uint64).reshape(2, 3)[:, [0, 2]]
    assert pointers.tolist() == [[at(y), 0], [at(x), 0]]
    outputs = bound.outputs()
    np.testing.assert_array_equal(outputs["b"], x)
    assert outputs["b"] is not x


SHARED = """__global__ void k(float *y, const float *nothing) {
  extern __shared__ float more[];
  __shared__ char own[20];
  own[threadIdx.x % 20] = threadIdx.x; more[threadIdx.x] = y[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = more[31 - threadIdx.x] + own[3] + (nothing ? nothing[0] : 0);
}"""


@pytest.mark.parametrize(
    ("target", "first", "own"),
    [
        pytest.param("sm_80", 0, 32, marks=needs_nvidia),  # ptxas rounds up
        pytest.param("sm_90", 1024, 32, marks=needs_nvidia),
        pytest.param("gfx90a", 0, 20, marks=needs_amd),
    ],
)
def test_dynamic_shared_memory_lies_behind_the_static_one(
    target: str, first: int, own: int
) -> None:
    """From sm_90 on the first 1024 bytes of a block belong to the system."""
    bound = one(cuda(SHARED, np.zeros(32, np.float32), None, shared_bytes=128), target)
    assert bound.machine.local_bytes == first + 32 + 128
    assert bound.local_memory_bytes == own + 128
    assert struct.unpack_from("<QQ", arguments_of(bound)) == (bound.memory.bases["y"], 0)


@needs_nvidia
def test_a_function_that_calls_itself_has_the_stack_that_the_driver_gives() -> None:
    source = """
    __device__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
    __global__ void k(int *y) { y[0] = fib(y[1]); }
    __global__ void plain(int *y, int n) { int own[40] = {}; for (int i = 0; i < n; i++) own[y[i]] += i; y[0] = own[n]; }
    """
    y = np.zeros(64, np.int32)
    assert one(cuda(source, y, kernel="k"), "sm_80", "nvrtc").machine.private_bytes >= 1024
    bound = one(cuda(source, y, 3, kernel="plain"), "sm_80")
    assert bound.machine.private_bytes == 160
    assert bound.machine.banks[0][0x28:0x2C].view(np.uint32)[0] == 160


@needs_amd
def test_amd_passes_sizes_in_hidden_arguments_and_in_the_dispatch_packet() -> None:
    bound = one(cuda(SIZES, np.zeros(6, np.int32), grid=(3, 5, 7), block=(4, 2, 8)), "gfx90a")
    packet, arguments = (bytes(data) for _, data in bound.machine.hidden)
    assert struct.unpack_from("<HHHHHHIII", packet) == (0, 3, 4, 2, 8, 0, 12, 10, 56)
    (at,) = struct.unpack_from("<Q", packet, 40)
    assert at == bound.machine.specials["arguments_low"] == bound.machine.hidden[1][0].base_bytes
    assert struct.unpack_from("<QIII3H", arguments) == (bound.memory.bases["y"], 3, 5, 7, 4, 2, 8)
    assert arguments[26:32] == bytes(6)  # no group is smaller than others
    assert struct.unpack_from("<H", arguments, 72) == (3,)


@needs_amd
def test_the_data_of_amd_assembly() -> None:
    text = '\t.byte\t255 ; 0xff\n\t.p2align\t2\n\t.long\t1065353216\n\t.quad\tx+4\n\t.quad y\n\t.zero 3,7\n\t.asciz "a\\"\\101\\n"\n'
    data, addresses = _content(text, 34)
    assert data == b"\xff\0\0\0\0\0\x80\x3f" + bytes(16) + b"\7\7\7" + b'a"A\n\0' + b"\0\0"
    assert addresses == [(8, "x", 4), (16, "y", 0)]


OPENCL = """
typedef struct { float a; int b; } S;
kernel void k(constant float *w, global float *x, local float *l, local int *m, S s, int n) {
  local float own[7];
  int i = get_global_id(0);
  own[i % 7] = x[i]; l[get_local_id(0)] = x[i]; m[get_local_id(0)] = n;
  barrier(CLK_LOCAL_MEM_FENCE);
  x[i] = w[i & 15] + l[get_local_id(0) ^ 1] + m[get_local_id(0) ^ 3] + s.b + own[n];
}"""


@pytest.mark.parametrize(
    ("target", "compiler", "constant_at"),
    [
        pytest.param("sm_80", "clang", 3 << 16, marks=needs_nvidia),
        pytest.param("sm_90", "clang", None, marks=needs_nvidia),
        pytest.param("gfx90a", "auto", None, marks=needs_amd),
    ],
)
def test_local_and_constant_memory_of_opencl(
    target: str, compiler: str, constant_at: int | None
) -> None:
    """clang's pointers to constant memory are linear up to sm_89, in bank 3 here; later ones are global."""
    w, x = np.arange(16, dtype=np.float32), np.arange(128, dtype=np.float32)
    s = np.array((1, 2), [("a", np.float32), ("b", np.int32)])
    given = {"w": w, "x": x, "l": 256, "m": 260, "s": s, "n": 3}
    work = OpenCLWorkload(source=OPENCL, arguments=given, global_size=128, local_size=64)
    bound = one(work, target, compiler)
    layout = "<QQQQfii" if target.startswith("sm_") else "<QQIIfii"
    found = struct.unpack_from(layout, arguments_of(bound))
    first = 1024 if target == "sm_90" else 0
    assert found[2:] == (first + 32, first + 32 + 256, 1, 2, 3)
    assert bound.machine.local_bytes == first + 32 + 256 + 260
    assert bound.local_memory_bytes == 28 + 256 + 260
    if constant_at is None:
        assert found[:2] == (bound.memory.bases["w"], bound.memory.bases["x"])
    else:
        assert found[:2] == (constant_at, bound.memory.bases["x"])
        np.testing.assert_array_equal(bound.machine.banks[3].view(np.float32), w)
    bound.memory.views["x"].view(np.float32)[:] += 1
    np.testing.assert_array_equal(bound.outputs()["x"], x + 1)
    np.testing.assert_array_equal(x, np.arange(128))


@pytest.mark.parametrize("target", BOTH)
def test_launches_of_a_loopy_kernel_share_memory(target: str) -> None:
    """Three passes of an FFT, which write two arrays in turn."""
    work = fft(n=64)
    bound = []
    for launch in bind(work, target):
        bound.append(launch)
        (y,) = (one for one in launch.launch.regions if one.extent.name == "y")
        y.content[:4] = launch.index + 1  # what a run would leave
    assert [launch.index for launch in bound] == [0, 1, 2]
    memory = bound[0].memory
    for launch in bound:
        assert launch.memory is memory
        places = struct.unpack_from("<QQ", arguments_of(launch))
        assert places == (memory.bases["x"], memory.bases["y"])
    for launch in bound[::-1]:
        launch.restore()
        assert memory.views["y"][:4].tolist() == 4 * [launch.index]
    np.testing.assert_array_equal(bound[0].outputs()["x"], work.arguments["x"])
    assert bound[0].outputs()["x"] is not work.arguments["x"]


@pytest.mark.parametrize("target", BOTH)
def test_a_loopy_kernel_with_scalars_and_an_output_that_loopy_allocates(target: str) -> None:
    work = spmv(n=500)
    (bound,) = bind(work, target)
    names = ("row_start", "indices", "values", "x", "y")
    n, *pointers = struct.unpack_from("<i4x5Q", arguments_of(bound))
    assert n == len(work.arguments["row_start"]) - 1 == bound.settings["n_rows"]
    assert pointers == [bound.memory.bases[name] for name in names]
    assert list(bound.memory.bases) == list(names)
    np.testing.assert_array_equal(bound.outputs()["y"], np.zeros(n))
    known = {access.label: access for access in bound.accesses}
    gather = known["x[indices[j]]"]
    assert (gather.array, gather.direction) == ("x", "load")
    assert bound.source(gather.line).user_line == gather.source.user_line
    assert bound.place(gather.line).endswith(f"spmv.py:{gather.source.user_line}")


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("__global__ void k(int *y, float x) {}", {"arguments": [1]}, r"k takes 2 arguments \(y, x\), got 1"),
    ("__global__ void k(int *, int n) {}", {"arguments": {}}, r"needs a value for #0, n"),
    ("__global__ void k(int *y) {}", {"arguments": [np.zeros(2)]}, r"y of kernel k takes an array of int32, got one of float64"),
    ("__global__ void k(int *y) {}", {"symbols": {"z": 1}}, r"kernel k uses no variable z; it has none"),
    ("__device__ int z; __global__ void k(int *y) { y[0] = z; }", {"symbols": {"z": np.zeros(2, np.int32)}}, r"variable z has 4 bytes, its value has 8"),
]  # fmt: skip
REFUSED_CODE = [
    ("__global__ void k(int *y);", r"^k.cu declares kernel k, but does not define it$"),
    ("__global__ void k(int *y) {\n  y[0] = z; }", r"^k.cu:2: use of undeclared identifier 'z'$"),
    ("__global__ void __launch_bounds__(16) k(int *y) { y[0] = 1; }", r"block of kernel k may have 16 threads \(__launch_bounds__\), got 32"),
    ("#include <cooperative_groups.h>\n__global__ void k(int *y) { cooperative_groups::this_grid().sync(); }", r"^k.cu: grid-wide synchronisation cannot be traced$"),
    ("__global__ void k(int *y) {\n  y[0] = *(int *)malloc(4); }", r"^k.cu:2: memory that a kernel allocates \(malloc\) cannot be traced$"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("target", "source", "changes", "message"),
    [
        *(pytest.param("sm_80", *case, marks=needs_nvidia) for case in REFUSED),
        *(pytest.param("sm_80", text, {}, said, marks=needs_nvidia) for text, said in REFUSED_CODE),
        *(pytest.param("gfx90a", text, {}, said, marks=needs_amd) for text, said in REFUSED_CODE),
    ],
)
def test_what_does_not_fit_is_said_in_one_line(
    target: str, source: str, changes: dict[str, Any], message: str
) -> None:
    given = {"arguments": [np.zeros(32, np.int32)], "grid": 1, "block": 32, "path": "k.cu"}
    with pytest.raises(KernelError, match=message) as raised:
        one(CudaWorkload(source=source, **given | changes), target)
    assert "\n" not in str(raised.value)


def test_the_last_name_of_a_symbol() -> None:
    names = {
        "_ZN1n7numbersE": "numbers", "_ZL2sc": "sc", "_ZN12_GLOBAL__N_13abcE": "abc", "_Z2ab99999999999999999999x": "x", "plain": "plain",
    }  # fmt: skip
    assert {symbol: last_name(symbol) for symbol in names} == names


@needs_nvidia
@pytest.mark.parametrize("array", [np.zeros(6, np.int32), np.zeros((2, 3), np.int32, order="F")])
def test_code_that_writes_no_array_reads_the_users_own(array: np.ndarray) -> None:
    bound = one(cuda(SIZES, array), "sm_80")
    (region,) = bound.launch_to_read.regions
    assert np.shares_memory(region.content, array)
    assert not region.content.flags.writeable
    (written,) = bound.launch.regions
    assert (written.extent.name, written.extent.base_bytes) == ("y", 1 << 20)
    assert np.shares_memory(written.content, bound.memory.views["y"])
    assert written.content.flags.writeable
    assert not np.shares_memory(written.content, array)
    assert np.shares_memory(bound.launch_to_read.regions[0].content, written.content)


def results(workload: CudaWorkload, target: str) -> dict[str, Any]:
    """What the machine code computes."""
    bound = one(workload, target)
    groups = np.arange(int(np.prod(bound.grid)), dtype=np.int64)
    code = lowered(bound.code, 32 if target.startswith("sm_") else 64)
    Execution(code, bound.launch).run(groups, record=False)
    return bound.outputs()


FIBONACCI = """__device__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
__global__ void k(int *y) { y[threadIdx.x] = fib(threadIdx.x % 10); }"""


@pytest.mark.parametrize("target", BOTH)
def test_the_code_computes_with_what_is_bound(target: str) -> None:
    y = np.array([1, 2, *[0] * 30], np.int32)
    values, factors = np.arange(5, dtype=np.float32), np.array([1, 2, 4], np.float32)
    symbols = {"factors": factors, "given": values, "total": 7, "shift": 30}
    out = results(cuda(VARIABLES, y, symbols=symbols), target)["y"]
    np.testing.assert_array_equal(out, 3 + 2 + 4 + 1 + 7 + 30)
    s, t = (np.array((k, k / 2, [k, k + 1, k + 2]), STRUCT) for k in (1, 3))
    made = cuda(STRUCTS, -5, s, 7, 100, t, np.zeros(1, np.float32), True)
    np.testing.assert_array_equal(results(made, target)["out"], -5 + 0.5 + 2 + 7 + 100 + 3 + 5 + 1)
    fib = [0, 1, 1, 2, 3, 5, 8, 13, 21, 34]
    out = results(cuda(FIBONACCI, np.zeros(32, np.int32)), target)["y"]
    np.testing.assert_array_equal(out, [*fib, *fib, *fib, 0, 1])
