"""Accesses to private and constant memory through pointers are checked before they happen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyopencl as cl
import pytest

import tracegen
from memsim.errors import KernelError
from tests.support.instrumented_runs import run_traced

SOURCE = """\
typedef struct { int n; float part[3]; } rec;
__constant float table[8] = { 1, 2, 3, 4, 5, 6, 7, 8 }; __constant int2 pairs[2] = { (int2)(1), (int2)(2) };
void helper(float *q, int i) { q[i] = 1; }
float *moved(float *q, int by) { return q + by; }
float sum(__constant float *from, int n) { float s = 0; for (int k = 0; k < n; ++k) s += from[k]; return s; }
float parts(float4 v, int i) { return ((float *) &v)[i]; }
float own(int i) { float four[4] = { 0 }, *p = four; return p[i]; }
__kernel void k(__global const int *in, __global float *out, __constant float *weights, const int n,
  const rec given)
{
  float t[8][4], *p = &t[0][0] + 4; rec r[4]; float4 v[4]; float alone = 1; __constant float *c = table + 2;
  __global float *outs[2] = { out, out }, **way = outs; float *rows[2] = { p, p + 1 }; struct { float *q; } holder;
  for (int i = 0; i < 8; ++i) for (int j = 0; j < 4; ++j) t[i][j] = 0;
  float (*row)[4] = t + 1; rec *s = r; float4 *w = v; float *end = &t[0][0] + 32; holder.q = p;
  __constant float inner[3] = { 1, 2, 3 }; __constant float *d = inner; typedef float four[4]; four typed, *f4 = &typed;
  const int j = in[get_global_id(0)];
  float *either = j & 1 ? p : &alone;
  switch (n) {
    case 0: p[j] = 1; break;
    case 1: *(p + j) += 1; break;
    case 2: row[j][1] = 2; break;
    case 3: s[j].part[1] = 2; break;
    case 4: (s + j)->n = 3; break;
    case 5: w[j].x = 1; break;
    case 6: (w + j)->y = 2; break;
    case 7: helper(p, j); break;
    case 8: *moved(p, j) = 3; break;
    case 9: out[1] = sum(table, j); break;
    case 10: vstore4((float4)(1), j, &t[0][0]); break;
    case 11: out[1] = sum(weights, j); break;
    case 12: either[j] = 1; break;
    case 13: out[1] = vload2(j, p).x; break;
    case 14: p += j; p--; *p++ = 4; break;
    case 15: ((char *) p)[j] = 1; break;
    case 16: *(&alone + j) = 1; break;
    case 17: out[1] = c[j]; break;
    case 18: out[1] = weights[j]; break;
    case 19: out[1] = vload2(j, weights).x; break;
    case 20: out[1] = (pairs + j)->y; break;
    case 21: out[1] = parts((float4)(1), j); break;
    case 22: out[1] = own(j); break;
    case 23: way[j][1] = 1; break;
    case 24: out[1] = fract(1.5f, p + j); break;
    case 25: *(1 + &row[j][1]) = 3; break;
    case 26: rows[1][j] = 1; break;
    case 27: holder.q[j] = 1; break;
    case 28: for (float few[4], *f = few; f == few; ++f) f[j] = 1; break;
    case 29: { __private float attributed[4] __attribute__((aligned(16))); float *f = attributed; f[j] = 1; } break;
    case 30: out[1] = d[j]; break;
    case 31: out[1] = *(&given.n + j); break;
    case 32: (*f4)[j] = 1; break;
    case 33: f4[j][0] = 1; break;
    case 34: out[1] = ((__constant char *) table)[j]; break;
  }
  out[get_global_id(0)] = end - &t[0][0] + alone + t[0][0];
}
"""
T, TABLE = "array t has 32 elements", "array table has 8 elements"
CASES = [
    (0, 27, 28, 19, f"index 32 is out of bounds: {T}"),
    (0, -4, -5, 19, f"index -1 is out of bounds: {T}"),
    (1, 27, 28, 20, f"index 32 is out of bounds: {T}"),
    (2, 6, 7, 21, f"index 32 is out of bounds: {T}"),
    (3, 3, 4, 22, "index 4 is out of bounds: array r has 4 elements"),
    (4, 3, 4, 23, "index 4 is out of bounds: array r has 4 elements"),
    (5, 3, 4, 24, "index 4 is out of bounds: array v has 4 elements"),
    (6, 3, -1, 25, "index -1 is out of bounds: array v has 4 elements"),
    (7, 27, 28, 3, f"index 32 is out of bounds: {T}"),
    (8, 27, 28, 27, f"index 32 is out of bounds: {T}"),
    (9, 8, 9, 5, "from[k] is out of bounds: it lies in none of the arrays weights, table"),
    (10, 7, 8, 29, f"index 32 is out of bounds: {T}"),
    (11, 16, 17, 5, "from[k] is out of bounds: it lies in none of the arrays weights, table"),
    (12, 0, 28, 31, "either[j] is out of bounds: it lies in none of the arrays t, alone"),
    (13, 13, 14, 32, f"index 32 is out of bounds: {T}"),
    (14, 28, 29, 33, f"index 32 is out of bounds: {T}"),
    (15, 111, 112, 34, f"index 32 is out of bounds: {T}"),
    (15, 111, 113, 34, "byte 129 is out of bounds: array t has 128 bytes"),
    (16, 0, 1, 35, "index 1 is out of bounds: array alone has 1 elements"),
    (17, 5, 6, 36, f"index 8 is out of bounds: {TABLE}"),
    (17, -2, -3, 36, f"index -1 is out of bounds: {TABLE}"),
    (18, 15, 16, 37, "index 16 is out of bounds: array weights has 16 elements"),
    (18, 0, -1, 37, "index -1 is out of bounds: array weights has 16 elements"),
    (19, 7, 8, 38, "index 16 is out of bounds: array weights has 16 elements"),
    (20, 1, 2, 39, "index 2 is out of bounds: array pairs has 2 elements"),
    (21, 3, 4, 6, "index 1 is out of bounds: array v has 1 elements"),
    (22, 3, 4, 7, "index 4 is out of bounds: array four has 4 elements"),
    (22, 0, -1, 7, "index -1 is out of bounds: array four has 4 elements"),
    (23, 1, 2, 42, "index 2 is out of bounds: array outs has 2 elements"),
    (24, 27, 28, 43, f"index 32 is out of bounds: {T}"),
    (25, 6, 7, 44, "index 34 is out of bounds: array t has 32 elements"),
    (26, 26, 1 << 20, 45, "rows[1][j] is out of bounds: it lies in none of the arrays "),
    (27, 27, 1 << 20, 46, "holder.q[j] is out of bounds: it lies in none of the arrays "),
    (28, 3, 4, 47, "index 4 is out of bounds: array few has 4 elements"),
    (29, 3, 4, 48, "index 4 is out of bounds: array attributed has 4 elements"),
    (30, 2, 3, 49, "index 3 is out of bounds: array inner has 3 elements"),
    (31, 3, 4, 50, "index 1 is out of bounds: array given has 1 elements"),
    (32, 3, 4, 51, "index 4 is out of bounds: array (*f4) has 4 elements"),
    (33, 0, 1, 52, "index 4 is out of bounds: array typed has 4 elements"),
    (34, 31, 32, 53, f"index 8 is out of bounds: {TABLE}"),
]


def traced(source: str, context: Any, *arguments: Any) -> Any:
    workload = tracegen.OpenCLWorkload(
        source=source, path="k.cl", arguments=arguments, global_size=64, local_size=32
    )
    return tracegen.trace(workload, context=context)


@pytest.mark.parametrize(("case", "good", "bad", "line", "message"), CASES)
def test_pointers_into_arrays(
    case: int, good: int, bad: int, line: int, message: str, context: Any
) -> None:
    def trace(index: int) -> Any:
        weights = np.arange(16, dtype=np.float32)
        indices, out = np.full(64, index, np.int32), np.zeros(64, np.float32)
        given = np.zeros(4, np.float32)
        return traced(SOURCE, context, indices, out, weights, np.int32(case), given)

    assert trace(good).n_access >= 4
    with pytest.raises(KernelError) as caught:
        trace(bad)
    error, _, where = str(caught.value).rpartition("; ")
    assert error.startswith(f"k.cl:{line}: {message}")
    assert where in ("work-item 0 of group 0", "work-item 0 of group 1")  # the first to run


SILENT = {
    "strings": '__constant char *p = n ? "abcdefgh" : letters; out[i] = p[6];',
    "constants that follow the kernel": "out[i] = later(7);",
    "one behind the last": "float *p = buffer, *end = p + 4, s = 0; while (p != end) s += *p++; out[i] = s;",
    "a switch over a declaration": "switch (n) { float b[4]; case 3: { float *p = b; p[3] = 1; out[i] = p[3]; } }",
    "addresses made of integers": "size_t at = (size_t) buffer; float *p = (float *) (at + 8); out[i] = p[1];",
    "swapped pointers": """float b[2] = { 3, 4 }, *p = buffer, *q = b, **a = &p, **c = &q;
        for (int k = 0; k < 3; ++k) { float *t = *a; *a = *c; *c = t; }
        out[i] = p[1] + q[3];""",
    "arrays that end before the next begins": """float s = 0;
        for (int k = 1; k < 4; ++k) { float b[3] = { k, k, k }, *p = b; s += p[k - 1]; }
        for (int k = 0; k < 2; ++k) { float b[2] = { k, k }, *p = b; s += p[k]; } out[i] = s;""",
    "barriers": """float b[4] = { i, i, i, i }, *p = b; p[1] += 1; barrier(CLK_LOCAL_MEM_FENCE);
        p[2] += p[1]; barrier(CLK_LOCAL_MEM_FENCE); out[i] = p[2] - 2 * i;""",
    "several results": "float a, b, c; several(i, &a, &b); c = sincos(1.0f, &a); out[i] = a + b + c;",
    "matrices": "float m[3][3]; identity(m); out[i] = trace3((const float (*)[3]) m);",
    "structs": "pair p = { 1, 2 }; pair *q = &p; swap(q); bump(&q->x); out[i] = q->x + 10 * q->y;",
}
HELPERS = """\
typedef struct { float x, y; } pair;
__constant char letters[4] = { 1, 2, 3, 4 };
float later(int i);
void several(int i, float *a, float *b) { *a = i; *b = 2 * i; }
void identity(float m[3][3]) { for (int i = 0; i < 3; ++i) for (int j = 0; j < 3; ++j) m[i][j] = i == j; }
float trace3(const float (*m)[3]) { float s = 0; for (int i = 0; i < 3; ++i) s += m[i][i]; return s; }
void swap(pair *p) { pair q = *p; p->x = q.y; (*p).y = q.x; }
void bump(float *x) { ++*x; }
"""


@pytest.mark.parametrize("what", SILENT)
def test_what_is_right_is_not_refused(what: str, context: Any) -> None:
    """The results are those of the kernel without probes."""
    source = f"""{HELPERS}
