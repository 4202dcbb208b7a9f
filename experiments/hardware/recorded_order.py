"""H200: loads in the order in which a core issued them, replayed through its L1, against the counted misses.

Little but the cache can be wrong then: the clocks are those of the issue, and L1 may serve the schedulers in a slightly
other order. The replays of `h100_stencil` and `v100_stencil` have the order to choose as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from experiments.data_files import rows, source
from experiments.hardware import drawing
from experiments.hardware.affine import Triple
from experiments.hardware.comparison import errors
from experiments.hardware.l1_carveouts import beside
from experiments.hardware.stencil_volumes import group_shape, label
from experiments.kernels.star_grid import StarGrid
from experiments.reproduction import Case, Figure
from memsim.hierarchy import ACCESSES, HITS, PENDING
from memsim.machine import Machine, load_machine
from memsim.montecarlo import make_plan, run_trial
from memsim.trace import GRANULE_BYTES, AccessSite, ArrayExtent, Launch, Trace

TABLE, COUNTERS = "h200_load_clocks.csv", "h200_load_sectors.csv"
GRID = StarGrid.checked(4, 632, 504, 504, 640)
LANES, ITEM_BYTES = 32, 8
LOADS: tuple[Triple, ...] = (
    *((-1, 0, 0), (0, 0, 0), (1, 0, 0), (-2, 0, 0), (2, 0, 0), (-3, 0, 0), (3, 0, 0), (-4, 0, 0)),
    *((4, 0, 0), (0, -1, 0), (0, 1, 0), (0, -2, 0), (0, 2, 0), (0, -3, 0), (0, 0, 1), (0, 3, 0)),
    *((0, -4, 0), (0, 4, 0), (0, 0, -1), (0, 0, -2), (0, 0, 2), (0, 0, -3), (0, 0, 3), (0, 0, -4)),
    (0, 0, 4),
)
"""Distances of the loads from the point, in the order of the machine code; the store follows."""
SRC_BASE, DST_BASE = 1 << 21, 1 << 32
BEFORE, COUNTED, STORED = range(3)
"""Sites of the trace: loads that fill the cache, those that are counted, and stores."""


class Recorded(NamedTuple):
    """Accesses of one core in the order of their issue: (n,) each.

    group : in order of number;  sub_group : of the group;  access : index of LOADS, or their number for the store
    counted : whether as many groups run as in the launch
    """

    group: npt.NDArray[np.int64]
    sub_group: npt.NDArray[np.int64]
    access: npt.NDArray[np.int64]
    counted: npt.NDArray[np.bool_]


def recorded_order(out: Path, quick: bool) -> Figure:
    """L1's misses in percent of the sectors that loads ask for, by group shape and local memory."""
    machine = load_machine("h200")
    counters = [row for row in rows(COUNTERS) if row["recording"] == "yes"]
    cases = []
    for row in counters[::3] if quick else counters:
        shape, shared_kb = group_shape(row), int(row["shared_kb"])
        asked, found = int(row["load_sectors"]), int(row["hit_sectors"])
        cases.append(
            Case(
                figure="recorded-order",
                case=f"{label(shape)}, {shared_kb} KB",
                quantity="l1_misses",
                unit="%",
                reference=100 * (1 - found / asked),
                ours=100
                * missed_share(recorded(shape, shared_kb), shape, beside(machine, shared_kb)),
                note="of the sectors that loads ask for",
            )
        )
    return Figure(
        reference_name="measured",
        name="recorded-order",
        title="H200, 25-point fp64 star stencil: L1 misses in the recorded order of a core",
        source=source(TABLE),
        cases=cases,
        findings=[f"L1 misses: {errors(cases, 'l1_misses')}"],
        pictures=[
            drawing.scatter(
                out / "recorded-order.png", cases, "H200: L1 misses in the recorded order, %"
            )
        ],
    )


def recorded(shape: Triple, shared_kb: int) -> Recorded:
    """The recorded accesses of groups of one shape beside local memory of this size."""
    table = [
        row
        for row in rows(TABLE)
        if group_shape(row) == shape and int(row["shared_kb"]) == shared_kb
    ]
    gaps = np.array([_gaps(row) for row in table])
    clock = np.cumsum(gaps, axis=1)
    group, sub_group = (
        np.array([int(row[name]) for row in table]) for name in ("group", "sub_group")
    )
    n_resident = 2048 // int(np.prod(shape))
    begins = np.array([clock[group == one, 0].min() for one in dict.fromkeys(group)])
    first, last = np.sort(begins)[[n_resident, -n_resident]]
    order = np.argsort(clock, axis=None, kind="stable")
    of, access = np.divmod(order, clock.shape[1])
    when = clock.reshape(-1)[order]
    return Recorded(group[of], sub_group[of], access, (when >= first) & (when < last))


