"""Traces of kernels whose addresses are linear in the work-item's coordinates, without OpenCL.

The measured problems have arrays of gigabytes; only addresses matter, and those of a stencil are
known. tests/experiments/test_hardware.py holds this against `tracegen.trace`.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from memsim.compile import hot
from memsim.trace import AccessSite, ArrayExtent, Direction, Launch, Trace

Triple = tuple[int, int, int]
Groups = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class AffineAccess:
    """One access of each work-item: element first + strides . coordinates of its array.

    rows : it happens where the work-item's y + row lies in low..high; a loop over y was unrolled
    idle_turns : turns that a sub-group lets pass before it, beside those that its sequences take
    """

    name: str
    array: str
    direction: Direction
    first: int
    row: int = 0
    rows: tuple[int, int] = (-(1 << 30), 1 << 30)
    starts_sequence: bool = False
    idle_turns: int = 0


@dataclass(frozen=True, kw_only=True)
class AffineKernel:
    """A kernel of fp64 arrays in three dimensions, x fastest.

    low, high : the work-items whose coordinates lie between take part
    tile : neighbouring work-items are so many points apart
    origin : the coordinates of the first work-item
    grid_axes : the axis that each dimension of the grid walks, fastest first
    elements : of each array; they lie one behind the other, 256-byte aligned
    """

    name: str
    accesses: tuple[AffineAccess, ...]
    elements: dict[str, int]
    strides: Triple
    low: Triple
    high: Triple
    grid: Triple
    group: Triple
    tile: Triple = (1, 1, 1)
    origin: Triple = (0, 0, 0)
    grid_axes: Triple = (0, 1, 2)
    registers_per_item: int | None = None

    @property
    def n_groups(self) -> int:
        return math.prod(self.grid)

    @property
    def group_items(self) -> int:
        return math.prod(self.group)


ITEM_BYTES = 8
_ALIGN = 256
FIRST_BASE_BYTES = 1 << 20
"""As tracegen's allocator: 1 MiB, then 256-byte aligned."""


