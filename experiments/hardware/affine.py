"""Traces of kernels whose addresses are linear in the work-item's coordinates, made without OpenCL.

The arrays of the measured problems have gigabytes. A replay needs only their addresses, which
follow from the coordinates. tests/experiments/test_hardware.py compares these traces with those of
`tracegen.trace`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from memsim.compile import hot
from memsim.machine import Machine
from memsim.trace import AccessSite, ArrayExtent, Direction, Launch, Trace

Triple = tuple[int, int, int]
Groups = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class AffineAccess:
    """One access of each work-item: element `first + strides . coordinates` of its array.

    row, rows : the access is executed where the work-item's y + row lies in rows (both ends
        included); it comes from a loop over y that was unrolled
    """

    name: str
    array: str
    direction: Direction
    first: int
    row: int = 0
    rows: tuple[int, int] = (-(1 << 30), 1 << 30)
    starts_sequence: bool = False


@dataclass(frozen=True, kw_only=True)
class AffineKernel:
    """A kernel on three-dimensional fp64 arrays, with x as the fastest axis.

    low, high : the lowest and highest coordinates of the work-items that execute the accesses
    tile : distance between neighbouring work-items, in points
    origin : coordinates of the first work-item
    grid_axes : the axis of each dimension of the grid, fastest dimension first
    elements : number of elements of each array; arrays follow one another, aligned to 256 bytes
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
"""The same as tracegen's allocator: 1 MiB, then aligned to 256 bytes."""


def bases_bytes(kernel: AffineKernel) -> dict[str, int]:
    """The first address of each array."""
    base, bases = FIRST_BASE_BYTES, {}
    for name, n in kernel.elements.items():
        bases[name] = base
        base += -(-n * ITEM_BYTES // _ALIGN) * _ALIGN
    return bases


@hot
def _write(groups, subgroup, geometry, table, filling, columns):  # type: ignore[no-untyped-def]
    """Count sub-groups, accesses and granules; with `filling`, also write them into the arrays.

    geometry : (8, 3) int64: strides, low, high, grid, group, tile, origin, grid_axes
    table : (n_access, 4) int64: first element, row, lowest and highest row
    columns : arrays in the order of COLUMNS
    """
    workgroup, subgroup_offset, site, lanes, granule_offset, granule, byte_mask, lane_groups = (
        columns
    )
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


def affine_traces(kernel: AffineKernel, machine: Machine) -> Callable[[Groups], Trace]:
    """Ids of groups -> their trace, with the machine's sub-groups."""
    return lambda groups: affine_trace(kernel, groups, machine.subgroup_size)


def affine_trace(kernel: AffineKernel, groups: Groups, subgroup_size: int) -> Trace:
    """The trace of some groups, given by their ids in ascending order."""
    columns = _columns(kernel, groups, subgroup_size)
    base = bases_bytes(kernel)
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
        waits=np.full(len(columns["site"]), -1, np.int32),
        whole=len(groups) == kernel.n_groups,
        provenance={"generator": "experiments.hardware.affine"},
        **columns,
    )


COLUMNS = {
    "workgroup": np.int32,
    "subgroup_offset": np.int64,
    "site": np.int32,
    "lanes": np.uint8,
    "granule_offset": np.int64,
    "granule": np.int64,
    "byte_mask": np.uint32,
    "lane_groups": np.uint8,
}
"""The columns of a trace that `_write` fills."""


def _columns(kernel: AffineKernel, groups: Groups, subgroup_size: int) -> dict[str, Any]:
    """The columns of the trace, without idle turns."""
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
    sizes = (0,) * len(COLUMNS)
    for filling in (False, True):  # the first pass counts
        arrays = tuple(np.empty(n, dtype) for n, dtype in zip(sizes, COLUMNS.values(), strict=True))
        s, a, q = _write(np.asarray(groups), subgroup_size, geometry, table, filling, arrays)
        sizes = (s, s + 1, a, a, a + 1, q, q, q)
    columns = dict(zip(COLUMNS, arrays, strict=True))
    starts = np.array([access.starts_sequence for access in kernel.accesses])[columns["site"]]
    first = columns["subgroup_offset"][:-1]
    starts[first[first < a]] = True
    return columns | {"starts_sequence": starts}
