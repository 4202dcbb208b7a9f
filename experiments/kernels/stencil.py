"""A three-dimensional stencil with one work-item for each point; x is the fastest axis."""

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
from tracegen.workloads import Workload


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
    for dimension, (axis, block) in enumerate((("x", block_x), ("y", block_y), ("z", block_z))):
        kernel = lp.split_iname(
            kernel, axis, block, inner_tag=f"l.{dimension}", outer_tag=f"g.{dimension}"
        )
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
