"""The 7-point fp64 Laplacian in the variants that AMD lab notes measured on an MI250X.

Source: github.com/amd/amd-lab-notes, finite-difference (MIT): kernel 1 is plain; kernel 2 computes
`rows` points along y; kernels 3 to 7 load them plane by plane; kernel 6 has a grid in the order y, z,
x; kernel 7 is four launches, each of a quarter of y, of which this is the second.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from experiments.kernels.parameters import data, require_group, require_positive
from memsim.errors import KernelError
from tracegen import OpenCLWorkload

LAUNCHES = 4
"""Of kernel 7."""
_SPACING = 0.01


def laplacian(
    kernel: int = 1,
    n: int = 64,
    rows: int = 1,
    block_x: int = 256,
    block_y: int = 1,
    block_z: int = 1,
    nz: int = 0,
    filled: bool = True,
    nontemporal: bool = False,
) -> OpenCLWorkload:
    """A variant on n x n x nz points.

    kernel : 1 to 7, as the notes number them;  rows : points of a work-item, their tiling factor
    nz : 0 for n; a snapshot needs only the planes around it
    filled : False leaves the arrays zero, for a trace of a large grid
    nontemporal : stores, with the extension of clang
    """
    nz = nz or n
    require_positive(n=n, nz=nz, rows=rows)
    block = (min(block_x, n), block_y, block_z)
    require_group(*block)
    if not 1 <= kernel <= 7:
        raise KernelError(f"kernel must be 1 to 7, got {kernel}")
    if kernel == 1 and rows != 1:
        raise KernelError(f"kernel 1 computes one row, got rows={rows}")
    ny = n // LAUNCHES if kernel == 7 else n
    tile = (block[0], block[1] * rows, block[2])
    groups = [(extent - 1) // size + 1 for extent, size in zip((n, ny, nz), tile, strict=True)]
    axes = (2, 0, 1) if kernel == 6 else (0, 1, 2)
    grid = dict(zip(axes, groups, strict=True))
    defines = {
        "TILE": rows,
        "ORDER": {1: 0, 2: 1}.get(kernel, 2),
        **dict(zip(("GX", "GY", "GZ"), axes, strict=True)),
        "FIRST_Y": ny if kernel == 7 else 0,
    }
    shape = (nz, n, n)
    u = data(shape, np.float64) if filled else np.zeros(shape)
    across = 1 / _SPACING**2

    def check(outputs: Mapping[str, Any]) -> None:
        expected = -6 * u[1:-1, 1:-1, 1:-1]
        for axis in range(3):
            for side in (slice(0, -2), slice(2, None)):
                part: list[slice] = [slice(1, -1)] * 3
                part[axis] = side
                expected = expected + u[tuple(part)]
        computed = outputs["f"][1:-1, 1:-1, 1:-1]
        if kernel == 7:
            computed, expected = (a[:, ny - 1 : 2 * ny - 1] for a in (computed, expected))
        np.testing.assert_allclose(
            computed, across * expected, rtol=0, atol=96 * across * np.finfo(float).eps
        )

    return OpenCLWorkload(
        path=Path(__file__).with_suffix(".cl"),
        kernel="laplacian",
        arguments={
            "f": np.zeros(shape),
            "u": u,
            "nx": np.int32(n),
            "ny": np.int32(n),
            "nz": np.int32(nz),
            **{f"along_{axis}": np.float64(across) for axis in "xyz"},
            "centre": np.float64(-6 * across),
        },
        global_size=tuple(grid[axis] * block[axis] for axis in range(3)),
        local_size=block,
        build_options=[f"-D{name}={value}" for name, value in defines.items()]
        + ["-DNONTEMPORAL"] * nontemporal,
        check=check,
    )
