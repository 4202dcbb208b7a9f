"""Accesses to local memory through pointers are checked before they happen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracegen
from memsim.errors import KernelError

SOURCE = """\
typedef struct { int n; float part[3]; } rec;
void helper(__local float *q, int i) { q[i] = 1; }
__local float *moved(__local float *q, int by) { return q + by; }
__kernel void k(__global const int *in, __global float *out, __local float *dynamic, const int n)
{
  __local float t[8][4]; __local rec r[4]; __local int hits; __local float4 v[4];
  __local float *p = &t[0][0] + 4; __local float (*rows)[4] = t + 1; __local rec *s = r; __local float4 *w = v;
  if (get_local_id(0) == 0) hits = 0;
  dynamic[get_local_id(0)] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  const int j = in[get_global_id(0)];
  __local float *either = j & 1 ? p : dynamic;
  switch (n) {
    case 0: p[j] = 1; break;
    case 1: *(p + j) += 1; break;
    case 2: rows[j][1] = 2; break;
    case 3: s[j].part[1] = 2; break;
    case 4: (s + j)->n = 3; break;
    case 5: w[j].x = 1; break;
    case 6: (w + j)->y = 2; break;
    case 7: helper(p, j); break;
    case 8: *moved(p, j) = 3; break;
    case 9: atomic_inc((volatile __local int *) (&t[0][0] + j)); break;
    case 10: vstore4((float4)(1), j, &t[0][0]); break;
    case 11: dynamic += 4; dynamic[j] = 1; break;
    case 12: either[j] = 1; break;
    case 13: out[0] = vload2(j, p).x; break;
    case 14: p += j; p--; *p++ = 4; break;
    case 15: ((__local char *) p)[j] = 1; break;
    case 16: atomic_add(&hits + j, 1); break;
  }
  out[get_global_id(0)] = p - &t[0][0] + hits;
}
"""
CASES = [
    (0, 27, 28, 14, "index 32 is out of bounds: array t has 32 elements"),
    (0, -4, -5, 14, "index -1 is out of bounds: array t has 32 elements"),
    (1, 27, 28, 15, "index 32 is out of bounds: array t has 32 elements"),
    (2, 6, 7, 16, "index 32 is out of bounds: array t has 32 elements"),
    (3, 3, 4, 17, "index 4 is out of bounds: array r has 4 elements"),
    (4, 3, 4, 18, "index 4 is out of bounds: array r has 4 elements"),
    (5, 3, 4, 19, "index 4 is out of bounds: array v has 4 elements"),
    (6, 3, -1, 20, "index -1 is out of bounds: array v has 4 elements"),
    (7, 27, 28, 2, "index 32 is out of bounds: array t has 32 elements"),
    (8, 27, 28, 22, "index 32 is out of bounds: array t has 32 elements"),
    (9, 31, 32, 23, "index 32 is out of bounds: array t has 32 elements"),
    (10, 7, 8, 24, "index 32 is out of bounds: array t has 32 elements"),
    (11, 27, 28, 25, "index 32 is out of bounds: array dynamic has 32 elements"),
    (11, -4, -5, 25, "index -1 is out of bounds: array dynamic has 32 elements"),
    (12, 27, 29, 26, "either[j] is out of bounds: it lies in none of the arrays dynamic, t"),
    (12, 30, 32, 26, "either[j] is out of bounds: it lies in none of the arrays dynamic, t"),
    (13, 13, 14, 27, "index 32 is out of bounds: array t has 32 elements"),
    (14, 28, 29, 28, "index 32 is out of bounds: array t has 32 elements"),
    (15, 111, 112, 29, "index 32 is out of bounds: array t has 32 elements"),
    (16, 0, 1, 30, "index 1 is out of bounds: array hits has 1 elements"),
]


@pytest.mark.parametrize(("case", "good", "bad", "line", "message"), CASES)
def test_pointers_into_arrays(
    case: int, good: int, bad: int, line: int, message: str, context: Any
) -> None:
    def trace(index: int) -> Any:
        arguments = [np.full(64, index, np.int32), np.zeros(64, np.float32), 128, np.int32(case)]
        workload = tracegen.OpenCLWorkload(
            source=SOURCE, path="k.cl", arguments=arguments, global_size=64, local_size=32
        )
        return tracegen.trace(workload, context=context)

    assert trace(good).n_access >= 6
    with pytest.raises(KernelError) as caught:
        trace(bad)
    error, _, where = str(caught.value).partition("; ")
    assert error == f"k.cl:{line}: {message}"
    assert where in ("work-item 0 of group 0", "work-item 0 of group 1")  # the first to run


def test_vectors_in_local_memory_count_for_occupancy(context: Any) -> None:
    source = "__kernel void k(__global float *a) { __local float4 v[10]; v[0] = 1; a[0] = v[0].x; }"
    workload = tracegen.OpenCLWorkload(
        source=source, arguments=[np.zeros(4, np.float32)], global_size=1, local_size=1
    )
    assert tracegen.trace(workload, context=context).launch.local_memory_bytes == 160
