"""A machine: what of a GPU (or CPU) decides where a memory request is served, and how late.

Machines are TOML files (see `memsim.machine.file`). Every number carries its unit in its name and
is written with where it comes from: `size_bytes = { value = 131072, source = "..." }`; a source
that begins with `assumed` says that nobody measured it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from memsim.errors import MachineError
from memsim.machine.rules import check_machine

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Replacement = Literal["lru", "fifo", "plru", "random"]
SetIndex = Literal["modulo", "xor", "xor_next", "ipoly", "fermi", "scatter"]
Interleaving = Literal["modulo", "xor", "xor_next", "ipoly", "scatter"]
Dispatching = Literal["round_robin", "dynamic", "random"]
WritePolicy = Literal["write_through", "write_back"]
WriteAllocate = Literal[
    "none", "no_fetch", "fetch_on_write", "lazy_fetch_on_read", "update_memory_and_fetch"
]


@dataclass(frozen=True, kw_only=True)
class Level:
    """One level of cache.

    size_bytes : of one instance (all its slices together), tags and data
    line_bytes : one tag covers this much; a power of two, at most 256
    sector_bytes : validity and transfers are tracked in these; line_bytes where unsectored
    fill_bytes : what one missing sector fetches from below (a multiple of sector_bytes, at most
        line_bytes; V100's L2 fetches 64)
    ways : lines in a set; -1 is fully associative
    cores_per_instance : how many cores share one instance: 1 for a private L1, all for a common L2,
        38 for the L2 of one MI300X die
    n_slices : address-interleaved slices of an instance; each has its own sets
    set_index : how a line address becomes a set: `modulo`, `xor` (all upper bits folded onto the
        index), `xor_next` (only the bits next above the index), `ipoly` (remainder of an irreducible
        polynomial over GF(2)), `fermi` (of its L1: 32 or 64 sets of 128-byte lines),
        `scatter` (as drawn at random: sets fill unevenly, as where physical pages lie scattered)
    slice_index : likewise for the slice; slices may be any number
    write_policy : `write_through` passes every store down; `write_back` keeps it until eviction
    write_allocate : what a store to an absent sector does. `none`: passes by. `no_fetch`: the line
        is allocated, the sector becomes valid. `fetch_on_write`: it is read from below first
        unless the store covers it whole. `lazy_fetch_on_read`: written bytes are kept under a
        mask, the rest is read when a load wants it. `update_memory_and_fetch`: it passes down and
        the sector is read in, clean (the C2050, seed 001 section 2.1)
    write_hit : `update`, or `evict` (the line is dropped, as Fermi's L1 does)
    caches_loads : False where loads pass by (Maxwell's default for global loads)
    store_hits_only_written : a store counts as a hit only on a sector that a store has written
        since it came in (the C2050's counters, seed 001 section 2.1)
    allocate : when a missing line takes its slot: `on_miss` (what it displaces goes at once) or
        `on_fill` (when its data come; until then the old line serves hits). The latter, and
        GPGPU-Sim's streaming caches, keep no stores
    partial_write_back_percent : of `lazy_fetch_on_read` where cores share: of the sectors that a store of
        one core has written in part when one of another core comes to them, so many were completed
        from below and written back meanwhile (of the second level, which alone knows who asks); all
        that are evicted incomplete are completed. 0: none are, and what goes, goes under its mask
    n_partitions : parts of an instance, each attached to as many of its cores. A line has its home in
        one, by its slice; the others keep copies (see memsim.hierarchy.partitions). A100 and H100 have two
    far_latency_cycles : of a hit at home in another partition, 0 where there is none
    pending_requests : misses that one instance can have in flight
    storage_bytes : of the array that the level shares with local memory, 0 where it shares none
    local_carveouts_bytes : the sizes that local memory can take of it, ascending. What the chosen
        one leaves is the level's size
    carveout_takes : what a carve-out takes away: `ways` (the number of sets stays) or `sets`
    latency_cycles : of a hit, in core clocks
    bandwidth_bytes_per_cycle : of one instance, in core clocks
    tags_per_cycle : distinct lines that one instance can look up a cycle
    """

    name: str
    size_bytes: int
    line_bytes: int
    sector_bytes: int
    fill_bytes: int
    ways: int
    latency_cycles: float
    bandwidth_bytes_per_cycle: float
    cores_per_instance: int = 1
    n_slices: int = 1
    replacement: Replacement = "lru"
    set_index: SetIndex = "modulo"
    slice_index: Interleaving = "modulo"
    write_policy: WritePolicy = "write_through"
    write_allocate: WriteAllocate = "none"
    write_hit: Literal["update", "evict"] = "update"
    caches_loads: bool = True
    store_hits_only_written: bool = False
    allocate: Literal["on_miss", "on_fill"] = "on_miss"
    partial_write_back_percent: float = 0.0
    n_partitions: int = 1
    far_latency_cycles: float = 0.0
    pending_requests: int = 256
    storage_bytes: int = 0
    local_carveouts_bytes: tuple[int, ...] = ()
    carveout_takes: Literal["ways", "sets"] = "ways"
    tags_per_cycle: float = 1.0

    @property
    def n_lines(self) -> int:
        """Lines of one instance, all slices together."""
        return self.size_bytes // self.line_bytes

    @property
    def n_ways(self) -> int:
        """Lines in a set; those of a whole slice where the level is fully associative."""
        return self.n_lines // self.n_slices if self.ways == -1 else self.ways

    @property
    def n_sets(self) -> int:
        """Sets of one slice."""
        return self.n_lines // (self.n_slices * self.n_ways)

    def partitions_of(self, core: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The partition that each core (n,) asks, numbered over all instances."""
        instance = core // self.cores_per_instance
        within = core % self.cores_per_instance
        return instance * self.n_partitions + within * self.n_partitions // self.cores_per_instance

    @property
    def carveout_unit(self) -> str:
        """What a carve-out takes whole numbers of, in words."""
        return "one set of each slice" if self._gives_sets else "one way"

    @property
    def _gives_sets(self) -> bool:
        return self.carveout_takes == "sets" and self.ways != -1

    @property
    def carveout_unit_bytes(self) -> int:
        """Likewise, in bytes."""
        lines = self.n_ways if self._gives_sets else self.n_sets
        return lines * self.n_slices * self.line_bytes

    def resized(self, size_bytes: int) -> Level:
        """The level with another size, in as many sets or ways: a carve-out is then settled.

        Raises MachineError where size_bytes is no whole number of ways or sets.
        """
        if size_bytes == self.size_bytes:
            return self
        unit = self.carveout_unit_bytes
        if size_bytes < unit or size_bytes % unit:
            raise MachineError(
                f"size_bytes must be a multiple of {self.carveout_unit}, {unit} bytes,"
                f" got {size_bytes} (level '{self.name}')"
            )
        ways = self.ways if self.ways == -1 or self._gives_sets else size_bytes // unit
        return dataclasses.replace(
            self, size_bytes=size_bytes, ways=ways, storage_bytes=0, local_carveouts_bytes=()
        )


@dataclass(frozen=True, kw_only=True)
class Dram:
    """Memory behind the last level: channels of banks with one open row each.

    burst_bytes : the smallest transfer; latency_cycles is what an unloaded row-buffer hit takes,
    row_miss_cycles and row_conflict_cycles come on top (closed bank; another row open);
    bandwidth_bytes_per_cycle is of all channels together, in core clocks;
    sustained_bandwidth_bytes_per_cycle what a stream gets of it, 0 where nobody measured it;
    refresh_cycles is how long a channel takes nothing every refresh_interval_cycles, 0 for never.
    """

    n_channels: int
    n_banks: int
    row_bytes: int
    interleave_bytes: int
    burst_bytes: int
    latency_cycles: float
    row_miss_cycles: float
    row_conflict_cycles: float
    bandwidth_bytes_per_cycle: float
    channel_index: Interleaving = "xor"
    refresh_interval_cycles: float = 0.0
    refresh_cycles: float = 0.0
    sustained_bandwidth_bytes_per_cycle: float = 0.0

    @property
    def usable_bandwidth_bytes_per_cycle(self) -> float:
        """What a stream gets; all of the bandwidth where nobody measured that."""
        return self.sustained_bandwidth_bytes_per_cycle or self.bandwidth_bytes_per_cycle


@dataclass(frozen=True, kw_only=True)
class Translation:
    """A core's buffer of address translations, which requests that its first level misses look up.

    entries : pages that it holds, least recently used out first;  page_bytes : a power of two
    miss_cycles : how long one that it does not hold keeps it busy
    placement : where pages lie in memory, as the sets of the levels that cores share see it:
        `contiguous`, or `random`, drawn anew in every trial
    """

    entries: int
    page_bytes: int
    miss_cycles: float
    placement: Literal["contiguous", "random"] = "contiguous"


@dataclass(frozen=True, kw_only=True)
class Residency:
    """What bounds how many groups a core holds at once (occupancy).

    registers : of one core, 32 bits each
    register_allocation : `subgroup` rounds each sub-group's registers up to register_unit, `group`
        the whole group's
    subgroup_granularity : with `group`, the number of sub-groups of a group is rounded up to it;
        with `subgroup`, it is the number of equal parts that the registers are split into, a
        sub-group's registers lying in one part
    local_memory_reserved_bytes : what the driver takes of local memory for every group
    max_groups_of_one_subgroup : instead of max_groups where a group is one sub-group and needs no
        barrier; 0 where that makes no difference
    """

    max_items: int
    max_subgroups: int
    max_groups: int
    max_group_items: int
    registers: int
    max_registers_per_item: int
    register_unit: int
    local_memory_bytes: int
    local_memory_unit_bytes: int
    register_allocation: Literal["subgroup", "group"] = "subgroup"
    subgroup_granularity: int = 1
    local_memory_reserved_bytes: int = 0
    max_groups_of_one_subgroup: int = 0


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A whole machine.

    coalesce_lanes : so many consecutive lanes are coalesced together (16 on C1060 and on AMD's)
    cycles_per_turn : core clocks between two turns of a core's load/store unit; with a level's
        latency it bounds how long a sector stays pending
    dispatch : how groups come to cores (see memsim.montecarlo.schedule.Dispatch)
    group_start_cycles : from where a group has room on a core to its first instruction's issue, and
        from its last to where its room is free, together; 0 where nobody measured it
    store_wait_cycles : from a group's last store to its end, where the group waits for it (AMD's do)
    translation : None where nobody measured it: no translation is then missed
    throughputs : operation name -> operations a core finishes per cycle: `fp32_fma`, `fp64_fma`,
        `int32_add`, `load_store_lanes`, ...; calib.prediction.throughputs lists them
    model_error_points : level name -> validated error of the model in points of hit ratio
    sources : dotted key -> where the number comes from (`n_cores`, `levels.L1.size_bytes`,
        `dram.n_banks`, `throughputs.fp32_fma`)

    Raises MachineError where a value breaks a rule.
    """

    name: str
    title: str
    vendor: str
    n_cores: int
    clock_hz: float
    subgroup_size: int
    coalesce_lanes: int
    cycles_per_turn: float
    levels: tuple[Level, ...]
    dram: Dram
    residency: Residency
    dispatch: Dispatching = "round_robin"
    group_start_cycles: float = 0.0
    store_wait_cycles: float = 0.0
    translation: Translation | None = None
    throughputs: Mapping[str, float] = field(default_factory=dict)
    model_error_points: Mapping[str, float] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_machine(self)

    @property
    def level_names(self) -> tuple[str, ...]:
        return tuple(level.name for level in self.levels)

    def replace(self, **changes: Any) -> Machine:
        """A copy with some fields changed, checked again."""
        return dataclasses.replace(self, **changes)

    def is_assumed(self, key: str) -> bool:
        """Whether nobody measured or published the value of a dotted key."""
        return self.sources.get(key, ASSUMED).startswith(ASSUMED)


ASSUMED = "assumed"
"""What the source of an unknown value begins with."""
