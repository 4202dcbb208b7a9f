"""The parts of a machine: cache levels, memory, address translation, and limits of occupancy.

Every number carries its unit in its name; `memsim.machine.file` describes the TOML.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from memsim.errors import MachineError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Replacement = Literal["lru", "lru_loads", "fifo", "plru", "random"]
SetIndex = Literal["modulo", "xor", "xor_next", "ipoly", "fermi", "hopper", "scatter"]
Interleaving = Literal["modulo", "xor", "xor_next", "ipoly", "scatter"]
WritePolicy = Literal["write_through", "write_back"]
WriteAllocate = Literal[
    "none", "no_fetch", "fetch_on_write", "lazy_fetch_on_read", "update_memory_and_fetch"
]


PORT_BYTES_PER_CYCLE = 64.0
"""Most that a core receives from the levels that it shares with others, or sends there, however few others do. Assumed: it is
the peak of Nsight Compute's metric l1tex__m_xbar2l1tex_read_bytes on NVIDIA's data-centre GPUs, and the width from L2 to a compute
unit in AMD's CDNA architecture whitepapers. One core of an H200 was seen to read 41 from DRAM, with 256 lines in flight."""
_STREAM_WRITES = 0.25
"""Part of the bytes that the stream writes by which sustained bandwidths are measured: a[i] = b[i] + c[i] d[i]."""
_LOCAL_BANK_BYTES = 4
"""Width of a bank of local memory."""


