"""OpenCL C that cannot be traced, and launches that do not fit: one line, with the user's line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracegen
from memsim.errors import KernelError
from tracegen import OpenCLWorkload

HEAD = (
    "__kernel void k(__global float *a, __global int *n, int m)\n{\n  int i = get_global_id(0);\n"
)


def refuse(source: str, match: str, context: Any, arguments: Any = None, **options: Any) -> None:
    given = [np.zeros((4, 8), np.float32), np.zeros(32, np.int32), 3]
    settings = {
        "source": source,
        "arguments": given if arguments is None else arguments,
        "global_size": 32,
        "local_size": 32,
        **options,
    }
    with pytest.raises(KernelError, match=match) as caught:
        tracegen.trace(OpenCLWorkload(**settings), context=context)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("body", "match"),
    [
        ("a[i + 1] = 0;", r"kernel\.cl:4: access store a\[i \+ 1\] is out of bounds: index 32 in"
                          r" array a of shape \(4, 8\) .*; work-item 31 of group \d+$"),
        ("a[-i - 1] += 1;", r"access a\[-i - 1\] is out of bounds: index -\d+ in array a"),
        ("a[n[1 << 20]] = 0;", r"access n\[1 << 20\] is out of bounds: index 1048576 in array n"),
        ("a[(long) i << 40] = 0;", r"out of bounds: index \d{12,} in array a"),
        ("vstore4((float4)(0), i, a);", r"vstore4\(.*, i, a\) is out of bounds: index 32 in array"),
        ("*(__global int *) ((__global char *) a + 2) = 1;", r"is misaligned: byte 2 of array a is"
                                                             r" not a multiple of 4"),
        ("while (a[i] == 0) i++;", r"access a\[i\] is out of bounds: index 32 in array a"),
        ("do { i++; } while (a[i] == 0);", r"access a\[i\] is out of bounds: index 32 in array a"),
        ("atomic_inc(&n[i + 1]);", r"access atomic_inc\(&n\[i \+ 1\]\) is out of bounds: index 32"),
    ],
)  # fmt: skip
def test_out_of_bounds(context: Any, body: str, match: str) -> None:
    refuse(f"{HEAD}  {body}\n}}\n", match, context)


@pytest.mark.parametrize(
    ("body", "match"),
    [
        ("a[i] = b[i];", r"^kernel\.cl:4: use of undeclared identifier 'b'$"),
        ("a[i] = 1", r"^kernel\.cl:4: expected ';' after expression$"),
        ("x = 1; y = 2;", r"identifier 'x'; kernel\.cl:4: use of undeclared identifier 'y'$"),
        ("again: a[i] = 1; if (m) goto again;", r"^kernel\.cl:4: a label cannot be traced$"),
        ("event_t e = async_work_group_copy((__local float *) 0, a, 8, 0);",
         r"^kernel\.cl:4: async_work_group_copy on global memory cannot be traced$"),
        ("a[i] = ({ float t = 1; t; });", r"a statement within an expression cannot be traced"),
    ],
)  # fmt: skip
def test_text_that_is_refused(context: Any, body: str, match: str) -> None:
    refuse(f"{HEAD}  {body}\n}}\n", match, context)


def test_pointers_kept_in_memory(context: Any) -> None:
    source = """
    typedef struct { __global float *p; } Holder;
    __kernel void k(__global Holder *h) { h[get_global_id(0)].p[0] = 1; }
    """
    match = (
        r"^kernel\.cl:3: 'h\[get_global_id\(0\)\]\.p', a pointer kept in memory, cannot be traced$"
    )
    refuse(source, match, context, [np.zeros(32, np.int64)])


def test_bit_fields(context: Any) -> None:
    source = """
    typedef struct { int low : 4; int high : 4; } Bits;
    __kernel void k(__global Bits *b) {
      b[get_global_id(0)].low = 1; }
    """
    refuse(
        source,
        r"^kernel\.cl:4: .*low cannot be traced|bit-fields",
        context,
        [np.zeros(32, np.int32)],
    )


def test_directives(context: Any, tmp_path: Path) -> None:
    refuse('#include "none.h"\n', r"kernel\.cl:1: no such include file: none\.h", context)
    refuse("\n#error no good\n", r"kernel\.cl:2: no good", context)
    path = tmp_path / "loop.cl"
    path.write_text('#include "loop.cl"\n')
    with pytest.raises(KernelError, match=r"files are included|without end"):
        tracegen.trace(OpenCLWorkload(path=path, global_size=1, local_size=1), context=context)


TWO = "__kernel void one(__global int *a) { a[0] = 1; }\n__kernel void two(__global int *a) {}\n"


def test_names_of_kernels(context: Any, tmp_path: Path) -> None:
    refuse(TWO, r"kernel\.cl has several kernels; name one of them: one, two", context, [])
    refuse("int f(void) { return 1; }", r"kernel\.cl has no kernel$", context, [])
    refuse(TWO, r"kernel\.cl has no kernel three; it has one, two", context, [], kernel="three")
    refuse(
        "int f(void) { return 1; }",
        "has no kernel k; it has no kernel at all",
        context,
        [],
        kernel="k",
    )
    missing = OpenCLWorkload(path=tmp_path / "none.cl", global_size=1, local_size=1)
    with pytest.raises(KernelError, match=r"no such kernel file: .*none\.cl"):
        tracegen.trace(missing, context=context)
    with pytest.raises(KernelError, match="needs a path or a source"):
        tracegen.trace(OpenCLWorkload(global_size=1, local_size=1), context=context)


A, N = np.zeros(32, np.float32), np.zeros(32, np.int32)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ([A, N], r"kernel k takes 3 arguments \(a, n, m\), got 2"),
        ({"a": A, "n": N}, r"kernel k needs a value for m; it has a, n, m"),
        ({"a": A, "n": N, "m": 1, "x": 2}, r"kernel k has no argument x; it has a, n, m"),
        ([N, N, 1], r"argument a of kernel k \(__global float \*\) takes an array of float32, got"
                    r" one of int32"),
        ([A.astype(np.float64), N, 1], "takes an array of float32, got one of float64"),
        ([[1.0], N, 1], r"takes a numpy array, got \[1\.0\]"),
        ([A[::2], N, 1], "takes an array without gaps"),
        ([A, N, 1.5], r"argument m of kernel k \(int\) takes an integer, got 1\.5"),
        ([A, N, 1 << 31], "takes an integer from -2147483648 to 2147483647, got 2147483648"),
        ([A, N, "one"], "takes a number, got 'one'"),
        ([A, N, A], "takes a number, got an array of float32"),
    ],
)  # fmt: skip
def test_arguments(context: Any, arguments: Any, match: str) -> None:
    refuse(f"{HEAD}  a[i] = n[i] + m;\n}}\n", match, context, arguments)


def test_local_arguments(context: Any) -> None:
    source = "__kernel void k(__local float *t, float4 v) {}\n"
    refuse(source, "takes a number of bytes of local memory, got None", context, [None, A[:4]])
    refuse(source, "takes a number of bytes of local memory, got 0", context, [0, A[:4]])
    refuse(source, "takes a numpy value of 16 bytes, got an array of float32", context, [4, A[:3]])


def test_images(context: Any) -> None:
    source = """
    __kernel void k(__read_only image2d_t image, __global float *a)
    {
      const sampler_t s = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;
      a[0] = read_imagef(image, s, (int2)(0, 0)).x;
    }
    """
    match = (
        r"argument image of kernel k \(.*image2d_t\) cannot be traced: it is not a number, struct"
    )
    refuse(source, match, context, [0, A])


@pytest.mark.parametrize(
    ("global_size", "local_size", "match"),
    [
        (32, 5, "local_size of kernel k must divide global_size along each axis, got 5 and 32"),
        (32, 0, "must divide global_size along each axis, got 0 and 32 along axis 0"),
        (0, 8, "must divide global_size along each axis, got 8 and 0 along axis 0"),
        ((32, 2), 8, r"must have the same one to three axes, got \(32, 2\) and \(8,\)"),
    ],
)
def test_sizes(context: Any, global_size: Any, local_size: Any, match: str) -> None:
    source = f"{HEAD}  a[i] = m;\n}}\n"
    refuse(source, match, context, global_size=global_size, local_size=local_size)


def test_group_that_the_kernel_does_not_allow(context: Any) -> None:
    source = "__attribute__((reqd_work_group_size(16, 1, 1))) " + HEAD + " a[i] = m; }\n"
    refuse(source, "kernel k cannot be run: .*INVALID_WORK_GROUP_SIZE", context)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ("-cl-std=CL2.0", "build option -cl-std=CL2.0 is not supported: kernels are traced as"),
        ("-D", "build option -D needs a value"),
        ("-cl-no-such-option", "does not build"),
    ],
)
def test_build_options(context: Any, options: str, match: str) -> None:
    refuse(f"{HEAD}  a[i] = m;\n}}\n", match, context, build_options=options)


def test_polyhedral_tracer_refuses(context: Any) -> None:
    workload = OpenCLWorkload(source=TWO, kernel="one", arguments=[N], global_size=1, local_size=1)
    with pytest.raises(KernelError, match="reads Loopy kernels; OpenCL C must be run"):
        tracegen.trace(workload, tracer="polyhedral", context=context)


SUBSCRIPTS = """\
typedef struct { int n; float part[3]; } rec;
__constant float table[4] = { 1, 2, 3, 4 };
float helper(float *p, int i) { float own[2]; own[0] = p[0]; own[1] = i; return own[i]; }
__kernel void k(__global const int *in, __global float *out, __local float *dynamic, const int n)
{
  __local float t[8][4]; float own[5]; rec r; float sum = 0;
  for (int i = 0; i < 5; ++i) own[i] = i;
  r.part[0] = r.part[1] = r.part[2] = 1;
  for (int i = 0; i < 32; ++i) t[i / 4][i % 4] = dynamic[i] = i;
  __local float *end = &t[7][3] + 1, *same = &t[8][0];
  barrier(CLK_LOCAL_MEM_FENCE);
  const int j = in[get_global_id(0)];
  switch (n) {
    case 0: sum = t[j][1]; break;
    case 1: sum = t[1][j]; break;
    case 2: sum = own[j]; break;
    case 3: sum = r.part[j]; break;
    case 4: sum = table[j]; break;
    case 5: dynamic[j] = 1; break;
    case 6: sum = helper(own, j); break;
    case 7: t[in[j]][j] += 1; break;
  }
  out[get_global_id(0)] = sum + (end - same);
}
"""


@pytest.mark.parametrize(
    ("case", "good", "bad", "line", "array", "extent"),
    [
        (0, 7, 8, 14, "t", 8),
        (1, 3, 4, 15, "t[1]", 4),
        (2, 4, 5, 16, "own", 5),
        (3, 2, 3, 17, "r.part", 3),
        (4, 0, -1, 18, "table", 4),
        (5, 31, 32, 19, "dynamic", 32),
        (6, 1, 2, 3, "own", 2),
        (7, 3, 4, 21, "t[in[j]]", 4),
    ],
)
def test_indices_beyond_arrays_in_other_memory(
    case: int, good: int, bad: int, line: int, array: str, extent: int, context: Any
) -> None:
    def trace(index: int) -> Any:
        arguments = [np.full(64, index, np.int32), np.zeros(64, np.float32), 128, np.int32(case)]
        workload = tracegen.OpenCLWorkload(
            source=SUBSCRIPTS, path="k.cl", arguments=arguments, global_size=64, local_size=32
        )
        return tracegen.trace(workload, context=context)

    assert trace(good).n_access >= 6
    with pytest.raises(KernelError) as caught:
        trace(bad)
    message = f"k.cl:{line}: index {bad} is out of bounds: array {array} has {extent} elements"
    error, _, where = str(caught.value).partition("; ")
    assert error == message
    assert where in ("work-item 0 of group 0", "work-item 0 of group 1")  # the first to run


@pytest.mark.parametrize(
    "body",
    [
        "a[at] = 1;",
        "__local float t[32]; t[at & 63] = 1; barrier(CLK_LOCAL_MEM_FENCE); a[i] = t[i & 31];",
        "float own[4] = { 1 }, *p = own; p[at] = 2; a[i] = own[0];",
    ],
    ids=["an argument", "a subscript of local memory", "a pointer to private memory"],
)
def test_the_work_item_of_an_error(body: str, context: Any) -> None:
    """One of 128 leaves the array."""
    lines = "const int i = get_global_id(0), at = i == 101 ? 0x7fffffff : i & 1;"
    refuse(
        f"__kernel void k(__global float *a) {{ {lines} {body} }}",
        r"out of bounds: .*; work-item 5 of group 3$",
        context,
        [np.zeros(128, np.float32)],
        global_size=128,
    )


def test_launches_that_are_too_large(context: Any) -> None:
    source = "__kernel void k(__global float *a) { a[0] = 1; }"
    refuse(
        source,
        r"launch 0 \(k\) has 17179869184 work-groups; at most 2147483647 can be traced",
        context,
        [np.zeros(4, np.float32)],
        global_size=2**40,
        local_size=64,
    )
