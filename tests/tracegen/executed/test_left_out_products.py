"""Products of matrices, and what a group copies to local memory, are computed where something depends on them, and nowhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracegen
from tests.support.cuda_kernels import needs_nvrtc, workload
from tracegen.executed import run
from tracegen.execution import operations as o
from tracegen.execution.operations import OPERATIONS
from tracegen.execution.slicing import sliced

KERNEL = """
extern "C" __global__ void k(const float *table, float *out, volatile float *spare, int from) {
  __shared__ alignas(128) float tile[128];
  __shared__ int base;
  int lane = threadIdx.x, index = 0;
  unsigned a, b;
  float d[4] = {0, 0, 0, 0};
  asm("{.reg .f16 h; cvt.rn.f16.f32 h, %%1; mov.b32 %%0, {h, h};}" : "=r"(a) : "f"((float)(lane / 4)));
  asm("{.reg .f16 h; cvt.rn.f16.f32 h, %%1; mov.b32 %%0, {h, h};}" : "=r"(b) : "f"(1.0f));
  if (lane == 0) base = from;
  __syncthreads();
  // Row g of the first factor has g everywhere, and so has row g + 8: rows g and g + 8 of the product have 16 g.
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%%0, %%1, %%2, %%3}, {%%4, %%4, %%4, %%4}, {%%5, %%5}, {%%0, %%1, %%2, %%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a), "r"(b));
  for (int k = 0; k < 4; ++k) tile[4 * lane + k] = d[k];
  __syncthreads();
  %s
  out[lane] = table[index] + tile[127 - lane];
}
"""
BULK = """
  asm volatile("fence.proxy.async;");
  if (lane == 0)
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 512; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
                 :: "l"(spare), "r"((unsigned)__cvta_generic_to_shared(tile)) : "memory");
  __syncthreads();
  index = (int)spare[4 * lane];
"""


def traced(kernel: str, *arguments: Any) -> tuple[list[int], Any]:
    """Granules of each load of `table`, and the table of the code that was run last."""
    with pytest.MonkeyPatch.context() as patch:
        codes: list[Any] = []

        def kept(*given: Any, **others: Any) -> Any:
            codes.append(sliced(*given, **others))
            return codes[-1]

        patch.setattr(run, "sliced", kept)
        trace = tracegen.trace(workload(kernel, *arguments), "h100")
    of_table = [trace.sites[site].array == "table" for site in trace.site.tolist()]
    return np.diff(trace.granule_offset)[of_table].tolist(), codes[-1].table


@needs_nvrtc
@pytest.mark.parametrize(
    ("body", "granules", "is_computed"),
    [
        ("index = base + lane;", 4, False),
        ("spare[lane] = d[1]; index = base + lane;", 4, False),
        ("index = (int)tile[4 * lane];", 8, True),
        ("spare[lane] = d[1]; __syncthreads(); index = (int)spare[lane ^ 1];", 8, True),
        ("index = (int)d[1];", 8, True),
        (BULK, 8, True),
    ],
    ids=["no index", "stored", "local", "global", "register", "bulk copy"],
)
def test_products_that_addresses_depend_on(body: str, granules: int, is_computed: bool) -> None:
    arguments = (np.zeros(256, np.float32), np.zeros(32, np.float32), np.zeros(128, np.float32), 32)
    loaded, table = traced(KERNEL % body, *arguments)
    assert loaded == [granules]
    assert np.any(table[:, 0] == OPERATIONS["MATRIX_MULTIPLY"].number) == is_computed


STAGED = """
extern "C" __global__ void k(const float *table, const float *x, float *out, int from) {
  __shared__ float tile[32];
  __shared__ int base;
  int lane = threadIdx.x, index = 0;
  if (lane == 0) base = from;
  tile[lane] = x[lane];
  __syncthreads();
  %s
  out[lane] = table[index] + tile[31 - lane];
}
"""


@needs_nvrtc
@pytest.mark.parametrize(
    ("body", "granules", "left_out"),
    [
        ("index = base + lane;", 4, 1),
        ("index = (int)tile[lane ^ 1];", 32, 0),
        (
            "float y = tile[lane ^ 1]; __syncthreads(); tile[lane] = y + 8; __syncthreads(); index = (int)tile[lane ^ 2] - 8;",
            32,
            0,
        ),
    ],
    ids=["no index", "an index", "an index made of one"],
)
def test_what_is_copied_to_local_memory(body: str, granules: int, left_out: int) -> None:
    table, x = np.zeros(256, np.float32), np.arange(0, 256, 8, dtype=np.float32)
    loaded, code = traced(STAGED % body, table, x, np.zeros(32, np.float32), 32)
    assert loaded == [granules]
    op, flags = code[:, 0], code[:, 9]
    local = (op == OPERATIONS["STORE"].number) & (flags & 7 == o.LOCAL)
    assert np.count_nonzero(local & (flags & o.SKIPPED != 0)) == left_out
