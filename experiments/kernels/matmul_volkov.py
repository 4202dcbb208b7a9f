"""C = A B after Volkov and Demmel (SC 2008), with blocks of C in registers and only B in local
memory.

A group of 16 x 4 work-items computes 64 rows and 16 columns of C; a work-item computes 16 entries
of one row. Matrices are stored in column-major order as in the paper: `a[k, i]` is row i, column k
of A.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import loopy as lp
import numpy as np

from experiments.kernels.parameters import data, require_indexable, require_positive
from memsim.errors import MemsimError
from tracegen.workloads import Workload

ROWS, COLUMNS = 64, 16
PADDING = 1
"""A row of the tile has 17 words, so that the 16 work-items that write a column use different
banks."""


_PRODUCT = """
for bi, bj, x, y
    for j0
        acc[j0] = 0 {id=init}
    end
    for ko
        for f
            b_tile[x, y + 4*f] = b[16*bj + y + 4*f, 16*ko + x] {id=fetch}
        end
        for ki
            <> a_value = a[16*ko + ki, 64*bi + 16*y + x] {id=load, dep=init:fetch}
            for j1
                acc[j1] = acc[j1] + a_value*b_tile[ki, j1] {id=update, dep=load:init:fetch}
            end
        end
    end
    for j2
        c[16*bj + j2, 64*bi + 16*y + x] = acc[j2] {id=store, dep=update}
    end
end
"""
"""A group computes one block of C; `ko` goes through the tiles of B."""


def volkov(n: int = 512, registers: int = 0) -> Workload:
    """Square matrices of n x n single-precision numbers, n a multiple of 64.

    registers : 32-bit registers of a work-item according to the compiler; 0 if unknown
    """
    require_positive(n=n)
    require_indexable(c=n * n)
    if n % ROWS:
        raise MemsimError(f"n must be a multiple of {ROWS}, got {n}")
    kernel = lp.make_kernel(
        "{[bi, bj, x, y, ko, ki, f, j0, j1, j2]:"
        " 0 <= 64*bi < n and 0 <= 16*bj < n and 0 <= x < 16 and 0 <= y < 4 and 0 <= 16*ko < n"
        " and 0 <= ki < 16 and 0 <= f < 4 and 0 <= j0, j1, j2 < 16}",
        _PRODUCT,
        [
            lp.ValueArg("n", np.int32),
            lp.GlobalArg("a, b", np.float32, shape="n, n"),
            lp.GlobalArg("c", np.float32, shape="n, n", is_input=False, is_output=True),
            lp.TemporaryVariable(
                "acc", np.float32, shape=(COLUMNS,), address_space=lp.AddressSpace.PRIVATE
            ),
            lp.TemporaryVariable(
                "b_tile",
                np.float32,
                shape=(16, COLUMNS),
                strides=(COLUMNS + PADDING, 1),
                storage_shape=(16, COLUMNS + PADDING),
                address_space=lp.AddressSpace.LOCAL,
            ),
        ],
        assumptions=f"n mod {ROWS} = 0 and n >= {ROWS}",
        name="matmul_volkov",
        lang_version=(2018, 2),
    )
    kernel = lp.tag_inames(
        kernel,
        {
            "bi": "g.0",
            "bj": "g.1",
            "x": "l.0",
            "y": "l.1",
            **dict.fromkeys(("f", "j0", "j1", "j2"), "unr"),
        },
    )
    return _workload(kernel, n, registers)


def _workload(kernel: Any, n: int, registers: int) -> Workload:
    a, b = data((n, n), np.float32, seed=1), data((n, n), np.float32, seed=2)

    def check(outputs: Mapping[str, Any]) -> None:
        """Entries are within (n + 1) eps |A| |B|, which holds for a sum in any order."""
        wide_a, wide_b = a.astype(np.float64).T, b.astype(np.float64).T
        bound = (n + 1) * np.finfo(np.float32).eps * (np.abs(wide_a) @ np.abs(wide_b))
        error = np.abs(outputs["c"].T - wide_a @ wide_b)
        assert (error <= bound).all(), f"c is off by up to {error.max()}"

    return Workload(
        kernel,
        {"a": a, "b": b},
        check=check,
        source_file=__file__,
        registers_per_item=registers or None,
    )
