"""Copies to shared memory that wait for one another (`copies.cu`): what memory delivers for so many bytes on their way."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tracegen import CudaWorkload, tensor_map

SOURCE = Path(__file__).with_suffix(".cu")
TYPES = {4: "float", 8: "float2", 16: "float4"}
WIDTH = 128
"""Floats of a row."""


def by_threads(
    groups: int, stages: int, threads: int, size: int, total: int = 1 << 31
) -> CudaWorkload:
    """size : bytes that a thread copies at once, 4, 8 or 16;  total : bytes that all copy"""
    n = total // size
    return CudaWorkload(
        path=SOURCE,
        kernel=f"by_threads<{TYPES[size]}, {stages}, {threads}>",
        arguments={"x": np.zeros((n, size // 4), np.float32), "n": n},
        grid=(groups,),
        block=(threads,),
    )


def of_tiles(groups: int, stages: int, rows: int, total: int = 1 << 31) -> CudaWorkload:
    """rows : of a tile;  total : bytes that all copy"""
    height = total // (4 * WIDTH)
    return CudaWorkload(
        path=SOURCE,
        kernel=f"of_tiles<{rows}, {stages}>",
        arguments={
            "x": tensor_map(np.zeros((height, WIDTH), np.float32), (rows, WIDTH)),
            "rows": height,
        },
        grid=(groups,),
        block=(32,),
        shared_bytes=stages * rows * WIDTH * 4,
    )