__kernel void k(__global float *out, const int n)
{{
  const int i = get_global_id(0);
  float buffer[4] = {{ 1, 2, 3, 4 }};
  {SILENT[what]}
}}
__constant float after[8] = {{ 1, 2, 3, 4, 5, 6, 7, 8 }};
float later(int i) {{ __constant float *p = after; return p[i]; }}
"""
    expected = np.zeros(64, np.float32)
    with cl.CommandQueue(context) as queue:
        buffer = cl.Buffer(context, cl.mem_flags.WRITE_ONLY, expected.nbytes)
        cl.Program(context, source).build().k(queue, (64,), (32,), buffer, np.int32(3))
        cl.enqueue_copy(queue, expected, buffer)
    arguments = [np.zeros(64, np.float32), np.int32(3)]
    (trace,), outputs = run_traced(
        tracegen.OpenCLWorkload(source=source, arguments=arguments, global_size=64, local_size=32),
        context=context,
    )
    assert "store out[i]" in [site.name for site in trace.sites]
    assert expected.any()
    np.testing.assert_array_equal(outputs["out"], expected)


def test_more_arrays_than_sets_hold(context: Any) -> None:
    """Of 70 arrays, the first 64 that are accessed through pointers are checked."""
    lines = [f"float a{k}[2] = {{ 1, 2 }}, *p{k} = a{k}; s += p{k}[n];" for k in range(70)]
    body = "\n".join(lines)
    source = (
        f"__kernel void k(__global float *out, const int n) {{ float s = 0; {body} out[n] = s; }}"
    )
    assert traced(source, context, np.zeros(64, np.float32), np.int32(1)).n_access == 2
    with pytest.raises(KernelError, match=r"index 9 is out of bounds: array a0 has 2 elements"):
        traced(source, context, np.zeros(64, np.float32), np.int32(9))
