"""Three-dimensional stencils with one work-item for each point; x is the fastest axis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import loopy as lp
import numpy as np

from experiments.kernels.parameters import (
    data,
    real_type,
    require_group,
    require_indexable,
    require_positive,
)
from experiments.kernels.star_grid import StarGrid
from tracegen.workloads import Workload

STAR_RANGE = 4
"""Neighbours of `star25` in each direction of each axis: 6 * 4 + 1 points."""


def stencil7(
    nx: int = 128,
    ny: int = 128,
    nz: int = 64,
    block_x: int = 32,
    block_y: int = 4,
    block_z: int = 1,
    dtype: Literal["float32", "float64"] = "float32",
) -> Workload:
    """The 7-point Laplacian on nx x ny x nz interior points with a halo of one layer."""
    require_positive(nx=nx, ny=ny, nz=nz)
    require_group(block_x, block_y, block_z)
    require_indexable(u=(nx + 2) * (ny + 2) * (nz + 2))
    real = real_type(dtype)
    kernel = lp.make_kernel(
        "{[x, y, z]: 0 <= x < nx and 0 <= y < ny and 0 <= z < nz}",
        """
        laplacian[z + 1, y + 1, x + 1] = (
            -6 * u[z + 1, y + 1, x + 1]
            + u[z, y + 1, x + 1] + u[z + 2, y + 1, x + 1]
            + u[z + 1, y, x + 1] + u[z + 1, y + 2, x + 1]
            + u[z + 1, y + 1, x] + u[z + 1, y + 1, x + 2])
        """,
        [
            lp.ValueArg("nx, ny, nz", np.int32),
            lp.GlobalArg("u", real, shape="nz + 2, ny + 2, nx + 2"),
            lp.GlobalArg("laplacian", real, shape="nz + 2, ny + 2, nx + 2", is_output=True),
        ],
        assumptions="nx >= 1 and ny >= 1 and nz >= 1",
        name="stencil7",
        lang_version=(2018, 2),
    )
    kernel = _grid(kernel, block_x, block_y, block_z)
    u = data((nz + 2, ny + 2, nx + 2), real)

    def check(outputs: Mapping[str, Any]) -> None:
        wide = np.pad(u.astype(np.float64)[1:-1, 1:-1, 1:-1], 0)
        expected = -6 * wide
        for axis in range(3):
            for side in (slice(0, -2), slice(2, None)):
                part: list[slice] = [slice(1, -1)] * 3
                part[axis] = side
                expected += u[tuple(part)]
        # 7 terms of at most 1, one of them times 6: (terms + 1) eps sum |term|
        np.testing.assert_allclose(
            outputs["laplacian"][1:-1, 1:-1, 1:-1], expected, rtol=0, atol=96 * np.finfo(real).eps
        )

    return Workload(
        kernel, {"u": u, "laplacian": np.zeros_like(u)}, check=check, source_file=__file__
    )


def star25(
    nx: int = 632,
    ny: int = 504,
    nz: int = 8,
    block_x: int = 32,
    block_y: int = 4,
    block_z: int = 4,
    pitch: int = 0,
    filled: bool = True,
) -> Workload:
    """The fp64 star stencil of range 4 that Ernst et al. (JPDC 2023) measured on a V100.

    dst = 0.25 * (sum of 25 points of src). The measured grid has an interior of 632 x 504 x 504
    points in an allocation of 640 x 512 x 512. The default has the same rows and fewer planes.
    Arrays are flat, because their first *interior* element is aligned to 256 bytes.

    pitch : elements from one row to the next, 0 for nx + 8
    filled : False leaves the arrays zero, for a trace of a large grid
    """
    grid = StarGrid.checked(STAR_RANGE, nx, ny, nz, pitch)
    require_group(block_x, block_y, block_z)
    point = f"{grid.plane} * z + {grid.pitch} * y + x"
    points = _star_points(grid.first, point, {"x": 1, "y": grid.pitch, "z": grid.plane})
    kernel = lp.make_kernel(
        f"{{[x, y, z]: 0 <= x < {nx} and 0 <= y < {ny} and 0 <= z < {nz}}}",
        f"dst[{grid.first} + {point}] = 0.25 * ({' + '.join(points)})",
        [
            lp.GlobalArg("src", np.float64, shape=(grid.n_element,)),
            lp.GlobalArg("dst", np.float64, shape=(grid.n_element,), is_output=True),
        ],
        name="star25",
        lang_version=(2018, 2),
    )
    arguments = grid.arrays(filled)
    return Workload(
        _grid(kernel, block_x, block_y, block_z),
        arguments,
        check=grid.check(arguments["src"]),
        source_file=__file__,
    )


def _star_points(first: int, point: str, strides: Mapping[str, int]) -> list[str]:
    """The 25 loads of a point, each with its own tag; `first` is the element of point (0, 0, 0)."""
    offsets = {
        f"{axis}_{side}{distance}": sign * distance * stride
        for axis, stride in strides.items()
        for distance in range(1, STAR_RANGE + 1)
        for side, sign in (("minus", -1), ("plus", 1))
    }
    return [f"src${name}[{first + at} + {point}]" for name, at in ({"centre": 0} | offsets).items()]


def _grid(kernel: Any, block_x: int, block_y: int, block_z: int) -> Any:
    for dimension, (axis, block) in enumerate((("x", block_x), ("y", block_y), ("z", block_z))):
        kernel = lp.split_iname(
            kernel, axis, block, inner_tag=f"l.{dimension}", outer_tag=f"g.{dimension}"
        )
    return kernel
