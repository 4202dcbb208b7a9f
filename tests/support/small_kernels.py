"""The kernels of every generator at sizes that run quickly."""

from __future__ import annotations

from calib.kernels import ALL_GENERATORS
from calib.kernels.collection import MeasurementKernel

SMALL: dict[str, list[str]] = {
    "matmul_sq": ["n:64"],
    "matmul_rect": ["n:32", "m:64", "l:48"],
    "matmul_transposed": ["n:64"],
    "dg_diff": ["nelements:64"],
    "finite_diff": ["n:112"],
    "stencil_3d": ["n:16"],
    "convolution": ["n:32"],
    "axpy": ["n:1024"],
    "transpose": ["n:64"],
    "spmv": ["n:512"],
    "reduction": ["n:8192"],
    "gmem_pattern": ["nelements:65536", "n_arrays:1,3", "lid_stride_0:1,2"],
    "broadcast": ["n:4096"],
    "gather": ["n:4096"],
    "lmem_move": ["n_groups:4", "m:0,7"],
    "overlap_ratio": ["n:1024", "m:0,5"],
    "barriers": ["n_groups:4", "m:0,3"],
    "empty": ["n_groups:4"],
    **{
        f"flops_{kind}_pattern": ["nelements:8192", "m:8,16"]
        for kind in ("add", "mul", "madd", "div", "exp", "sqrt")
    },
}
"""Generators whose kernels compute something that can be checked, and the empty kernel."""

REMOVED: dict[str, list[str]] = {
    "matmul_sq_pattern": ["n:64"],
    "dg_diff_pattern": ["nelements:64"],
    "finite_diff_pattern": ["n:112"],
}
"""Generators of kernels from which work is removed."""

BY_NAME = {generator.name: generator for generator in ALL_GENERATORS}


def small(name: str) -> list[MeasurementKernel]:
    """The kernels of a generator in all variants at its small sizes."""
    given = {}
    for tag in {**SMALL, **REMOVED}[name]:
        argument, _, values = tag.partition(":")
        given[argument] = tuple(values.split(","))
    return BY_NAME[name].generate(given)
