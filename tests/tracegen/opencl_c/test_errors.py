"""OpenCL C that does not compile or leaves its memory, and launches that do not fit: one line, with the user's line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracegen
from memsim.errors import KernelError
from tests.support.compilers import needs_amd, needs_nvidia
from tracegen import OpenCLWorkload

pytestmark = [needs_nvidia, needs_amd]
HEAD = (
    "__kernel void k(__global float *a, __global int *n, int m)\n{\n  int i = get_global_id(0);\n"
)
A, N = np.zeros(32, np.float32), np.zeros(32, np.int32)
BOTH = ("a100", "mi250x")


def refuse(
    source: str, match: str, arguments: Any = None, *, machine: str = "a100", **options: Any
) -> None:
    settings = {
        "source": source,
        "arguments": [np.zeros((4, 8), np.float32), N, 3] if arguments is None else arguments,
        "global_size": 32,
        "local_size": 32,
        **options,
    }
    with pytest.raises(KernelError, match=match) as caught:
        tracegen.trace(OpenCLWorkload(**settings), machine)
    assert "\n" not in str(caught.value)


@pytest.mark.weekly(3)
@pytest.mark.parametrize(
    ("machine", "body", "match"),
    [
        ("a100", "a[i + 1] = 0;", r"^kernel\.cl:4: access store a\[i \+ 1\] is out of bounds: index 32 in array a of"
                                  r" shape \(4, 8\) \(4 bytes, store\) \(work-item 31 of group 0\)$"),
        ("mi250x", "a[-i - 1] += 1;", r"access a\[-i - 1\] is out of bounds: index -1 in array a .* \(work-item 0 of"),
        ("a100", "a[n[1 << 20]] = 0;", r"n\[1 << 20\] is out of bounds: index 1048576 in array n of shape \(32,\)"),
        ("a100", "vstore4((float4)(0), i, a);", r"vstore4\(.*, i, a\) is out of bounds: index 32 .*\(work-item 8 of"),
        ("mi250x", "vstore4((float4)(0), i, a);", r"i, a\) is out of bounds: index 32 .*\(work-item 8 of"),
        ("a100", "do { a[i] += 1; i++; } while (m);", r"access a\[i\] is out of bounds: index 32 in array a"),
        ("a100", "atomic_inc(&n[i + 1]);", r"access atomic_inc\(&n\[i \+ 1\]\) is out of bounds: index 32 in array n"),
        ("mi250x", "atomic_inc(&n[i + 1]);", r"\(&n\[i \+ 1\]\) is out of bounds: index 32 in array n"),
        ("mi250x", "if (m == 3) a = 0; a[i] = 1;", r"access store a\[i\] is out of bounds: its address 0x0 lies in no"),
    ],
)  # fmt: skip
def test_out_of_bounds(machine: str, body: str, match: str) -> None:
    refuse(f"{HEAD}  {body}\n}}\n", match, machine=machine)


def test_a_misaligned_access() -> None:
    """NVIDIA's GPUs end such a kernel; AMD's perform the access."""
    source = f"{HEAD}  *(__global int *) ((__global char *) a + 4 * i + 2) = m;\n}}\n"
    given = [np.zeros(33, np.float32), N, 3]
    match = r"^kernel\.cl:4: access .* is misaligned: its address 0x\w+2 is no multiple of 4"
    refuse(source, match, given)
    made = OpenCLWorkload(source=source, arguments=given, global_size=32, local_size=32)
    trace = tracegen.trace(made, "mi250x")
    assert np.diff(trace.granule_offset).tolist() == [5]  # 128 bytes, from byte 2 on


LOCAL = """\
__kernel void k(__global const int *in, __global float *out, __local float *dynamic)
{
  __local float t[32];
  int i = get_local_id(0);
  t[i] = in[0];
  dynamic[i] = 3;
  barrier(CLK_LOCAL_MEM_FENCE);
  __local float *p = t + 8;
  int at = in[i];
  out[i] = dynamic[i] +
    p[at];
}
"""


@pytest.mark.parametrize("machine", BOTH)
def test_local_memory_ends_with_that_of_the_group(machine: str) -> None:
    """As on the GPU: an index that leaves its array lands in the next one, or in none. A group of one wave needs no barrier
    on AMD's GPUs."""
    for index in (-8, 55):
        given = [np.full(32, index, np.int32), np.zeros(32, np.float32), 128]
        made = OpenCLWorkload(source=LOCAL, arguments=given, global_size=32, local_size=32)
        assert tracegen.trace(made, machine).n_access == (4 if machine == "a100" else 3)
    indices = np.zeros(32, np.int32)
    indices[5] = 56
    given = [indices, np.zeros(32, np.float32), 128]
    refuse(
        LOCAL,
        r"^kernel\.cl:11: access p\[at\] is out of bounds: byte 256 of 256 bytes of local memory"
        r" \(work-item 5 of group 0\)$",
        given,
        machine=machine,
    )


