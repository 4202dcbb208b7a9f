"""The 25-point fp64 star stencil of Ernst et al. (JPDC 2023), measured on a V100 in 43 group
shapes.

dst = 0.25 * (sum of 25 points of src), with one work-item for each point. The interior has 632 x
504 x 504 points, in an allocation of 640 x 512 x 512 whose first interior element is aligned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import tracegen
from experiments.hardware.volumes import Snapshot, Traced, Triple
from experiments.kernels.star import star, star25_points
from memsim.machine import Machine
from tracegen import CudaWorkload

MOST_IN_Z = 64
"""Largest depth of a CUDA group (CUDA C++ Programming Guide, compute capability 7.0). The notebook
labels three shapes as 128 deep, but they were launched 64 deep, with half of the work-items: it
prints their grids, (316, 126, 8) for 2x4x128, and 504 points in 8 groups are 64 each."""
SNAPSHOT = Snapshot(waves=12, warmup=8)
"""Two groups of 1024 are resident on a core. Neighbouring rows of groups are up to 2 waves apart, and the halo
is reused over 9 rows: with a snapshot of 2 waves the DRAM load volume was up to 280 % too high."""


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The interior, and the length of the allocation's rows, in elements."""

    interior: Triple = (632, 504, 504)
    pitch: int = 640


def launched(shape: Triple) -> Triple:
    """The group shape that was launched under a label of the measurements."""
    return (shape[0], shape[1], min(shape[2], MOST_IN_Z))


def compiled_star(shape: Triple, machine: Machine, workload: Launched | None = None) -> Traced:
    """The stencil with groups of that shape, at most MOST_IN_Z deep, as `memsim profile` traces it: order of
    loads, where they are waited for, and registers are the compiler's.

    workload : the stencil's text and launch for a shape; by default as measured on the V100
    """
    given = (workload or star_workload)(shape)
    return lambda groups: tracegen.trace(given, machine, groups=groups, earlier=False)


Launched = Callable[[Triple], CudaWorkload]
"""Group shape -> the stencil, as it was launched with groups of that shape."""


def star_workload(shape: Triple) -> CudaWorkload:
    """The stencil as measured on the V100."""
    return star(**_grid(shape), filled=False)


def points_workload(points: tuple[int, int] = (1, 1)) -> Launched:
    """The stencil as measured on the H100.

    points : of a thread along y and z, one after another
    """
    return lambda shape: star25_points(
        **_grid(shape), points_y=points[0], points_z=points[1], filled=False
    )


def _grid(shape: Triple) -> dict[str, int]:
    x, y, z = launched(shape)
    nx, ny, nz = Grid().interior
    block = {"block_x": x, "block_y": y, "block_z": z}
    return {"nx": nx, "ny": ny, "nz": nz, "pitch": Grid().pitch, **block}
