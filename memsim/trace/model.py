"""The Trace: the global memory accesses of every sub-group in a snapshot of a launch, in program order.

A trace does not depend on caches. Addresses are recorded in granules of 32 bytes; the lines and
sectors of a machine are formed at replay. Ragged data is a flat array and an (n + 1) offset array.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from memsim.errors import TraceError

GRANULE_BYTES = 32
BARRIER_SITE = -1
"""The reserved site of a work-group barrier: an access without lanes and granules."""

Direction = Literal["load", "store", "atomic"]
DIRECTIONS: tuple[Direction, ...] = ("load", "store", "atomic")


@dataclass(frozen=True, kw_only=True)
class SourceLocation:
    """The position of a static access in the source: 1-based lines, None if unknown."""

    generated_line: int | None = None
    user_file: str | None = None
    user_line: int | None = None


@dataclass(frozen=True, kw_only=True)
class AccessSite:
    """One static access: a load, store or atomic in the kernel's text.

    name : unique within a trace (`x[ind[jj]]`, or the tag that the kernel gives it)
    depends_on : names of the sites whose loaded values determine this one's index
    bypasses_l1 : True for a load that the first level neither serves nor keeps (CUDA's volatile and
        `.STRONG.GPU` loads)
    """

    name: str
    array: str
    direction: Direction
    itemsize_bytes: int
    instruction: str = ""
    source: SourceLocation = field(default_factory=SourceLocation)
    depends_on: tuple[str, ...] = ()
    bypasses_l1: bool = False


@dataclass(frozen=True, kw_only=True)
class ArrayExtent:
    """The position of a global array in the address map of the trace."""

    name: str
    base_bytes: int
    size_bytes: int


@dataclass(frozen=True, kw_only=True)
class Launch:
    """The shape of the launch that a trace is a part of, and the resources of its groups.

    registers_per_item : None if no compiler reported it; occupancy is then not determined
    """

    kernel: str
    n_groups: int
    group_items: int
    grid: tuple[int, ...] = ()
    group_shape: tuple[int, ...] = ()
    local_memory_bytes: int = 0
    registers_per_item: int | None = None


@dataclass(frozen=True, kw_only=True)
class Trace:
    """One snapshot of one launch.

    Groups appear in ascending order of their ids, and the sub-groups of a group consecutively and in
    order, so `workgroup` is sorted. A trace of every group of a launch is `whole`; any other is a
    snapshot from inside the launch.

    sites : static accesses
    arrays : their address map
    workgroup : (n_subgroup,) int32, the group id of each sub-group
    subgroup_offset : (n_subgroup + 1,) int64, into the dynamic accesses
    site : (n_access,) int32, index of the static access; BARRIER_SITE for a barrier
    starts_sequence : (n_access,) bool, a new bulk sequence begins here. A barrier always begins one,
        and so does the access after it
    waits : (n_access,) int32, the latest earlier access of the same sub-group whose value is needed
        before this one is issued, counted from the first of the sub-group; -1 if there is none
    lanes : (n_access,) uint8, active lanes
    granule_offset : (n_access + 1,) int64, into the granules
    granule : (n_granule,) int64, byte address // 32; ascending and unique within an access
    byte_mask : (n_granule,) uint32, bit b: byte b of the granule is accessed
    lane_groups : (n_granule,) uint8, bit q: one of the lanes 8q..8q+7 accesses the granule
    lane_hits : (n_granule,) uint8 or None, number of lanes that access it (recorded for atomics)
    work : (n_access,) int32 or None, row of work_table: the machine instructions that the sub-group
        issues from its previous access, or its start, up to this access; those after its last access
        are counted with the last one. None where no machine code is known
    work_table : (n_row, n_kind) float64 or None, instructions of one sub-group by kind
    work_kinds : names of the kinds
    """

    sites: tuple[AccessSite, ...]
    arrays: tuple[ArrayExtent, ...]
    launch: Launch
    subgroup_size: int
    workgroup: npt.NDArray[np.int32]
    subgroup_offset: npt.NDArray[np.int64]
    site: npt.NDArray[np.int32]
    starts_sequence: npt.NDArray[np.bool_]
    waits: npt.NDArray[np.int32]
    lanes: npt.NDArray[np.uint8]
    granule_offset: npt.NDArray[np.int64]
    granule: npt.NDArray[np.int64]
    byte_mask: npt.NDArray[np.uint32]
    lane_groups: npt.NDArray[np.uint8]
    lane_hits: npt.NDArray[np.uint8] | None = None
    work: npt.NDArray[np.int32] | None = None
    work_table: npt.NDArray[np.float64] | None = None
    work_kinds: tuple[str, ...] = ()
    whole: bool = False
    generated_source: str = ""
    user_source: str = ""
    provenance: Mapping[str, Any] = field(default_factory=dict)

    granule_bytes: int = GRANULE_BYTES

    def __post_init__(self) -> None:
        for name, dtype in COLUMN_DTYPES.items():
            value = getattr(self, name)
            if value is None:
                continue
            array = np.ascontiguousarray(value, dtype=dtype)
            if array.flags.writeable:
                array = array.view()
                array.flags.writeable = False
            object.__setattr__(self, name, array)
        check_trace(self)

    @property
    def n_subgroup(self) -> int:
        return len(self.workgroup)

    @property
    def n_access(self) -> int:
        return len(self.site)

    @property
    def n_granule(self) -> int:
        return len(self.granule)

    @property
    def n_groups(self) -> int:
        """Number of groups traced."""
        return 1 + int(np.count_nonzero(np.diff(self.workgroup))) if self.n_subgroup else 0

    @property
    def site_names(self) -> tuple[str, ...]:
        return tuple(site.name for site in self.sites)

    def replace(self, **changes: Any) -> Trace:
        """A copy with some fields changed, checked again."""
        return dataclasses.replace(self, **changes)


COLUMN_DTYPES: dict[str, Any] = {
    "workgroup": np.int32,
    "subgroup_offset": np.int64,
    "site": np.int32,
    "starts_sequence": np.bool_,
    "waits": np.int32,
    "lanes": np.uint8,
    "granule_offset": np.int64,
    "granule": np.int64,
    "byte_mask": np.uint32,
    "lane_groups": np.uint8,
    "lane_hits": np.uint8,
    "work": np.int32,
    "work_table": np.float64,
}
"""Every array of a Trace, which is a column of a trace file, and its element type."""

_LENGTHS = {
    "workgroup": "n_subgroup",
    "site": "n_access",
    "starts_sequence": "n_access",
    "waits": "n_access",
    "lanes": "n_access",
    "granule": "n_granule",
    "byte_mask": "n_granule",
    "lane_groups": "n_granule",
    "lane_hits": "n_granule",
    "work": "n_access",
}


def check_trace(trace: Trace) -> None:
    """Raises TraceError where shapes, offsets or indices of a trace contradict each other."""
    if trace.granule_bytes != GRANULE_BYTES:
        raise TraceError(f"granule_bytes must be {GRANULE_BYTES}, got {trace.granule_bytes}")
    if trace.subgroup_size not in (8, 16, 32, 64):
        raise TraceError(f"subgroup_size must be 8, 16, 32 or 64, got {trace.subgroup_size}")
    names = trace.site_names
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise TraceError(f"site names must be unique, got {', '.join(twice)} more than once")
    for site in trace.sites:
        if site.direction not in DIRECTIONS:
            raise TraceError(
                f"direction of site {site.name} must be one of {', '.join(DIRECTIONS)},"
                f" got {site.direction}"
            )
        if site.bypasses_l1 and site.direction != "load":
            raise TraceError(f"site {site.name} is not a load: bypasses_l1 must be false")
    sizes = {
        "n_subgroup": len(trace.workgroup),
        "n_access": len(trace.site),
        "n_granule": len(trace.granule),
    }
    for name, size in _LENGTHS.items():
        value = getattr(trace, name)
        if value is not None and len(value) != sizes[size]:
            raise TraceError(f"{name} must have {size} = {sizes[size]} rows, got {len(value)}")
    _check_offsets("subgroup_offset", trace.subgroup_offset, sizes["n_subgroup"], sizes["n_access"])
    _check_offsets("granule_offset", trace.granule_offset, sizes["n_access"], sizes["n_granule"])
    if trace.n_access:
        low, high = int(trace.site.min()), int(trace.site.max())
        if low < BARRIER_SITE or high >= len(trace.sites):
            raise TraceError(
                f"site must index the {len(trace.sites)} sites or be {BARRIER_SITE},"
                f" got {low}..{high}"
            )
    _check_work(trace)
    if trace.n_granule and int(trace.granule.min()) < 0:
        raise TraceError(f"granule must not be negative, got {int(trace.granule.min())}")
    if trace.n_subgroup and np.any(trace.workgroup[1:] < trace.workgroup[:-1]):
        raise TraceError("workgroup must ascend: the sub-groups of a group are consecutive")


def _check_work(trace: Trace) -> None:
    if trace.work is None and trace.work_table is None:
        return
    if trace.work is None or trace.work_table is None:
        raise TraceError("work and work_table must be given together")
    n_kind = len(trace.work_kinds)
    if trace.work_table.ndim != 2 or trace.work_table.shape[1] != n_kind:
        raise TraceError(
            f"work_table must have a column for each of {n_kind} kinds,"
            f" got the shape {trace.work_table.shape}"
        )
    low, high = int(trace.work.min(initial=0)), int(trace.work.max(initial=-1))
    if low < 0 or high >= len(trace.work_table):
        raise TraceError(
            f"work must index the {len(trace.work_table)} rows of work_table, got {low}..{high}"
        )
    if not bool(np.all(trace.work_table >= 0)):
        raise TraceError("work_table must not be negative")


def _check_offsets(name: str, offset: npt.NDArray[np.int64], n_row: int, n_flat: int) -> None:
    if len(offset) != n_row + 1:
        raise TraceError(f"{name} must have {n_row + 1} rows, got {len(offset)}")
    if int(offset[0]) != 0 or int(offset[-1]) != n_flat or np.any(offset[1:] < offset[:-1]):
        raise TraceError(f"{name} must ascend from 0 to {n_flat}")
