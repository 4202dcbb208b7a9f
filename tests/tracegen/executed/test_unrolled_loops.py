"""Loops that compilers unroll: each access is executed as often as the source says."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import memsim
import tracegen
from memsim.trace import Trace
from tests.support.compilers import needs_nvidia
from tests.support.cuda_kernels import needs_clang, workload

pytestmark = needs_clang
MACHINES = [pytest.param("a100", marks=needs_nvidia), "mi250x"]
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
    """By array: executions, and bytes that they request, of a sub-group."""
    executions: Counter[str] = Counter()
    size: Counter[str] = Counter()
    bits = np.unpackbits(np.asarray(trace.byte_mask).view(np.uint8)).reshape(-1, 32).sum(axis=1)
    sums = np.concatenate([[0], np.cumsum(bits)])[trace.granule_offset]
    for site, n_bytes in zip(trace.site.tolist(), np.diff(sums).tolist(), strict=True):
        executions[trace.sites[site].array] += 1
        size[trace.sites[site].array] += n_bytes
    n = trace.n_subgroup
    return (
        Counter({k: v // n for k, v in executions.items()}),
        Counter({k: v // n for k, v in size.items()}),
    )


@pytest.mark.weekly(2)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("unroll", "written", "trips", "function"),
    [
        (2, "37", 37, "rsqrtf(d)"),
        (4, "m", 37, "rsqrtf(d)"),
        (8, "m", 1, "rsqrtf(d)"),
        (4, "m", 11, "1.0f / d"),  # with a slow path beside the loop
    ],
)
def test_an_inner_loop_that_is_partly_unrolled(
    machine: str, unroll: int, written: str, trips: int, function: str
) -> None:
    source = SOURCE
    words = {"UNROLL": str(unroll), "TRIPS": written, "FUNCTION": function}
    for name, word in words.items():
        source = source.replace(name, word)
    c, p = np.ones((64, 4), np.float32), np.ones((256 * OUTER, 4), np.float32)
    w = np.ones(64 * 256 * OUTER, np.float32)
    made = workload(source, c, p, w, np.zeros((64, 4), np.float32), OUTER, trips, block=64)
    gpu = memsim.load_machine(machine)
    executions, size = requested(tracegen.trace(made, gpu))
    assert executions["w"] == OUTER * trips
    assert size["w"] == OUTER * trips * 4 * gpu.subgroup_size
    assert size["p"] == OUTER * trips * 16
    if machine != "mi250x":  # whose scalar unit loads several at once
        assert executions["p"] == OUTER * trips
