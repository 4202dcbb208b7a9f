"""The usual steps by which a product of bfloat16 matrices is made fast on Hopper, in CUDA C++ (`warp_group_steps.cu`)."""

from __future__ import annotations

from pathlib import Path

from experiments.kernels.matmul_steps import depth_of
from experiments.kernels.tensor_memory_steps import copied_product
from tracegen import CudaWorkload, tensor_map

SOURCE = Path(__file__).with_suffix(".cu")
DEPTH = 64
STEPS = {
    "by warps": ("by_warps<128, 128>", 128, None, (1,)),
    "group": ("together<64, 64, {}>", 128, None, (1,)),
    "larger": ("together<128, 128, {}>", 128, None, (1,)),
    "slabs": ("together<128, 128, {}>", 128, None, (2, 3, 4)),
    "apart": ("apart<128, 128, {}, 1, 128, false, 0, true, 1, 1>", 256, None, (5,)),
    "warp apart": ("apart<128, 128, {}, 1, 32, false, 0, true, 1, 1>", 160, None, (3, 6)),
    "goes on": ("apart<128, 128, {}, 1, 32, false, 1, true, 64, 8>", 160, None, (3, 6)),
    "two go on": ("apart<128, 256, {}, 2, 32, false, 1, true, 64, 4>", 288, None, (3, 4)),
    "two groups": ("apart<128, 256, {}, 2, 128, false, 0, true, 1, 1>", 384, None, (3,)),
    "stays": ("apart<128, 256, {}, 2, 128, true, 0, true, 16, 8>", 384, 128, (3,)),
    "one arrives": ("apart<128, 256, {}, 2, 128, true, 0, false, 16, 8>", 384, 128, (3,)),
    "pairs": ("paired<128, 256, {}, 2, 8, 8>", 384, 128, (3,)),
}
"""Step -> kernel; threads of a block; how many blocks there are where each computes one tile after another; slabs that are in local memory or on
their way, several where the fastest number was chosen by measurement."""


def product(
    step: str = "two groups", n: int = 4096, depth: int | None = None, slabs: int | None = None
) -> CudaWorkload:
    """c = a b' of n x n matrices of bfloat16, as 16-bit integers.

    depth : how many columns of a and b are multiplied, all by default
    slabs : how many are in local memory or on their way, by default the fewest of STEPS

    Raises KernelError for an unknown step, and for sizes that are no multiple of 256.
    """
    depth = depth_of(step, STEPS, n, depth, 256)
    kernel, block, staying, several = STEPS[step]
    slabs = several[0] if slabs is None else slabs
    kernel = kernel.format(slabs)
    rows, columns = map(int, kernel[kernel.index("<") + 1 : -1].split(",")[:2])
    tiles, staged = n // rows * (n // columns), kernel.startswith("paired")
    return copied_product(
        n,
        depth,
        lambda array, edge: tensor_map(array, (edge, DEPTH), dtype="bfloat16", swizzle="128B"),
        (rows, columns),
        (columns, rows) if staged else None,
        path=SOURCE,
        kernel=kernel,
        grid=(staying or tiles,),
        block=(block,),
        shared_bytes=slabs * (rows + columns) * DEPTH * 2 + staged * rows * columns * 2,
    )
