"""B = A^T: with a strided read, or through a tile in local memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import loopy as lp
import numpy as np

from experiments.kernels.parameters import (
    data,
    real_type,
    require_group,
    require_indexable,
    require_positive,
)
from tracegen.workloads import Workload


def naive(
    n: int = 1024, tile: int = 16, dtype: Literal["float32", "float64"] = "float32"
) -> Workload:
    """Loads of A are strided by a column, stores to B are contiguous."""
    return _workload(_transpose(n, tile, dtype, "transpose_naive"), n, dtype)


def tiled(
    n: int = 1024,
    tile: int = 16,
    dtype: Literal["float32", "float64"] = "float32",
    pad: bool = True,
) -> Workload:
    """Loads and stores are contiguous; a tile in local memory is transposed.

    pad : give each row of the tile one element more, which spreads a column over the banks
    """
    kernel = _transpose(n, tile, dtype, "transpose_tiled")
    kernel = lp.add_prefetch(
        kernel,
        "a",
        ["i_inner", "j_inner"],
        temporary_name="a_tile",
        fetch_outer_inames=frozenset({"i_outer", "j_outer"}),
        default_tag="l.auto",
    )
    if pad:
        kernel = _pad_rows(kernel, "a_tile", tile)
    return _workload(kernel, n, dtype)


def _transpose(n: int, tile: int, dtype: str, name: str) -> Any:
    require_positive(n=n, tile=tile)
    require_group(tile, tile)
    require_indexable(b=n * n)
    real = real_type(dtype)
    kernel = lp.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        "b[j, i] = a[i, j]",
        [
            lp.ValueArg("n", np.int32),
            lp.GlobalArg("a", real, shape="n, n"),
            lp.GlobalArg("b", real, shape="n, n", is_input=False, is_output=True),
        ],
        assumptions="n >= 1",
        name=name,
        lang_version=(2018, 2),
    )
    if n % tile == 0:  # then no tile needs a condition
        kernel = lp.assume(kernel, f"n mod {tile} = 0 and n >= {tile}")
    kernel = lp.split_iname(kernel, "i", tile, inner_tag="l.0", outer_tag="g.1")
    return lp.split_iname(kernel, "j", tile, inner_tag="l.1", outer_tag="g.0")


def _pad_rows(kernel: Any, temporary: str, tile: int) -> Any:
    kernel = lp.tag_array_axes(kernel, temporary, f"stride:{tile + 1},stride:1")
    inner = kernel.default_entrypoint
    padded = inner.temporary_variables[temporary].copy(storage_shape=(tile, tile + 1))
    return kernel.with_kernel(
        inner.copy(temporary_variables={**inner.temporary_variables, temporary: padded})
    )


def _workload(kernel: Any, n: int, dtype: str) -> Workload:
    a = data((n, n), real_type(dtype))

    def check(outputs: Mapping[str, Any]) -> None:
        np.testing.assert_array_equal(outputs["b"], a.T)

    return Workload(kernel, {"a": a}, check=check, source_file=__file__)
