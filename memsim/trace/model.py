"""The Trace: the global memory accesses of every sub-group in a snapshot of a launch, in program order.

A trace does not depend on caches. Addresses are recorded in granules of 32 bytes; the lines and
sectors of a machine are formed at replay. Ragged data is a flat array and an (n + 1) offset array.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field
from typing import Any, Literal, NoReturn

import numpy as np
import numpy.typing as npt

from memsim.errors import TraceError
from memsim.trace import columns_check
from memsim.visible import shown, visible

GRANULE_BYTES = 32
MAX_ADDRESS = 1 << 57
"""Byte addresses are below this: no GPU has wider ones, and hashes of a set index take time for each bit."""
MAX_GROUPS = MAX_LINE = (1 << 31) - 1
MAX_GROUP_ITEMS = 1 << 26
BARRIER_SITE = columns_check.BARRIER_SITE
"""The reserved site of a work-group barrier: an access without lanes and granules."""

Direction = Literal["load", "store", "atomic"]
DIRECTIONS: tuple[Direction, ...] = ("load", "store", "atomic")


@dataclass(frozen=True, kw_only=True)
class SourceLocation:
    """The position of a static access in the source: 1-based lines, None if unknown."""

    generated_line: int | None = None
    user_file: str | None = None
    user_line: int | None = None

    def __post_init__(self) -> None:
        _make_visible(self, "user_file")


@dataclass(frozen=True, kw_only=True)
class AccessSite:
    """One static access: a load, store or atomic in the kernel's text.

    name : unique within a trace (`x[ind[jj]]`, or the tag that the kernel gives it)
    depends_on : names of the sites whose loaded values determine this one's index
    bypasses_l1 : True for a load that the first level neither serves nor keeps (CUDA's volatile and
        `.STRONG.GPU` loads)
    nontemporal : True for a store whose lines a cache replaces first (AMD's `nt` and `slc`, NVIDIA's `.EF`)
    floating : True for an atomic operation on floating-point numbers, as far as machine code tells it
    scalar : True for a load that a scalar unit performs once for the sub-group (AMD's `s_load`); it does
        not occupy the pipe of the lanes' loads
    bulk : True for a copy of tiles by the core's unit for them (NVIDIA's TMA), which does not occupy that pipe either
    """

    name: str
    array: str
    direction: Direction
    itemsize_bytes: int
    instruction: str = ""
    source: SourceLocation = field(default_factory=SourceLocation)
    depends_on: tuple[str, ...] = ()
    bypasses_l1: bool = False
    nontemporal: bool = False
    floating: bool = False
    scalar: bool = False
    bulk: bool = False

    def __post_init__(self) -> None:
        _make_visible(self, "name", "array", "instruction")
        object.__setattr__(self, "depends_on", tuple(visible(name) for name in self.depends_on))


@dataclass(frozen=True, kw_only=True)
class ArrayExtent:
    """The position of a global array in the address map of the trace."""

    name: str
    base_bytes: int
    size_bytes: int

    def __post_init__(self) -> None:
        _make_visible(self, "name")


@dataclass(frozen=True, kw_only=True)
class Launch:
    """The shape of the launch that a trace is a part of, and the resources of its groups.

    registers_per_item : None if no compiler reported it; occupancy is then not determined
    tensor_columns : of tensor memory, that a group asks for
    cluster_groups : groups that run together and reach each other's local memory, whose ids follow each other; where that are
        several, ids are in the order in which hardware begins groups, else along the axes of the grid
    """

    kernel: str
    n_groups: int
    group_items: int
    grid: tuple[int, ...] = ()
    group_shape: tuple[int, ...] = ()
    local_memory_bytes: int = 0
    registers_per_item: int | None = None
    tensor_columns: int = 0
    cluster_groups: int = 1

    def __post_init__(self) -> None:
        _make_visible(self, "kernel")


def _make_visible(record: Any, *names: str) -> None:
    """Names appear in tables, files and terminals, which must not obey what is in them."""
    for name in names:
        value = getattr(record, name)
        if isinstance(value, str) and not value.isprintable():
            object.__setattr__(record, name, visible(value))


@dataclass(frozen=True, kw_only=True)
class Trace:
    """One snapshot of one launch. Raises TraceError where it breaks a rule (see check_trace).

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
        before this one is issued, counted from the first of the sub-group; -1 if there is none. Code of
        AMD's GPUs before gfx10 also waits for stores
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
    earlier : (n_range, 2) int64 or None, granules that earlier groups touch: ranges [first, end), ascending
        and disjoint. None where that is unknown
    warming : (n_subgroup,) int64 or None, how many of a sub-group's first accesses, barriers among them, are not counted, for
        they warm the caches. None where groups are traced whole; else each is traced in a window of its run, and the
        first groups are as far where it begins as those that a launch has in progress
    site_weight : (n_site,) float64 or None, executions of a site in whole groups over those in their windows
    earlier_groups : how many groups before the first traced one `earlier` covers, the latest ones
    launch_work : requests of the launch's mean group over those of the mean traced one
    launch_work_error : half-width of its 95 % interval; None where it is unknown, and taken to be 1
    occurrences : how many places of the launch are like this one, where snapshots beside it are samples of
        the rest: 1 for the start of the launch, and more for that of a layer of groups; 0 for a sample
    traced_part : of what its groups access; 1 where they are traced whole
    own_share : of the launch, that a window alone stands for, such as the end of its groups; 0 for a sample of the rest
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
    earlier: npt.NDArray[np.int64] | None = None
    warming: npt.NDArray[np.int64] | None = None
    site_weight: npt.NDArray[np.float64] | None = None
    earlier_groups: int = 0
    launch_work: float = 1.0
    launch_work_error: float | None = None
    occurrences: int = 0
    traced_part: float = 1.0
    own_share: float = 0.0
    whole: bool = False
    generated_source: str = ""
    user_source: str = ""
    provenance: Mapping[str, Any] = field(default_factory=dict)

    granule_bytes: int = GRANULE_BYTES
    accesses_are_checked: InitVar[bool] = False

    def __post_init__(self, accesses_are_checked: bool) -> None:
        for name, dtype in COLUMN_DTYPES.items():
            value = getattr(self, name)
            if value is None:
                continue
            array = np.ascontiguousarray(value, dtype=dtype)
            if array.flags.writeable:
                array = array.view()
                array.flags.writeable = False
            object.__setattr__(self, name, array)
        check_trace(self, accesses_are_checked=accesses_are_checked)

    def __repr__(self) -> str:
        traced = f"{self.n_groups:,} of {self.launch.n_groups:,} groups"
        return f"<Trace of {self.launch.kernel}: {traced}, {self.n_access:,} executions of {len(self.sites)} accesses>"

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
        """A copy with some fields changed, checked again as far as these matter."""
        same_sites = len(changes.get("sites", self.sites)) == len(self.sites)
        same_accesses = same_sites and _OF_ACCESSES.isdisjoint(changes)
        return dataclasses.replace(self, accesses_are_checked=same_accesses, **changes)


