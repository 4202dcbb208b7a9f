"""Small traces built from lists, and large ones built from arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from memsim.trace.model import BARRIER_SITE, AccessSite, ArrayExtent, Direction, Launch, Trace

Access = tuple[Any, ...]


def sites(*directions: Direction) -> tuple[AccessSite, ...]:
    return tuple(
        AccessSite(name=f"site{i}", array="a", direction=direction, itemsize_bytes=4)
        for i, direction in enumerate(directions)
    )


def make_trace(
    groups: Sequence[Sequence[Sequence[Access]]],
    directions: Sequence[Direction] = ("load",),
    *,
    subgroup_size: int = 32,
    whole: bool = True,
    **fields: Any,
) -> Trace:
    """groups[g][s] lists a sub-group's accesses: (site, granules[, starts[, byte_masks]]).

    site BARRIER_SITE is a barrier; every access starts a sequence unless `starts` is False.
    """
    workgroup, subgroup_offset = [], [0]
    site, starts, granule_offset = [], [], [0]
    granule: list[int] = []
    byte_mask: list[int] = []
    for g, subgroups in enumerate(groups):
        for accesses in subgroups:
            workgroup.append(g)
            for access in accesses:
                s, granules = access[0], sorted(access[1])
                site.append(s)
                starts.append(bool(access[2]) if len(access) > 2 else True)
                granule.extend(granules)
                byte_mask.extend(access[3] if len(access) > 3 else [0xFFFFFFFF] * len(granules))
                granule_offset.append(len(granule))
            subgroup_offset.append(len(site))
    n = len(site)
    return Trace(
        sites=sites(*directions),
        arrays=(
            ArrayExtent(name="a", base_bytes=0, size_bytes=32 * (max(granule, default=0) + 1)),
        ),
        launch=Launch(
            kernel="made",
            n_groups=max(len(groups), 1),
            group_items=subgroup_size * max((len(g) for g in groups), default=1),
        ),
        subgroup_size=subgroup_size,
        workgroup=np.array(workgroup, np.int32),
        subgroup_offset=np.array(subgroup_offset, np.int64),
        site=np.array(site, np.int32),
        starts_sequence=np.array(starts, np.bool_),
        waits=np.full(n, -1, np.int32),
        lanes=np.where(np.array(site) == BARRIER_SITE, 0, subgroup_size).astype(np.uint8),
        granule_offset=np.array(granule_offset, np.int64),
        granule=np.array(granule, np.int64),
        byte_mask=np.array(byte_mask, np.uint32),
        lane_groups=np.full(len(granule), (1 << (subgroup_size // 8)) - 1, np.uint8),
        whole=whole,
        **fields,
    )


def one_subgroup(accesses: Iterable[Access], *directions: Direction) -> Trace:
    """A launch of a single sub-group, which runs in program order."""
    return make_trace([[list(accesses)]], directions or ("load",))


def loads(granules: Iterable[int]) -> Trace:
    """A single sub-group that loads these granules one after another."""
    return one_subgroup((0, [g]) for g in granules)


def csr_like(
    n_rows: int = 200_000, per_row: int = 32, n_columns: int = 200_000, seed: int = 0
) -> Trace:
    """A scalar CSR product, one row a lane, rows of equal length: built with array operations."""
    rng = np.random.default_rng(seed)
    n_subgroup = n_rows // 32
    base = {"values": 0, "indices": n_rows * per_row * 4, "x": 2 * n_rows * per_row * 4}
    lane_row = np.arange(n_subgroup * 32).reshape(n_subgroup, 32)
    flat = []
    for j in range(per_row):
        element = lane_row * per_row + j
        flat.append((base["indices"] + 4 * element) // 32)
        column = rng.integers(0, n_columns, size=element.shape)
        flat.append((base["x"] + 4 * column) // 32)
        flat.append((base["values"] + 4 * element) // 32)
    lanes = np.stack(flat, axis=1)
    lanes.sort(axis=2)
    keep = np.ones(lanes.shape, bool)
    keep[:, :, 1:] = lanes[:, :, 1:] != lanes[:, :, :-1]
    n_per_access = keep.sum(axis=2).reshape(-1)
    n_access = n_subgroup * 3 * per_row
    site = np.tile(np.array([0, 1, 2], np.int32), n_subgroup * per_row)
    starts = np.tile(np.array([True, True, False]), n_subgroup * per_row)
    granule = lanes[keep]
    return Trace(
        sites=sites("load", "load", "load"),
        arrays=(ArrayExtent(name="a", base_bytes=0, size_bytes=int(granule.max() + 1) * 32),),
        launch=Launch(kernel="csr_like", n_groups=-(-n_subgroup // 4), group_items=128),
        subgroup_size=32,
        workgroup=(np.arange(n_subgroup) // 4).astype(np.int32),
        subgroup_offset=np.arange(n_subgroup + 1, dtype=np.int64) * (3 * per_row),
        site=site,
        starts_sequence=starts,
        waits=np.full(n_access, -1, np.int32),
        lanes=np.full(n_access, 32, np.uint8),
        granule_offset=np.concatenate([[0], np.cumsum(n_per_access)]).astype(np.int64),
        granule=granule,
        byte_mask=np.full(len(granule), 0xF, np.uint32),
        lane_groups=np.full(len(granule), 0x0F, np.uint8),
        whole=True,
    )
