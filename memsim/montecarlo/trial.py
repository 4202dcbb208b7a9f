"""One trial: one random but valid ordering of a trace's requests through a machine's levels."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from memsim.hierarchy import cache, dram
from memsim.hierarchy.buffers import aligned
from memsim.hierarchy.cache import N_COUNTS, Cache, Queue
from memsim.hierarchy.core_stage import (
    AT,
    END,
    GROUP,
    PARTIAL,
    REQUEST,
    START,
    SUBGROUP_WORDS,
    WEIGHT,
    Progress,
    clear,
    replay_core,
)
from memsim.hierarchy.levels import LevelPlan
from memsim.hierarchy.requests import CHUNK_GRANULES
from memsim.hierarchy.rng import trial_sequence
from memsim.hierarchy.shared_stage import BLOCK, Scratch, replay_shared
from memsim.hierarchy.translation import displaced, missed_translations, placement_key
from memsim.montecarlo.plan import SAMPLERS, Plan
from memsim.montecarlo.schedule import deal, initial_groups, set_starts
from memsim.trace.model import GRANULE_BYTES


@dataclass(frozen=True)
class TrialResult:
    """counts : (n_level, n_site, N_COUNTS) int64, columns as in memsim.hierarchy.cache; and what memory saw.

    missed_translations : (n_site,) int64, None where the machine says nothing of translation
    """

    trial: int
    counts: npt.NDArray[np.int64]
    dram: dram.DramSample
    dram_read_bytes: int
    dram_write_bytes: int
    missed_translations: npt.NDArray[np.int64] | None = None


Change = Callable[[list[LevelPlan]], list[LevelPlan]]


class Workspace:
    """Buffers that trials of one plan reuse: memory that was touched once is fast.

    shared : of another launch of a sequence: what it has is this one's too, where it fits
    """

    def __init__(self, plan: Plan, shared: Workspace | None = None) -> None:
        self.plan = plan
        self.levels: list[LevelPlan]
        self.caches: list[Cache]
        self.queues: list[Queue] = []
        if shared is not None and shared.plan.machine == plan.machine:
            self.levels, self.caches = shared.levels, shared.caches
        else:
            self.levels = plan.level_plans()
            kept = shared.caches[1:] if shared else [one.empty_cache() for one in self.levels[1:]]
            self.caches = [self.levels[0].empty_cache(), *kept]
        n_record, n_partial = len(plan.requests.request), len(plan.requests.partial)
        above = self.levels[0]
        for level in self.levels:
            g = level.geometry
            pieces, above = pieces_of(above, level), level
            # A level that keeps stores can send an eviction, a store and a fill for one request,
            # and what completes the sectors that it writes in part.
            keeps = g.write_back or g.write_allocate != cache.PASS
            most = 1 + 2 * keeps + 2 * (g.completes is not None)
            n_record = n_record * pieces * most + 1
            n_partial += 8
            # Untouched pages cost nothing: the bound is address space, not memory.
            self.queues.append(
                Queue(
                    np.empty(n_record, np.uint64),
                    np.empty(n_partial * (2 if g.write_back else 1), np.uint32),
                    np.zeros(2, np.int64),
                )
            )
        if shared is not None and all(
            len(theirs.record) >= len(own.record) and len(theirs.partial) >= len(own.partial)
            for theirs, own in zip(shared.queues, self.queues, strict=True)
        ):
            self.queues = shared.queues


def run_trial(
    plan: Plan,
    seed: int,
    trial: int,
    *,
    workspace: Workspace | None = None,
    change: Change | None = None,
    depth: int | None = None,
    launch: int = 0,
    kept: list[Cache] | None = None,
) -> TrialResult:
    """Replay one ordering; it depends on (seed, trial, launch) alone.

    change : alters the levels first (the kinds of misses are told apart with it)
    depth : how many levels to replay; memory is left out where it is not all of them
    kept : the caches as an earlier launch left them; the first level begins empty all the same
    """
    work = workspace or Workspace(plan)
    sequence = trial_sequence(seed, trial, launch)
    start_seed, core_seed, *level_seeds = sequence.spawn(3 + len(work.levels))
    dram_seed = level_seeds[-1]
    generator = np.random.default_rng(start_seed)
    fractions = generator.random(plan.machine.n_cores)
    if plan.ordering.dispatch == "random":
        n_group, n_cores = len(plan.deal.group), plan.machine.n_cores
        drawn = deal(n_group, n_cores, plan.resident, dispatch="random", generator=generator)
        plan = dataclasses.replace(plan, deal=drawn)
    levels, caches = work.levels, work.caches
    shift, places = moves(plan, seed, trial)
    if places is not None:
        levels = plan.moved(work.levels, shift, places)
        caches = [level.rehashed(state) for state, level in zip(caches, levels, strict=True)]
    if change is not None:
        levels = change(levels)
        caches = [level.empty_cache() for level in levels]
    if kept is not None:
        caches = [caches[0], *kept[1:]]
        if places is not None:
            caches = [level.rehashed(state) for state, level in zip(caches, levels, strict=True)]
    counts = np.zeros((len(levels), 2 * plan.n_sites, N_COUNTS), np.int64)
    core_states = _states(core_seed, plan.machine.n_cores)
    first, warm, last, partial_first, turns = core_stage(
        plan, levels[0], caches[0], counts[0], work.queues[0], core_states, fractions
    )
    missed = None
    if plan.machine.translation is not None:
        missed = missed_translations(
            plan.machine.translation,
            work.queues[0].record,
            first,
            last,
            plan.space.chunk if shift is None else plan.space.chunk + shift,
            max(levels[0].geometry.granules_per_line, levels[0].geometry.down_granules),
            plan.n_sites,
        )
    core_of_queue = np.arange(plan.machine.n_cores, dtype=np.int64)
    longest = max(int(turns.max(initial=0)), 1)
    n_replayed = len(levels) if depth is None else depth
    for k in range(1, n_replayed):
        source, queue = work.queues[k - 1], work.queues[k]
        level = plan.machine.levels[k]
        if kept is None:
            clear(levels[k].geometry, caches[k])
        else:
            levels[k].forget_pending(caches[k])
        queue.used[:] = 0
        rngs = _states(level_seeds[k], 2)
        below_latency = (
            plan.machine.levels[k + 1].latency_cycles
            if k + 1 < len(levels)
            else plan.machine.dram.latency_cycles
        )
        # Requests of this level that pass while one miss is under way, at the mean rate.
        turns_in_flight = min(below_latency / plan.machine.cycles_per_turn, plan.resident * 64)
        window = max(1, int(turns_in_flight * int(last[-1]) / longest))
        instance_of = level.partitions_of(core_of_queue)[: len(first)]
        if k > 1:
            instance_of = np.zeros(len(first), np.int64)
        passes = 2 if plan.ordering.warm_l2 else 1
        warm_below = 0
        for round_ in range(passes):
            uncounted = round_ < passes - 1
            target = np.zeros_like(counts[k]) if uncounted else counts[k]
            queue.used[:] = 0
            if round_ > 0:
                levels[k].forget_pending(caches[k])
            warm_below = replay_shared(
                levels[k].geometry,
                levels[k].tables,
                caches[k],
                target,
                queue,
                rngs,
                plan.n_sites,
                source,
                pieces_of(levels[k - 1], levels[k]),
                first.copy(),
                warm,
                last,
                partial_first.copy(),
                instance_of,
                levels[k - 1].pending_requests,
                window,
                Scratch(
                    order=np.empty(int((warm - first).sum()), np.int32),
                    active=np.empty(len(first), np.int64),
                    bytes_=np.zeros(8, np.uint32),
                    records=np.empty(BLOCK, np.uint64),
                    at=np.empty(BLOCK, np.int64),
                    partial_at=np.empty(BLOCK, np.int64),
                    instance=np.empty(BLOCK, np.int64),
                    core=np.empty(BLOCK, np.int64),
                ),
            )
        first = np.zeros(1, np.int64)
        warm = np.array([warm_below], np.int64)
        last = np.array([queue.used[0]], np.int64)
        partial_first = np.zeros(1, np.int64)
    sample = dram.DramSample(np.zeros(0, np.float32), float("nan"))
    if n_replayed == len(levels):
        sample = _dram_stage(plan, levels[-1], work.queues[-1], warm, last, dram_seed, places)
    counted = counts[:, : plan.n_sites]
    return TrialResult(
        trial=trial,
        counts=np.ascontiguousarray(counted if plan.machine.levels else counted[:0]),
        dram=sample,
        dram_read_bytes=int(counted[-1, :, cache.READ_GRANULES].sum()) * GRANULE_BYTES,
        dram_write_bytes=int(counted[-1, :, cache.WRITE_GRANULES].sum()) * GRANULE_BYTES,
        missed_translations=missed,
    )


def moves(
    plan: Plan, seed: int, trial: int
) -> tuple[npt.NDArray[np.int64] | None, npt.NDArray[np.int64] | None]:
    """By how many chunks each dense chunk is off its true one, None where none is: its address, as a
    core sees it, and its place in memory. Both are the trial's, not the launch's: arrays stay
    where they are from launch to launch."""
    shift = None
    if plan.ordering.random_bases:
        n_arrays = int(plan.array_of_chunk.max(initial=0)) + 1
        bases = np.random.default_rng([seed, trial])
        shift = bases.integers(0, 4096, size=n_arrays)[plan.array_of_chunk]
    translation = plan.machine.translation
    if translation is None or translation.placement == "contiguous":
        return shift, shift
    chunk = plan.space.chunk if shift is None else plan.space.chunk + shift
    off = displaced(chunk, translation.page_bytes, placement_key(seed, trial))
    return shift, off if shift is None else off + shift


def _states(sequence: np.random.SeedSequence, n: int) -> npt.NDArray[np.uint64]:
    return np.asarray(sequence.generate_state(n, np.uint64), np.uint64)


def pieces_of(above: LevelPlan, level: LevelPlan) -> int:
    """Lines of a level that one record from the level above spans."""
    return max(1, above.geometry.granules_per_line // level.geometry.granules_per_line)


def core_stage(
    plan: Plan,
    level: LevelPlan,
    state: Cache,
    counts: npt.NDArray[np.int64],
    queue: Queue,
    seeds: npt.NDArray[np.uint64],
    fractions: npt.NDArray[np.float64],
) -> tuple[npt.NDArray[np.int64], ...]:
    """Replay every core; where each one's records begin, end their warm-up, and end; and turns."""
    requests, machine = plan.requests, plan.machine
    n_subgroup, n_group = len(requests.group), len(requests.first_subgroup) - 1
    widest = int(np.diff(requests.first_subgroup).max(initial=0))
    begin = requests.subgroup_offset[:-1]
    words = aligned((n_subgroup, SUBGROUP_WORDS), np.int64)
    words[:] = 0
    words[:, AT] = words[:, START] = begin
    words[:, END] = requests.subgroup_offset[1:]
    words[:, REQUEST] = requests.first_request
    words[:, PARTIAL] = requests.first_partial
    words[:, WEIGHT] = plan.weight
    words[:, GROUP] = requests.group
    progress = Progress(
        subgroups=words.reshape(-1),
        held=np.zeros(n_subgroup, np.uint8),
        parked=np.zeros(n_subgroup, np.uint8),
        alive=np.zeros(n_group, np.int32),
        waiting=np.zeros(n_group, np.int32),
        counted=(plan.deal.wave >= plan.ordering.warmup_waves).astype(np.uint8),
        ring=np.zeros(1 << max(0, plan.resident * widest - 1).bit_length(), np.int32),
        ends=np.zeros(2, np.int64),
    )
    if plan.ordering.deviation:
        n_begun = min(n_group, machine.n_cores * plan.resident)
        for core in range(machine.n_cores):
            groups = initial_groups(plan.deal, core, plan.resident)
            fraction = np.full(len(groups), fractions[core])
            if plan.ordering.staggered:
                fraction = 1 - (groups + fractions[0]) / n_begun
            set_starts(requests, groups, fraction, progress.subgroups)
    below_latency = (
        machine.levels[1].latency_cycles if len(machine.levels) > 1 else machine.dram.latency_cycles
    )
    latency_turns = int(np.ceil(below_latency / machine.cycles_per_turn))
    first, warm, last, partial_first, turns = (
        np.zeros(machine.n_cores, np.int64) for _ in range(5)
    )
    queue.used[:] = 0
    geometry = level.geometry
    bytes_ = np.zeros(8, np.uint32)
    for core in range(machine.n_cores):
        first[core] = queue.used[0]
        partial_first[core] = queue.used[1]
        groups = plan.deal.of_core(core)
        if len(groups):
            clear(geometry, state)
            turns[core], warm[core] = replay_core(
                geometry,
                level.tables,
                state,
                counts,
                queue,
                seeds[core : core + 1],
                plan.n_sites,
                requests,
                progress,
                groups,
                plan.resident,
                SAMPLERS[plan.ordering.sampler],
                latency_turns,
                bytes_,
            )
        else:
            warm[core] = first[core]
        last[core] = queue.used[0]
    return first, warm, last, partial_first, turns


