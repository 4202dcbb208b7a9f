"""Loops that compilers unroll: each access is executed as often as the source says."""

from __future__ import annotations

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
    for (int j = 0; j < m; j++) {
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


def requested(trace: Trace, array: str) -> tuple[float, float]:
    """Executions, and bytes that they request, of a sub-group."""
    (own,) = (k for k, site in enumerate(trace.sites) if site.array == array)
    bits = np.unpackbits(np.asarray(trace.byte_mask).view(np.uint8)).reshape(-1, 32).sum(axis=1)
    executions = trace.site == own
    n_bytes = bits[np.repeat(executions, np.diff(trace.granule_offset))].sum()
    return executions.sum() / trace.n_subgroup, n_bytes / trace.n_subgroup


@pytest.mark.weekly(2)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("unroll", "trips", "function"),
    [
        (4, 37, "rsqrtf(d)"),
        (8, 1, "rsqrtf(d)"),
        (4, 11, "1.0f / d"),  # with a slow path beside the loop
    ],
)
def test_an_inner_loop_that_is_partly_unrolled(
    machine: str, unroll: int, trips: int, function: str
) -> None:
    source = SOURCE.replace("UNROLL", str(unroll)).replace("FUNCTION", function)
    c, p = np.ones((64, 4), np.float32), np.ones((256 * OUTER, 4), np.float32)
    w = np.ones(64 * 256 * OUTER, np.float32)
    made = workload(source, c, p, w, np.zeros((64, 4), np.float32), OUTER, trips, block=64)
    gpu = memsim.load_machine(machine)
    trace = tracegen.trace(made, gpu)
    n = OUTER * trips
    assert requested(trace, "w") == (n, n * 4 * gpu.subgroup_size)
    executions, size = requested(trace, "p")
    assert size == n * 16
    if machine != "mi250x":  # whose scalar unit loads several at once
        assert executions == n
