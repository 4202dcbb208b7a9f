"""The 25-point fp64 star stencil of Ernst et al. (JPDC 2023), measured on a V100 in 43 group
shapes.

dst = 0.25 * (sum of 25 points of src), with one work-item for each point. The interior has 632 x
504 x 504 points, in an allocation of 640 x 512 x 512 whose first interior element is aligned.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from experiments.hardware.affine import AffineAccess, AffineKernel, Triple, with_sequences
from experiments.hardware.volumes import Snapshot

RANGE = 4
ALIGN_ELEMENTS = 32
CORE_REGISTERS = 65536
"""The measurement's notebook assumes one group a core (te42kyfo/warpspeed, commit fcdc19f,
pystencils-volumes.ipynb: `Blocks per SM: 1`). That group has all the registers; a group of 1024
needs them."""
MOST_IN_Z = 64
"""Largest depth of a CUDA group (CUDA C++ Programming Guide, compute capability 7.0). The notebook
labels three shapes as 128 deep, but they were launched 64 deep, with half of the work-items: it
prints their grids, (316, 126, 8) for 2x4x128, and 504 points in 8 groups are 64 each."""
LOADS_IN_FLIGHT = 8
"""Assumed. 25 values of 64 bits and their addresses do not fit into 64 registers, so a compiler
cannot issue all loads together. `memsim reproduce hardware --only snapshots` shows how much the
volumes depend on it."""
SNAPSHOT = Snapshot(waves=24, warmup=16)
"""Neighbouring rows of groups are up to 4 waves apart, and the halo is reused over 9 rows: with a
snapshot of 4 waves the DRAM load volume was up to 280 % too high."""


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The interior, and the length of the allocation's rows and planes, in elements."""

    interior: Triple = (632, 504, 504)
    pitch: int = 640
    rows: int = 512

    @property
    def plane(self) -> int:
        return self.pitch * self.rows


def offsets() -> list[tuple[str, Triple]]:
    """Names and offsets of the 25 points, in the order of experiments.kernels.stencil.star25."""
    points: list[tuple[str, Triple]] = [("centre", (0, 0, 0))]
    for axis, letter in enumerate("xyz"):
        for distance in range(1, RANGE + 1):
            for side, sign in (("minus", -1), ("plus", 1)):
                step = [0, 0, 0]
                step[axis] = sign * distance
                points.append((f"{letter}_{side}{distance}", (step[0], step[1], step[2])))
    return points


def launched(shape: Triple) -> Triple:
    """The group shape that was launched under a label of the measurements."""
    return (shape[0], shape[1], min(shape[2], MOST_IN_Z))


def star_kernel(
    shape: Triple, grid: Grid | None = None, loads_in_flight: int = LOADS_IN_FLIGHT
) -> AffineKernel:
    """The stencil with groups of that shape, at most MOST_IN_Z deep."""
    grid, group = grid or Grid(), launched(shape)
    corner = RANGE * (grid.plane + grid.pitch + 1)
    lead = -corner % ALIGN_ELEMENTS
    first = lead + corner
    elements = lead + grid.plane * (grid.interior[2] + 2 * RANGE)
    strides = (1, grid.pitch, grid.plane)
    accesses = [
        AffineAccess(
            name=name,
            array="src",
            direction="load",
            first=first + sum(o * s for o, s in zip(offset, strides, strict=True)),
        )
        for name, offset in offsets()
    ]
    accesses.append(AffineAccess(name="dst", array="dst", direction="store", first=first))
    nx, ny, nz = grid.interior
    kernel = AffineKernel(
        name=f"star25 {group[0]}x{group[1]}x{group[2]}",
        accesses=tuple(accesses),
        elements={"src": elements, "dst": elements},
        strides=strides,
        low=(0, 0, 0),
        high=(nx - 1, ny - 1, nz - 1),
        grid=(-(-nx // group[0]), -(-ny // group[1]), -(-nz // group[2])),
        group=group,
        registers_per_item=CORE_REGISTERS // max(256, math.prod(group)),
    )
    return with_sequences(kernel, loads_in_flight)
