"""Global memory: accesses with given strides, uniform loads and indexed loads."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import loopy as lp
import numpy as np

from calib.kernels.building import (
    DTYPES,
    GROUP,
    LANGUAGE,
    Layout,
    assume_multiples,
    close,
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

    def check(outputs: Mapping[str, Any]) -> None:
        given = arguments()
        columns = [given[f"in{k}"].astype(np.float64) for k in range(n_arrays)]
        step = min(lid_stride_0, lid_stride_1)
        exact, most = np.sum(columns, axis=0)[::step], np.sum(np.abs(columns), axis=0)[::step]
        close(outputs["out"][::step], exact, n_arrays * np.finfo(dtype).eps * most)

    return Built(kernel=kernel, env={"rows": rows}, arguments=arguments, check=check)


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

    def check(outputs: Mapping[str, Any]) -> None:
        given = arguments()
        columns = [given[f"in{k}"].astype(np.float64) for k in range(n_arrays)]
        exact, most = np.sum(columns, axis=0), np.sum(np.abs(columns), axis=0)
        bound = n_arrays * np.finfo(dtype).eps * most
        close(outputs["out"], exact.repeat(lsize_0), bound.repeat(lsize_0))

    return Built(kernel=kernel, env={"n": n}, arguments=arguments, check=check)


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

    def check(outputs: Mapping[str, Any]) -> None:
        given = arguments()
        assert np.array_equal(outputs["out"], given["table"][given["index"]])

    return Built(kernel=kernel, env={"n": n, "n_table": n_table}, arguments=arguments, check=check)


@functools.cache
def _strided(dtype: str, layout: Layout, n_arrays: int, lsize_0: int, lsize_1: int) -> Any:
    names = [f"in{k}" for k in range(n_arrays)]
    kernel = lp.make_kernel(
        f"{{[i0, i1]: {layout.domain}}}",
        f"out[{layout.index}] = {' + '.join(f'{name}[{layout.index}]' for name in names)}",
        [
            size("rows"),
            *(read(name, dtype, layout.shape) for name in names),
            written("out", dtype, layout.shape),
        ],
        name=f"gmem_{n_arrays}_{layout.stride_0}_{layout.stride_1}",
        lang_version=LANGUAGE,
    )
    kernel = assume_multiples(kernel, rows=layout.rows_unit(lsize_0, lsize_1))
    kernel = lp.split_iname(kernel, "i1", lsize_1, outer_tag="g.1", inner_tag="l.1")
    return lp.split_iname(kernel, "i0", lsize_0, outer_tag="g.0", inner_tag="l.0")


@functools.cache
def _broadcast(dtype: str, n_arrays: int, lsize_0: int) -> Any:
    names = [f"in{k}" for k in range(n_arrays)]
    kernel = lp.make_kernel(
        f"{{[g, l]: 0 <= l < {lsize_0} and 0 <= {lsize_0} * g + l < n}}",
        f"out[{lsize_0} * g + l] = {' + '.join(f'{name}[g]' for name in names)}",
        [
            size("n"),
            *(read(name, dtype, f"n // {lsize_0}") for name in names),
            written("out", dtype, "n"),
        ],
        name=f"broadcast_{n_arrays}",
        lang_version=LANGUAGE,
    )
    kernel = assume_multiples(kernel, n=lsize_0)
    return lp.tag_inames(kernel, {"g": "g.0", "l": "l.0"})


@functools.cache
def _gather(dtype: str, lsize_0: int) -> Any:
    kernel = lp.make_kernel(
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
        lang_version=LANGUAGE,
    )
    kernel = assume_multiples(kernel, n=lsize_0)
    return lp.split_iname(kernel, "i", lsize_0, outer_tag="g.0", inner_tag="l.0")
