"""Launches of the kernels in kernels.cu, by their sizes. Arrays whose values nothing reads are zeros that take no memory."""

from __future__ import annotations

import numpy as np

from tracegen import CudaWorkload


def _zeros(*counts: int) -> list[np.ndarray]:
    return [np.zeros(n, np.float32) for n in counts]


def _product(n: int, edges: tuple[int, int], block: tuple[int, ...]) -> CudaWorkload:
    grid = (n // edges[0], n // edges[1])
    return CudaWorkload(arguments=[*_zeros(n * n, n * n, n * n), n], grid=grid, block=block)


def naive(n: int) -> CudaWorkload:
    return _product(n, (32, 32), (32, 32))


coalesced = tiled = naive


def tiles_1d(n: int) -> CudaWorkload:
    return _product(n, (64, 64), (512,))


def tiles_2d(n: int) -> CudaWorkload:
    return _product(n, (128, 128), (256,))


def addition(log2: int) -> CudaWorkload:
    n = 1 << log2
    return CudaWorkload(arguments=_zeros(n, n, n), grid=n // 256, block=256)


def layer_norm(rows: int, columns: int = 4096) -> CudaWorkload:
    x, y = _zeros(rows * columns, rows * columns)
    scale, shift = _zeros(columns, columns)
    return CudaWorkload(arguments=[x, scale, shift, y, columns], grid=rows, block=256)


def bodies(log2: int) -> CudaWorkload:
    n = 1 << log2
    return CudaWorkload(arguments=[*_zeros(4 * n, 4 * n), n], grid=n // 256, block=256)


def stencil(n: int) -> CudaWorkload:
    return CudaWorkload(
        arguments=[*_zeros(n**3, n**3), n], grid=(n // 32, n // 8, n), block=(32, 8)
    )


def spmv(entries: int, row: int = 50, band: int = 1 << 16) -> CudaWorkload:
    """A matrix with `row` entries in each row, at random places within a band."""
    rows = entries // row
    begin = np.arange(0, entries + 1, row, dtype=np.int32)
    column = np.random.default_rng(0).integers(0, band, entries, dtype=np.int32)
    column += np.repeat(np.arange(rows, dtype=np.int32), row)
    value, x, y = _zeros(entries, rows + band, rows)
    return CudaWorkload(arguments=[begin, column, value, x, y, rows], grid=-(-rows // 8), block=256)