def _dram_stage(
    plan: Plan,
    level: LevelPlan,
    queue: Queue,
    warm: npt.NDArray[np.int64],
    last: npt.NDArray[np.int64],
    seed: np.random.SeedSequence,
    places: npt.NDArray[np.int64] | None,
) -> dram.DramSample:
    """Sample latencies of what reached memory after the warm-up; see `moves` for places."""
    waiting = last - warm
    n = int(waiting.sum())
    if n <= 0:
        return dram.DramSample(np.zeros(0, np.float32), float("nan"))
    generator = np.random.default_rng(seed)
    position, batch_offset = dram.sample_positions(
        generator, n, plan.machine.n_cores, plan.machine.subgroup_size
    )
    if len(waiting) > 1:  # no shared level has merged the cores' queues
        at = dram.merged_positions(generator, position, batch_offset, warm, waiting)
    else:
        at = int(warm[0]) + position
    line, mask, _, _, kind, _ = unpack_many(queue.record[at])
    granules = level.geometry.granules_per_line
    lowest = np.array([(m & -m).bit_length() - 1 if m else 0 for m in range(256)])[mask]
    dense = line * granules + lowest
    address = plan.space.true_granule(dense) * GRANULE_BYTES
    if places is not None:  # channels and banks depend on where a page lies, as sets do
        address = address + places[dense // CHUNK_GRANULES] * CHUNK_GRANULES * GRANULE_BYTES
    size = level.tables.n_granules[mask].astype(np.int64) * GRANULE_BYTES
    return dram.sample_latencies(
        plan.machine.dram,
        address_bytes=address,
        size_bytes=size,
        is_read=kind == cache.LOAD,
        batch_offset=batch_offset,
        generator=generator,
    )


def unpack_many(record: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.int64], ...]:
    """`memsim.hierarchy.cache.unpack` over an array: line, mask, full, site, kind, counted, each (n,)."""
    low = (record & np.uint64(0x7FFFFFFFFFFFFFFF)).astype(np.int64)
    return (
        low & 0x3FFFFFFF,
        (low >> 30) & 0xFF,
        (low >> 38) & 0xFF,
        (low >> 46) & 0x7FFF,
        low >> 61,
        (record >> np.uint64(63)).astype(np.int64),
    )


