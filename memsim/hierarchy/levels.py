"""A machine's cache levels in the form that the hot loops take: numbers, mask tables, empty state."""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from memsim.errors import MachineError
from memsim.hierarchy import cache, replacement, stores
from memsim.hierarchy.cache import Cache, Geometry, Memory, Queue, Stage, Tables
from memsim.hierarchy.requests import CHUNK_GRANULES, DenseMap
from memsim.hierarchy.set_index import set_and_slice
from memsim.machine.parts import Level
from memsim.trace.model import GRANULE_BYTES

NO_SITES = np.zeros(0, np.uint8)
NO_PAST = np.zeros((2, 0), np.uint8)
"""No groups run before the traced ones; see memsim.hierarchy.cache.Cache."""


@dataclass(frozen=True)
class LevelPlan:
    """One level ready to replay: geometry, tables, and the set of every dense line.

    set_of : (touched_lines,) numbered over all partitions of an instance
    n_instances : every partition counts as one
    past : (touched_lines,) uint32, or (0,), see memsim.hierarchy.cache.Cache
    """

    name: str
    geometry: Geometry
    tables: Tables
    set_of: npt.NDArray[np.int32]
    n_instances: int
    pending_requests: int
    past: npt.NDArray[np.uint32]

    def empty_cache(self, memory: Memory | None = None) -> Cache:
        """State of all instances that `memsim.hierarchy.core_stage.clear` empties, in `memory` if given."""
        g = self.geometry
        n_bin = self.n_instances * g.n_sets
        array = functools.partial((memory or Memory()).array, self.name)
        lines = array("lines", (self.n_instances, g.touched_lines, 2), np.int32)
        # Before its first fill, a line may name any slot of its instance, because that slot holds another line.
        lines[:, :, 0] = np.arange(self.n_instances)[:, None] * g.n_sets * g.ways * g.stride
        lines[:, :, 1] = self.set_of % g.n_sets
        max_fills = self.n_instances * self.pending_requests if g.on_fill else 0
        n_words = n_bin * g.ways * g.stride
        n_ways = n_bin * g.ways if replacement.HAS_WAYS[g.replacement] else 1
        return Cache(
            lines=lines.reshape(-1),
            slots=array("slots", (n_words,), np.int32),
            stores=array("stores", (n_words if self.keeps_stores else 1,), np.int32),
            sets=array("sets", (n_bin,), np.int32),
            ways=array("ways", (n_ways,), np.uint8),
            data=array("data", (2 * self.n_instances if g.has_dataless else 1,), np.int32),
            home=self._homes(),
            in_flight=np.zeros(self.n_instances * g.touched_lines if g.on_fill else 1, np.uint8),
            fills=np.zeros(2 + 2 * max_fills, np.int64),
            past=self.past,
            unknown=array("unknown", (n_bin if len(self.past) else 0,), np.int32),
            traces=array("traces", (self.n_instances * len(self.past),), np.uint32),
        )

    def stage(
        self,
        state: Cache,
        counts: npt.NDArray[np.int64],
        queue: Queue,
        rng: npt.NDArray[np.uint64],
        nontemporal: npt.NDArray[np.uint8] = NO_SITES,
    ) -> Stage:
        """The level as the hot loops take it; counts : (2 * n_site, N_COUNTS)."""
        return Stage(
            geometry=self.geometry,
            tables=self.tables,
            cache=state,
            counts=counts,
            queue=queue,
            rng=rng,
            n_site=len(counts) // 2,
            store_bytes=np.zeros(8, np.uint32),
            nontemporal=nontemporal,
        )

    def rehashed(self, state: Cache) -> Cache:
        """The state with this plan's sets, which change with random bases and pages."""
        state.lines.reshape(self.n_instances, -1, 2)[:, :, 1] = self.set_of % self.geometry.n_sets
        state.home[:] = self._homes()
        return state

    def _homes(self) -> npt.NDArray[np.uint8]:
        if self.geometry.partitions == 1:
            return np.zeros(1, np.uint8)
        return (self.set_of // self.geometry.n_sets).astype(np.uint8)

    def forget_pending(self, state: Cache) -> None:
        """Restart the time: all requested data have arrived, and no core is still writing a sector."""
        words = state.slots.reshape(-1, self.geometry.stride)
        words[:, cache.TURNS : cache.TURNS + self.geometry.granules_per_line] = cache.LONG_AGO

    def assign_writes(self, state: Cache, site: int) -> None:
        """Every line that is present counts as written by this site from now on."""
        if self.keeps_stores:
            state.stores.reshape(-1, self.geometry.stride)[:, cache.WRITER] = site

    @property
    def keeps_stores(self) -> bool:
        """Whether lines may be dirty or partly written."""
        return self.geometry.write_back or self.geometry.write_allocate != stores.PASS

    def fully_associative(self, n_slots: int) -> LevelPlan:
        """The level as one LRU set of n_slots lines, from which Hill's three kinds of misses follow."""
        geometry = self.geometry._replace(
            n_sets=1, ways=max(1, n_slots), replacement=replacement.LRU, has_dataless=None
        )
        home = self._homes().astype(np.int32)
        set_of = home if len(home) == len(self.set_of) else np.zeros(len(self.set_of), np.int32)
        return dataclasses.replace(self, geometry=geometry, set_of=set_of)


def mask_tables(granules_per_line: int, sector_granules: int, fill_granules: int) -> Tables:
    """The 256-entry tables of a line of granules_per_line granules."""

    def widened(mask: int, unit: int) -> int:
        out = 0
        for low in range(0, granules_per_line, unit):
            part = ((1 << unit) - 1) << low
            if mask & part:
                out |= part
        return out

    line_mask = (1 << granules_per_line) - 1
    sectors = np.array([widened(m & line_mask, sector_granules) for m in range(256)], np.uint8)
    fill = np.array([widened(m & line_mask, fill_granules) for m in range(256)], np.uint8)
    popcount = np.array([m.bit_count() for m in range(256)], np.uint8)
    n_sectors = (popcount[sectors] // sector_granules).astype(np.uint8)
    return Tables(sectors=sectors, n_sectors=n_sectors, fill=fill, n_granules=popcount)


def plan_level(
    level: Level,
    below: Level | None,
    space: DenseMap,
    n_cores: int,
    past: npt.NDArray[np.uint8] = NO_PAST,
) -> LevelPlan:
    """A level for the dense lines of a trace.

    past : (2, n_chunk) granules of each chunk that groups before the snapshot may have touched, and that
        they are known to have touched, or (2, 0)

    Raises MachineError for plru with other than 2^n ways.
    """
    granules = level.line_bytes // GRANULE_BYTES
    if level.replacement == "plru" and level.n_ways & (level.n_ways - 1):
        raise MachineError(
            f"plru needs a power of two ways, got {level.n_ways} (level '{level.name}')"
        )
    geometry = Geometry(
        granules_per_line=granules,
        n_sets=level.n_sets * level.n_slices // level.n_partitions,
        ways=level.n_ways,
        touched_lines=len(space.chunk) * (CHUNK_GRANULES // granules),
        replacement=replacement.NUMBERS[level.replacement],
        write_back=level.write_policy == "write_back",
        write_allocate=stores.NUMBERS[level.write_allocate],
        evict_on_write=level.write_hit == "evict",
        caches_loads=level.caches_loads,
        written_hits_only=level.store_hits_only_written,
        down_granules=(below.line_bytes // GRANULE_BYTES) if below else granules,
        stride=slot_words(granules),
        partitions=level.n_partitions,
        in_partitions=True if level.n_partitions > 1 else None,
        on_fill=True if level.allocate == "on_fill" else None,
        completes=True if level.completes_sectors else None,
        completion_probability_x65536=round(level.partial_write_back_percent / 100 * 65536),
        has_dataless=True if level.tagged_bytes > level.size_bytes else None,
        data_lines=level.capacity_lines // level.n_partitions,
    )
    tables = mask_tables(
        granules, level.sector_bytes // GRANULE_BYTES, level.fill_bytes // GRANULE_BYTES
    )
    possible, touched = (tables.fill[_by_line(mask, granules)].astype(np.uint32) for mask in past)
    return LevelPlan(
        name=level.name,
        geometry=geometry,
        tables=tables,
        set_of=sets_of(level, space),
        n_instances=level.n_instances(n_cores) * level.n_partitions,
        pending_requests=level.pending_requests,
        past=possible | possible << np.uint32(cache.UNCLEAN) | touched << np.uint32(cache.TOUCHED),
    )


def _by_line(chunk_mask: npt.NDArray[np.uint8], granules_per_line: int) -> npt.NDArray[np.uint8]:
    """(n_line,) the granule masks of lines, from those of chunks (n_chunk,)."""
    shifts = np.arange(0, CHUNK_GRANULES, granules_per_line, dtype=np.uint8)
    line_mask = np.uint8((1 << granules_per_line) - 1)
    return ((chunk_mask[:, None] >> shifts) & line_mask).reshape(-1)


def sets_of(level: Level, space: DenseMap) -> npt.NDArray[np.int32]:
    """(touched_lines,) the set of each dense line, numbered over all slices."""
    return set_and_slice(
        space.true_lines(level.line_bytes // GRANULE_BYTES),
        n_sets=level.n_sets,
        n_slices=level.n_slices,
        set_index=level.set_index,
        slice_index=level.slice_index,
    )


def slot_words(granules_per_line: int) -> int:
    """Words of a slot, a multiple of 8 so that few straddle two cache lines of the CPU."""
    return -(-(cache.TURNS + granules_per_line) // 8) * 8


def passing_level(granules_per_line: int, n_lines: int) -> LevelPlan:
    """A level that caches nothing, for cores without caches: they queue their requests through it."""
    geometry = Geometry(
        granules_per_line=granules_per_line,
        touched_lines=n_lines,
        down_granules=granules_per_line,
        stride=slot_words(granules_per_line),
    )
    return LevelPlan(
        name="",
        geometry=geometry,
        tables=mask_tables(granules_per_line, 1, 1),
        set_of=np.zeros(n_lines, np.int32),
        n_instances=1,
        pending_requests=1 << 30,
        past=np.zeros(0, np.uint32),
    )
