"""The usual steps by which a product of bfloat16 matrices with sums in tensor memory is made fast, in CUDA C++ (`tensor_memory_steps.cu`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.kernels.matmul_steps import depth_of
from tracegen import CudaWorkload, tensor_map

SOURCE = Path(__file__).with_suffix(".cu")
ROWS = 128
STEPS = {
    "parts": ("product<256, 256, 1, false, false, false>", 256, 256, 1),
    "tiles": ("product<256, 256, 1, false, true, false>", 256, 256, 1),
    "wide parts": ("product<256, 256, 1, true, false, false>", 256, 256, 1),
    "wide tiles": ("product<256, 256, 1, true, true, false>", 256, 256, 1),
    "stages": ("product<256, 128, 2, true, true, false>", 256, 128, 2),
    "warps": ("product<128, 64, 7, true, true, true>", 128, 64, 7),
}
"""Step -> kernel, columns of c that a block computes, columns of a and b in a slab, and slabs."""


def bits(values: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.uint16]:
    """Numbers that bfloat16 has exactly, as it has them."""
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def numbers(held: npt.NDArray[np.uint16]) -> npt.NDArray[np.float32]:
    return (held.astype(np.uint32) << 16).view(np.float32)


def product(step: str = "warps", n: int = 4096, depth: int | None = None) -> CudaWorkload:
    """c = a b' of n x n matrices of bfloat16, as 16-bit integers.

    depth : how many columns of a and b are multiplied, all by default

    Raises KernelError for an unknown step, and for sizes that are no multiple of 256.
    """
    depth = depth_of(step, STEPS, n, depth, 256)
    kernel, columns, slab, stages = STEPS[step]
    part = 64 if "true" in kernel.split(",")[3] else 8
    whole = "true" in kernel.split(",")[4]

    def tiles(array: npt.NDArray[np.uint16], rows: int) -> npt.NDArray[Any]:
        swizzle = "128B" if part == 64 else None
        if not whole:
            return tensor_map(array, (rows, part), dtype="bfloat16", swizzle=swizzle)
        shape, strides = (n // part, n, part), (2 * part, 2 * n, 2)
        return tensor_map(
            array,
            (slab // part, rows, part),
            dtype="bfloat16",
            shape=shape,
            strides_bytes=strides,
            swizzle=swizzle,
        )

    return copied_product(
        n,
        depth,
        tiles,
        (ROWS, columns),
        path=SOURCE,
        kernel=kernel,
        grid=(n // ROWS * (n // columns),),
        block=(128,),
        shared_bytes=stages * (ROWS + columns) * slab * 2,
    )


def copied_product(
    n: int,
    depth: int,
    tiles: Callable[[npt.NDArray[np.uint16], int], npt.NDArray[Any]],
    edges: tuple[int, int],
    stored: tuple[int, int] | None = None,
    **launch: Any,
) -> CudaWorkload:
    """c = a b' of bfloat16, whose tiles the copying unit brings.

    tiles : an array and the edge of its tiles -> its tensor map;  edges : of a's and b's tiles
    stored : where that unit also stores tiles, of the transposed c, their edges
    launch : the other fields of the CudaWorkload
    """
    rng = np.random.default_rng(0)
    a, b = (bits(rng.integers(-1, 2, (n, n), np.int8)) for _ in range(2))

    def check(written: Mapping[str, Any]) -> None:
        exact = numbers(a[:, :depth]) @ numbers(b[:, :depth]).T
        found = numbers(written["c"]) if stored is None else numbers(written["c.elements"]).T
        np.testing.assert_allclose(found, exact, rtol=2**-8)

    maps = {"a": tiles(a, edges[0]), "b": tiles(b, edges[1])}
    c = np.zeros((n, n), np.uint16)
    target = c if stored is None else tensor_map(c, stored, dtype="bfloat16")
    return CudaWorkload(
        arguments=maps | {"c": target, "n": n, "depth": depth}, check=check, **launch
    )
