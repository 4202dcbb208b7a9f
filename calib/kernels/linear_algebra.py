"""Vector updates (axpy), transposition, sparse matrix-vector products, and sums by work-group."""

from __future__ import annotations

import functools
import math
from typing import Any

import loopy as lp
import numpy as np
import numpy.typing as npt

from calib.kernels.building import (
    DTYPES,
    FIT,
    GROUP,
    assume_multiples,
    computing,
    in_groups,
    loopy_kernel,
    numbers,
    read,
    require_group,
    require_groups,
    require_multiple,
    size,
    with_tile,
    written,
)
from calib.kernels.collection import Built, Choice, Number, TagError, generator


@generator(
    "application",
    n=Number((2**20, 2**21, 2**22)),
    dtype=DTYPES,
    lsize_0=Number((256,)),
    groups_fit=FIT,
)
def axpy(*, n: int, dtype: str, lsize_0: int, groups_fit: bool) -> Built:
    """z = a x + y, one work-item per element."""
    require_groups(groups_fit, lsize_0, 1, n=n)
    kernel = _axpy(dtype, lsize_0, groups_fit)

    def arguments() -> dict[str, Any]:
        real = np.dtype(dtype).type
        return {"a": real(1.5), "x": numbers(n, dtype, 1), "y": numbers(n, dtype, 2)}

    return computing(lambda a, x, y: a * x + y, kernel, {"n": n}, arguments, terms=2)


@generator(
    "application",
    n=Number((1024, 2048)),
    dtype=DTYPES,
    prefetch=Choice((True, False)),
    **GROUP,
    groups_fit=FIT,
)
def transpose(
    *, n: int, dtype: str, prefetch: bool, lsize_0: int, lsize_1: int, groups_fit: bool
) -> Built:
    """B = A^T, n x n; with prefetch through tiles in local memory, so that both sides are
    contiguous."""
    require_groups(groups_fit, lsize_0, lsize_1, prefetch=prefetch, n=n)
    kernel = _transpose(dtype, prefetch, lsize_0, lsize_1, groups_fit)

    def arguments() -> dict[str, Any]:
        return {"a": numbers((n, n), dtype, 1)}

    return computing(lambda a: a.T, kernel, {"n": n}, arguments, terms=0)


@generator(
    "application",
    n=Number((2**16, 2**17)),
    nnz_per_row=Number((8,)),
    dtype=DTYPES,
    lsize_0=Number((256,)),
)
def spmv(*, n: int, nnz_per_row: int, dtype: str, lsize_0: int) -> Built:
    """y = A x in CSR format, one work-item per row with 1 to 2 nnz_per_row - 1 random entries."""
    require_group(lsize_0)
    require_multiple(n=(n, lsize_0))
    if 2 * nnz_per_row - 1 > n:
        raise TagError(f"a row of {n} columns cannot hold {2 * nnz_per_row - 1} entries")
    row_start, indices = _rows(n, nnz_per_row)
    kernel = _spmv(dtype, lsize_0)

    def arguments() -> dict[str, Any]:
        return {
            "row_start": row_start,
            "indices": indices,
            "values": numbers(len(indices), dtype, 1),
            "x": numbers(n, dtype, 2),
        }

    def product(row_start: Any, indices: Any, values: Any, x: Any) -> Any:
        return np.add.reduceat(values * x[indices], row_start[:-1])

    return computing(
        product,
        kernel,
        {"n": n, "n_entries": len(indices)},
        arguments,
        terms=np.diff(row_start) + 1,
        trip_counts={"j": len(indices) / n},
    )


