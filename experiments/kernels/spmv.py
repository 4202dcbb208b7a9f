"""y = A x with A in compressed sparse rows, with one work-item or one sub-group for each row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import loopy as lp
import numpy as np

from experiments.kernels.matrices import csr
from experiments.kernels.parameters import data, real_type, require_group
from memsim.errors import KernelError
from tracegen.workloads import Workload


def spmv(
    matrix: str = "fem",
    n: int = 170_000,
    block_size: int = 128,
    dtype: Literal["float32", "float64"] = "float32",
) -> Workload:
    """The scalar CSR kernel, one work-item for each row (Baghsorkhi et al. 2012, Listing 2).

    matrix, n : see `experiments.kernels.matrices.csr`; block_size : work-items in a group
    """
    return spmv_of(csr(matrix, n), block_size, dtype)


def spmv_of(matrix: Any, block_size: int = 128, dtype: str = "float32") -> Workload:
    """The same kernel for a given `scipy.sparse.csr_array` with 32-bit indices."""
    require_group(block_size)
    real = real_type(dtype)
    kernel = lp.make_kernel(
        ["{[i]: 0 <= i < n_rows}", "{[j]: row_begin <= j < row_end}"],
        """
        for i
            <> row_begin = row_start[i]
            <> row_end = row_start[i + 1]
            y[i] = sum(j, values[j] * x[indices[j]])
        end
        """,
        _arguments(real),
        assumptions="n_rows >= 1",
        name="spmv",
        lang_version=(2018, 2),
    )
    kernel = lp.split_iname(kernel, "i", block_size, inner_tag="l.0", outer_tag="g.0")
    return _workload(kernel, matrix, real)


def spmv_vector(
    matrix: str = "fem",
    n: int = 12_000,
    subgroup_size: int = 32,
    dtype: Literal["float32", "float64"] = "float32",
) -> Workload:
    """One sub-group for each row: its lanes stride over the row and add their sums through local
    memory.

    matrix, n : see `experiments.kernels.matrices.csr`; subgroup_size : lanes, and work-items in a
        group
    """
    require_group(subgroup_size)
    real, lanes = real_type(dtype), subgroup_size
    kernel = lp.make_kernel(
        [
            f"{{[i, lane]: 0 <= i < n_rows and 0 <= lane < {lanes}}}",
            "{[step]: 0 <= step < n_step}",
        ],
        f"""
        for i
            <> first = row_start[i] + lane
            <> row_end = row_start[i + 1] {{inames=i:lane}}
            <> n_step = (row_end - first + {lanes - 1}) // {lanes} {{inames=i:lane}}
            y[i] = sum((lane, step), values[first + {lanes} * step]
                       * x[indices[first + {lanes} * step]]) {{id=total}}
        end
        """,
        _arguments(real),
        assumptions="n_rows >= 1",
        name="spmv_vector",
        lang_version=(2018, 2),
        # Only lane 0 stores y[i], but Loopy reports its iname as a race.
        silenced_warnings=["write_race(total)"],
    )
    kernel = lp.split_reduction_inward(kernel, "step")
    kernel = lp.tag_inames(kernel, {"i": "g.0", "lane": "l.0"})
    return _workload(kernel, csr(matrix, n), real)


def _arguments(real: Any) -> list[Any]:
    return [
        lp.ValueArg("n_rows, n_columns, n_entries", np.int32),
        lp.GlobalArg("row_start", np.int32, shape="n_rows + 1"),
        lp.GlobalArg("indices", np.int32, shape="n_entries"),
        lp.GlobalArg("values", real, shape="n_entries"),
        lp.GlobalArg("x", real, shape="n_columns"),
        lp.GlobalArg("y", real, shape="n_rows", is_input=False, is_output=True),
    ]


def _workload(kernel: Any, matrix: Any, real: Any) -> Workload:
    if np.abs(matrix.data).max() > np.finfo(real).max:
        raise KernelError(f"{real} cannot hold an entry of this matrix; use dtype=float64")
    values = matrix.data.astype(real)
    x = data(matrix.shape[1], real)

    def check(outputs: Mapping[str, Any]) -> None:
        """|y - A x| is within the bound of a sum in any order, (terms + 1) eps |A| |x|."""
        exact = type(matrix)(
            (values.astype(np.float64), matrix.indices, matrix.indptr), matrix.shape
        )
        terms = np.diff(matrix.indptr)
        bound = (terms + 1) * np.finfo(real).eps * (abs(exact) @ np.abs(x.astype(np.float64)))
        error = np.abs(outputs["y"] - exact @ x.astype(np.float64))
        assert (error <= bound).all(), f"y is off by up to {error.max()}"

    return Workload(
        kernel,
        {
            "row_start": matrix.indptr,
            "indices": matrix.indices,
            "values": values,
            "x": x,
        },
        check=check,
        source_file=__file__,
    )