@pytest.mark.parametrize("machine", BOTH)
def test_private_memory_ends(machine: str) -> None:
    source = """\
__kernel void k(__global const int *in, __global int *out)
{
  int t[32];
  int i = get_global_id(0);
  for (int k = 0; k < 32; ++k) t[in[k] & 31] = k;
  i = in[i] * 1000;
  out[get_global_id(0)] = t[i];
}
"""
    given = [np.arange(32, dtype=np.int32), np.zeros(32, np.int32)]
    refuse(
        source,
        r"^kernel\.cl:7: access t\[i\] is out of bounds: byte \d+ of 1\d\d bytes of private memory"
        r" \(work-item 1 of group 0\)$",
        given,
        machine=machine,
    )


@pytest.mark.parametrize(
    ("body", "match"),
    [
        ("a[i] = b[i];", r"^kernel\.cl:4: use of undeclared identifier 'b'$"),
        ("a[i] = 1", r"^kernel\.cl:4: expected ';' after expression$"),
        ("x = 1; y = 2;", r"identifier 'x'; kernel\.cl:4: use of undeclared identifier 'y'$"),
        ("__local float t[8]; event_t e = async_work_group_copy(t, a, 8, 0); wait_group_events(1, &e);"
         " a[i] = t[i & 7];",
         r"^kernel\.cl:4: function async_work_group_copy is not available for sm_80 with these arguments$"),
        ("__local float t[1 << 16]; t[i * m] = a[i]; barrier(1); a[i] = t[m * m];",
         r"^kernel k: a group declares 262144 bytes of local memory, of at most 49152"),
    ],
)  # fmt: skip
def test_text_that_does_not_compile(body: str, match: str) -> None:
    refuse(f"{HEAD}  {body}\n}}\n", match)


def test_directives(tmp_path: Path) -> None:
    refuse(
        '#include "none.h"\n',
        r"^kernel\.cl:1: 'none\.h' file not found; build_options='-I FOLDER' says where it is$",
    )
    refuse("\n#error no good\n", r"^kernel\.cl:2: no good$")
    path = tmp_path / "loop.cl"
    path.write_text('#include "loop.cl"\n')
    made = OpenCLWorkload(path=path, global_size=1, local_size=1)
    with pytest.raises(KernelError, match=r"loop\.cl:1: #include nested too deeply$"):
        tracegen.trace(made)
    (tmp_path / "part.h").write_text("\nint f(void) { return x; }\n")
    path.write_text('#include "part.h"\n__kernel void k(__global int *a) {}\n')
    with pytest.raises(KernelError, match=r"part\.h:2: use of undeclared identifier 'x'$"):
        tracegen.trace(made)


TWO = "__kernel void one(__global int *a) { a[0] = 1; }\n__kernel void two(__global int *a) {}\n"


def test_names_of_kernels(tmp_path: Path) -> None:
    refuse("int f(void) { return 1; }", r"kernel\.cl has no kernel$", [])
    refuse("int f(void) {}", "has no kernel k; it has no kernel at all", [], kernel="k")
    missing = OpenCLWorkload(path=tmp_path / "none.cl", global_size=1, local_size=1)
    with pytest.raises(KernelError, match=r"no such kernel file: .*none\.cl"):
        tracegen.trace(missing)
    with pytest.raises(KernelError, match="needs a path or a source"):
        tracegen.trace(OpenCLWorkload(global_size=1, local_size=1))


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ([A, N], r"kernel k takes 3 arguments \(a, n, m\), got 2"),
        ({"a": A, "n": N}, r"kernel k needs a value for m; it has a, n, m"),
        ({"a": A, "n": N, "m": 1, "x": 2}, r"kernel k has no argument x; it has a, n, m"),
        ([N, N, 1], r"argument a of kernel k \(__global float \*\) takes an array of float32, got one of int32"),
        ([A[::2], N, 1], "takes an array without gaps"),
        ([A, N, 1.5], r"argument m of kernel k \(int\) takes an integer, got 1\.5"),
        ([A, N, 1 << 31], "takes an integer from -2147483648 to 2147483647, got 2147483648"),
        ([A, N, "one"], "takes a number, got 'one'"),
        ([A, N, A], "takes a number, got an array of float32"),
    ],
)  # fmt: skip
def test_arguments(arguments: Any, match: str) -> None:
    refuse(f"{HEAD}  a[i] = n[i] + m;\n}}\n", match, arguments)


