"""y = A x in compressed sparse rows, one work-item for each row, four entries in a load.

Source: Baghsorkhi et al. (PPoPP 2012), Listing 3, with the prologue and epilogue that it omits. The
kernel is OpenCL C, because Loopy cannot express vector loads of arrays that are also read entry by
entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from experiments.kernels.matrices import csr
from experiments.kernels.parameters import data, require_group
from memsim.errors import KernelError
from tracegen import OpenCLWorkload


def spmv_vectorised(matrix: str = "u", n: int = 170_000, block_size: int = 128) -> OpenCLWorkload:
    """The vectorised kernel in float32.

    matrix, n : see `experiments.kernels.matrices.csr`; block_size : work-items in a group
    """
    return spmv_vectorised_of(csr(matrix, n), block_size)


def spmv_vectorised_of(matrix: Any, block_size: int = 128) -> OpenCLWorkload:
    """The same kernel for a given matrix."""
    require_group(block_size)
    real = np.dtype(np.float32)
    if np.abs(matrix.data).max() > np.finfo(real).max:
        raise KernelError(f"{real} cannot hold an entry of this matrix")
    values, x = matrix.data.astype(real), data(matrix.shape[1], real)
    n_rows = matrix.shape[0]

    def check(outputs: Mapping[str, Any]) -> None:
        """|y - A x| is within the bound of a sum in any order, (terms + 1) eps |A| |x|."""
        wide = values.astype(np.float64)
        exact = type(matrix)((wide, matrix.indices, matrix.indptr), matrix.shape)
        terms = np.diff(matrix.indptr)
        bound = (terms + 1) * np.finfo(real).eps * (abs(exact) @ np.abs(x.astype(np.float64)))
        error = np.abs(outputs["y"] - exact @ x.astype(np.float64))
        assert (error <= bound).all(), f"y is off by up to {error.max()}"

    return OpenCLWorkload(
        path=Path(__file__).with_suffix(".cl"),
        kernel="spmv_vectorised",
        arguments={
            "n_rows": np.int32(n_rows),
            "row_start": matrix.indptr,
            "indices": matrix.indices,
            "values": values,
            "x": x,
            "y": np.zeros(n_rows, real),
        },
        global_size=-(-n_rows // block_size) * block_size,
        local_size=block_size,
        check=check,
    )
