"""Three-dimensional stencils with one work-item for each point; x is the fastest axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
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
from tracegen import OpenCLWorkload
from tracegen.workloads import Workload

STAR_RANGE = 4
"""Neighbours of `star25` in each direction of each axis: 6 * 4 + 1 points."""

_ALIGN_ELEMENTS = 32  # 256 bytes of float64


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
    grid = _StarGrid.checked(nx, ny, nz, pitch)
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


def star25_points(
    nx: int = 632,
    ny: int = 504,
    nz: int = 8,
    block_x: int = 32,
    block_y: int = 4,
    block_z: int = 4,
    points_y: int = 2,
    points_z: int = 1,
    pitch: int = 0,
    filled: bool = True,
) -> OpenCLWorkload:
    """`star25` with several points of a work-item, one after another, as measured on an H100.

    There every variant requests 25 values a point of L1 (l1_load_sectors in h100_star25_counters.csv): the
    compiler merged no loads of neighbouring points, as it may where src and dst are known to be distinct.

    points_y, points_z : points that a work-item computes along these axes
    """
    grid = _StarGrid.checked(nx, ny, nz, pitch)
    require_positive(points_y=points_y, points_z=points_z)
    block = (block_x, block_y, block_z)
    require_group(*block)
    tile = (block_x, block_y * points_y, block_z * points_z)
    groups = [-(-extent // size) for extent, size in zip((nx, ny, nz), tile, strict=True)]
    arguments = grid.arrays(filled)
    numbers = {"nx": nx, "ny": ny, "nz": nz, "pitch": grid.pitch, "plane": grid.plane}
    return OpenCLWorkload(
        path=Path(__file__).with_name("star25_points.cl"),
        kernel="star25_points",
        arguments={
            **arguments,
            **{name: np.int32(value) for name, value in (numbers | {"first": grid.first}).items()},
        },
        global_size=tuple(n * size for n, size in zip(groups, block, strict=True)),
        local_size=block,
        build_options=[f"-DPOINTS_Y={points_y}", f"-DPOINTS_Z={points_z}"],
        check=grid.check(arguments["src"]),
    )


@dataclass(frozen=True, kw_only=True)
class _StarGrid:
    """The interior of the star stencil, and its place in flat arrays, in elements.

    lead : before the allocation's first row;  first : before the first interior element
    """

    interior: tuple[int, int, int]
    pitch: int
    plane: int
    lead: int
    first: int
    n_element: int

    @classmethod
    def checked(cls, nx: int, ny: int, nz: int, pitch: int) -> _StarGrid:
        require_positive(nx=nx, ny=ny, nz=nz)
        halo = 2 * STAR_RANGE
        pitch = pitch or nx + halo
        require_positive(pitch=pitch - nx - halo + 1)
        plane = pitch * (ny + halo)
        corner = STAR_RANGE * (plane + pitch + 1)  # from the allocation's start to the interior's
        lead = -corner % _ALIGN_ELEMENTS
        n_element = lead + plane * (nz + halo)
        require_indexable(src=n_element)
        return cls(
            interior=(nx, ny, nz),
            pitch=pitch,
            plane=plane,
            lead=lead,
            first=lead + corner,
            n_element=n_element,
        )

    def arrays(self, filled: bool) -> dict[str, Any]:
        src = data(self.n_element, np.float64) if filled else np.zeros(self.n_element)
        return {"src": src, "dst": np.zeros_like(src)}

    def check(self, src: Any) -> Callable[[Mapping[str, Any]], None]:
        def check(outputs: Mapping[str, Any]) -> None:
            shape = (-1, self.plane // self.pitch, self.pitch)
            source, result = (flat[self.lead :].reshape(shape) for flat in (src, outputs["dst"]))
            inside = [slice(STAR_RANGE, STAR_RANGE + extent) for extent in self.interior[::-1]]
            expected = source[tuple(inside)].copy()
            for axis in range(3):
                for distance in (-4, -3, -2, -1, 1, 2, 3, 4):
                    part = list(inside)
                    part[axis] = slice(part[axis].start + distance, part[axis].stop + distance)
                    expected += source[tuple(part)]
            np.testing.assert_allclose(
                result[tuple(inside)], 0.25 * expected, rtol=0, atol=700 * np.finfo(np.float64).eps
            )

        return check


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