def test_arguments_of_other_kinds() -> None:
    source = "__kernel void k(__local float *t, float4 v) {}\n"
    refuse(source, "takes a number of bytes of local memory, got None", [None, A[:4]])
    refuse(source, "takes a number of bytes of local memory, got 0", [0, A[:4]])
    refuse(source, "takes a numpy value of 16 bytes, got an array of float32", [4, A[:3]])
    source = "typedef struct { int a; double b[2]; } S;\n__kernel void k(__global S *s, S one) {}\n"
    refuse(source, r"one of kernel k \(S\) takes a numpy value of 24 bytes", [A[:6], A[:2]])
    refuse(source, r"s of kernel k \(__global S \*\) takes elements of 24 bytes", [A, A[:6]])
    source = "__kernel void k(__global const float3 *v, __constant double *c) {}\n"
    elements = (
        r"v of kernel k \(__global const float3 \*\) takes elements of 16 bytes, got 12 bytes"
    )
    refuse(source, elements, [A[:3], A])
    refuse(source, r"\(__constant const double \*\) takes an array of float64", [A[:4], A])
    source = "__kernel void k(__read_only image2d_t image, __global float *a) { a[0] = 1; }\n"
    match = r"argument image of kernel k \(image2d_t\) cannot be traced: it is not a number, struct"
    refuse(source, match, [0, A])


@pytest.mark.parametrize(
    ("global_size", "local_size", "match"),
    [
        (32, 5, "local_size of kernel k must divide global_size along each axis, got 5 and 32"),
        (32, 0, "must divide global_size along each axis, got 0 and 32 along axis 0"),
        (0, 8, "must divide global_size along each axis, got 8 and 0 along axis 0"),
        ((32, 2), 8, r"must have the same one to three axes, got \(32, 2\) and \(8,\)"),
        (2**40, 64, r"kernel k has 17179869184 work-groups; at most 2147483647 can be traced"),
    ],
)
def test_sizes(global_size: Any, local_size: Any, match: str) -> None:
    source = f"{HEAD}  a[i] = m;\n}}\n"
    refuse(source, match, global_size=global_size, local_size=local_size)


def test_a_group_that_the_kernel_does_not_allow() -> None:
    source = f"__attribute__((reqd_work_group_size(16, 1, 1))) {HEAD} a[i] = m; }}\n"
    match = r"local_size of kernel k must be \(16, 1, 1\) \(reqd_work_group_size\), got \(32,\)"
    refuse(source, match)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ("-cl-std=CL9", "clang refuses it: invalid value 'CL9' in '-cl-std=CL9'"),
        ("-D", "build option -D needs a value"),
        ("-DN=", "^kernel.cl:5: expected expression$"),
    ],
)
def test_build_options(options: str, match: str) -> None:
    refuse(f"{HEAD}  a[i] = m;\n a[i] += N; }}\n", match, build_options=options)


@pytest.mark.parametrize("tracer", ["polyhedral", "instrumented"])
def test_tracers_of_loopy_kernels_refuse(tracer: Any) -> None:
    made = OpenCLWorkload(source=TWO, kernel="one", arguments=[N], global_size=1, local_size=1)
    match = (
        f"tracer '{tracer}' reads Loopy kernels; of CUDA C.., HIP and OpenCL C the machine code is"
    )
    with pytest.raises(KernelError, match=match):
        tracegen.trace(made, tracer=tracer)


@pytest.mark.parametrize("machine", BOTH)
def test_the_work_item_of_an_error(machine: str) -> None:
    """One of 128 leaves the array."""
    lines = "const int i = get_global_id(0), at = i == 101 ? 64 + i : i & 1;"
    refuse(
        f"__kernel void k(__global float *a)\n{{ {lines}\n a[at] = 1; }}",
        r"^kernel.cl:3: access store a\[at\] is out of bounds: index 165 .* \(work-item 5 of group 3\)$",
        [np.zeros(128, np.float32)],
        machine=machine,
        global_size=128,
    )