_COLUMNS: dict[str, tuple[Any, str]] = {
    "workgroup": (np.int32, "n_subgroup"),
    "subgroup_offset": (np.int64, ""),
    "site": (np.int32, "n_access"),
    "starts_sequence": (np.bool_, "n_access"),
    "waits": (np.int32, "n_access"),
    "lanes": (np.uint8, "n_access"),
    "granule_offset": (np.int64, ""),
    "granule": (np.int64, "n_granule"),
    "byte_mask": (np.uint32, "n_granule"),
    "lane_groups": (np.uint8, "n_granule"),
    "lane_hits": (np.uint8, "n_granule"),
    "work": (np.int32, "n_access"),
    "work_table": (np.float64, ""),
    "earlier": (np.int64, ""),
    "warming": (np.int64, "n_subgroup"),
    "site_weight": (np.float64, "n_site"),
}
"""Every array of a Trace: its element type, and what its length is, where that is one of these numbers."""
COLUMN_DTYPES: dict[str, Any] = {name: dtype for name, (dtype, _) in _COLUMNS.items()}
"""Every array of a Trace, which is a column of a trace file, and its element type."""

_MOST_BYTES = 1 << 40


def check_trace(trace: Trace, *, accesses_are_checked: bool = False) -> None:
    """Raises TraceError for the first rule that a trace breaks, with the access where it does.

    Compiled loops index with the columns of a trace and check nothing, so all that they rely on is
    checked here, whatever file or tool a trace comes from.
    """
    if trace.granule_bytes != GRANULE_BYTES:
        raise TraceError(f"granule_bytes must be {GRANULE_BYTES}, got {trace.granule_bytes}")
    if trace.subgroup_size not in (8, 16, 32, 64):
        raise TraceError(f"subgroup_size must be 8, 16, 32 or 64, got {trace.subgroup_size}")
    _check_sites(trace)
    _check_launch(trace.launch)
    for array in trace.arrays:
        if array.base_bytes < 0 or array.size_bytes < 0 or _end(array) > MAX_ADDRESS:
            raise TraceError(
                f"array {array.name} must lie between 0 and 2^57,"
                f" got {array.size_bytes} bytes at {array.base_bytes}"
            )
    _check_shapes(trace)
    _check_work(trace)
    if trace.n_subgroup and (
        np.any(trace.workgroup[1:] < trace.workgroup[:-1]) or int(trace.workgroup[0]) < 0
    ):
        raise TraceError("workgroup must ascend from 0: the sub-groups of a group are consecutive")
    if trace.n_subgroup and int(trace.workgroup[-1]) >= trace.launch.n_groups:
        raise TraceError(
            f"workgroup must be below the {trace.launch.n_groups} groups of the launch,"
            f" got {int(trace.workgroup[-1])}"
        )
    _check_earlier(trace)
    _check_launch_work(trace)
    _check_windows(trace)
    if not accesses_are_checked:
        _check_accesses(trace)


