"""Y = A X with a sparse A (CSR) and a dense X with few columns, as in graph networks and block
Krylov methods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import loopy as lp
import numpy as np

from experiments.kernels.matrices import csr
from experiments.kernels.parameters import (
    data,
    real_type,
    require_group,
    require_indexable,
    require_positive,
)
from memsim.errors import KernelError
from tracegen.workloads import Workload


def spmm(
    matrix: str = "graph",
    n: int = 65_536,
    columns: int = 32,
    rows_per_group: int = 4,
    dtype: Literal["float32", "float64"] = "float32",
) -> Workload:
    """One work-item for each entry of Y; neighbours share a row of A and read consecutive entries
    of a row of X.

    matrix, n : see `experiments.kernels.matrices.csr`
    """
    require_positive(n=n, columns=columns)
    require_group(columns, rows_per_group)
    real = real_type(dtype)
    a = csr(matrix, n)
    require_indexable(x=a.shape[1] * columns, y=a.shape[0] * columns)
    if np.abs(a.data).max() > np.finfo(real).max:
        raise KernelError(f"{real} cannot hold an entry of this matrix; use dtype=float64")
    kernel = lp.make_kernel(
        [f"{{[i, c]: 0 <= i < n_rows and 0 <= c < {columns}}}", "{[j]: begin <= j < end}"],
        """
        for i, c
            <> begin = row_start[i]
            <> end = row_start[i + 1]
            y[i, c] = sum(j, values[j] * x[indices[j], c])
        end
        """,
        [
            lp.ValueArg("n_rows, n_columns, n_entries", np.int32),
            lp.GlobalArg("row_start", np.int32, shape="n_rows + 1"),
            lp.GlobalArg("indices", np.int32, shape="n_entries"),
            lp.GlobalArg("values", real, shape="n_entries"),
            lp.GlobalArg("x", real, shape=("n_columns", columns)),
            lp.GlobalArg("y", real, shape=("n_rows", columns), is_input=False, is_output=True),
        ],
        assumptions="n_rows >= 1",
        name="spmm",
        lang_version=(2018, 2),
    )
    kernel = lp.split_iname(kernel, "i", rows_per_group, inner_tag="l.1", outer_tag="g.0")
    kernel = lp.tag_inames(kernel, {"c": "l.0"})
    values = a.data.astype(real)
    x = data((a.shape[1], columns), real)

    def check(outputs: Mapping[str, Any]) -> None:
        """Errors are within the bound of a sum in any order, (terms + 1) eps |A| |X|."""
        exact = type(a)((values.astype(np.float64), a.indices, a.indptr), a.shape)
        wide = x.astype(np.float64)
        terms = np.diff(a.indptr)[:, None]
        bound = (terms + 1) * np.finfo(real).eps * (abs(exact) @ np.abs(wide))
        error = np.abs(outputs["y"] - exact @ wide)
        assert (error <= bound).all(), f"y is off by up to {error.max()}"

    arguments = {"row_start": a.indptr, "indices": a.indices, "values": values, "x": x}
    return Workload(kernel, arguments, check=check, source_file=__file__)
