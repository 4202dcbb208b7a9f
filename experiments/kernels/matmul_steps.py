"""The usual steps by which a product of matrices is made fast, in CUDA C++ (`matmul_steps.cu`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from memsim.errors import KernelError
from tracegen import CudaWorkload

SOURCE = Path(__file__).with_suffix(".cu")
STEPS = {
    "naive": ("naive", (32, 32), 32),
    "coalesced": ("coalesced", (1024,), 32),
    "tiled": ("tiled<32>", (1024,), 32),
    "columns": ("columns<64, 64, 8, 8>", (512,), 64),
    "blocks": ("blocks<128, 128, 8, 8>", (256,), 128),
    "vectors": ("vectors<128, 128, 8, 8>", (256,), 128),
}
"""Step -> kernel, threads of a block, and rows and columns of c that a block computes."""
BETA = 0.5


def depth_of(step: str, steps: Iterable[str], n: int, depth: int | None, unit: int = 128) -> int:
    """How many columns of a and rows of b are multiplied; raises KernelError as `product` does.

    steps : those that there are;  unit : what sizes are multiples of
    """
    depth = n if depth is None else depth
    if step not in steps:
        raise KernelError(f"there is no step {step!r}; there are {', '.join(steps)}")
    if n % unit or depth % unit or not 0 < depth <= n:
        raise KernelError(
            f"n and depth must be multiples of {unit}, depth at most n, got {n}, {depth}"
        )
    return depth


def product(step: str = "blocks", n: int = 4096, depth: int | None = None) -> CudaWorkload:
    """c = a b + c / 2 of n x n matrices of float32.

    depth : how many columns of a and rows of b are multiplied, all by default

    Raises KernelError for an unknown step, and for sizes that are no multiple of 128.
    """
    depth = depth_of(step, STEPS, n, depth)
    kernel, block, edge = STEPS[step]
    rng = np.random.default_rng(0)
    a, b, c = (rng.random((n, n), dtype=np.float32) for _ in range(3))

    def check(written: Mapping[str, Any]) -> None:
        exact = a[:, :depth] @ b[:depth] + np.float32(BETA) * c
        np.testing.assert_allclose(written["c"], exact, rtol=1e-4)

    return CudaWorkload(
        path=SOURCE,
        kernel=kernel,
        arguments={"n": n, "depth": depth, "a": a, "b": b, "c": c.copy(), "beta": BETA},
        grid=(n // edge, n // edge),
        block=block,
        check=check,
    )
