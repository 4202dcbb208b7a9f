"""Matrix products: square, with or without tiles in local memory; rectangular; of a transpose."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

import loopy as lp

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
    require_groups,
    size,
    tag_loads,
    with_tile,
    without_work,
    written,
)
from calib.kernels.collection import Built, Choice, Number, generator

_COMMON: dict[str, Choice | Number] = {
    "dtype": DTYPES,
    "prefetch": Choice((True, False)),
    **GROUP,
    "groups_fit": FIT,
}


@generator("matmul", "application", n=Number((256, 384, 512)), **_COMMON)
def matmul_sq(*, n: int, dtype: str, **common: Any) -> Built:
    """C = A B, n x n; with prefetch through tiles in local memory. Loads tagged mmPFa, mmPFb or
    mmnoPFa, mmnoPFb."""
    require_groups(**common, n=n)
    kernel = square(dtype, **common)
    return _built(kernel, dtype, {"n": n}, (n, n), (n, n))


@generator(
    "matmul", "application", n=Number((256,)), m=Number((128, 512)), l=Number((384,)), **_COMMON
)
def matmul_rect(
    *,
    n: int,
    m: int,
    l: int,  # noqa: E741 - the usual names of extents
    dtype: str,
    **common: Any,
) -> Built:
    """C = A B with A n x m and B m x l. Loads tagged mmRa, mmRb."""
    require_groups(**common, n=n, m=m, l=l)
    kernel = _product(dtype, "nml", "a[i, k]", "mmR", **common)
    return _built(kernel, dtype, {"n": n, "m": m, "l": l}, (n, m), (m, l))


@generator("matmul", "application", n=Number((256, 384, 512)), **_COMMON)
def matmul_transposed(*, n: int, dtype: str, **common: Any) -> Built:
    """C = A^T B, n x n: neighbours in a column of A. Loads tagged mmTa, mmTb."""
    require_groups(**common, n=n)
    kernel = _product(dtype, "nnn", "a[k, i]", "mmT", **common)
    return _built(kernel, dtype, {"n": n}, (n, n), (n, n), transposed=True)


@generator(
    "mem_access_pattern",
    "work_removed",
    n=Number((256, 384, 512)),
    **_COMMON,
    keep=Choice(("a", "b", "both")),
)
def matmul_sq_pattern(*, n: int, dtype: str, keep: str, **common: Any) -> Built:
    """matmul_sq with all work removed except the loads of one array (keep:a, keep:b) or of both."""
    require_groups(**common, n=n)
    removed = {"a": ("b", "c"), "b": ("a", "c"), "both": ("c",)}[keep]
    kernel = without_work(square(dtype, **common), *removed)
    arrays = ("a", "b") if keep == "both" else (keep,)

    def arguments() -> dict[str, Any]:
        drawn = {name: numbers((n, n), dtype, seed) for seed, name in enumerate("ab")}
        return {"n": n, **{name: drawn[name] for name in arrays}}

    return Built(kernel=kernel, env={"n": n}, arguments=arguments)


def square(dtype: str, *, prefetch: bool, **common: Any) -> Any:
    """The kernel of matmul_sq."""
    tag = "mmPF" if prefetch else "mmnoPF"
    return _product(dtype, "nnn", "a[i, k]", tag, prefetch=prefetch, **common)


@functools.cache
def _product(
    dtype: str,
    extents: str,
    a: str,
    tag: str,
    *,
    prefetch: bool,
    lsize_0: int,
    lsize_1: int,
    groups_fit: bool,
) -> Any:
    """The kernel of a product. extents : names of A's rows, of what is summed over, and of B's columns"""
    rows, inner, columns = list(extents)
    kernel = loopy_kernel(
        f"{{[i, j, k]: 0 <= i < {rows} and 0 <= j < {columns} and 0 <= k < {inner}}}",
        f"c[i, j] = sum(k, {a} * b[k, j]) {{id=total}}",
        [
            *(size(name) for name in dict.fromkeys(extents)),
            read("a", dtype, f"{rows}, {inner}"),
            read("b", dtype, f"{inner}, {columns}"),
            written("c", dtype, f"{rows}, {columns}"),
        ],
        name=f"matmul_{tag}",
        assumptions=" and ".join(f"{name} >= 1" for name in dict.fromkeys(extents)),
    )
    if groups_fit:
        units = {rows: lsize_1}
        units[columns] = math.lcm(units.get(columns, 1), lsize_0)
        if prefetch:
            units[inner] = math.lcm(units.get(inner, 1), lsize_0)
        kernel = assume_multiples(kernel, **units)
    kernel = in_groups(kernel, i=(lsize_1, 1), j=(lsize_0, 0))
    if prefetch:
        kernel = lp.split_iname(kernel, "k", lsize_0)
        outer = ("i_outer", "j_outer", "k_outer")
        kernel = with_tile(kernel, "a", ["i_inner", "k_inner"], outer)
        kernel = with_tile(kernel, "b", ["k_inner", "j_inner"], outer)
    return tag_loads(kernel, {"a": f"{tag}a", "b": f"{tag}b"})


def _built(
    kernel: Any,
    dtype: str,
    env: Mapping[str, int],
    a_shape: tuple[int, int],
    b_shape: tuple[int, int],
    *,
    transposed: bool = False,
) -> Built:
    def arguments() -> dict[str, Any]:
        return {"a": numbers(a_shape, dtype, 1), "b": numbers(b_shape, dtype, 2)}

    def product(a: Any, b: Any) -> Any:
        return (a.T if transposed else a) @ b

    # A sum of n products in any order is within (n + 1) eps |A| |B|.
    return computing(product, kernel, env, arguments, b_shape[0] + 1)