MissCache = Literal["unbounded", "associative"]


def with_miss_cache(k: int, cache_: MissCache) -> Change:
    """Makes level k unbounded, or fully associative LRU of its size."""

    def changed(levels: list[LevelPlan]) -> list[LevelPlan]:
        level = levels[k]
        slots = level.geometry.n_lines if cache_ == "unbounded" else level.n_slots
        return [*levels[:k], level.fully_associative(slots), *levels[k + 1 :]]

    return changed


def misses_with(
    plan: Plan, workspace: Workspace | None, seed: int, trial: int, k: int, cache_: MissCache
) -> npt.NDArray[np.int64]:
    """(n_site,) misses of level k where it is unbounded, or fully associative LRU of its size.

    The levels above are the real ones; the ordering is the trial's.
    """
    change = with_miss_cache(k, cache_)
    result = run_trial(plan, seed, trial, workspace=workspace, change=change, depth=k + 1)
    return misses_of(result.counts[k])


def miss_kinds(
    actual: npt.NDArray[np.int64],
    unbounded: npt.NDArray[np.int64],
    associative: npt.NDArray[np.int64],
) -> npt.NDArray[np.int64]:
    """(3, ...) cold, capacity and conflict misses out of three counts of misses, each (...).

    Hill's definitions: cold misses happen in an unbounded cache too; capacity misses, besides, in a
    fully associative LRU of the same size; conflict misses are the rest. Where the real level beats
    that LRU there are none, and all the rest is capacity.
    """
    cold = np.minimum(unbounded, actual)
    capacity = np.clip(np.minimum(associative, actual) - cold, 0, None)
    return np.stack([cold, capacity, actual - cold - capacity])


def misses_of(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """accesses - hits - pending over the last axis of counts."""
    missed: npt.NDArray[np.int64] = (
        counts[..., cache.ACCESSES] - counts[..., cache.HITS] - counts[..., cache.PENDING]
    )
    return missed
