"""The usual steps by which a product of half matrices on tensor cores is made fast, in CUDA C++ (`tensor_steps.cu`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from experiments.kernels.matmul_steps import depth_of
from tracegen import CudaWorkload

SOURCE = Path(__file__).with_suffix(".cu")
DEPTH = 32
STEPS = {
    "base": ("matrices<128, 128, 32, 32, 32, 1, false, false>", 512, 128, 1),
    "swizzle": ("matrices<128, 128, 32, 32, 32, 1, false, true>", 512, 128, 1),
    "vec": ("matrices<128, 128, 32, 32, 32, 1, true, true>", 512, 128, 1),
    "pipe": ("matrices<128, 128, 32, 32, 32, 2, true, true>", 512, 128, 2),
    "pipe3": ("matrices<128, 128, 32, 32, 32, 3, true, true>", 512, 128, 3),
    "pipe4": ("matrices<128, 128, 32, 32, 32, 4, true, true>", 512, 128, 4),
    "warptile": ("matrices<128, 128, 32, 64, 64, 2, true, true>", 128, 128, 2),
    "warptile3": ("matrices<128, 128, 32, 64, 64, 3, true, true>", 128, 128, 3),
    "warptile4": ("matrices<128, 128, 32, 64, 64, 4, true, true>", 128, 128, 4),
    "wmma": ("fragments<128, 3>", 512, 128, 3),
    "wmma64": ("fragments<64, 2>", 512, 64, 2),
}
"""Step -> kernel, threads of a block, rows and columns of c that it computes, and slabs of a and b that it holds."""


def product(step: str = "warptile", n: int = 4096, depth: int | None = None) -> CudaWorkload:
    """c = a b of n x n matrices, a and b of float16, c of float32.

    depth : how many columns of a and rows of b are multiplied, all by default

    Raises KernelError for an unknown step, and for sizes that are no multiple of 128.
    """
    depth = depth_of(step, STEPS, n, depth)
    kernel, block, edge, stages = STEPS[step]
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, (n, n), np.int8).astype(np.float16) for _ in range(2))

    def check(written: Mapping[str, Any]) -> None:
        exact = a[:, :depth].astype(np.float32) @ b[:depth].astype(np.float32)
        np.testing.assert_array_equal(written["c"], exact)

    return CudaWorkload(
        path=SOURCE,
        kernel=kernel,
        arguments={"n": n, "depth": depth, "a": a, "b": b, "c": np.zeros((n, n), np.float32)},
        grid=(n // edge, n // edge),
        block=block,
        shared_bytes=stages * 2 * edge * DEPTH * a.itemsize,
        check=check,
    )
