"""Groups that march along z, with a window of nine planes in registers: second derivatives of eighth order of float fields.

The launches that an MI250X ran, for the seismic codes of AMD's blog, ROCm/rocm-blogs. On the command line:
`marching.hip:march_z --args marching.py:march_z --set window=16`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.kernels.parameters import data, require_indexable, require_positive
from memsim.errors import KernelError
from tracegen import CudaWorkload

RADIUS = 4
WIDTH, HEIGHT = 64, 4
"""Threads of a group."""
ROW_FLOATS = 64
"""Rows are a multiple of so many floats apart, and their first inner point lies at one."""
WEIGHTS = np.array([-205 / 72, 8 / 5, -1 / 5, 8 / 315, -1 / 560])
"""Of the points at distances 0 to 4."""


def march_z(n: int = 512, window: int = 16, nz: int = 0, filled: bool = False) -> CudaWorkload:
    """The derivative along z on n x n x nz points; a thread computes one point of each of `window` planes.

    nz : 0 for n;  filled : False leaves the arrays zero, for a trace of a large grid
    """
    return _launch("march_z", n, nz or n, window, 1, ("z",), filled)


def march_xyz(n: int = 512, window: int = 16, nz: int = 0, filled: bool = False) -> CudaWorkload:
    """The sum of those along x, y and z; a thread computes four points of each plane, and a group shares rows in local memory."""
    return _launch("march_xyz", n, nz or n, window, 4, ("z", "y", "x"), filled)


def _launch(
    kernel: str, n: int, nz: int, window: int, lane_floats: int, axes: tuple[str, ...], filled: bool
) -> CudaWorkload:
    require_positive(n=n, nz=nz, window=window)
    if n % (WIDTH * lane_floats):
        raise KernelError(f"n must be a multiple of {WIDTH * lane_floats}, got {n}")
    row = -(-(n + 2 * RADIUS) // ROW_FLOATS) * ROW_FLOATS
    plane = row * (n + 2 * RADIUS)
    lead = ROW_FLOATS - RADIUS
    size = lead + plane * (nz + 2 * RADIUS)
    require_indexable(field=size)
    field = data(size, np.float32) if filled else np.zeros(size, np.float32)

    def check(written: Mapping[str, Any]) -> None:
        shape = (nz + 2 * RADIUS, n + 2 * RADIUS, row)
        inside = tuple(slice(RADIUS, extent + RADIUS) for extent in (nz, n, n))
        whole, found = (flat[lead:].reshape(shape) for flat in (field, written["to"]))
        expected = sum(_derivative(whole, inside, "zyx".index(axis)) for axis in axes)
        np.testing.assert_allclose(found[inside], expected, rtol=0, atol=1e-5)

    return CudaWorkload(
        path=Path(__file__).with_suffix(".hip"),
        kernel=kernel,
        arguments={
            "to": np.zeros(size, np.float32),
            "from": field,
            "origin": np.uint64(lead + RADIUS * (plane + row + 1)),
            "row": np.int32(row),
            "plane": np.int32(plane),
            "nx": np.int32(n),
            "ny": np.int32(n),
            "nz": np.int32(nz),
            "window": np.int32(window),
        },
        grid=(n // (WIDTH * lane_floats), -(-n // HEIGHT), -(-nz // window)),
        block=(WIDTH, HEIGHT),
        build_options=[f"-DLANE_FLOATS={lane_floats}"],
        check=check,
    )


def _derivative(
    whole: npt.NDArray[np.float32], inside: tuple[slice, ...], axis: int
) -> npt.NDArray[np.float64]:
    total: npt.NDArray[np.float64] = WEIGHTS[0] * whole[inside].astype(np.float64)
    for distance in range(1, RADIUS + 1):
        for side in (-distance, distance):
            moved = list(inside)
            moved[axis] = slice(moved[axis].start + side, moved[axis].stop + side)
            total += WEIGHTS[distance] * whole[tuple(moved)]
    return total
