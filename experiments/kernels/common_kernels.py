"""Thirty-one ordinary kernels in CUDA C++ (`common_kernels.cu`), each in the launch that an H200 ran.

On the command line: `common_kernels.cu:vadd4 --args common_kernels.py:vadd4 --set n=65536`. Sizes are by default those
that were measured. Indices, words and lengths of rows, on which addresses depend, come from a hash that the device
computed alike; values on which none depends are random.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from memsim.errors import KernelError
from tracegen import CudaWorkload

Array = npt.NDArray[Any]
Expected = Callable[[], Mapping[str, Array]]

SOURCE = Path(__file__).with_suffix(".cu")
M = 1 << 20
GRID = 132 * 8
"""Blocks of the kernels with as many threads as an H200 holds."""


def hashed(n: int, seed: int) -> Array:
    """n words of 32 bits, each a hash of its index."""
    h = np.arange(n, dtype=np.uint32)
    h *= np.uint32(0x9E6D62D5)
    h += np.uint32(seed)
    h ^= h >> np.uint32(15)
    h *= np.uint32(0x2C7F5A6D)
    h ^= h >> np.uint32(14)
    h *= np.uint32(0x9B3D1E47)
    h ^= h >> np.uint32(16)
    return h


def _indices(n: int, seed: int, below: int) -> Array:
    return (hashed(n, seed) % np.uint32(below)).astype(np.int32)


def _values(n: int, seed: int, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(seed).random(n, dtype)


def _blocks(n: int, block: int) -> int:
    """The number of blocks of n elements; raises KernelError where the last would not be full."""
    if n < 1 or n % block:
        raise KernelError(f"the size must be a multiple of {block}, got {n}")
    return n // block


def _launch(
    kernel: str,
    grid: int | tuple[int, ...],
    block: int | tuple[int, ...],
    arguments: Mapping[str, Any],
    expected: Expected,
    *,
    error: float = 0.0,
    symbols: Mapping[str, Any] | None = None,
) -> CudaWorkload:
    """A launch whose results are to be as expected: integers exactly, others to a relative error of 1e-4 or an
    absolute one."""

    def check(written: Mapping[str, Any]) -> None:
        for name, right in expected().items():
            found = np.asarray(written[name]).reshape(right.shape)
            if np.issubdtype(right.dtype, np.integer):
                np.testing.assert_array_equal(found, right)
            else:
                np.testing.assert_allclose(found.astype(np.float64), right, rtol=1e-4, atol=error)

    return CudaWorkload(
        path=SOURCE,
        kernel=kernel,
        arguments=arguments,
        grid=grid,
        block=block,
        symbols=symbols or {},
        check=check,
    )


def vadd4(n: int = 32 * M) -> CudaWorkload:
    """n : elements, four a thread."""
    a, b = _values(n, 1), _values(n, 2)
    arguments = {"a": a, "b": b, "c": np.zeros_like(a), "n4": n // 4}
    return _launch("vadd4", _blocks(n, 1024), 256, arguments, lambda: {"c": a + b})


def vadd1(n: int = 32 * M) -> CudaWorkload:
    """n : elements, one a thread."""
    a, b = _values(n, 1), _values(n, 2)
    arguments = {"a": a, "b": b, "c": np.zeros_like(a), "n": n}
    return _launch("vadd1", _blocks(n, 256), 256, arguments, lambda: {"c": a + b})


def saxpy_loop(n: int = 32 * M, groups: int = GRID) -> CudaWorkload:
    """n : elements;  groups : blocks that loop over them"""
    x, y = _values(n, 1), _values(n, 2)
    arguments = {"n": n, "alpha": 1.5, "x": x, "y": y.copy()}
    return _launch("saxpy_loop", groups, 256, arguments, lambda: {"y": np.float32(1.5) * x + y})


def copy_stride8(n: int = 8 * M, stride: int = 8) -> CudaWorkload:
    """n : elements that are copied;  stride : from each to the next"""
    given = _values(n * stride, 1)
    arguments = {"in": given, "out": np.zeros_like(given), "n": n, "stride": stride}

    def expected() -> Mapping[str, Array]:
        return {"out": np.where(np.arange(n * stride) % stride == 0, given, 0)}

    return _launch("copy_stride8", _blocks(n, 256), 256, arguments, expected)


def _transpose(kernel: str, n: int, rows: int) -> CudaWorkload:
    given = _values(n * n, 1)
    arguments = {"in": given, "out": np.zeros_like(given), "width": n, "height": n}
    grid = (_blocks(n, 32), n // rows)
    return _launch(kernel, grid, (32, 8), arguments, lambda: {"out": given.reshape(n, n).T})


def transpose_naive(n: int = 8192) -> CudaWorkload:
    """n : rows and columns"""
    return _transpose("transpose_naive", n, 8)


def transpose_tiled(n: int = 8192) -> CudaWorkload:
    """n : rows and columns"""
    return _transpose("transpose_tiled", n, 32)


def reduce_tree(n: int = 64 * M) -> CudaWorkload:
    """n : elements, 256 a block"""
    given, groups = _values(n, 1), _blocks(n, 256)
    arguments = {"in": given, "partial": np.zeros(groups, np.float32), "n": n}
    return _launch(
        "reduce_tree",
        groups,
        256,
        arguments,
        lambda: {"partial": given.reshape(-1, 256).sum(axis=1)},
    )


def reduce_shuffle(n: int = 64 * M, groups: int = GRID) -> CudaWorkload:
    """n : elements;  groups : blocks that loop over them"""
    given = _values(n, 1)
    arguments = {"in": given, "total": np.zeros(1, np.float32), "n": n}
    return _launch(
        "reduce_shuffle", groups, 256, arguments, lambda: {"total": given.sum(keepdims=True)}
    )


def softmax_row(rows: int = 16384, columns: int = 2048) -> CudaWorkload:
    """rows, columns : of the matrix, a block for each row"""
    given = _values(rows * columns, 1)

    def expected() -> Mapping[str, Array]:
        power = np.exp(given.reshape(rows, columns))
        return {"out": power / power.sum(axis=1, keepdims=True)}

    arguments = {"in": given, "out": np.zeros_like(given), "columns": columns}
    return _launch("softmax_row", rows, 256, arguments, expected)


def layernorm_warp(rows: int = 65536, columns: int = 512) -> CudaWorkload:
    """rows, columns : of the matrix, four rows a block"""
    given, gamma, beta = _values(rows * columns, 1), _values(columns, 2), _values(columns, 3)

    def expected() -> Mapping[str, Array]:
        x = given.reshape(rows, columns)
        scaled = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
        return {"out": scaled * gamma + beta}

    arguments: dict[str, Any] = {
        "in": given,
        "gamma": gamma,
        "beta": beta,
        "out": np.zeros_like(given),
    }
    arguments |= {"rows": rows, "columns": columns, "eps": 1e-5}
    return _launch("layernorm_warp", _blocks(rows, 4), 128, arguments, expected, error=1e-4)


def dot_atomic(n: int = 16 * M) -> CudaWorkload:
    """n : elements, one a thread"""
    a, b = _values(n, 1), _values(n, 2)
    arguments = {"a": a, "b": b, "result": np.zeros(1, np.float32), "n": n}
    return _launch(
        "dot_atomic", _blocks(n, 256), 256, arguments, lambda: {"result": np.array([a @ b])}
    )


def hist_shared(n: int = 16 * M, groups: int = GRID) -> CudaWorkload:
    """n : words of four bytes;  groups : blocks that loop over them"""
    words = hashed(n, 5)
    arguments = {"words": words, "bins": np.zeros(256, np.uint32), "n": n}
    return _launch(
        *("hist_shared", groups, 256, arguments),
        lambda: {"bins": np.bincount(words.view(np.uint8), minlength=256)},
    )


def _sparse(kernel: str, rows: int, rows_of_block: int) -> CudaWorkload:
    """Rows of 8 to 40 elements, 24 in the mean, in a band of 8192 columns that begins near the row."""
    lengths = 8 + _indices(rows, 77, 33)
    start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    n = int(start[-1])
    near = np.arange(n, dtype=np.uint32) // np.uint32(24) + hashed(n, 6) % np.uint32(8192)
    column = (near % np.uint32(rows)).astype(np.int32)
    value, x = _values(n, 7), _values(rows, 8)
    arguments: dict[str, Any] = {
        "rows": rows,
        "start": start,
        "column": column,
        "value": value,
        "x": x,
    }
    arguments |= {"y": np.zeros_like(x)}
    return _launch(
        *(kernel, _blocks(rows, rows_of_block), 256, arguments),
        lambda: {"y": np.add.reduceat(value * x[column], start[:-1])},
    )


def spmv_scalar(rows: int = M) -> CudaWorkload:
    """rows : of the matrix, one a thread"""
    return _sparse("spmv_scalar", rows, 256)


def spmv_warp(rows: int = M) -> CudaWorkload:
    """rows : of the matrix, one a warp"""
    return _sparse("spmv_warp", rows, 8)


def _gather(kernel: str, n: int, table_size: int, seed: int) -> CudaWorkload:
    table, index = _values(table_size, 1), _indices(n, seed, table_size)
    arguments = {"table": table, "index": index, "out": np.zeros(n, np.float32), "n": n}
    return _launch(kernel, _blocks(n, 256), 256, arguments, lambda: {"out": table[index]})


def gather_small(n: int = 32 * M, table_size: int = M) -> CudaWorkload:
    """n : elements, one a thread;  table_size : elements of the table"""
    return _gather("gather_small", n, table_size, 9)


def gather_large(n: int = 16 * M, table_size: int = 128 * M) -> CudaWorkload:
    """n : elements, one a thread;  table_size : elements of the table"""
    return _gather("gather_large", n, table_size, 10)


def scatter_add(n: int = 16 * M, n_bins: int = M) -> CudaWorkload:
    """n : additions, one a thread;  n_bins : places that they add to"""
    index, value = _indices(n, 11, n_bins), _values(n, 2)
    arguments = {"index": index, "value": value, "bins": np.zeros(n_bins, np.float32), "n": n}
    return _launch(
        *("scatter_add", _blocks(n, 256), 256, arguments),
        lambda: {"bins": np.bincount(index, value, n_bins)},
    )


def jacobi7(nx: int = 512, ny: int = 512, nz: int = 256) -> CudaWorkload:
    """nx, ny, nz : points, with the boundary"""
    u = _values(nx * ny * nz, 1)

    def expected() -> Mapping[str, Array]:
        at, v = u.reshape(nz, ny, nx), np.zeros((nz, ny, nx), np.float32)
        around = at[1:-1, 1:-1, :-2] + at[1:-1, 1:-1, 2:] + at[1:-1, :-2, 1:-1]
        around = around + at[1:-1, 2:, 1:-1] + at[:-2, 1:-1, 1:-1] + at[2:, 1:-1, 1:-1]
        v[1:-1, 1:-1, 1:-1] = np.float32(0.4) * at[1:-1, 1:-1, 1:-1] + np.float32(0.1) * around
        return {"v": v}

    arguments = {"u": u, "v": np.zeros_like(u), "nx": nx, "ny": ny, "nz": nz, "c0": 0.4, "c1": 0.1}
    grid = (_blocks(nx, 32), _blocks(ny, 8), nz)
    return _launch("jacobi7", grid, (32, 8), arguments, expected)


def stencil9_tile(nx: int = 8192, ny: int = 4096) -> CudaWorkload:
    """nx, ny : points"""
    given = _values(nx * ny, 1)

    def expected() -> Mapping[str, Array]:
        wide = np.pad(given.reshape(ny, nx), 1, mode="edge")
        straight = wide[1:-1, :-2] + wide[1:-1, 2:] + wide[:-2, 1:-1] + wide[2:, 1:-1]
        slanted = wide[:-2, :-2] + wide[:-2, 2:] + wide[2:, :-2] + wide[2:, 2:]
        return {"out": 0.5 * wide[1:-1, 1:-1] + 0.1 * straight + 0.025 * slanted}

    arguments = {"in": given, "out": np.zeros_like(given), "nx": nx, "ny": ny}
    grid = (_blocks(nx, 32), _blocks(ny, 8))
    return _launch("stencil9_tile", grid, (32, 8), arguments, expected)


def scan_block(n: int = 32 * M) -> CudaWorkload:
    """n : elements, 512 a block"""
    given, groups = _indices(n, 3, 100), _blocks(n, 512)

    def expected() -> Mapping[str, Array]:
        sums = given.reshape(-1, 512).cumsum(axis=1)
        return {"out": sums - given.reshape(-1, 512), "sums": sums[:, -1]}

    arguments = {"in": given, "out": np.zeros_like(given), "sums": np.zeros(groups, np.int32)}
    return _launch("scan_block", groups, 256, arguments, expected)


def bmm8(batch: int = 1 << 18) -> CudaWorkload:
    """batch : products, four a block"""
    a, b = (_values(64 * batch, seed).reshape(batch, 8, 8) for seed in (1, 2))
    arguments = {"a": a, "b": b, "c": np.zeros_like(a), "batch": batch}
    return _launch("bmm8", _blocks(batch, 4), (8, 8, 4), arguments, lambda: {"c": a @ b})


def gemv_warp(rows: int = 8192, columns: int = 8192) -> CudaWorkload:
    """rows, columns : of the matrix, one row a warp"""
    matrix, x = _values(rows * columns, 1).reshape(rows, columns), _values(columns, 2)
    arguments: dict[str, Any] = {"matrix": matrix, "x": x, "y": np.zeros(rows, np.float32)}
    arguments |= {"rows": rows, "columns": columns}
    return _launch("gemv_warp", _blocks(rows, 8), 256, arguments, lambda: {"y": matrix @ x})


def _grey(kernel: str, n: int, channels: int) -> CudaWorkload:
    given = np.random.default_rng(4).integers(0, 256, (n * n, channels), np.uint8)
    arguments = {"in": given, "out": np.zeros(n * n, np.uint8), "width": n, "height": n}
    grid = (_blocks(n, 16), n // 16)
    return _launch(
        *(kernel, grid, (16, 16), arguments),
        lambda: {"out": given[:, :3] @ np.array([0.299, 0.587, 0.114]) - 0.5},
        error=0.51,  # the kernel cuts digits off
    )


def rgb_to_grey(n: int = 8192) -> CudaWorkload:
    """n : rows and columns of pixels"""
    return _grey("rgb_to_grey", n, 3)


def rgba_to_grey(n: int = 8192) -> CudaWorkload:
    """n : rows and columns of pixels"""
    return _grey("rgba_to_grey", n, 4)


def mandelbrot(n: int = 2048, limit: int = 512) -> CudaWorkload:
    """n : rows and columns of points;  limit : iterations of a point"""
    step = 2.5 / n

    def check(written: Mapping[str, Any]) -> None:
        """Of 100 points, 2 may differ: those near the edge of the set depend on how values are rounded."""
        axis = step * np.arange(n)
        c = ((axis - 2) + 1j * (axis[:, None] - 1.25)).ravel()
        z, count = np.zeros_like(c), np.zeros(c.size, np.int32)
        for _ in range(limit):
            inside = np.abs(z) < 2
            z[inside] = z[inside] ** 2 + c[inside]
            count += inside
        assert np.mean(np.asarray(written["out"]).ravel() != count) <= 0.02

    arguments: dict[str, Any] = {"out": np.zeros(n * n, np.int32), "width": n, "height": n}
    arguments |= {"x0": -2.0, "y0": -1.25, "step": step, "limit": limit}
    grid = (_blocks(n, 16), n // 16)
    return CudaWorkload(
        path=SOURCE,
        kernel="mandelbrot",
        arguments=arguments,
        grid=grid,
        block=(16, 16),
        check=check,
    )


def options_double(n: int = 4 * M) -> CudaWorkload:
    """n : options, one a thread"""
    spot, strike, years = (_values(n, seed, np.float64) for seed in (1, 2, 3))
    rate, sigma = 0.02, 0.3

    def expected() -> Mapping[str, Array]:
        from scipy.special import ndtr

        s, x, t = 5 + 25 * spot, 1 + 99 * strike, 0.25 + 9.75 * years
        d1 = (np.log(s / x) + (rate + sigma**2 / 2) * t) / (sigma * np.sqrt(t))
        d2, now = d1 - sigma * np.sqrt(t), x * np.exp(-rate * t)
        return {
            "call": s * ndtr(d1) - now * ndtr(d2),
            "put": now * ndtr(-d2) - s * ndtr(-d1),
        }

    arguments: dict[str, Any] = {"spot": spot, "strike": strike, "years": years}
    arguments |= {"call": np.zeros(n), "put": np.zeros(n), "rate": rate, "sigma": sigma, "n": n}
    return _launch("options_double", _blocks(n, 128), 128, arguments, expected, error=1e-4)


def bitonic_step(n: int = 32 * M, distance: int = 1 << 10, run: int = 1 << 20) -> CudaWorkload:
    """n : elements, one a thread;  distance : of those that are exchanged;  run : elements sorted alike"""
    data = hashed(n, 12).view(np.int32)
    before = data.copy()

    def expected() -> Mapping[str, Array]:
        low = np.flatnonzero(np.arange(n) & distance == 0)
        high, right = low + distance, before.copy()
        wrong = (before[low] > before[high]) == (low & run == 0)
        right[low[wrong]], right[high[wrong]] = before[high[wrong]], before[low[wrong]]
        return {"data": right}

    _blocks(n, 2 * distance)  # so that every element has a partner
    arguments = {"data": data, "j": distance, "k": run}
    return _launch("bitonic_step", _blocks(n, 256), 256, arguments, expected)


def conv1d(n: int = 32 * M) -> CudaWorkload:
    """n : elements of the result, one a thread"""
    taps = (1 / np.arange(1, 18)).astype(np.float32)
    given = _values(n + 16, 1)
    arguments = {"in": given, "out": np.zeros(n, np.float32), "n": n}
    return _launch(
        *("conv1d", _blocks(n, 256), 256, arguments),
        lambda: {"out": np.correlate(given, taps)},
        symbols={"taps": taps},
    )


def lbm_d2q9(nx: int = 4096, ny: int = 2048) -> CudaWorkload:
    """nx, ny : sites of a periodic lattice"""
    f, omega = _values(9 * nx * ny, 1), 1.2

    def expected() -> Mapping[str, Array]:
        x, y = [0, 1, 0, -1, 0, 1, -1, -1, 1], [0, 0, 1, 0, -1, 1, 1, -1, -1]
        weight = np.array([4 / 9] + 4 * [1 / 9] + 4 * [1 / 36])
        given = f.reshape(9, ny, nx).astype(np.float64)
        pulled = [np.roll(one, (y[k], x[k]), (0, 1)) for k, one in enumerate(given)]
        rho = sum(pulled)
        vx, vy = (
            sum(c * one for c, one in zip(axis, pulled, strict=True)) / rho for axis in (x, y)
        )
        right = np.empty_like(given)
        for k, one in enumerate(pulled):
            along = x[k] * vx + y[k] * vy
            rest = 1 + 3 * along + 4.5 * along**2 - 1.5 * (vx**2 + vy**2)
            right[k] = one + omega * (weight[k] * rho * rest - one)
        return {"g": right}

    arguments = {"f": f, "g": np.zeros_like(f), "nx": nx, "ny": ny, "omega": omega}
    return _launch("lbm_d2q9", (_blocks(nx, 256), ny), 256, arguments, expected, error=1e-4)


def embedding(tokens: int = 1 << 17, rows: int = 50257) -> CudaWorkload:
    """tokens : one a block;  rows : of the table, of 256 elements each"""
    table, token = _values(256 * rows, 1).reshape(rows, 256), _indices(tokens, 13, rows)
    arguments = {"table": table, "token": token, "out": np.zeros((tokens, 256), np.float32)}
    return _launch(
        "embedding", tokens, 64, {**arguments, "width": 64}, lambda: {"out": table[token]}
    )


def particles_aos(n: int = 4 * M) -> CudaWorkload:
    """n : particles, one a thread"""
    given, dt = _values(7 * n, 1).reshape(n, 7), 0.01

    def expected() -> Mapping[str, Array]:
        right = given.copy()
        right[:, :3] += np.float32(dt) * given[:, 3:6]
        return {"p": right}

    arguments = {"p": given.copy(), "n": n, "dt": dt}
    return _launch("particles_aos", _blocks(n, 256), 256, arguments, expected)


KERNELS: Mapping[str, Callable[..., CudaWorkload]] = {
    make.__name__: make
    for make in (
        *(vadd4, vadd1, saxpy_loop, copy_stride8, transpose_naive, transpose_tiled),
        *(reduce_tree, reduce_shuffle, softmax_row, layernorm_warp, dot_atomic, hist_shared),
        *(spmv_scalar, spmv_warp, gather_small, gather_large, scatter_add, jacobi7),
        *(stencil9_tile, scan_block, bmm8, gemv_warp, rgb_to_grey, rgba_to_grey, mandelbrot),
        *(options_double, bitonic_step, conv1d, lbm_d2q9, embedding, particles_aos),
    )
}
"""Name of the kernel -> its launch, with the measured sizes as defaults."""
