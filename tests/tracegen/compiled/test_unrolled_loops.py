"""Loops that the compiler unrolls: each access is performed as often as the source performs it."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

import memsim
import tracegen
from memsim.trace import Trace
from tests.support.compilers import needs_nvidia
from tests.support.cuda_kernels import needs_clang, workload

MACHINES = (
    *(pytest.param(machine, marks=needs_nvidia) for machine in ("v100", "a100", "h100")),
    "mi250x",
)
SOURCE = """
__global__ void k(const float4 *c, const float4 *p, const float *w, float4 *o, int n, int m) {
  int i = blockIdx.x * 64 + threadIdx.x;
  float4 me = c[i];
  float ax = 0, ay = 0;
  for (int t = 0; t < n; t++) {
#pragma unroll UNROLL
    for (int j = 0; j < TRIPS; j++) {
      float4 q = p[t * 256 + j];
      float dx = q.x - me.x, dy = q.y - me.y;
      float d = dx * dx + dy * dy + q.z + 1e-3f;
      float s = q.w * (FUNCTION) + w[(t * 256 + j) * 64 + i];
      ax += dx * s; ay += dy * s;
    }
  }
  o[i] = make_float4(ax, ay, 0, 0);
}
"""
OUTER = 3


def requested(trace: Trace) -> tuple[Counter[str], Counter[str]]:
    """By the first letter of an access: executions, and bytes that they request, of a sub-group."""
    executions: Counter[str] = Counter()
    size: Counter[str] = Counter()
    for site, (first, last) in zip(
        trace.site, itertools.pairwise(trace.granule_offset), strict=True
    ):
        name = trace.sites[site].name[0] if site >= 0 else "barrier"
        executions[name] += 1
        size[name] += sum(int(mask).bit_count() for mask in trace.byte_mask[first:last])
    n = len(trace.subgroup_offset) - 1
    return Counter({k: v // n for k, v in executions.items()}), Counter(
        {k: v // n for k, v in size.items()}
    )


def check(machine: str, unroll: int, written: str, trips: int, function: str) -> None:
    words = {"UNROLL": str(unroll), "TRIPS": written, "FUNCTION": function}
    source = SOURCE
    for name, word in words.items():
        source = source.replace(name, word)
    c, p = np.ones((64, 4), np.float32), np.ones((256 * OUTER, 4), np.float32)
    w = np.ones(64 * 256 * OUTER, np.float32)
    made = workload(source, c, p, w, np.zeros((64, 4), np.float32), OUTER, trips, block=64)
    gpu = memsim.load_machine(machine)
    trace = tracegen.trace(made, gpu)
    executions, size = requested(trace)
    assert trace.provenance["compiler"]["unmatched_percent"] == 0
    assert executions["w"] == OUTER * trips
    assert size["w"] == OUTER * trips * 4 * gpu.subgroup_size
    assert size["p"] == OUTER * trips * 16
    if machine != "mi250x":  # whose scalar unit loads several at once
        assert executions["p"] == OUTER * trips


@needs_clang
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("unroll", "written", "trips"),
    [(1, "m", 37), (2, "256", 256), (2, "37", 37), (4, "64", 64), (4, "m", 37), (8, "m", 1), (8, "37", 37)],
)  # fmt: skip
def test_an_inner_loop_that_is_partly_unrolled(
    machine: str, unroll: int, written: str, trips: int
) -> None:
    check(machine, unroll, written, trips, "rsqrtf(d)")


@needs_clang
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("function", ["d", "sqrtf(d)", "1.0f / d", "expf(d)", "sinf(d)"])
def test_functions_that_branch_in_an_unrolled_loop(machine: str, function: str) -> None:
    check(machine, 2, "128", 128, function)
    check(machine, 4, "m", 11, function)


PARTS = """
__kernel void k(__global const float4 *a, __global float *b, int n) {
  int i = get_global_id(0);
  float s = 0;
  for (int t = 0; t < n; t++)
    s += a[i + t * 64].x;
  b[i] = s;
}
"""


@needs_nvidia
def test_a_member_of_a_vector_in_an_unrolled_loop() -> None:
    """The source counts the whole vector; the machine code loads one member of it, once."""
    n = 23
    a = np.ones((64 * (n + 1), 4), np.float32)
    made = tracegen.OpenCLWorkload(
        source=PARTS,
        kernel="k",
        arguments=[a, np.zeros(64, np.float32), np.int32(n)],
        global_size=64,
        local_size=64,
    )
    executions, _ = requested(tracegen.trace(made, memsim.load_machine("a100")))
    assert executions["a"] == n
