"""The star stencils in CUDA C++ that were measured on a V100 and on an H100.

On the command line: `star.cu:star --args star.py:star`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.kernels.parameters import data, require_group, require_indexable, require_positive
from memsim.errors import KernelError
from tracegen import CudaWorkload

_FOLDER = Path(__file__).parent
_ALIGN_ELEMENTS = 32  # 256 bytes of float64


@dataclass(frozen=True, kw_only=True)
class _Grid:
    """The interior of dst = 0.25 * (sum of 6 radius + 1 points of src), and its place in flat arrays, in elements.

    radius : neighbours in each direction of each axis
    lead : before the allocation's first row;  first : before the first interior element, which is aligned
        to 256 bytes
    """

    radius: int
    interior: tuple[int, int, int]
    pitch: int
    plane: int
    lead: int
    first: int
    n_element: int

    @classmethod
    def checked(cls, radius: int, nx: int, ny: int, nz: int, pitch: int) -> _Grid:
        """pitch : elements from one row to the next, 0 for nx + 2 radius"""
        require_positive(radius=radius, nx=nx, ny=ny, nz=nz)
        halo = 2 * radius
        pitch = pitch or nx + halo
        require_positive(pitch=pitch - nx - halo + 1)
        plane = pitch * (ny + halo)
        corner = radius * (plane + pitch + 1)  # from the allocation's start to the interior's
        lead = -corner % _ALIGN_ELEMENTS
        n_element = lead + plane * (nz + halo)
        require_indexable(src=n_element)
        return cls(
            radius=radius,
            interior=(nx, ny, nz),
            pitch=pitch,
            plane=plane,
            lead=lead,
            first=lead + corner,
            n_element=n_element,
        )

    def arrays(self, filled: bool) -> dict[str, Any]:
        src = data(self.n_element, np.float64) if filled else np.zeros(self.n_element)
        return {"src": src, "dst": np.zeros(src.shape, src.dtype)}

    def check(self, src: Any) -> Callable[[Mapping[str, Any]], None]:
        def check(outputs: Mapping[str, Any]) -> None:
            shape = (-1, self.plane // self.pitch, self.pitch)
            source, result = (flat[self.lead :].reshape(shape) for flat in (src, outputs["dst"]))
            inside = [slice(self.radius, self.radius + extent) for extent in self.interior[::-1]]
            expected = source[tuple(inside)].copy()
            for axis in range(3):
                for distance in range(-self.radius, self.radius + 1):
                    part = list(inside)
                    part[axis] = slice(part[axis].start + distance, part[axis].stop + distance)
                    expected += source[tuple(part)] if distance else 0
            np.testing.assert_allclose(
                result[tuple(inside)], 0.25 * expected, rtol=0, atol=700 * np.finfo(np.float64).eps
            )

        return check


def star(
    radius: int = 4,
    points: int = 1,
    nx: int = 32,
    ny: int = 8,
    nz: int = 8,
    block_x: int = 32,
    block_y: int = 4,
    block_z: int = 2,
    pitch: int = 0,
    filled: bool = True,
) -> CudaWorkload:
    """The stencils of Ernst et al. (JPDC 2023), measured on a V100: dst = 0.25 * (sum of 6 radius + 1 points of src).

    Their text was generated for each grid, so sizes are constants of the text; x is the fastest axis.

    points : of a thread, which follow one another along z; they divide nz
    nx, ny, nz : of the interior, around which there are `radius` more
    pitch : elements from one row to the next, 0 for nx + 2 radius
    filled : False leaves the arrays zero, for a trace of a large grid
    """
    grid = _Grid.checked(radius, nx, ny, nz, pitch)
    require_positive(points=points)
    require_group(block_x, block_y, block_z)
    if nz % points:
        raise KernelError(f"points must divide nz, got {points} and {nz}")
    macros = {
        "RANGE": radius,
        "POINTS": points,
        "PITCH": grid.pitch,
        "PLANE": grid.plane,
        "NX": nx,
        "NY": ny,
        "NZ": nz,
    }
    arrays = grid.arrays(filled)
    return CudaWorkload(
        path=_FOLDER / "star.cu",
        kernel="star",
        arguments={**arrays, "first": np.int64(grid.first)},
        grid=(-(-nx // block_x), -(-ny // block_y), -(-nz // (points * block_z))),
        block=(block_x, block_y, block_z),
        build_options=[f"-D{name}={value}" for name, value in macros.items()],
        check=grid.check(arrays["src"]),
    )


def star25_points(
    nx: int = 632,
    ny: int = 504,
    nz: int = 8,
    block_x: int = 32,
    block_y: int = 4,
    block_z: int = 4,
    points_y: int = 1,
    points_z: int = 1,
    pitch: int = 0,
    filled: bool = True,
) -> CudaWorkload:
    """The 25-point stencil with several points of a thread, one after another, as measured on an H100.

    There every variant requests 25 values a point of L1 (l1_load_sectors in h100_star25_counters.csv): the
    compiler merged no loads of neighbouring points, as it may where src and dst are known to be distinct.

    points_y, points_z : points that a thread computes along these axes
    """
    grid = _Grid.checked(4, nx, ny, nz, pitch)
    require_positive(points_y=points_y, points_z=points_z)
    block = (block_x, block_y, block_z)
    require_group(*block)
    tile = (block_x, block_y * points_y, block_z * points_z)
    arrays = grid.arrays(filled)
    numbers = {"nx": nx, "ny": ny, "nz": nz, "pitch": grid.pitch, "plane": grid.plane}
    return CudaWorkload(
        path=_FOLDER / "star25_points.cu",
        kernel="star25_points",
        arguments={
            **arrays,
            **{name: np.int32(value) for name, value in (numbers | {"first": grid.first}).items()},
        },
        grid=tuple(-(-n // size) for n, size in zip((nx, ny, nz), tile, strict=True)),
        block=block,
        build_options=[f"-DPOINTS_Y={points_y}", f"-DPOINTS_Z={points_z}"],
        check=grid.check(arrays["src"]),
    )
