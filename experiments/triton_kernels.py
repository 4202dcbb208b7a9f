"""Kernels in Triton: sums of vectors, rows of softmax in two passes, and products of stacks of matrices."""

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def add(a, b, c, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    total = tl.load(a + at, mask=inside) + tl.load(b + at, mask=inside)
    tl.store(c + at, total, mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def softmax(x, y, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """A program a row: first its greatest number and the sum of exponentials, then each number again."""
    row, least = tl.program_id(0).to(tl.int64) * n, -float("inf")
    greatest, total = least, 0.0
    for begin in tl.range(0, n, BLOCK):
        at = (begin + tl.arange(0, BLOCK)).to(tl.int64)
        numbers = tl.load(x + row + at, mask=at < n, other=least).to(tl.float32)
        before = greatest
        greatest = tl.maximum(before, tl.max(numbers, axis=0))
        total = total * tl.exp(before - greatest) + tl.sum(tl.exp(numbers - greatest), axis=0)
    for begin in tl.range(0, n, BLOCK):
        at = (begin + tl.arange(0, BLOCK)).to(tl.int64)
        numbers = tl.load(x + row + at, mask=at < n, other=least)
        part = tl.exp(numbers.to(tl.float32) - greatest) / total
        tl.store(y + row + at, part.to(numbers.dtype), mask=at < n)


@triton.jit  # type: ignore[untyped-decorator]
def products(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):  # type: ignore[no-untyped-def]
    """c = a b for each of a stack of matrices, a tile a program."""
    matrix = tl.program_id(0)
    rows = tl.program_id(1) * BM + tl.arange(0, BM)
    columns = tl.program_id(2) * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    of_a = a + matrix * M * K + rows[:, None] * K + depth[None, :]
    of_b = b + matrix * K * N + depth[:, None] * N + columns[None, :]
    sums = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        left = tl.load(of_a, mask=(rows[:, None] < M) & (depth[None, :] + k * BK < K), other=0.0)
        right = tl.load(
            of_b, mask=(depth[:, None] + k * BK < K) & (columns[None, :] < N), other=0.0
        )
        sums += tl.dot(left, right)
        of_a += BK
        of_b += BK * N
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    of_c = c + matrix * M * N + rows[:, None] * N + columns[None, :]
    tl.store(of_c, sums.to(c.dtype.element_ty), mask=inside)
