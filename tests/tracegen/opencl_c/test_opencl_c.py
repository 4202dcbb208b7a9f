"""Kernels in OpenCL C: sites, lines and sequences counted by hand, and snapshots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracegen
from memsim.trace.model import BARRIER_SITE
from tests.support.instrumented_runs import lane_accesses, run_traced
from tracegen import OpenCLWorkload
from tracegen.options import TraceOptions


def workload(source: str, arguments: Any, **options: Any) -> OpenCLWorkload:
    sizes = {"global_size": 32, "local_size": 32, **options}
    return OpenCLWorkload(source=source, arguments=arguments, **sizes)


def floats(n: int = 32) -> Any:
    return np.arange(n, dtype=np.float32)


def names(trace: Any) -> list[str]:
    return ["barrier" if site == BARRIER_SITE else trace.sites[site].name for site in trace.site]


def test_gather(context: Any) -> None:
    source = """
    __kernel void gather(__global const float *x, __global const int *index, __global float *y)
    {
      int i = get_global_id(0);
      y[i] = 2 * x[index[i]];
    }
    """
    arguments = [floats(64), np.full(32, 8, np.int32), np.zeros(32, np.float32)]
    trace = tracegen.trace(workload(source, arguments), context=context)
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
    assert trace.starts_sequence.tolist() == [True, True, False]
    assert trace.launch.kernel == "gather"
    assert trace.whole
    assert "libclang" in trace.provenance


def test_lines_are_the_users(context: Any, tmp_path: Path) -> None:
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
        "  comment */ b[i] = AT(i) +\n"
        "      AT(\n"
        "        31 - i\n"
        "      ) + twice(a);\n"
        "}\n"
    )
    trace = tracegen.trace(
        OpenCLWorkload(path=path, arguments=[floats(), floats()], global_size=32, local_size=32),
        context=context,
    )
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
        assert site.name.removeprefix("store ").split("(")[0] in line


REDUNDANT = """
__kernel void k(__global QUALIFIER float *a, __global int *n, __global float * QUALIFIER out)
{
  int i = get_global_id(0);
  __global float *p = a + i;
  float t = a[i] + p[0] + *p;
  out[i] = t;
  t += a[i];
  n[i] = 1;
  t += a[i];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int j = 0; j < 2; ++j) t += a[i] + a[j] + a[i + 1];
  mem_fence(CLK_GLOBAL_MEM_FENCE);
  out[i] += t + a[i];
}
"""


@pytest.mark.parametrize(
    ("qualifier", "reloaded"), [("", ["a[i]"]), ("restrict", [])], ids=["plain", "restrict"]
)
def test_what_a_compiler_drops(context: Any, qualifier: str, reloaded: list[str]) -> None:
    """A store to another float array makes a load count again, unless a pointer is restrict."""
    source = REDUNDANT.replace("__global QUALIFIER", "__global").replace("QUALIFIER", qualifier)
    arguments = [floats(64), np.zeros(32, np.int32), floats()]
    trace = tracegen.trace(workload(source, arguments), context=context)
    result = [name.split(" #")[0] for name in names(trace)]
    assert result == [
        "a[i]",
        "store out[i]",
        *reloaded,
        "store n[i]",
        "barrier",
        *["a[i]", "a[j]", "a[i + 1]"],
        "a[j]",
        "a[i]",
        "out[i]",
        "store out[i]",
    ]
    full = tracegen.trace(workload(source, arguments), reduced=False, context=context)
    assert full.n_access == 17


def test_helper_functions_share_sites_by_array(context: Any) -> None:
    source = """
    static float at(__global const float *p, int i) { return p[i]; }
    __kernel void k(__global const float *a, __global const float *b, __global float *out)
    {
      int i = get_global_id(0);
      out[i] = at(a, i) + at(a, 31 - i) + at(b, i);
    }
    """
    arguments = [floats(), floats(), floats()]
    trace = tracegen.trace(workload(source, arguments), context=context)
    assert [(s.name, s.array, s.instruction) for s in trace.sites] == [
        ("p[i]", "a", "at"),
        ("p[i] #2", "b", "at"),
        ("store out[i]", "out", "k"),
    ]
    assert trace.site.tolist() == [0, 0, 1, 2]
    assert trace.starts_sequence.tolist() == [True, False, False, False]


def test_pointer_to_one_of_two_arrays(context: Any) -> None:
    source = """
    __kernel void k(__global const float *a, __global const float *b, __global float *out)
    {
      int i = get_local_id(0);
      __global const float *p = i < 8 ? a : b;
      out[i] = p[i];
    }
    """
    arguments = {"a": floats(), "b": floats(), "out": np.zeros(32, np.float32)}
    trace = tracegen.trace(workload(source, arguments), context=context)
    assert [(s.name, s.array) for s in trace.sites] == [("p[i]", "a or b"), ("store out[i]", "out")]
    base = {extent.name: extent.base_bytes // 32 for extent in trace.arrays}
    granules = trace.granule[: trace.granule_offset[1]].tolist()
    assert granules == [base["a"], base["b"] + 1, base["b"] + 2, base["b"] + 3]
    lanes = lane_accesses(workload(source, arguments), context=context)
    assert lanes[0, 0, 7][0] == ("load", "a", 28, 4)
    assert lanes[0, 0, 8][0] == ("load", "b", 32, 4)


def test_lanes_line_up(context: Any) -> None:
    """Lanes that left a loop wait for the others; a row of 3 and rows of 1 take three turns."""
    source = """
    __kernel void k(__global const int *n, __global const float *a, __global float *out)
    {
      int i = get_global_id(0);
      float t = 0;
      int j = 0;
      while (j < n[i]) t += a[j++];
      out[i] = t;
    }
    """
    lengths = np.ones(32, np.int32)
    lengths[5] = 3
    trace = tracegen.trace(workload(source, [lengths, floats(), floats()]), context=context)
    assert list(zip(names(trace), trace.lanes.tolist(), strict=True)) == [
        ("n[i]", 32),
        ("a[j++]", 32),
        ("a[j++]", 1),
        ("a[j++]", 1),
        ("store out[i]", 32),
    ]
    full = tracegen.trace(
        workload(source, [lengths, floats(), floats()]), reduced=False, context=context
    )
    assert full.lanes.tolist() == [32, 32, 32, 1, 1, 1, 1, 32]


def test_snapshot_is_a_part_of_the_whole(context: Any) -> None:
    source = """
    __kernel void k(__global float *a, int width)
    {
      size_t x = get_global_id(0), y = get_group_id(1) * get_local_size(1) + get_local_id(1);
      a[y * width + x] += get_num_groups(1) + get_global_size(0);
    }
    """
    made = workload(
        source, [np.zeros((8, 64), np.float32), 64], global_size=(64, 8), local_size=(32, 2)
    )
    whole = tracegen.trace(made, context=context)
    part = tracegen.trace(made, groups=[5, 2], context=context)
    assert (whole.launch.grid, whole.launch.group_shape) == ((2, 4), (32, 2))
    assert part.workgroup.tolist() == [2, 2, 5, 5]
    assert not part.whole
    begin, end = whole.subgroup_offset[[4, 6]]
    granules = slice(*whole.granule_offset[[begin, end]])
    assert np.array_equal(part.granule[: part.granule_offset[4]], whole.granule[granules])
    for groups in (None, [1]):
        _, outputs = run_traced(made, TraceOptions(groups=groups), context)
        assert np.all(outputs["a"] == 4 + 64)
    assert np.all(made.arguments[0] == 0)


def test_local_memory_counts_for_occupancy(context: Any) -> None:
    source = """
    __kernel void k(__global float *a, __local float *given)
    {
      __local double own[10];
      own[0] = given[0] = 1;
      a[get_global_id(0)] = own[0];
    }
    """
    trace = tracegen.trace(workload(source, [floats(), 256]), context=context)
    assert trace.launch.local_memory_bytes == 256 + 80
    assert names(trace) == ["store a[get_global_id(0)]"]


def test_arguments_of_every_kind(context: Any) -> None:
    source = """
    typedef struct { int a; float b; } Pair;
    __kernel void k(__global float *out, Pair pair, float4 v, uchar c, ulong n, __constant int *t,
                    __global float *nothing)
    {
      int i = get_global_id(0);
      out[i] = pair.a + pair.b + v.w + c + n + t[1] + (nothing ? nothing[i] : 0);
    }
    """
    pair = np.array([(1, 0.5)], np.dtype([("a", "i4"), ("b", "f4")]))
    values = [floats(), pair, np.arange(4, dtype=np.float32), 200, 7, np.arange(3, dtype=np.int32)]
    _, outputs = run_traced(workload(source, [*values, None]), context=context)
    assert np.all(outputs["out"] == 1 + 0.5 + 3 + 200 + 7 + 1)
