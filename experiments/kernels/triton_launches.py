"""Launches of the kernels of experiments/triton_kernels.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

import tracegen
from tracegen import TritonWorkload

HERE = Path(__file__)
TILES = [
    (128, 128, 64, 4, 8), (256, 128, 64, 3, 8), (128, 256, 64, 3, 8), (128, 128, 128, 4, 8), (256, 64, 64, 4, 8), (64, 256, 64, 4, 8),
    (64, 64, 32, 4, 4),
]  # fmt: skip
"""Rows, columns and depth of a tile of a product, stages and warps, among which an autotuner chose."""


def launches(kernel: str, settings: dict[str, int | str]) -> Iterator[TritonWorkload]:
    """A kernel's launch, or one for each of the tiles. Raises KernelError where Triton is missing."""
    names = "rows", "columns", "depth", "stages", "warps"
    for tile in TILES if kernel == "products" else [()]:
        given = {**settings, **dict(zip(names, tile, strict=False))}
        yield tracegen.load_kernel(
            f"{HERE.parents[1] / 'triton_kernels.py'}:{kernel}",
            {name: str(value) for name, value in given.items()},
            args=f"{HERE}:{kernel}",
        )  # type: ignore[misc]


def add(n: int, dtype: str = "float32") -> TritonWorkload:
    """c = a + b of n numbers, 1,024 a program."""
    return TritonWorkload(
        arguments=[*(np.zeros(n, dtype) for _ in range(3)), n],
        settings={"BLOCK": 1024},
        grid=(-(-n // 1024),),
    )


def softmax(n: int, width: int, dtype: str = "float32") -> TritonWorkload:
    """Of n rows, each in one piece."""
    block = 1 << (width - 1).bit_length()
    warps = 16 if block >= 8192 else 8 if block >= 2048 else 4
    return TritonWorkload(
        arguments=[np.zeros((n, width), dtype), np.zeros((n, width), dtype), width],
        settings={"BLOCK": block, "num_warps": warps},
        grid=(n,),
    )


def products(
    stack: int, m: int, n: int, rows: int, columns: int, depth: int, stages: int, warps: int, dtype: str = "float16",
) -> TritonWorkload:  # fmt: skip
    """Of a stack of (m, n) and (n, n) matrices."""
    return TritonWorkload(
        arguments=[np.zeros((stack, m, n), dtype), np.zeros((stack, n, n), dtype), np.zeros((stack, m, n), dtype), m, n, n],
        settings={"BM": rows, "BN": columns, "BK": depth, "num_stages": stages, "num_warps": warps},
        grid=(stack, -(-m // rows), -(-n // columns)),
    )  # fmt: skip