@dataclass(frozen=True, kw_only=True)
class Level:
    """One level of cache.

    size_bytes : data of one instance, all its slices together
    tagged_bytes : data that its tags suffice for, where that is more than it has room for; then, when all room
        is taken, each of the next four sets in turn gives up its oldest line. 0: as many as it has room for
    line_bytes : data under one tag; a power of two, at most 256
    sector_bytes : unit of validity and of transfers; line_bytes in an unsectored cache
    fill_bytes : what one missing sector fetches from below (a multiple of sector_bytes, at most
        line_bytes; V100's L2 fetches 64)
    ways : associativity; -1 is fully associative
    cores_per_instance : cores that share one instance: 1 for a private L1, all for a common L2,
        38 for the L2 of one MI300X die
    n_slices : address-interleaved slices of an instance; each has its own sets
    set_index : function from a line address to a set: `modulo`, `xor` (all upper bits folded onto
        the index), `xor_next` (only the bits next above the index), `ipoly` (remainder by an
        irreducible polynomial over GF(2)), `fermi` (Fermi's L1: 32 or 64 sets of 128-byte lines),
        `hopper` (the L1 of an H200: 512 sets of 128-byte lines),
        `scatter` (a hash: sets fill unevenly, as they do where physical pages are scattered)
    slice_index : the same for the slice; the number of slices need not be a power of two
    replacement : the line of a set that goes first: `lru` the least recently used; `lru_loads` likewise, but
        stores do not count as uses, what they put there goes before all others, and lines under way stay
        (as an H200's L1); `fifo` the first that came; `plru` by a tree of bits; `random`
    write_policy : `write_through` sends every store down; `write_back` keeps it until eviction
    write_allocate : what a store to an absent sector does. `none`: it goes to the next level.
        `no_fetch`: the line is allocated and the sector becomes valid. `fetch_on_write`: the sector
        is read from below first, unless the store covers it completely. `lazy_fetch_on_read`: the
        written bytes are kept under a byte mask, and the rest is read when a load needs it.
        `update_memory_and_fetch`: the store goes to the next level and the sector is read in, clean
        (the C2050; Baghsorkhi et al. 2012, section 2.1)
    write_hit : `update`, or `evict` (a store drops the line, as in Fermi's L1)
    caches_loads : False where loads bypass the level (Maxwell's default for global loads)
    store_hits_only_written : a store counts as a hit only on a sector that was stored to since it
        was filled (the C2050's counters; Baghsorkhi et al. 2012, section 2.1)
    allocate : when a missing line replaces another: `on_miss` (at the request) or `on_fill` (when
        the data arrive; until then the old line serves hits). Only a level that keeps no stores can
        allocate on fill, like GPGPU-Sim's streaming caches
    partial_write_back_percent : for `lazy_fetch_on_read` in the second level. When a store reaches a
        sector that a store of another core has written in part, this is the probability that the
        sector was completed from below and written back in the meantime
    completes_sectors : for `lazy_fetch_on_read`. Whether a sector that is evicted incomplete is completed from below
        first, as memory with error correction needs it; else it is written back under its byte mask. It is where
        partial_write_back_percent is positive
    n_partitions : partitions of an instance, each attached to an equal share of its cores. The slice
        of a line determines its home partition; the others keep copies (see
        memsim.hierarchy.partitions). The L2 of the A100, and of the data-centre GPUs of NVIDIA after it,
        has two
    far_latency_cycles : latency of a hit whose home is another partition, 0 without partitions
    pending_requests : misses that one instance can have in flight
    storage_bytes : size of the array that the level shares with local memory, 0 if it shares none
    local_carveouts_bytes : sizes of that array which local memory can take, ascending. The level
        has the rest
    carveout_takes : whether a carve-out reduces the `ways` or the `sets`, or the `data` of the same sets
    bank_bytes : width of a bank of the level's array, of which each delivers one word a cycle; 0 where the
        level delivers whole sectors. An array that is shared with local memory has banks of 4, unless stated
    latency_cycles : latency of a hit, in core clocks
    bandwidth_bytes_per_cycle : of one instance, in core clocks
    tags_per_cycle : distinct lines that one instance can look up in a cycle, in as many banks of tags; 0 if not known,
        and then one in the first level, and any number below
    store_look_ups, atomic_look_ups : as many look-ups of loads take as long as one line of a store, or one sector
        of an atomic operation, in a level that cores share
    line_atomic_cycles, line_float_atomic_cycles : of an atomic operation on integers, or on floating-point numbers,
        that another one on the same line follows; 0 if not measured
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
    tagged_bytes: int = 0
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
    completes_sectors: bool = False
    n_partitions: int = 1
    far_latency_cycles: float = 0.0
    pending_requests: int = 256
    storage_bytes: int = 0
    local_carveouts_bytes: tuple[int, ...] = ()
    carveout_takes: Literal["ways", "sets", "data"] = "ways"
    bank_bytes: int = 0
    tags_per_cycle: float = 0.0
    store_look_ups: float = 1.0
    atomic_look_ups: float = 1.0
    line_atomic_cycles: float = 0.0
    line_float_atomic_cycles: float = 0.0

    def __post_init__(self) -> None:
        if self.storage_bytes and not self.bank_bytes:
            object.__setattr__(self, "bank_bytes", _LOCAL_BANK_BYTES)
        if self.partial_write_back_percent:
            object.__setattr__(self, "completes_sectors", True)

    def n_instances(self, n_cores: int) -> int:
        """How many of them a machine with so many cores has."""
        return -(-n_cores // self.cores_per_instance)

    @property
    def first_tags_per_cycle(self) -> float:
        """tags_per_cycle of the first level."""
        return self.tags_per_cycle or 1.0

    @property
    def capacity_lines(self) -> int:
        """Lines that one instance has room for, all slices together."""
        return self.size_bytes // self.line_bytes

    @property
    def tagged_lines(self) -> int:
        """Lines that one instance has tags for, all slices together."""
        return (self.tagged_bytes or self.size_bytes) // self.line_bytes

    @property
    def n_ways(self) -> int:
        """Lines in a set; in a fully associative level, the lines of a slice."""
        return self.tagged_lines // self.n_slices if self.ways == -1 else self.ways

    @property
    def n_sets(self) -> int:
        """Sets of one slice."""
        return self.tagged_lines // (self.n_slices * self.n_ways)

    def partitions_of(self, core: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The partition that each core (n,) is attached to, numbered over all instances."""
        instance = core // self.cores_per_instance
        within = core % self.cores_per_instance
        return instance * self.n_partitions + within * self.n_partitions // self.cores_per_instance

    def size_beside(self, carveout_bytes: int) -> int:
        """The size that remains beside a carve-out, in bytes."""
        return self.size_bytes - (carveout_bytes - self.local_carveouts_bytes[0])

    @property
    def carveout_unit(self) -> str:
        """The unit that carve-outs take whole multiples of, in words."""
        if self.carveout_takes == "data":
            return "one line"
        return "one set of each slice" if self._gives_sets else "one way"

    @property
    def _gives_sets(self) -> bool:
        return self.carveout_takes == "sets" and self.ways != -1

    @property
    def carveout_unit_bytes(self) -> int:
        """The unit that carve-outs take whole multiples of, in bytes."""
        if self.carveout_takes == "data":
            return self.line_bytes
        lines = self.n_ways if self._gives_sets else self.n_sets
        return lines * self.n_slices * self.line_bytes

    def resized(self, size_bytes: int) -> Level:
        """The level with another size and no carve-outs: fewer or more ways, sets, or data of the same sets.

        Raises MachineError if size_bytes is not a whole number of ways, sets or lines.
        """
        if size_bytes == self.size_bytes:
            return self
        unit = self.carveout_unit_bytes
        if size_bytes < unit or size_bytes % unit:
            raise MachineError(
                f"size_bytes must be a multiple of {self.carveout_unit}, {unit} bytes,"
                f" got {size_bytes} (level '{self.name}')"
            )
        ways, tagged_bytes = self.ways, self.tagged_bytes
        if self.carveout_takes == "data":
            if tagged_bytes < size_bytes:  # more ways in the same sets
                of_ways = self.n_sets * self.line_bytes
                ways = -(-size_bytes // of_ways)
                tagged_bytes = ways * of_ways
        elif self.ways != -1 and not self._gives_sets:
            ways = size_bytes // unit
        return dataclasses.replace(
            self,
            size_bytes=size_bytes,
            ways=ways,
            tagged_bytes=tagged_bytes,
            storage_bytes=0,
            local_carveouts_bytes=(),
        )


@dataclass(frozen=True, kw_only=True)
class Dram:
    """Memory behind the last level: channels of banks with one open row each.

    burst_bytes : the smallest transfer
    latency_cycles : of a row-buffer hit without contention
    far_cycles : how much longer it is for the half of memory that is farther from a core, on another die; latency_cycles is the
        mean of both. 0 where all is as far
    row_miss_cycles, row_conflict_cycles : added where the bank is closed, or has another row open
    bandwidth_bytes_per_cycle : of all channels together, in core clocks
    sustained_bandwidth_bytes_per_cycle : what a stream achieves of it, 0 if not measured
    read_bandwidth_bytes_per_cycle : what a kernel achieves that only reads; 0 where it follows from its row misses, or is
        not measured. Where it misses more rows than the stream does, it loses as large a share as the stream would
    sustained_row_hits_percent : row-buffer hits of that stream in a replay; 0 if not known, and the
        bandwidth of all kernels is then that of the stream
    row_activations_per_cycle : rows that all channels together can open in a cycle, 0 if not known
    queue_cycles : service time of the queues in which requests wait that arrive at random: as in a queue with constant
        service time (M/D/1), a request waits queue_cycles r / (2 (1 - r)) where the part r of the bandwidth is used.
        0 if not known
    turnaround_cycles : how much longer loads wait where all of the bandwidth is used, half of it to write, for channels
        turn around between reads and writes; otherwise in proportion to the part of the time in which they read,
        and to that in which they write. 0 if not known
    refresh_cycles : time for which a channel serves nothing every refresh_interval_cycles; 0 for
        memory that never refreshes
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
    read_bandwidth_bytes_per_cycle: float = 0.0
    sustained_row_hits_percent: float = 0.0
    row_activations_per_cycle: float = 0.0
    queue_cycles: float = 0.0
    turnaround_cycles: float = 0.0
    far_cycles: float = 0.0

    def turnaround_cycles_at(self, written: float) -> float:
        """How much longer loads wait where all of the bandwidth is used, and this part of the bytes is written."""
        return 4 * written * (1 - written) * self.turnaround_cycles

    @property
    def usable_bandwidth_bytes_per_cycle(self) -> float:
        """The sustained bandwidth; the peak bandwidth if the sustained one was not measured."""
        return self.sustained_bandwidth_bytes_per_cycle or self.bandwidth_bytes_per_cycle

    def bandwidth_at(
        self, row_hit_ratio: float, bytes_per_row: float = math.inf, written: float = _STREAM_WRITES
    ) -> float:
        """The bandwidth in bytes per cycle that a kernel achieves whose requests hit open rows so often.

        What a stream loses of the peak bandwidth it loses by its row misses, and a kernel with more of them
        loses as much more. It is the usable bandwidth where the stream's row misses are not known, and
        where row_hit_ratio is NaN. No more rows are opened than the channels can open.

        bytes_per_row : that are transferred for every row that is opened
        written : part of the bytes; from none to as many as a stream writes, the bandwidth falls evenly from that of reads
        """
        hits = self._bandwidth_of_rows(row_hit_ratio)
        if self.read_bandwidth_bytes_per_cycle:
            reads = max(1 - written / _STREAM_WRITES, 0.0)
            of_rows = min(hits / self.usable_bandwidth_bytes_per_cycle, 1.0)
            hits += (self.read_bandwidth_bytes_per_cycle * of_rows - hits) * reads
        if not self.row_activations_per_cycle or math.isnan(bytes_per_row):
            return hits
        return min(hits, self.row_activations_per_cycle * bytes_per_row)

    def _bandwidth_of_rows(self, row_hit_ratio: float) -> float:
        usable, peak = self.usable_bandwidth_bytes_per_cycle, self.bandwidth_bytes_per_cycle
        missed = 1 - self.sustained_row_hits_percent / 100
        if missed in (0.0, 1.0) or usable >= peak or math.isnan(row_hit_ratio):
            return usable
        return 1 / (1 / peak + (1 / usable - 1 / peak) * (1 - row_hit_ratio) / missed)


@dataclass(frozen=True, kw_only=True)
class Translation:
    """A core's translation lookaside buffer, which translates the misses of its first level.

    entries : pages in the buffer, replaced LRU;  page_bytes : a power of two
    under_way : pages more whose translation may be under way, for which later requests wait, too
    miss_cycles : time for which a miss occupies the buffer
    placement : physical placement of pages, which determines the sets of the levels that cores
        share: `contiguous`, or `random`, drawn anew in every trial
    """

    entries: int
    page_bytes: int
    miss_cycles: float
    under_way: int = 0
    placement: Literal["contiguous", "random"] = "contiguous"


@dataclass(frozen=True, kw_only=True)
class Residency:
    """The resources that limit how many groups are resident on a core (occupancy).

    registers : of one core, 32 bits each
    register_allocation : `subgroup` rounds each sub-group's registers up to register_unit, `group`
        those of the whole group
    subgroup_granularity : with `group`, the number of sub-groups of a group is rounded up to a
        multiple of it; with `subgroup`, the number of equal banks that the registers are
        split into; the registers of a sub-group lie in one bank
    local_memory_reserved_bytes : local memory that the driver reserves in every group
    max_groups_of_one_subgroup : replaces max_groups for groups of a single sub-group, which need no
        barrier; 0 where there is no such limit
    tensor_columns : of tensor memory, where sums of products on tensor cores lie (NVIDIA from compute capability 10.0); 0 where there is none
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
    tensor_columns: int = 0
