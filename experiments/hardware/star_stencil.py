"""V100: the 25-point fp64 star stencil of Ernst et al. (JPDC 2023) in 43 shapes of group.

dst = 0.25 * (sum of 25 points of src), one work-item a point; the interior is 632 x 504 x 504 in an
allocation of 640 x 512 x 512 whose first interior element is aligned.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from experiments.hardware.affine import AffineAccess, AffineKernel, Triple, with_sequences
from experiments.hardware.volumes import Snapshot

RANGE = 4
ALIGN_ELEMENTS = 32
CORE_REGISTERS = 65536
"""One group a core is what the measurement's own notebook takes (te42kyfo/warpspeed, commit fcdc19f,
pystencils-volumes.ipynb: `Blocks per SM: 1`), so each has all registers: a group of 1024 cannot have more."""
MOST_IN_Z = 64
"""CUDA's groups are no deeper (CUDA C++ Programming Guide, compute capability 7.0). The notebook's three
shapes of 128 were launched as 64, with half of the work-items: it prints their grids, (316, 126, 8) for
2x4x128, and 504 points in 8 groups are 64 each."""
LOADS_IN_FLIGHT = 8
"""Assumed: 25 values of 64 bits and their addresses do not fit into 64 registers, so a compiler
cannot issue all loads at once. How much hangs on it is in the README's table."""
SNAPSHOT = Snapshot(waves=24, warmup=16)
"""Rows of groups lie up to 4 waves apart and the halo is used over 9 rows: a snapshot of 4 waves
made DRAM load up to 280 % too high."""


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Interior points and the allocation's rows and planes, in elements."""

    interior: Triple = (632, 504, 504)
    pitch: int = 640
    rows: int = 512

    @property
    def plane(self) -> int:
        return self.pitch * self.rows


def offsets() -> list[tuple[str, Triple]]:
    """Names and offsets of the 25 points, as experiments.kernels.stencil.star25 loads them."""
    found: list[tuple[str, Triple]] = [("centre", (0, 0, 0))]
    for axis, letter in enumerate("xyz"):
        for distance in range(1, RANGE + 1):
            for side, sign in (("minus", -1), ("plus", 1)):
                step = [0, 0, 0]
                step[axis] = sign * distance
                found.append((f"{letter}_{side}{distance}", (step[0], step[1], step[2])))
    return found


def launched(shape: Triple) -> Triple:
    """The shape of group that a label of the measurements stands for."""
    return (shape[0], shape[1], min(shape[2], MOST_IN_Z))


def star_kernel(
    shape: Triple, grid: Grid | None = None, loads_in_flight: int = LOADS_IN_FLIGHT
) -> AffineKernel:
    """The stencil in groups of that shape, at most 64 deep."""
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
