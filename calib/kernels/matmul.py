"""Matrix products: square, with or without tiles in local memory; rectangular; of a transpose."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import loopy as lp
import numpy as np

from calib.kernels.building import (
    DTYPES,
    FIT,
    GROUP,
    LANGUAGE,
    assume_multiples,
    close,
    numbers,
    read,
    require_group,
    require_multiple,
    size,
    tag_loads,
    written,
)
from calib.kernels.collection import Built, Choice, Number, TagError, generator

_COMMON: dict[str, Choice | Number] = {
    "dtype": DTYPES,
    "prefetch": Choice((True, False)),
    **GROUP,
    "groups_fit": FIT,
}


@generator("matmul", "application", n=Number((256, 384, 512)), **_COMMON)
def matmul_sq(
    *, n: int, dtype: str, prefetch: bool, lsize_0: int, lsize_1: int, groups_fit: bool
) -> Built:
    """C = A B, n x n; with prefetch through tiles in local memory. Loads tagged mmPFa, mmPFb or
    mmnoPFa, mmnoPFb."""
    _check(groups_fit, prefetch, lsize_0, lsize_1, n=n)
    kernel = square(dtype, prefetch, lsize_0, lsize_1, groups_fit)
    return _built(kernel, dtype, {"n": n}, (n, n), (n, n), lambda a, b: a @ b)


@generator(
    "matmul", "application", n=Number((256,)), m=Number((128, 512)), l=Number((384,)), **_COMMON
)
def matmul_rect(
    *,
    n: int,
    m: int,
    l: int,  # noqa: E741 - the usual names of extents
    dtype: str,
    prefetch: bool,
    lsize_0: int,
    lsize_1: int,
    groups_fit: bool,
) -> Built:
    """C = A B with A n x m and B m x l. Loads tagged mmRa, mmRb."""
    _check(groups_fit, prefetch, lsize_0, lsize_1, n=n, m=m, l=l)
    kernel = _product(dtype, prefetch, lsize_0, lsize_1, groups_fit, "nml", "a[i, k]", "mmR")
    env = {"n": n, "m": m, "l": l}
    return _built(kernel, dtype, env, (n, m), (m, l), lambda a, b: a @ b)


@generator("matmul", "application", n=Number((256, 384, 512)), **_COMMON)
def matmul_transposed(
    *, n: int, dtype: str, prefetch: bool, lsize_0: int, lsize_1: int, groups_fit: bool
) -> Built:
    """C = A^T B, n x n: neighbours in a column of A. Loads tagged mmTa, mmTb."""
    _check(groups_fit, prefetch, lsize_0, lsize_1, n=n)
    kernel = _product(dtype, prefetch, lsize_0, lsize_1, groups_fit, "nnn", "a[k, i]", "mmT")
    return _built(kernel, dtype, {"n": n}, (n, n), (n, n), lambda a, b: a.T @ b)


@generator(
    "mem_access_pattern",
    "work_removed",
    n=Number((256, 384, 512)),
    **_COMMON,
    keep=Choice(("a", "b", "both")),
)
def matmul_sq_pattern(
    *,
    n: int,
    dtype: str,
    prefetch: bool,
    lsize_0: int,
    lsize_1: int,
    groups_fit: bool,
    keep: str,
) -> Built:
    """matmul_sq with all work removed except the loads of one array (keep:a, keep:b) or of both."""
    _check(groups_fit, prefetch, lsize_0, lsize_1, n=n)
    kernel = _stripped(dtype, prefetch, lsize_0, lsize_1, groups_fit, keep)
    arrays = ("a", "b") if keep == "both" else (keep,)

    def arguments() -> dict[str, Any]:
        drawn = {name: numbers((n, n), dtype, seed) for seed, name in enumerate("ab")}
        return {"n": n, **{name: drawn[name] for name in arrays}}

    return Built(kernel=kernel, env={"n": n}, arguments=arguments)


@functools.cache
def square(dtype: str, prefetch: bool, lsize_0: int, lsize_1: int, fit: bool) -> Any:
    """The kernel of matmul_sq."""
    tag = "mmPF" if prefetch else "mmnoPF"
    return _product(dtype, prefetch, lsize_0, lsize_1, fit, "nnn", "a[i, k]", tag)


@functools.cache
def _stripped(dtype: str, prefetch: bool, lsize_0: int, lsize_1: int, fit: bool, keep: str) -> Any:
    import calib

    kernel = square(dtype, prefetch, lsize_0, lsize_1, fit)
    removed = {"a": ["b", "c"], "b": ["a", "c"], "both": ["c"]}[keep]
    return calib.remove_work(kernel, remove_vars=removed)


@functools.cache
def _product(
    dtype: str,
    prefetch: bool,
    lsize_0: int,
    lsize_1: int,
    fit: bool,
    extents: tuple[str, str, str],
    a: str,
    tag: str,
) -> Any:
    rows, inner, columns = extents
    kernel = lp.make_kernel(
        f"{{[i, j, k]: 0 <= i < {rows} and 0 <= j < {columns} and 0 <= k < {inner}}}",
        f"c[i, j] = sum(k, {a} * b[k, j]) {{id=total}}",
        [
            *(size(name) for name in dict.fromkeys(extents)),
            read("a", dtype, f"{rows}, {inner}"),
            read("b", dtype, f"{inner}, {columns}"),
            written("c", dtype, f"{rows}, {columns}"),
        ],
        assumptions=" and ".join(f"{name} >= 1" for name in dict.fromkeys(extents)),
        name=f"matmul_{tag}",
        lang_version=LANGUAGE,
    )
    if fit:
        units = {rows: lsize_1}
        units[columns] = int(np.lcm(units.get(columns, 1), lsize_0))
        if prefetch:
            units[inner] = int(np.lcm(units.get(inner, 1), lsize_0))
        kernel = assume_multiples(kernel, **units)
    kernel = lp.split_iname(kernel, "i", lsize_1, inner_tag="l.1", outer_tag="g.1")
    kernel = lp.split_iname(kernel, "j", lsize_0, inner_tag="l.0", outer_tag="g.0")
    if prefetch:
        kernel = lp.split_iname(kernel, "k", lsize_0)
        for array, inames in (("a", ["i_inner", "k_inner"]), ("b", ["k_inner", "j_inner"])):
            kernel = lp.add_prefetch(
                kernel,
                array,
                inames,
                temporary_name=f"{array}_fetch",
                fetch_outer_inames=frozenset({"i_outer", "j_outer", "k_outer"}),
                default_tag="l.auto",
            )
    return tag_loads(kernel, {"a": f"{tag}a", "b": f"{tag}b"})


def _check(fit: bool, prefetch: bool, lsize_0: int, lsize_1: int, **extents: int) -> None:
    require_group(lsize_0, lsize_1)
    if prefetch and lsize_0 != lsize_1:
        raise TagError(f"prefetch:True needs square groups, got {lsize_0} x {lsize_1}")
    if fit:
        unit = int(np.lcm(lsize_0, lsize_1))
        require_multiple(**{name: (value, unit) for name, value in extents.items()})


def _built(
    kernel: Any,
    dtype: str,
    env: Mapping[str, int],
    a_shape: tuple[int, int],
    b_shape: tuple[int, int],
    product: Callable[[Any, Any], Any],
) -> Built:
    def arguments() -> dict[str, Any]:
        return {"a": numbers(a_shape, dtype, 1), "b": numbers(b_shape, dtype, 2)}

    def check(outputs: Mapping[str, Any]) -> None:
        """Entries are within (terms + 1) eps |A| |B|, which holds for a sum in any order."""
        a, b = (array.astype(np.float64) for array in arguments().values())
        bound = (b_shape[0] + 1) * np.finfo(dtype).eps * product(np.abs(a), np.abs(b))
        close(outputs["c"], product(a, b), bound)

    return Built(kernel=kernel, env=env, arguments=arguments, check=check)