def _check_earlier(trace: Trace) -> None:
    first_group = int(trace.workgroup[0]) if trace.n_subgroup else 0
    if not 0 <= trace.earlier_groups <= first_group:
        raise TraceError(
            f"earlier_groups must be 0 to the {first_group} groups before the first traced one,"
            f" got {trace.earlier_groups}"
        )
    ranges = trace.earlier
    if ranges is None:
        return
    if ranges.ndim != 2 or ranges.shape[1] != 2:
        raise TraceError(f"earlier must have shape (n, 2), got {ranges.shape}")
    edges = ranges.reshape(-1)
    if len(edges) and (
        edges[0] < 0
        or edges[-1] > MAX_ADDRESS // GRANULE_BYTES
        or np.any(edges[1::2] <= edges[::2])
        or np.any(edges[2::2] < edges[1:-1:2])
    ):
        raise TraceError(
            "earlier must be ascending, disjoint ranges of granules between 0 and 2^52"
        )


def _check_launch_work(trace: Trace) -> None:
    error = trace.launch_work_error
    rules = (
        (0 < trace.launch_work <= MAX_GROUPS, "launch_work", "above 0 and below 2^31"),
        (error is None or 0 <= error <= MAX_GROUPS, "launch_work_error", "0 to 2^31"),
        (0 < trace.traced_part <= 1, "traced_part", "above 0 and at most 1"),
        (0 <= trace.own_share < 1, "own_share", "0 or more and below 1"),
        (0 <= trace.occurrences <= MAX_GROUPS, "occurrences", "0 to 2^31"),
    )
    for kept, name, rule in rules:
        if not kept:
            raise TraceError(f"{name} must be {rule}, got {getattr(trace, name)}")


def _check_windows(trace: Trace) -> None:
    if (trace.warming is None) != (trace.site_weight is None):
        raise TraceError("warming and site_weight must be given together")
    if trace.warming is None or trace.site_weight is None:
        return
    length = np.diff(trace.subgroup_offset)
    if np.any(trace.warming < 0) or np.any(trace.warming > length):
        raise TraceError("warming must be 0 to the accesses of the sub-group")
    weight = trace.site_weight
    if not bool(np.all(np.isfinite(weight)) and np.all(weight >= 0) and np.all(weight < 2.0**62)):
        raise TraceError("site_weight must not be negative, infinite or undefined")


def _check_sites(trace: Trace) -> None:
    counted = Counter(trace.site_names)
    if len(counted) != len(trace.sites):
        twice = sorted(name for name, times in counted.items() if times > 1)
        raise TraceError(f"site names must be unique, got {', '.join(twice[:4])} more than once")
    for site in trace.sites:
        if site.direction not in DIRECTIONS:
            raise TraceError(
                f"direction of site {site.name} must be one of {', '.join(DIRECTIONS)},"
                f" got {site.direction}"
            )
        for name, only in (("bypasses_l1", "load"), ("nontemporal", "store"), ("scalar", "load")):
            if getattr(site, name) and site.direction != only:
                raise TraceError(f"site {site.name} is not a {only}: {name} must be false")
        if not 0 <= site.itemsize_bytes <= _MOST_BYTES:
            raise TraceError(
                f"itemsize_bytes of site {site.name} must be 0 to {_MOST_BYTES},"
                f" got {site.itemsize_bytes}"
            )
        if max(site.source.generated_line or 0, site.source.user_line or 0) > MAX_LINE:
            raise TraceError(f"lines of site {site.name} must be below 2^31")
        unknown = [name for name in site.depends_on if name not in counted]
        if unknown:
            raise TraceError(
                f"depends_on of site {site.name} must name sites of the trace, got {unknown[0]}"
            )


def _check_launch(launch: Launch) -> None:
    bounds = {
        "n_groups": (1, MAX_GROUPS),
        "group_items": (1, MAX_GROUP_ITEMS),
        "local_memory_bytes": (0, _MOST_BYTES),
        "registers_per_item": (0, MAX_GROUP_ITEMS),
        "tensor_columns": (0, MAX_GROUP_ITEMS),
        "cluster_groups": (1, MAX_GROUP_ITEMS),
    }
    for name, (least, most) in bounds.items():
        value = getattr(launch, name)
        if value is not None and not least <= value <= most:
            raise TraceError(f"{name} of a launch must be {least} to {most}, got {value}")
    sizes = (*launch.grid, *launch.group_shape)
    if sizes and not 0 <= min(sizes) <= max(sizes) <= MAX_GROUPS:
        raise TraceError(f"sizes of a launch must be 0 to {MAX_GROUPS}, got {shown(sizes)}")


