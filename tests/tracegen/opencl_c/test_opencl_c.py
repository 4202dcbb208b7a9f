"""Kernels in OpenCL C: sites, lines and accesses counted by hand, results, and arguments of every kind."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracegen
from memsim.errors import KernelError
from memsim.machine import load_machine
from memsim.trace import Trace
from memsim.trace.model import BARRIER_SITE
from tests.support.compilers import needs_amd, needs_nvidia
from tracegen import OpenCLWorkload
from tracegen.executed.launches import checked
from tracegen.options import TraceOptions

BOTH = (pytest.param("a100", marks=needs_nvidia), pytest.param("mi250x", marks=needs_amd))


def on_both(test: Any) -> Any:
    """One of the two each week."""
    return pytest.mark.weekly(len(BOTH))(pytest.mark.parametrize("machine", BOTH)(test))


def workload(source: str, arguments: Any, **options: Any) -> OpenCLWorkload:
    sizes = {"global_size": 32, "local_size": 32, **options}
    return OpenCLWorkload(source=source, arguments=arguments, **sizes)


def floats(n: int = 32) -> Any:
    return np.arange(n, dtype=np.float32)


def names(trace: Trace) -> list[str]:
    return ["barrier" if site == BARRIER_SITE else trace.sites[site].name for site in trace.site]


def results(made: OpenCLWorkload, machine: str) -> dict[str, Any]:
    """What the kernel leaves in the arrays that it may write."""
    caught: dict[str, Any] = {}
    made = dataclasses.replace(made, check=caught.update)
    checked(made, load_machine(machine), TraceOptions())
    return caught


@on_both
def test_gather(machine: str) -> None:
    source = """
    __kernel void gather(__global const float *x, __global const int *index, __global float *y)
    {
      int i = get_global_id(0);
      y[i] = 2 * x[index[i]];
    }
    """
    arguments = [floats(64), np.full(32, 8, np.int32), np.zeros(32, np.float32)]
    trace = tracegen.trace(workload(source, arguments), machine)
    assert [(s.name, s.array, s.direction, s.itemsize_bytes) for s in trace.sites] == [
        ("index[i]", "index", "load", 4),
        ("x[index[i]]", "x", "load", 4),
        ("store y[i]", "y", "store", 4),
    ]
    assert trace.sites[1].depends_on == ("index[i]",)
    assert [site.source.user_line for site in trace.sites] == [5, 5, 5]
    assert [extent.name for extent in trace.arrays] == ["x", "index", "y"]
    assert trace.lanes.tolist() == [32, 32, 32]
    assert np.diff(trace.granule_offset).tolist() == [4, 1, 4]
    assert trace.waits.tolist() == [-1, 0, 1]
    assert trace.launch.kernel == "gather"
    assert trace.whole
    assert results(workload(source, arguments), machine)["y"].tolist() == [16.0] * 32


@needs_nvidia
def test_lines_are_the_users(tmp_path: Path) -> None:
    """Through an include, macros over several lines, comments, and text that a condition leaves out."""
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "twice.h").write_text(
        "#pragma once\n/* two\n   lines */\nstatic float twice(__global const float *p)\n"
        "{\n  return 2 * *p;\n}\n"
    )
    path = tmp_path / "kernel.cl"
    path.write_text(
        '#include "part/twice.h"\n'
        "#define AT(i) \\\n  a[(i)]\n"
        "#ifdef NEVER\nnonsense(\n#endif\n"
        "// a comment\n"
        "__kernel void k(__global float *a,\n"
        "                __global float *b)\n"
        "{\n"
        "  int i = get_global_id(0); /* another\n"
        "  comment with b[9] */ b[i] = AT(i) + // and a[7]\n"
        "      AT(\n"
        "        31 - i\n"
        "      ) + twice(a);\n"
        "}\n"
    )
    made = OpenCLWorkload(path=path, arguments=[floats(), floats()], global_size=32, local_size=32)
    trace = tracegen.trace(made, "a100")
    result = {s.name: (Path(s.source.user_file or ""), s.source.user_line) for s in trace.sites}
    assert result == {
        "a[(i)]": (path, 12),
        "a[(31 - i)]": (path, 13),
        "*p": (tmp_path / "part" / "twice.h", 6),
        "store b[i]": (path, 12),
    }
    assert trace.user_source == path.read_text()
    for site in trace.sites:
        line = trace.generated_source.splitlines()[(site.source.generated_line or 0) - 1]
        assert site.name.removeprefix("store ") in line
    (tmp_path / "part" / "twice.h").write_text(
        "static float twice(__global float *p) { return 0; }"
    )
    assert len(tracegen.trace(made, "a100").sites) == 3, "a changed header is read again"


@on_both
def test_helper_functions_share_sites_by_array(machine: str) -> None:
    source = """
    static float at(__global const float *p, int i) { return p[i]; }
    __kernel void k(__global const float *a, __global const float *b, __global float *out)
    {
      int i = get_global_id(0);
      out[i] = at(a, i) + at(a, 31 - i) + at(b, i);
    }
    """
    arguments = [floats(), floats(), floats()]
    trace = tracegen.trace(workload(source, arguments), machine)
    assert [(s.name, s.array, s.source.user_line) for s in trace.sites] == [
        ("p[i]", "a", 2),
        ("p[i] #2", "b", 2),
        ("store out[i]", "out", 6),
    ]
    assert names(trace) == ["p[i]", "p[i]", "p[i] #2", "store out[i]"]


@on_both
def test_local_memory_and_a_barrier_between_sub_groups(machine: str) -> None:
    """What one sub-group writes another one reads behind the barrier, also in vectors and in the memory that the launch
    gives; it counts for occupancy, and its accesses are no traffic."""
    source = """
    __kernel void k(__global const float *x, __global float *y, __local float *given)
    {
      __local float4 own[16];
      int i = get_local_id(0), j = get_global_id(0);
      given[i] = x[j]; own[i & 15] = i & 15;
      barrier(CLK_LOCAL_MEM_FENCE);
      y[j] = given[255 - i] + own[i >> 4].y;
    }
    """
    arguments = [floats(512), np.zeros(512, np.float32), 1024]
    made = workload(source, arguments, global_size=512, local_size=256)
    expected = floats(512).reshape(2, 256)[:, ::-1] + np.arange(256) // 16
    np.testing.assert_array_equal(results(made, machine)["y"], expected.ravel())
    trace = tracegen.trace(made, machine, groups=1)
    assert trace.launch.local_memory_bytes == 1024 + 16 * 16
    n_subgroup = 256 // load_machine(machine).subgroup_size
    assert names(trace) == ["x[j]", "barrier", "store y[j]"] * n_subgroup


@on_both
def test_arguments_of_every_kind(machine: str) -> None:
    """By name in any order on one machine, in order on the other."""
    source = """
    #pragma OPENCL EXTENSION cl_khr_fp16 : enable
    typedef struct { int a; float b; } Pair;
    enum Colour { RED, GREEN = 4 };
    typedef __global const float *Source;
    __kernel void k(__global float *out, Pair pair, float4 v, uchar c, ulong n, __constant int *t,
                    __global float *nothing, const half h, enum Colour colour, Source from)
    {
      int i = get_global_id(0);
      out[i] = pair.a + pair.b + v.w + c + n + t[1] + (nothing ? nothing[i] : 0) + h + colour + from[i];
    }
    """
    pair = np.array([(1, 0.5)], np.dtype([("a", "i4"), ("b", "f4")]))
    values = {
        "out": floats(),
        "pair": pair,
        "v": np.arange(4, dtype=np.float32),
        "c": 200,
        "n": 7,
        "t": np.arange(3, dtype=np.int32),
        "nothing": None,
        "h": 0.25,
        "colour": 4,
        "from": floats(),
    }
    arguments = dict(reversed(values.items())) if machine == "a100" else list(values.values())
    made = workload(source, arguments, build_options="-D UNUSED=1")
    expected = 1 + 0.5 + 3 + 200 + 7 + 1 + 0.25 + 4 + floats()
    np.testing.assert_array_equal(results(made, machine)["out"], expected)


VECTORS = """
__kernel void k(__global float4 *a, __global const float *b)
{
  int i = get_global_id(0);
  float4 v = a[i];
  v.lo += vload2(i, b);
  a[i] = v.wzyx;
}
"""


@on_both
def test_vector_types(machine: str) -> None:
    """An element of four numbers is one access of 16 bytes. `vload2` promises no more than the alignment of a float:
    AMD's GPUs load it at once, NVIDIA's cannot, and it is two requests."""
    trace = tracegen.trace(workload(VECTORS, [floats(128).reshape(32, 4), floats(64)]), machine)
    found = [(trace.sites[k].array, trace.sites[k].direction) for k in trace.site]
    widths = {(s.array, s.direction): s.itemsize_bytes for s in trace.sites}
    assert widths["a", "load"] == widths["a", "store"] == 16
    assert widths["b", "load"] * found.count(("b", "load")) == 8
    assert found.count(("b", "load")) == (2 if machine == "a100" else 1)
    assert found.count(("a", "load")) == found.count(("a", "store")) == 1


@needs_amd
def test_sub_group_functions_and_generic_pointers_of_opencl_c_2() -> None:
    source = """
    #pragma OPENCL EXTENSION cl_khr_subgroups : enable
    int at(int *p) { return *p; }
    __kernel void k(__global int *a, __global int *b)
    {
      __local int t[64];
      int i = get_local_id(0);
      t[i] = sub_group_reduce_add(a[i]);
      barrier(CLK_LOCAL_MEM_FENCE);
      b[i] = (i & 1 ? at(t + (i ^ 1)) : at(a + i)) + get_sub_group_local_id();
    }
    """
    a, i = np.arange(64, dtype=np.int32), np.arange(64)
    made = workload(source, [a, np.zeros(64, np.int32)], build_options="-cl-std=CL2.0")
    made = dataclasses.replace(made, global_size=64, local_size=64)
    np.testing.assert_array_equal(results(made, "mi250x")["b"], np.where(i & 1, a.sum(), a) + i)


@on_both
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('__asm__ volatile("v_mov_b32 %0, %1" : "=v"(x[0]) : "v"(x[1]));', "inline assembler is not read in OpenCL C"),
        ("x[0] = amd_bitalign(x[1], x[2], 7u);", "use of undeclared identifier 'amd_bitalign'"),
    ],
)  # fmt: skip
def test_what_is_refused_is_named(body: str, reason: str, machine: str) -> None:
    source = f"__kernel void k(__global uint *x)\n{{\n  {body}\n}}"
    with pytest.raises(KernelError, match=rf":3: {reason}[^\n]*$"):
        tracegen.trace(workload(source, [np.zeros(32, np.uint32)]), machine)


@on_both
def test_build_options_reach_the_compiler(machine: str) -> None:
    """Macros, folders of headers, and what they choose; what no compiler knows is told."""
    source = '__kernel void k(__global float *a)\n{\n  a[get_global_id(0)] = sin(a[0] + N);\n printf(""); }'
    made = workload(source, [floats()], build_options=["-D", "N=3", "-cl-no-such-option"])
    notes = tracegen.trace(made, machine).provenance["compiler"]["notes"]
    assert notes[:2] == ["Build option -cl-no-such-option is ignored.", "printf is left out."]
    text = {}
    for options in ("-DN=3", "-DN=3 -cl-fast-relaxed-math"):
        trace = tracegen.trace(dataclasses.replace(made, build_options=options), machine)
        text[options] = trace.provenance["compiler"]["code"]["n_instructions"]
    assert text["-DN=3 -cl-fast-relaxed-math"] < text["-DN=3"]


@on_both
def test_without_a_check_results_are_compared_with_a_run_through_opencl(machine: str) -> None:
    source = (
        "__kernel void k(__global float *a, __local float *t, __constant float *c, float2 v)\n{\n"
    )
    source += "  int i = get_local_id(0); t[i] = a[i]; barrier(CLK_LOCAL_MEM_FENCE);\n"
    source += "  a[i] = t[31 - i] * c[1] + v.y; }"
    v = np.array([1, 2], np.float32)
    made = workload(source, [floats(), 128, floats(4), v])
    assert checked(made, load_machine(machine), TraceOptions()) == "a run through OpenCL"