def _gaps(row: Mapping[str, str]) -> Sequence[int]:
    return [int(row[name]) for name in ("begins", *(f"load_{k}" for k in range(1, 25)), "store")]


def missed_share(order: Recorded, shape: Triple, machine: Machine) -> float:
    """The share of the counted loads' sectors that the first level misses."""
    plan, _ = make_plan(order_trace(order, shape), machine)
    counts = run_trial(plan, 0, 0, depth=1).counts[0, COUNTED]
    return float(1 - (counts[HITS] + counts[PENDING]) / counts[ACCESSES])


def order_trace(order: Recorded, shape: Triple) -> Trace:
    """A trace of one sub-group that performs all accesses in this order."""
    n, (granule, byte_mask, offset) = len(order.access), _granules(order, shape)
    is_store = order.access == len(LOADS)
    size = GRID.n_element * ITEM_BYTES
    return Trace(
        sites=(
            AccessSite(name="before", array="src", direction="load", itemsize_bytes=ITEM_BYTES),
            AccessSite(name="counted", array="src", direction="load", itemsize_bytes=ITEM_BYTES),
            AccessSite(name="stored", array="dst", direction="store", itemsize_bytes=ITEM_BYTES),
        ),
        arrays=(
            ArrayExtent(name="src", base_bytes=SRC_BASE, size_bytes=size),
            ArrayExtent(name="dst", base_bytes=DST_BASE, size_bytes=size),
        ),
        launch=Launch(kernel="recorded", n_groups=1, group_items=LANES, registers_per_item=32),
        subgroup_size=LANES,
        workgroup=np.zeros(1, np.int32),
        subgroup_offset=np.array([0, n]),
        site=np.where(is_store, STORED, np.where(order.counted, COUNTED, BEFORE)).astype(np.int32),
        starts_sequence=np.ones(n, np.bool_),
        waits=np.full(n, -1, np.int32),
        lanes=np.full(n, LANES, np.uint8),
        granule_offset=offset,
        granule=granule,
        byte_mask=byte_mask,
        lane_groups=np.full(len(granule), 15, np.uint8),
        whole=True,
    )


def _granules(
    order: Recorded, shape: Triple
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """Granules and byte masks of the accesses, and the (n + 1,) offsets of each access."""
    item = order.sub_group[:, None] * LANES + np.arange(LANES)
    grid = [-(-points // size) for points, size in zip(GRID.interior, shape, strict=True)]
    group = [
        order.group % grid[0],
        order.group // grid[0] % grid[1],
        order.group // (grid[0] * grid[1]),
    ]
    within = [item % shape[0], item // shape[0] % shape[1], item // (shape[0] * shape[1])]
    x, y, z = (within[axis] + (group[axis] * shape[axis])[:, None] for axis in range(len(shape)))
    stride = np.array([1, GRID.pitch, GRID.plane])
    distance = np.array([*(np.dot(load, stride) for load in LOADS), 0])[order.access]
    element = GRID.first + x + GRID.pitch * y + GRID.plane * z + distance[:, None]
    base = np.where(order.access == len(LOADS), DST_BASE, SRC_BASE)[:, None]
    address = base + ITEM_BYTES * element
    runs = (x < GRID.interior[0]) & (y < GRID.interior[1]) & (z < GRID.interior[2])
    access = np.broadcast_to(np.arange(len(order.access))[:, None], address.shape)[runs]
    of_lane = address[runs] // GRANULE_BYTES
    pairs, inverse = np.unique(np.stack([access, of_lane], 1), axis=0, return_inverse=True)
    byte_mask = np.zeros(len(pairs), np.uint32)
    bits = np.uint32(0xFF) << (address[runs] % GRANULE_BYTES).astype(np.uint32)
    np.bitwise_or.at(byte_mask, inverse.reshape(-1), bits)
    offset = np.searchsorted(pairs[:, 0], np.arange(len(order.access) + 1))
    return pairs[:, 1], byte_mask, offset
