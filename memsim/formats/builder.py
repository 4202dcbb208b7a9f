"""A Trace from accesses that come one by one, for formats that are read line by line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from memsim.errors import TraceError
from memsim.formats.extents import address_map
from memsim.trace.coalescing import coalesce
from memsim.trace.columns import Columns, GrowingColumns, in_order, room
from memsim.trace.model import (
    BARRIER_SITE,
    MAX_ADDRESS,
    AccessSite,
    ArrayExtent,
    Direction,
    Launch,
    Trace,
)

MAX_SITES = 32766
MAX_LANE_BYTES = 128
_ACCESSES, _SUBGROUPS = 1 << 12, 1 << 12
_GRANULES_OF_ACCESS = 64 * (MAX_LANE_BYTES // 32 + 1)
_GRANULES = 4 * _GRANULES_OF_ACCESS + (1 << 15)


@dataclass
class SeenSite:
    """low, high : granules that it touched, inclusive."""

    number: int
    name: str
    direction: Direction
    size_bytes: int
    low: int = MAX_ADDRESS
    high: int = -1
    array: str = ""


def name_arrays(sites: Iterable[SeenSite]) -> tuple[ArrayExtent, ...]:
    """Arrays that cover all that sites touched; each site gets the name of its own."""
    seen = list(sites)
    arrays = address_map((), [(site.low * 32, site.high * 32 + 31) for site in seen])
    for site in seen:
        site.array = arrays.name_at(site.low * 32)
    return arrays.arrays


@dataclass
class TraceBuilder:
    """`begin_subgroup`, then `access` and `barrier` in program order, then the next sub-group.

    Every access begins a sequence and waits for nothing, because such formats record no more.
    """

    memory_bytes: int = 1 << 28
    sites: dict[tuple[str, str], SeenSite] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.columns = GrowingColumns(memory_bytes=self.memory_bytes, keep_hits=True)
        self.out: Columns = room(_SUBGROUPS, _ACCESSES, _GRANULES)
        self.n_subgroup = self.n_access = self.n_granule = 0
        self.keys: list[tuple[int, int]] = []
        self.seen: set[tuple[int, int]] = set()
        self.in_subgroup = -1
        self.lanes = np.zeros((1, 64), np.int64)
        self.address = np.zeros(64, np.int64)
        self.requested = np.zeros(64 * (MAX_LANE_BYTES // 32 + 1), np.int64)

    def begin_subgroup(self, group: int, subgroup: int) -> None:
        """Raises TraceError if the sub-group has begun before."""
        key = (group, subgroup)
        if key in self.seen:
            raise TraceError(
                f"the rows of sub-group {subgroup} of group {group} must be consecutive"
            )
        if self.n_subgroup == _SUBGROUPS:
            self._flush()
        self._end_subgroup()
        self.seen.add(key)
        self.keys.append(key)
        self.in_subgroup = 0

    def site(self, name: str, direction: Direction, size_bytes: int) -> SeenSite:
        """The site of a name and direction; raises TraceError where its size differed before."""
        site = self.sites.get((name, direction))
        if site is None:
            if len(self.sites) == MAX_SITES:
                raise TraceError(f"a trace may have at most {MAX_SITES} sites")
            site = SeenSite(len(self.sites), name, direction, size_bytes)
            self.sites[name, direction] = site
        if site.size_bytes != size_bytes:
            raise TraceError(
                f"bytes of site {name} must be {site.size_bytes} as before, got {size_bytes}"
            )
        return site

    def access(self, site: SeenSite, lanes: Sequence[int], addresses: Sequence[int]) -> None:
        """lanes : ascending; addresses : bytes, one a lane."""
        low, high = min(addresses), max(addresses)
        if low < 0 or high >= MAX_ADDRESS:
            raise TraceError(
                f"an address must be between 0 and 2^57, got {high if low >= 0 else low}"
            )
        n = len(lanes)
        self._reserve()
        self.lanes[0, :n] = lanes
        self.address[:n] = addresses
        first = self.n_granule
        self.n_granule = coalesce(
            *(self.address, self.lanes, 0, n, site.size_bytes, self.requested, first),
            *(self.out.granule, self.out.byte_mask, self.out.lane_groups, self.out.lane_hits),
        )
        site.low = min(site.low, int(self.out.granule[first]))
        site.high = max(site.high, int(self.out.granule[self.n_granule - 1]))
        self._add(site.number, n)

    def barrier(self) -> None:
        self._reserve()
        self._add(BARRIER_SITE, 0)

    def trace(
        self,
        *,
        launch: Launch,
        subgroup_size: int,
        arrays: tuple[ArrayExtent, ...],
        provenance: dict[str, Any],
    ) -> Trace:
        """Raises TraceError where there is no sub-group."""
        if not self.keys:
            raise TraceError("contains no access")
        self._end_subgroup()
        self._flush()
        pairs = np.array(self.keys, np.int64)
        columns = self.columns.finish()
        # A key that keeps both orders: sub-groups of a group are fewer than the largest number.
        most = int(pairs[:, 1].max()) + 1
        columns, key = in_order(columns, pairs[:, 0] * most + pairs[:, 1], self.memory_bytes)
        workgroup: npt.NDArray[np.int32] = (key // most).astype(np.int32)
        seen = sorted(self.sites.values(), key=lambda site: site.number)
        times = Counter(site.name for site in seen)
        sites = tuple(
            AccessSite(
                name=site.name if times[site.name] == 1 else f"{site.name} ({site.direction})",
                array=site.array,
                direction=site.direction,
                itemsize_bytes=site.size_bytes,
            )
            for site in seen
        )
        if not any(site.direction == "atomic" for site in sites):
            columns.pop("lane_hits", None)
        n_traced = 1 + int(np.count_nonzero(np.diff(workgroup)))
        return Trace(
            sites=sites,
            arrays=arrays,
            launch=launch,
            subgroup_size=subgroup_size,
            workgroup=workgroup,
            whole=n_traced == launch.n_groups,
            provenance=provenance,
            **columns,
        )

    def _add(self, site: int, lanes: int) -> None:
        k, out = self.n_access, self.out
        out.site[k], out.starts_sequence[k], out.waits[k] = site, True, -1
        out.lanes[k], out.granule_end[k] = lanes, self.n_granule
        self.n_access += 1
        self.in_subgroup += 1

    def _reserve(self) -> None:
        if self.n_access == _ACCESSES or self.n_granule + _GRANULES_OF_ACCESS > _GRANULES:
            self._flush()

    def _end_subgroup(self) -> None:
        if self.in_subgroup >= 0:
            self.out.subgroup_accesses[self.n_subgroup] = self.in_subgroup
            self.n_subgroup += 1
            self.in_subgroup = -1

    def _flush(self) -> None:
        self.columns.append(self.out, self.n_subgroup, self.n_access, self.n_granule)
        self.n_subgroup = self.n_access = self.n_granule = 0
