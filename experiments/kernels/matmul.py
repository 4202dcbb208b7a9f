"""C = A B for square matrices, from global memory or through tiles in local memory."""

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
    n: int = 512, tile: int = 16, dtype: Literal["float32", "float64"] = "float32"
) -> Workload:
    """One work-item for each entry of C, groups of `tile` x `tile` work-items, lid(0) along a
    row."""
    kernel = _matmul(n, tile, dtype, "matmul_naive")
    return _workload(kernel, n, dtype)


def tiled(
    n: int = 512, tile: int = 16, dtype: Literal["float32", "float64"] = "float32"
) -> Workload:
    """As `naive`, but each group copies tiles of A and B into local memory and works from there."""
    kernel = _matmul(n, tile, dtype, "matmul_tiled")
    kernel = lp.split_iname(kernel, "k", tile)
    for array, inames in (("a", ["i_inner", "k_inner"]), ("b", ["k_inner", "j_inner"])):
        kernel = lp.add_prefetch(
            kernel,
            array,
            inames,
            temporary_name=f"{array}_tile",
            fetch_outer_inames=frozenset({"i_outer", "j_outer", "k_outer"}),
            default_tag="l.auto",
        )
    return _workload(kernel, n, dtype)


def _matmul(n: int, tile: int, dtype: str, name: str) -> Any:
    require_positive(n=n, tile=tile)
    require_group(tile, tile)
    require_indexable(c=n * n)
    real = real_type(dtype)
    kernel = lp.make_kernel(
        "{[i, j, k]: 0 <= i, j, k < n}",
        "c[i, j] = sum(k, a[i, k] * b[k, j])",
        [
            lp.ValueArg("n", np.int32),
            lp.GlobalArg("a, b", real, shape="n, n"),
            lp.GlobalArg("c", real, shape="n, n", is_input=False, is_output=True),
        ],
        assumptions="n >= 1",
        name=name,
        lang_version=(2018, 2),
    )
    if n % tile == 0:  # then no tile needs a condition
        kernel = lp.assume(kernel, f"n mod {tile} = 0 and n >= {tile}")
    kernel = lp.split_iname(kernel, "i", tile, inner_tag="l.1", outer_tag="g.1")
    return lp.split_iname(kernel, "j", tile, inner_tag="l.0", outer_tag="g.0")


def _workload(kernel: Any, n: int, dtype: str) -> Workload:
    real = real_type(dtype)
    a, b = data((n, n), real, seed=1), data((n, n), real, seed=2)

    def check(outputs: Mapping[str, Any]) -> None:
        """Entries are within (n + 1) eps |A| |B|, which holds for a sum in any order."""
        wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
        bound = (n + 1) * np.finfo(real).eps * (np.abs(wide_a) @ np.abs(wide_b))
        error = np.abs(outputs["c"] - wide_a @ wide_b)
        assert (error <= bound).all(), f"c is off by up to {error.max()}"

    return Workload(kernel, {"a": a, "b": b}, check=check, source_file=__file__)
