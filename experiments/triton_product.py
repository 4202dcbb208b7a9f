"""A product of half matrices in Triton, from small tiles to a software pipeline of several stages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import triton
import triton.language as tl

from tracegen import TritonWorkload


@triton.jit  # type: ignore[untyped-decorator]
def product_kernel(  # type: ignore[no-untyped-def]
    a, b, c, n, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr
):
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    depth = tl.arange(0, DEPTH)
    from_a = a + row[:, None] * n + depth[None, :]
    from_b = b + depth[:, None] * n + column[None, :]
    sums = tl.zeros((ROWS, COLUMNS), tl.float32)
    for _ in range(n // DEPTH):
        sums = tl.dot(tl.load(from_a), tl.load(from_b), sums)
        from_a += DEPTH
        from_b += DEPTH * n
    tl.store(c + row[:, None] * n + column[None, :], sums)


def product(
    n: int = 2048,
    rows: int = 128,
    columns: int = 128,
    depth: int = 32,
    stages: int = 3,
    warps: int = 8,
) -> TritonWorkload:
    """c = a b of n x n matrices, a and b of float16, c of float32.

    rows, columns, depth : of the tiles of a group; they must divide n
    stages, warps : Triton's num_stages and num_warps
    """
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, (n, n), np.int8).astype(np.float16) for _ in range(2))

    def check(written: Mapping[str, Any]) -> None:
        np.testing.assert_array_equal(written["c"], a.astype(np.float32) @ b.astype(np.float32))

    return TritonWorkload(
        kernel=product_kernel,
        arguments={"a": a, "b": b, "c": np.zeros((n, n), np.float32), "n": n},
        grid=(n // columns, n // rows),
        settings={
            "ROWS": rows,
            "COLUMNS": columns,
            "DEPTH": depth,
            "num_stages": stages,
            "num_warps": warps,
        },
        check=check,
    )