@generator(
    "application",
    n=Number((2**20, 2**22)),
    per_item=Number((16,)),
    dtype=DTYPES,
    lsize_0=Number((256,)),
)
def reduction(*, n: int, per_item: int, dtype: str, lsize_0: int) -> Built:
    """Sums of lsize_0 x per_item neighbours: each work-item adds per_item of them, then the group
    adds these in a tree."""
    require_group(lsize_0)
    require_multiple(n=(n, lsize_0 * per_item))
    kernel = _reduction(per_item, dtype, lsize_0)
    groups = n // (lsize_0 * per_item)

    def arguments() -> dict[str, Any]:
        return {"a": numbers((groups, per_item, lsize_0), dtype, 1)}

    depth = per_item + lsize_0.bit_length() + 1  # the additions that one term is part of
    env = {"n_groups": groups}
    return computing(lambda a: a.sum(axis=(1, 2)), kernel, env, arguments, terms=depth)


@functools.cache
def _axpy(dtype: str, lsize_0: int, fit: bool) -> Any:
    kernel = loopy_kernel(
        "{[i]: 0 <= i < n}",
        "z[i] = a * x[i] + y[i]",
        [
            size("n"),
            lp.ValueArg("a", np.dtype(dtype)),
            read("x, y", dtype, "n"),
            written("z", dtype, "n"),
        ],
        name="axpy",
        assumptions="n >= 1",
    )
    if fit:
        kernel = assume_multiples(kernel, n=lsize_0)
    return in_groups(kernel, i=(lsize_0, 0))


@functools.cache
def _transpose(dtype: str, prefetch: bool, lsize_0: int, lsize_1: int, fit: bool) -> Any:
    kernel = loopy_kernel(
        "{[i, j]: 0 <= i, j < n}",
        "b[i, j] = a[j, i]",
        [size("n"), read("a", dtype, "n, n"), written("b", dtype, "n, n")],
        name="transpose_tiled" if prefetch else "transpose",
        assumptions="n >= 1",
    )
    if fit:
        kernel = assume_multiples(kernel, n=math.lcm(lsize_0, lsize_1))
    kernel = in_groups(kernel, i=(lsize_1, 1), j=(lsize_0, 0))
    if not prefetch:
        return kernel
    return with_tile(kernel, "a", ["i_inner", "j_inner"], ("i_outer", "j_outer"))


@functools.cache
def _spmv(dtype: str, lsize_0: int) -> Any:
    kernel = loopy_kernel(
        ["{[i]: 0 <= i < n}", "{[j]: row_begin <= j < row_end}"],
        """
        for i
            <> row_begin = row_start[i]
            <> row_end = row_start[i + 1]
            y[i] = sum(j, values[j] * x[indices[j]])
        end
        """,
        [
            size("n"),
            size("n_entries"),
            read("row_start", np.int32, "n + 1"),
            read("indices", np.int32, "n_entries"),
            read("values", dtype, "n_entries"),
            read("x", dtype, "n"),
            written("y", dtype, "n"),
        ],
        name="spmv",
    )
    return in_groups(assume_multiples(kernel, n=lsize_0), i=(lsize_0, 0))


@functools.cache
def _reduction(per_item: int, dtype: str, lsize_0: int) -> Any:
    kernel = loopy_kernel(
        f"{{[g, k, l]: 0 <= g < n_groups and 0 <= k < {per_item} and 0 <= l < {lsize_0}}}",
        "sums[g] = sum(l, sum(k, a[g, k, l])) {id=total}",
        [
            size("n_groups"),
            read("a", dtype, f"n_groups, {per_item}, {lsize_0}"),
            written("sums", dtype, "n_groups"),
        ],
        name="reduction",
        assumptions="n_groups >= 1",
        # Loopy assigns sums[g] to one work-item and then reports a race on the tree's iname.
        silenced_warnings=["write_race(total)"],
    )
    return lp.tag_inames(kernel, {"g": "g.0", "l": "l.0"})


@functools.cache
def _rows(n: int, nnz_per_row: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Row starts and sorted column indices of a reproducible random pattern."""
    rng = np.random.default_rng(3)
    lengths = rng.integers(1, 2 * nnz_per_row, n)
    row_start = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    indices = rng.integers(0, n, int(row_start[-1]), dtype=np.int32)
    return row_start, indices
