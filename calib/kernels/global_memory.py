"""Global memory: accesses with given strides, uniform loads and indexed loads."""

from __future__ import annotations

import functools
from typing import Any

import loopy as lp
import numpy as np

from calib.kernels.building import (
    DTYPES,
    GROUP,
    Layout,
    assume_multiples,
    computing,
    in_groups,
    loopy_kernel,
    numbers,
    read,
    require_group,
    require_multiple,
    size,
    written,
)
from calib.kernels.collection import Built, Choice, Number, generator


@generator(
    "mem_access_pattern",
    nelements=Number((2**21, 2**22)),
    n_arrays=Choice((1, 2, 3, 4)),
    lid_stride_0=Number((1,)),
    lid_stride_1=Number((2048,)),
    dtype=DTYPES,
    **GROUP,
    groups_fit=Choice((True,)),
)
def gmem_pattern(
    *,
    nelements: int,
    n_arrays: int,
    lid_stride_0: int,
    lid_stride_1: int,
    dtype: str,
    lsize_0: int,
    lsize_1: int,
    groups_fit: bool,
) -> Built:
    """result[pattern] = in0[pattern] + in1[pattern] + ...; every access has the given strides, AFR
    1."""
    require_group(lsize_0, lsize_1)
    layout = Layout(stride_0=lid_stride_0, stride_1=lid_stride_1)
    rows = layout.rows(nelements, lsize_0, lsize_1)
    kernel = _strided(dtype, layout, n_arrays, lsize_0, lsize_1)

    def arguments() -> dict[str, Any]:
        return {f"in{k}": numbers(nelements, dtype, k) for k in range(n_arrays)} | {"rows": rows}

    return computing(
        lambda rows, **columns: np.sum(list(columns.values()), axis=0),
        kernel,
        {"rows": rows},
        arguments,
        terms=n_arrays,
        written=slice(None, None, min(lid_stride_0, lid_stride_1)),
    )


@generator(
    "mem_access_pattern",
    n=Number((2**21, 2**22)),
    n_arrays=Choice((1, 2, 4)),
    dtype=DTYPES,
    lsize_0=Number((256,)),
)
def broadcast(*, n: int, n_arrays: int, dtype: str, lsize_0: int) -> Built:
    """out[i] = in0[group] + in1[group] + ...: each load is one element for a whole group."""
    require_group(lsize_0)
    require_multiple(n=(n, lsize_0))
    kernel = _broadcast(dtype, n_arrays, lsize_0)
    groups = n // lsize_0

    def arguments() -> dict[str, Any]:
        return {f"in{k}": numbers(groups, dtype, k) for k in range(n_arrays)} | {"n": n}

    def sums(n: int, **columns: Any) -> Any:
        return np.sum(list(columns.values()), axis=0).repeat(lsize_0)

    return computing(sums, kernel, {"n": n}, arguments, terms=n_arrays)


@generator(
    "mem_access_pattern",
    n=Number((2**20, 2**21)),
    n_table=Number((2**12, 2**20)),
    dtype=DTYPES,
    lsize_0=Number((256,)),
)
def gather(*, n: int, n_table: int, dtype: str, lsize_0: int) -> Built:
    """out[i] = table[index[i]] with random indices into a table of n_table elements."""
    require_group(lsize_0)
    require_multiple(n=(n, lsize_0))
    kernel = _gather(dtype, lsize_0)

    def arguments() -> dict[str, Any]:
        index = np.random.default_rng(5).integers(0, n_table, n, dtype=np.int32)
        return {"table": numbers(n_table, dtype, 1), "index": index}

    env = {"n": n, "n_table": n_table}
    return computing(lambda table, index: table[index], kernel, env, arguments, terms=0)


@functools.cache
def _strided(dtype: str, layout: Layout, n_arrays: int, lsize_0: int, lsize_1: int) -> Any:
    names = [f"in{k}" for k in range(n_arrays)]
    kernel = loopy_kernel(
        f"{{[i0, i1]: {layout.domain}}}",
        f"out[{layout.index}] = {' + '.join(f'{name}[{layout.index}]' for name in names)}",
        [
            size("rows"),
            *(read(name, dtype, layout.shape) for name in names),
            written("out", dtype, layout.shape),
        ],
        name=f"gmem_{n_arrays}_{layout.stride_0}_{layout.stride_1}",
    )
    kernel = assume_multiples(kernel, rows=layout.rows_unit(lsize_0, lsize_1))
    return in_groups(kernel, i1=(lsize_1, 1), i0=(lsize_0, 0))


@functools.cache
def _broadcast(dtype: str, n_arrays: int, lsize_0: int) -> Any:
    names = [f"in{k}" for k in range(n_arrays)]
    kernel = loopy_kernel(
        f"{{[g, l]: 0 <= l < {lsize_0} and 0 <= {lsize_0} * g + l < n}}",
        f"out[{lsize_0} * g + l] = {' + '.join(f'{name}[g]' for name in names)}",
        [
            size("n"),
            *(read(name, dtype, f"n // {lsize_0}") for name in names),
            written("out", dtype, "n"),
        ],
        name=f"broadcast_{n_arrays}",
    )
    kernel = assume_multiples(kernel, n=lsize_0)
    return lp.tag_inames(kernel, {"g": "g.0", "l": "l.0"})


@functools.cache
def _gather(dtype: str, lsize_0: int) -> Any:
    kernel = loopy_kernel(
        "{[i]: 0 <= i < n}",
        "out[i] = table[index[i]]",
        [
            size("n"),
            size("n_table"),
            read("index", np.int32, "n"),
            read("table", dtype, "n_table"),
            written("out", dtype, "n"),
        ],
        name="gather",
    )
    return in_groups(assume_multiples(kernel, n=lsize_0), i=(lsize_0, 0))