def bases_bytes(kernel: AffineKernel) -> dict[str, int]:
    """Where each array begins."""
    base, found = FIRST_BASE_BYTES, {}
    for name, n in kernel.elements.items():
        found[name] = base
        base += -(-n * ITEM_BYTES // _ALIGN) * _ALIGN
    return found


@hot
def _write(groups, subgroup, geometry, table, filling, workgroup, subgroup_offset, site, lanes, granule_offset, granule, byte_mask, lane_groups):  # type: ignore[no-untyped-def]  # fmt: skip
    """Count sub-groups, accesses and granules, and where `filling` write them.

    geometry : (7, 3) int64: strides, low, high, grid, group, tile, origin; and axes in (7,)
    table : (n_access, 4) int64: first element, row, lowest and highest row
    """
    strides, low, high, grid = geometry[0], geometry[1], geometry[2], geometry[3]
    group, tile, origin, axes = geometry[4], geometry[5], geometry[6], geometry[7]
    n_items = group[0] * group[1] * group[2]
    s, a, q = np.int64(0), np.int64(0), np.int64(0)
    for g in groups:
        at0, at1, at2 = g % grid[0], g // grid[0] % grid[1], g // (grid[0] * grid[1])
        bx = at0 if axes[0] == 0 else (at1 if axes[1] == 0 else at2)
        by = at0 if axes[0] == 1 else (at1 if axes[1] == 1 else at2)
        bz = at0 if axes[0] == 2 else (at1 if axes[1] == 2 else at2)
        for first in range(0, n_items, subgroup):
            if filling:
                workgroup[s] = g
                subgroup_offset[s] = a
            s += 1
            for k in range(len(table)):
                n, current, begin = 0, np.int64(-1), q
                for lane in range(min(subgroup, n_items - first)):
                    t = first + lane
                    x = origin[0] + tile[0] * (bx * group[0] + t % group[0])
                    y = origin[1] + tile[1] * (by * group[1] + t // group[0] % group[1])
                    z = origin[2] + tile[2] * (bz * group[2] + t // (group[0] * group[1]))
                    if x < low[0] or y < low[1] or z < low[2]:
                        continue
                    if x > high[0] or y > high[1] or z > high[2]:
                        continue
                    if y + table[k, 1] < table[k, 2] or y + table[k, 1] > table[k, 3]:
                        continue
                    n += 1
                    element = table[k, 0] + strides[0] * x + strides[1] * y + strides[2] * z
                    if element >> 2 != current:
                        current = element >> 2
                        if filling:
                            granule[q] = current
                            byte_mask[q] = 0
                            lane_groups[q] = 0
                        q += 1
                    if filling:
                        byte_mask[q - 1] |= np.uint32(0xFF) << np.uint32(8 * (element & 3))
                        lane_groups[q - 1] |= np.uint8(1 << (lane >> 3))
                if n:
                    if filling:
                        site[a] = k
                        lanes[a] = n
                        granule_offset[a] = begin
                    a += 1
    if filling:
        subgroup_offset[s] = a
        granule_offset[a] = q
    return s, a, q


def affine_trace(kernel: AffineKernel, groups: Groups, subgroup_size: int) -> Trace:
    """The trace of these groups, ascending ids."""
    base = bases_bytes(kernel)
    geometry = np.array(
        [
            *(kernel.strides, kernel.low, kernel.high, kernel.grid),
            *(kernel.group, kernel.tile, kernel.origin, kernel.grid_axes),
        ],
        np.int64,
    )
    table = np.array(
        [
            (a.first + base[a.array] // ITEM_BYTES + a.row * kernel.strides[1], a.row, *a.rows)
            for a in kernel.accesses
        ],
        np.int64,
    )
    sizes = (0,) * 8
    for filling in (False, True):
        columns = [
            np.empty(n, dtype)
            for n, dtype in zip(
                sizes,
                (
                    *(np.int32, np.int64, np.int32, np.uint8),
                    *(np.int64, np.int64, np.uint32, np.uint8),
                ),
                strict=True,
            )
        ]
        s, a, q = _write(np.asarray(groups), subgroup_size, geometry, table, filling, *columns)
        sizes = (s, s + 1, a, a, a + 1, q, q, q)
    workgroup, subgroup_offset, site, lanes, granule_offset, granule, byte_mask, lane_groups = (
        columns
    )
    starts = np.array([access.starts_sequence for access in kernel.accesses])[site]
    starts[subgroup_offset[:-1][subgroup_offset[:-1] < a]] = True
    idle = np.array([access.idle_turns for access in kernel.accesses])
    if idle.any():
        # An access that asks for nothing takes a turn.
        copies = 1 + idle[site]
        at = np.repeat(np.arange(a), copies)
        is_idle = np.ones(len(at), np.bool_)
        is_idle[np.cumsum(copies) - 1] = False
        subgroup_offset = np.concatenate([[0], np.cumsum(copies)])[subgroup_offset]
        granule_offset = np.append(granule_offset[at], granule_offset[-1])
        site, starts = site[at], starts[at] | is_idle
        lanes = np.where(is_idle, 0, lanes[at]).astype(np.uint8)
    return Trace(
        sites=tuple(
            AccessSite(
                name=access.name,
                array=access.array,
                direction=access.direction,
                itemsize_bytes=ITEM_BYTES,
            )
            for access in kernel.accesses
        ),
        arrays=tuple(
            ArrayExtent(name=name, base_bytes=base[name], size_bytes=n * ITEM_BYTES)
            for name, n in kernel.elements.items()
        ),
        launch=Launch(
            kernel=kernel.name,
            n_groups=kernel.n_groups,
            group_items=kernel.group_items,
            grid=kernel.grid,
            group_shape=kernel.group,
            registers_per_item=kernel.registers_per_item,
        ),
        subgroup_size=subgroup_size,
        workgroup=workgroup,
        subgroup_offset=subgroup_offset,
        site=site,
        starts_sequence=starts,
        waits=np.full(len(site), -1, np.int32),
        lanes=lanes,
        granule_offset=granule_offset,
        granule=granule,
        byte_mask=byte_mask,
        lane_groups=lane_groups,
        whole=len(groups) == kernel.n_groups,
        provenance={"generator": "experiments.hardware.affine"},
    )


def with_sequences(kernel: AffineKernel, loads: int) -> AffineKernel:
    """The kernel with bulk sequences of at most so many accesses; a store begins one."""
    accesses, left, was = [], 0, "none"
    for access in kernel.accesses:
        starts = left == 0 or access.direction != was
        left = loads - 1 if starts else left - 1
        was = access.direction
        accesses.append(dataclasses.replace(access, starts_sequence=starts))
    return dataclasses.replace(kernel, accesses=tuple(accesses))
