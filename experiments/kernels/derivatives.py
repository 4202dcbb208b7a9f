"""Second derivatives of a grid along one axis in HIP C++ (`derivatives.cu`), with the sizes and groups of AMD's examples for
seismic stencils (rocm.blogs.amd.com, Seismic stencil codes; amd/HPCTrainingExamples).

On the command line: `derivatives.cu:derivative<0,4,1> --args derivatives.py:derivatives`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from experiments.kernels.parameters import data, require_positive
from memsim.errors import KernelError
from tracegen import CudaWorkload

SOURCE = Path(__file__).with_suffix(".cu")
MOST_RADIUS = 4
ALIGNED = 64
"""Floats that a row is a multiple of where it is aligned, as is the address of its first point."""
_GROUPS = {"x": (256, 1), "y": (64, 4), "z": (64, 8)}
"""Axis -> threads of a group along x and y, where each computes one point."""
_WIDE_GROUP = 64, 4
"""Where a thread computes several."""


def derivatives(
    axis: str = "x",
    radius: int = 4,
    lanes: int = 1,
    aligned: bool = False,
    depth: int = 0,
    n: int = 64,
    nz: int = 0,
    wide_groups: bool = False,
    filled: bool = True,
) -> CudaWorkload:
    """The derivative of n x n x nz points along `axis`, which is x, y or z.

    radius : points to either side that count;  lanes : points of a thread along x, 1, 2 or 4
    aligned : whether rows begin at multiples of 256 bytes
    depth : planes that a thread goes along z, 0: one, and it loads all of its neighbours
    nz : 0 for n; a snapshot needs only the planes around it
    wide_groups : whether groups are those of several points a thread, where it computes one
    filled : False leaves the arrays zero, for a trace of a large grid

    Raises KernelError for other values.
    """
    nz = nz or n
    require_positive(n=n, nz=nz, radius=radius, lanes=lanes)
    if axis not in _GROUPS or radius > MOST_RADIUS or lanes not in (1, 2, 4) or n % lanes:
        raise KernelError(
            f"axis must be x, y or z, radius at most {MOST_RADIUS}, lanes 1, 2 or 4 and a divisor of n, got {axis!r}, {radius}, {lanes}"
        )
    if depth < 0 or (depth and (axis, lanes) != ("z", 1)):
        raise KernelError(
            f"threads of one point go along z alone, got {axis!r}, lanes={lanes}, depth={depth}"
        )
    row = n + 2 * (-(-radius // lanes) * lanes)
    row = -(-row // ALIGNED) * ALIGNED if aligned else row
    plane = row * (n + 2 * radius)
    offset = ALIGNED - radius if aligned else 0
    size = plane * (nz + 2 * radius)
    values = data(size + offset, np.float32) if filled else np.zeros(size + offset, np.float32)
    weights = np.arange(1, 2 * MOST_RADIUS + 2, dtype=np.float32)
    block = _WIDE_GROUP if lanes > 1 or wide_groups or depth else _GROUPS[axis]
    grid = (-(-n // (block[0] * lanes)), -(-n // block[1]), -(-nz // depth) if depth else nz)

    def check(written: Mapping[str, Any]) -> None:
        shape = nz + 2 * radius, n + 2 * radius, row
        points = [slice(radius, radius + one) for one in (nz, n, n)]
        grids = [whole[offset:].reshape(shape) for whole in (values, written["result"])]
        expected = np.zeros((nz, n, n), np.float32)
        along = "zyx".index(axis)
        for k in range(2 * radius + 1):
            part = list(points)
            part[along] = slice(k, k + (nz, n, n)[along])
            expected += weights[k] * grids[0][tuple(part)]
        np.testing.assert_allclose(grids[1][tuple(points)], expected, rtol=0, atol=1e-4)

    return CudaWorkload(
        path=SOURCE,
        kernel=f"march<{radius}>"
        if depth
        else f"derivative<{'xyz'.index(axis)}, {radius}, {lanes}>",
        arguments={
            "result": np.zeros(size + offset, np.float32),
            "values": values,
            "row": row,
            "plane": plane,
            "first_x": offset + radius,
            "first": radius,
            "end_x": offset + n + radius,
            "end_y": n + radius,
            "end_z": nz + radius,
            **({"depth": depth} if depth else {}),
        },
        grid=grid,
        block=block,
        symbols={"weights": weights},
        check=check,
    )
