"""Copies, transposes and sums as textbooks make them faster step by step, in CUDA C++ (`textbook.cu`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from memsim.errors import KernelError
from tracegen import CudaWorkload

SOURCE = Path(__file__).with_suffix(".cu")
SUMS = {
    "scattered": ("added<{}, SCATTERED>", 1),
    "gathered": ("added<{}, GATHERED>", 1),
    "halves": ("added<{}, HALVES>", 1),
    "two": ("added_twice<{}, false, false>", 2),
    "last": ("added_twice<{}, true, false>", 2),
    "unrolled": ("added_twice<{}, true, true>", 2),
}
"""Step -> kernel, and numbers that a thread begins with."""


def moved(
    step: str = "padded", n: int = 4096, tile: int = 32, rows: int = 8, width: int = 1
) -> CudaWorkload:
    """A matrix of n x n float32, copied or transposed.

    step : `copy` and `naive`; through shared memory `tile`, `padded` and, without transposing, `staged copy`
    tile, rows, width : a block of tile / width x rows threads moves tile x tile numbers, `width` at a time

    Raises KernelError for an unknown step, and where tiles do not divide n.
    """
    if n % tile or tile % rows or tile % width:
        raise KernelError(f"tile must be a multiple of rows and width, and divide n, got {tile}")
    steps = {
        "copy": f"copied<{tile}, {rows}>",
        "naive": f"naive<{tile}, {rows}>",
        "tile": f"staged<{tile}, {rows}, {width}, 0, true>",
        "padded": f"staged<{tile}, {rows}, {width}, 1, true>",
        "staged copy": f"staged<{tile}, {rows}, {width}, 0, false>",
    }
    if step not in steps:
        raise KernelError(f"there is no step {step!r}; there are {', '.join(steps)}")
    # Zeros take no memory where nobody looks at the values.
    numbers = np.zeros((n, n), np.float32)
    if n <= 1024:
        numbers[:] = np.random.default_rng(0).random((n, n), np.float32)

    def check(written: Mapping[str, Any]) -> None:
        expected = numbers if "copy" in step else numbers.T
        np.testing.assert_array_equal(written["out"], expected)

    return CudaWorkload(
        path=SOURCE,
        kernel=steps[step],
        arguments={"in": numbers, "out": np.zeros((n, n), np.float32), "n": n},
        grid=(n // tile, n // tile),
        block=(tile // width, rows),
        check=check,
    )


def summed(
    step: str = "unrolled", n: int = 1 << 25, block: int = 256, of: str = "float"
) -> CudaWorkload:
    """Sums of each block's numbers, of n float32 or, with of="unsigned", uint32.

    Raises KernelError for an unknown step, and where blocks do not divide n.
    """
    if step not in SUMS:
        raise KernelError(f"there is no step {step!r}; there are {', '.join(SUMS)}")
    kernel, each = SUMS[step]
    if n % (block * each):
        raise KernelError(f"n must be a multiple of {block * each}, got {n}")
    x = (np.arange(n, dtype=np.uint32) % 7).astype(np.float32 if of == "float" else np.uint32)
    groups = n // block // each

    def check(written: Mapping[str, Any]) -> None:
        np.testing.assert_array_equal(written["sums"], x.reshape(groups, -1).sum(1, dtype=x.dtype))

    return CudaWorkload(
        path=SOURCE,
        kernel=kernel.format(of),
        arguments={"x": x, "n": n, "sums": np.zeros(groups, x.dtype)},
        grid=groups,
        block=block,
        shared_bytes=block * x.itemsize,
        check=check,
    )