def _check_shapes(trace: Trace) -> None:
    sizes = {
        "n_subgroup": len(trace.workgroup),
        "n_access": len(trace.site),
        "n_granule": len(trace.granule),
        "n_site": len(trace.sites),
    }
    for name, (_, size) in _COLUMNS.items():
        value = getattr(trace, name)
        if size and value is not None and value.shape != (sizes[size],):
            raise TraceError(f"{name} must have {size} = {sizes[size]} rows, got {len(value)}")
    _check_offsets("subgroup_offset", trace.subgroup_offset, sizes["n_subgroup"], sizes["n_access"])
    _check_offsets("granule_offset", trace.granule_offset, sizes["n_access"], sizes["n_granule"])


def _check_offsets(name: str, offset: npt.NDArray[np.int64], n_row: int, n_flat: int) -> None:
    if offset.shape != (n_row + 1,):
        raise TraceError(f"{name} must have {n_row + 1} rows, got {len(offset)}")
    if int(offset[0]) != 0 or int(offset[-1]) != n_flat or np.any(offset[1:] < offset[:-1]):
        raise TraceError(f"{name} must ascend from 0 to {n_flat}")


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
    if not bool(np.all(np.isfinite(trace.work_table)) and np.all(trace.work_table >= 0)):
        raise TraceError("work_table must not be negative, infinite or undefined")


def _end(array: ArrayExtent) -> int:
    return array.base_bytes + array.size_bytes


def _covered(trace: Trace) -> npt.NDArray[np.int64]:
    """(n, 2) int64, the ranges [first, last] of granules that the arrays cover, ascending, disjoint."""
    ranges: list[list[int]] = []
    for base, end in sorted((one.base_bytes, _end(one)) for one in trace.arrays):
        if end == base:
            continue
        first, last = base // GRANULE_BYTES, (end - 1) // GRANULE_BYTES
        if ranges and first <= ranges[-1][1] + 1:
            ranges[-1][1] = max(ranges[-1][1], last)
        else:
            ranges.append([first, last])
    return np.array(ranges, np.int64).reshape(-1, 2)


_OF_ACCESSES = frozenset(
    {"arrays", "subgroup_size", "subgroup_offset", "site", "waits", "lanes"}
    | {"granule_offset", "granule", "byte_mask", "lane_groups"}
)
"""Fields on which `_check_accesses` depends, besides the number of sites."""


def _check_accesses(trace: Trace) -> None:
    rule, subgroup, access = columns_check.first_broken(
        trace.subgroup_offset,
        trace.site,
        trace.waits,
        trace.lanes,
        trace.granule_offset,
        trace.granule,
        trace.byte_mask,
        trace.lane_groups,
        _covered(trace),
        len(trace.sites),
        trace.subgroup_size,
    )
    if rule != columns_check.KEPT:
        _fail(trace, int(rule), int(subgroup), int(access))


def _fail(trace: Trace, rule: int, subgroup: int, access: int) -> NoReturn:
    begin, end = (int(bound) for bound in trace.granule_offset[access : access + 2])
    granules = trace.granule[begin:end][:4].tolist()
    got: dict[int, npt.NDArray[Any]] = {
        columns_check.SITE: trace.site,
        columns_check.WAITS: trace.waits,
        columns_check.LANES: trace.lanes,
    }
    text = {
        columns_check.SITE: f"site must index the {len(trace.sites)} sites or be {BARRIER_SITE}",
        columns_check.WAITS: "waits must be -1 or an earlier access of its sub-group",
        columns_check.LANES: f"lanes must be at most the sub-group's {trace.subgroup_size}",
        columns_check.BARRIER: "a barrier must have no lanes and no granules",
        columns_check.ORDER: f"granules of an access must ascend from 0, without repetition, got {granules}",
        columns_check.ARRAYS: f"granules must lie in the arrays of the trace, got {granules}",
        columns_check.MASK: "byte_mask of a granule must not be 0",
        columns_check.GROUPS: f"lane_groups of a granule must be 1 to {_all_groups(trace.subgroup_size)}",
    }[rule]
    value = f", got {int(got[rule][access])}" if rule in got else ""
    raise TraceError(f"{text}{value} (access {access}, in sub-group {subgroup})")


def _all_groups(subgroup_size: int) -> int:
    return (1 << (subgroup_size // 8)) - 1
