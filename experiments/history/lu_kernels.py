"""OpenCL kernels of the tiled LU factorisation: fast ones with vectors of 16, and plain ones for
slow workers.

Tiles are B x B floats in row-major order. There is no pivoting, so the matrix must be diagonally
dominant. The plain kernels compute the same with shorter vectors and fewer sums in registers. The
ratio of the two speeds depends on the task: it is largest for gemm, and 1 for getrf, which runs one
work-item in both sets. The paper's scheduler exploits such differences.
"""

from __future__ import annotations

GETRF = "getrf"
TRSM_LOWER = "trsm_lower"
TRSM_UPPER = "trsm_upper"
GEMM = "gemm"
KINDS = (GETRF, TRSM_LOWER, TRSM_UPPER, GEMM)

N_TILES = {GETRF: 1, TRSM_LOWER: 2, TRSM_UPPER: 2, GEMM: 3}
"""Number of tiles of a task, which writes the last of them."""

FAST = """
void axpy(global float *x, global const float *y, float by, int from)
{
    int edge = min(B, (from + 15) / 16 * 16);
    for (int c = from; c < edge; ++c) x[c] -= by * y[c];
    for (int c = edge; c < B; c += 16)
        vstore16(vload16(0, x + c) - by * vload16(0, y + c), 0, x + c);
}
kernel void getrf(global float *a)
{
    for (int k = 0; k < B; ++k) {
        float pivot = 1.0f / a[k * B + k];
        for (int i = k + 1; i < B; ++i) {
            float l = a[i * B + k] * pivot;
            a[i * B + k] = l;
            axpy(a + i * B, a + k * B, l, k + 1);
        }
    }
}
kernel void trsm_lower(global const float *l, global float *a)
{
    global float *x = a + get_global_id(0) * 16;
    for (int i = 1; i < B; ++i) {
        float16 sum = vload16(0, x + i * B);
        for (int m = 0; m < i; ++m) sum -= l[i * B + m] * vload16(0, x + m * B);
        vstore16(sum, 0, x + i * B);
    }
}
kernel void trsm_upper(global const float *u, global float *a)
{
    global float *x = a + get_global_id(0) * B;
    for (int m = 0; m < B; ++m) {
        x[m] /= u[m * B + m];
        axpy(x, u + m * B, x[m], m + 1);
    }
}
kernel void gemm(global const float *a, global const float *b, global float *c)
{
    a += get_global_id(1) * 8 * B;
    b += get_global_id(0) * 16;
    c += get_global_id(1) * 8 * B + get_global_id(0) * 16;
    float16 sum[8];
    for (int r = 0; r < 8; ++r) sum[r] = vload16(0, c + r * B);
    for (int k = 0; k < B; ++k) {
        float16 row = vload16(0, b + k * B);
        for (int r = 0; r < 8; ++r) sum[r] -= a[r * B + k] * row;
    }
    for (int r = 0; r < 8; ++r) vstore16(sum[r], 0, c + r * B);
}
"""

PLAIN = """
kernel void getrf(global float *a)
{
    for (int k = 0; k < B; ++k)
        for (int i = k + 1; i < B; ++i) {
            float l = a[i * B + k] / a[k * B + k];
            a[i * B + k] = l;
            for (int c = k + 1; c < B; ++c) a[i * B + c] -= l * a[k * B + c];
        }
}
kernel void trsm_lower(global const float *l, global float *a)
{
    global float *x = a + get_global_id(0) * 4;
    for (int i = 1; i < B; ++i) {
        float4 sum = vload4(0, x + i * B);
        for (int m = 0; m < i; ++m) sum -= l[i * B + m] * vload4(0, x + m * B);
        vstore4(sum, 0, x + i * B);
    }
}
kernel void trsm_upper(global const float *u, global float *a)
{
    global float *x = a + get_global_id(0) * B;
    for (int m = 0; m < B; ++m) {
        x[m] /= u[m * B + m];
        for (int c = m + 1; c < B; ++c) x[c] -= x[m] * u[m * B + c];
    }
}
kernel void gemm(global const float *a, global const float *b, global float *c)
{
    a += get_global_id(1) * 2 * B;
    b += get_global_id(0) * 8;
    c += get_global_id(1) * 2 * B + get_global_id(0) * 8;
    float8 sum = vload8(0, c), next = vload8(0, c + B);
    for (int k = 0; k < B; ++k) {
        float8 row = vload8(0, b + k * B);
        sum -= a[k] * row;
        next -= a[B + k] * row;
    }
    vstore8(sum, 0, c);
    vstore8(next, 0, c + B);
}
"""


def grid(kind: str, tile: int, *, fast: bool) -> tuple[int, ...]:
    """The global size of a kernel."""
    if kind == GETRF:
        return (1,)
    if kind == TRSM_UPPER:
        return (tile,)
    if kind == TRSM_LOWER:
        return (tile // (16 if fast else 4),)
    return (tile // 16, tile // 8) if fast else (tile // 8, tile // 2)


def group(kind: str) -> tuple[int, ...]:
    """The local size: one work-item, so that every multiple of 16 is a possible width."""
    return (1, 1) if kind == GEMM else (1,)


def flops(kind: str, tile: int) -> float:
    """Floating-point operations of one task, to leading order."""
    return {GETRF: 2 / 3, TRSM_LOWER: 1.0, TRSM_UPPER: 1.0, GEMM: 2.0}[kind] * tile**3
