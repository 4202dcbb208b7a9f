"""One trial: one random but valid ordering of a trace's requests through a machine's levels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from memsim.hierarchy import cache, dram
from memsim.hierarchy.cache import N_COUNTS, Cache, Memory, Queue, Stage, aligned
from memsim.hierarchy.core_stage import (
    AT,
    END,
    GROUP,
    PARTIAL,
    REQUEST,
    START,
    SUBGROUP_WORDS,
    WEIGHT,
    CoreQueues,
    Progress,
    clear,
    unpack_accesses,
)
from memsim.hierarchy.levels import LevelPlan
from memsim.hierarchy.requests import CHUNK_GRANULES
from memsim.hierarchy.rng import trial_sequence
from memsim.hierarchy.shared_stage import BATCH, Scratch, Sources, replay_shared
from memsim.hierarchy.sub_cores import SubCores, Timing, empty_sub_cores, replay_cores
from memsim.hierarchy.translation import missed_translations, page_offsets, placement_key
from memsim.montecarlo.options import GREEDY
from memsim.montecarlo.plan import SAMPLERS, ChunkOffsets, Plan
from memsim.montecarlo.schedule import Schedule, most_epochs, schedule, set_starts, slice_ends
from memsim.trace.model import GRANULE_BYTES

BASE_STEPS = 4096
"""Random bases are multiples of 256 bytes within 1 MiB."""
SAMPLED_TURNS = 64
"""Upper bound of the duration of a shared level's miss, in turns of each resident group."""


@dataclass(frozen=True)
class TrialResult:
    """The counts of one ordering, and the requests that reached memory.

    counts : (n_level, n_site, N_COUNTS) int64, columns as in memsim.hierarchy.cache
    missed_translations : (n_site,) int64, None where the machine does not describe translation
    dirty : (n_level, n_site) int64, granules of the shared levels that are dirty at the end, by the site
        of the last store
    unfilled : (n_level,) int64, slots of the shared levels that may still hold what groups before the
        snapshot left
    """

    trial: int
    counts: npt.NDArray[np.int64]
    dram: dram.DramSample
    dram_read_bytes: int
    dram_write_bytes: int
    missed_translations: npt.NDArray[np.int64] | None
    dirty: npt.NDArray[np.int64]
    unfilled: npt.NDArray[np.int64]


class Queued(NamedTuple):
    """The requests that a stage has queued for the next one.

    first, last : (n_queue,) int64, the records of queue q are queue.record[first[q]:last[q]]
    warm : (n_queue,) int64, the end of those from before counting began
    partial_first : (n_queue,) int64, the queue's first partial mask
    """

    queue: Queue
    first: npt.NDArray[np.int64]
    warm: npt.NDArray[np.int64]
    last: npt.NDArray[np.int64]
    partial_first: npt.NDArray[np.int64]


Change = Callable[[list[LevelPlan]], list[LevelPlan]]


class Workspace:
    """Buffers that trials of one plan reuse, and after them those of another plan with the same memory.

    others : further launches of a sequence, for which the queues suffice too
    shared : the workspace of such a launch, whose core has another first level; the rest is shared
    """

    def __init__(
        self,
        plan: Plan,
        memory: Memory | None = None,
        *,
        others: Sequence[Plan] = (),
        shared: Workspace | None = None,
    ) -> None:
        self.plan, self.memory, self._shared = plan, memory or Memory(), shared
        self._use = (
            object()
        )  # not this object: in a circle of references, memory would wait for Python's collector
        self.levels: list[LevelPlan] = plan.level_plans(shared.levels[1:] if shared else None)
        self._lengths = [] if shared else _queue_lengths(self.levels, [plan, *others])
        self.take()

    def take(self) -> None:
        """Prepare the memory for this plan's trials, if it has been used for others."""
        if self.memory.use is self._use:
            return
        self.memory.use = self._use
        first, *below = self.levels
        self.caches: list[Cache] = [first.empty_cache(self.memory)]
        if self._shared:
            self.caches += self._shared.caches[1:]
            self.queues: list[Queue] = self._shared.queues
            return
        self.caches += [level.empty_cache(self.memory) for level in below]
        self.queues = [
            Queue(
                self.memory.array(k, "record", (n_record,), np.uint64),
                self.memory.array(k, "partial", (n_partial,), np.uint32),
                np.zeros(2, np.int64),
            )
            for k, (n_record, n_partial) in enumerate(self._lengths)
        ]


def _queue_lengths(levels: Sequence[LevelPlan], plans: Sequence[Plan]) -> list[tuple[int, int]]:
    """The records and partial masks of the queue below each level, enough for any ordering of any of the plans.

    Untouched pages cost nothing: the bound is address space, not memory.
    """
    lengths = []
    loads, stores = (max(numbers) for numbers in zip(*map(_loads_and_stores, plans), strict=True))
    n_partial = max(len(plan.requests.partial) for plan in plans)
    above = levels[0]
    for level in levels:
        span, above = lines_in_record(above, level), level
        loads, stores = _sent_down(level, span * loads, span * stores)
        granules = level.geometry.granules_per_line * _dirty_before(level)
        n_partial += 8
        twice = 2 if level.geometry.write_back else 1
        lengths.append((loads + stores + 1, n_partial * twice + granules))
    return lengths


def _loads_and_stores(plan: Plan) -> tuple[int, int]:
    """Number of a plan's requests that load, and of those that store; atomic operations count as stores."""
    kinds, counts = unpack_accesses(plan.requests.access)
    stores = int(counts[(kinds == cache.STORE) | (kinds == cache.ATOMIC)].sum(dtype=np.int64))
    return len(plan.requests.request) - stores, stores


def _dirty_before(level: LevelPlan) -> int:
    """Lines that earlier launches can have left dirty: as many as there are slots."""
    geometry = level.geometry
    return level.n_instances * geometry.n_sets * geometry.ways if geometry.write_back else 0


def _sent_down(level: LevelPlan, loads: int, stores: int) -> tuple[int, int]:
    """Upper bounds of the loads and of the stores that a level sends to the next one.

    A request can fetch its line. A store can be passed on, and what it has written is evicted once, where that of an
    earlier launch may have been dirty already; if sectors are completed, each with its load and a store of its own.
    """
    dirty = stores + _dirty_before(level)
    completed = dirty if level.geometry.completes is not None else 0
    evicted = dirty if level.keeps_stores else 0
    return loads + stores + completed, stores + evicted + completed


class Prepared(NamedTuple):
    """What a trial replays on: addresses, and levels with their caches; launches may share it."""

    offsets: ChunkOffsets
    levels: list[LevelPlan]
    caches: list[Cache]

    def shared(self, depth: int | None = None) -> Iterator[tuple[LevelPlan, Cache]]:
        """The levels behind the first, of the first `depth`, with their caches."""
        return zip(self.levels[1:depth], self.caches[1:depth], strict=True)

    def clear(self, depth: int | None = None) -> None:
        """Empty the shared levels."""
        for level, state in self.shared(depth):
            clear(level.geometry, state)

    def begin_launch(self, plan: Plan, depth: int | None = None) -> None:
        """Another launch follows: what is in flight arrives, and a line that an earlier launch has
        written counts in no site of this one when it is written back."""
        for level, state in self.shared(depth):
            level.forget_pending(state)
            level.assign_writes(state, plan.n_sites)


def run_trial(
    plan: Plan,
    seed: int,
    trial: int,
    *,
    workspace: Workspace | None = None,
    change: Change | None = None,
    depth: int | None = None,
) -> TrialResult:
    """Replay one ordering; it depends on (seed, trial) alone.

    change : alters the levels first (used to classify misses)
    depth : number of levels to replay; memory is replayed only after all of them
    """
    work = workspace or Workspace(plan)
    prepared = prepare(plan, work, seed, trial, change)
    prepared.clear(depth)
    return run_launch(plan, work.queues, prepared, trial_sequence(seed, trial), trial, depth)


def run_launch(
    plan: Plan,
    queues: list[Queue],
    prepared: Prepared,
    sequence: np.random.SeedSequence,
    trial: int,
    depth: int | None = None,
) -> TrialResult:
    """Replay one ordering of a launch, from the contents that the shared levels have."""
    offsets, levels, caches = prepared
    start_seed, core_seed, *level_seeds, dram_seed = sequence.spawn(3 + len(levels))
    ordering = plan.ordering
    drawn = schedule(
        plan.work,
        plan.machine.n_cores,
        plan.resident,
        np.random.default_rng(start_seed),
        dispatch=ordering.dispatch,
        inside=ordering.deviation,
        waves_before=ordering.waves_before,
        dies=plan.machine.n_dies,
        over=_warmed(plan),
    )
    n_rows = plan.n_sites + 1  # the last one: what earlier launches wrote
    counts = np.zeros((len(levels), 2 * n_rows, N_COUNTS), np.int64)

    streams = _streams(core_seed, plan.machine.n_cores)
    stage = levels[0].stage(caches[0], counts[0], queues[0], streams, plan.nontemporal)
    queued, turns, began = core_stage(plan, stage, streams, drawn)
    ends = slice_ends(drawn, plan.resident, began, queued.warm, queued.last)
    missed = _missed_translations(plan, levels[0], queued, offsets)
    longest = max(int(turns.max(initial=0)), 1)
    n_replayed = len(levels) if depth is None else depth
    for k in range(1, n_replayed):
        draws, victims = np.split(_streams(level_seeds[k], 2), 2)
        stage = levels[k].stage(caches[k], counts[k], queues[k], victims, plan.nontemporal)
        queued = _shared_stage(plan, levels, k, stage, queued, draws, longest, ends)
        ends = queued.last[None]
    sample = dram.NO_SAMPLE
    dirty, unfilled = np.zeros((len(levels), n_rows), np.int64), np.zeros(len(levels), np.int64)
    if n_replayed == len(levels):
        for k in range(1, len(levels)):
            if levels[k].keeps_stores:
                left = cache.count_dirty(levels[k].geometry, levels[k].tables, caches[k], dirty[k])
                unfilled[k] = left if len(caches[k].unknown) else 0
        sample = _dram_stage(plan, levels[-1], queued, dram_seed, offsets)

    counted, own = counts[:, :n_rows], counts[:, : plan.n_sites]
    return TrialResult(
        trial=trial,
        counts=np.ascontiguousarray(own if plan.machine.levels else own[:0]),
        dram=sample,
        dram_read_bytes=int(counted[-1, :, cache.READ_GRANULES].sum()) * GRANULE_BYTES,
        dram_write_bytes=int(counted[-1, :, cache.WRITE_GRANULES].sum()) * GRANULE_BYTES,
        missed_translations=missed,
        dirty=dirty[:, : plan.n_sites],
        unfilled=unfilled,
    )


def chunk_offsets(plan: Plan, seed: int, trial: int) -> ChunkOffsets:
    """The per-chunk address offsets of a trial: random bases of arrays, random placement of pages.

    They depend on the trial, not on the launch: arrays do not move between launches.
    """
    shift = None
    if plan.ordering.random_bases:
        n_arrays = int(plan.array_of_chunk.max(initial=0)) + 1
        bases = np.random.default_rng([seed, trial])
        shift = bases.integers(0, BASE_STEPS, size=n_arrays)[plan.array_of_chunk]
    translation = plan.machine.translation
    if translation is None or translation.placement == "contiguous":
        return ChunkOffsets(shift, shift)
    chunk = plan.space.chunk if shift is None else plan.space.chunk + shift
    placement = page_offsets(chunk, translation.page_bytes, placement_key(seed, trial))
    return ChunkOffsets(shift, placement if shift is None else placement + shift)


def prepare(
    plan: Plan, work: Workspace, seed: int, trial: int, change: Change | None = None
) -> Prepared:
    """The addresses of a trial, the levels with the sets of these addresses, and their caches."""
    offsets = chunk_offsets(plan, seed, trial)
    work.take()
    levels, caches = work.levels, work.caches
    if offsets.physical is not None:
        levels = plan.moved(levels, offsets)
    if change is not None:
        levels = change(levels)
        caches = [level.empty_cache(work.memory) for level in levels]
        work.memory.use = change
    if offsets.physical is not None:
        caches = [level.rehashed(state) for state, level in zip(caches, levels, strict=True)]
    return Prepared(offsets, levels, caches)


def _streams(sequence: np.random.SeedSequence, n: int) -> npt.NDArray[np.uint64]:
    """(n,) uint64, the initial states of n streams of random numbers."""
    return np.asarray(sequence.generate_state(n, np.uint64), np.uint64)


def lines_in_record(above: LevelPlan, level: LevelPlan) -> int:
    """Lines of a level in one record from the level above."""
    return max(1, above.geometry.granules_per_line // level.geometry.granules_per_line)


def _latency_below(plan: Plan, k: int) -> float:
    """Latency of what serves the misses of level k, in core clocks."""
    machine = plan.machine
    below = machine.levels[k + 1] if k + 1 < len(machine.levels) else machine.dram
    return below.latency_cycles


def core_stage(
    plan: Plan,
    stage: Stage,
    streams: npt.NDArray[np.uint64],
    drawn: Schedule,
) -> tuple[Queued, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Replay the first level of every core.

    streams : (n_core,) uint64, the random stream of each core

    Returns its requests, (n_core,) the turns of each core, and (n_group,) the record of its core's
    queue with which each group begins.
    """
    n_cores = plan.machine.n_cores
    progress = _progress(plan)
    if plan.ordering.deviation:
        _set_starts(plan, progress, drawn)
    queues = CoreQueues(*(np.zeros(n_cores, np.int64) for _ in CoreQueues._fields))
    began = np.zeros(len(drawn.group), np.int64)
    stage.queue.used[:] = 0
    groups = (drawn.group, drawn.core_offset, plan.resident)
    miss_cycles, turn_cycles = _latency_below(plan, 0), plan.machine.cycles_per_turn
    cores: SubCores | None = None
    order: Any = SAMPLERS.get(plan.ordering.sampler), int(np.ceil(miss_cycles / turn_cycles))
    if plan.ordering.sampler in GREEDY:
        n_schedulers, most = plan.machine.n_schedulers, progress.ring.shape[1]
        cores = empty_sub_cores(n_schedulers, len(progress.parked), most)
        order = _timing(plan, miss_cycles)
    replay_cores(stage, streams, plan.requests, progress, cores, *groups, order, began, queues)
    if cores is not None:
        queues.turns[:] = np.ceil(queues.turns / turn_cycles)
    *ends, turns = queues
    return Queued(stage.queue, *ends), turns, began


def _timing(plan: Plan, miss_cycles: float) -> Timing:
    """How long things take in a core whose schedulers are greedy."""
    machine = plan.machine
    first = machine.levels[0] if machine.levels else None
    return Timing(
        issue_cycles=int(np.ceil(machine.cycles_per_turn)),
        access_cycles=machine.access_cycles,
        lines_per_cycle=first.first_tags_per_cycle if first else np.inf,
        hit_cycles=int(np.ceil(first.latency_cycles if first else miss_cycles)),
        miss_cycles=int(np.ceil(miss_cycles)),
        start_cycles=int(np.ceil(machine.group_start_cycles)),
        youngest=plan.ordering.sampler == "gty",
    )


def _progress(plan: Plan) -> Progress:
    """Every sub-group at its beginning, counted from its first access."""
    requests = plan.requests
    n_subgroup, n_group = len(requests.group), len(requests.first_subgroup) - 1
    widest = int(np.diff(requests.first_subgroup).max(initial=0))
    machine = plan.machine
    n_rings = machine.n_schedulers if plan.ordering.sampler == "wrr" else 1
    is_free = n_rings > 1 and machine.scheduler_turns == "free"
    words = aligned((n_subgroup, SUBGROUP_WORDS), np.int64)
    words[:] = 0
    words[:, AT] = words[:, START] = requests.subgroup_offset[:-1]
    words[:, END] = requests.subgroup_offset[1:]
    words[:, REQUEST] = requests.first_request
    words[:, PARTIAL] = requests.first_partial
    words[:, WEIGHT] = plan.weight
    words[:, GROUP] = requests.group
    return Progress(
        subgroups=words.reshape(-1),
        at_barrier=np.zeros(n_subgroup, np.uint8),
        parked=np.zeros(n_subgroup, np.uint8),
        alive=np.zeros(n_group, np.int32),
        waiting=np.zeros(n_group, np.int32),
        counted=plan.counted(),
        ring=np.zeros((n_rings, 1 << max(0, plan.resident * widest - 1).bit_length()), np.int32),
        ends=np.zeros((n_rings, 2), np.int64),
        scheduler=np.zeros(n_subgroup, np.uint8),
        dealt=np.zeros(1, np.int64),
        next_scheduler=np.array([-1 if is_free else 0], np.int64),
    )


def _set_starts(plan: Plan, progress: Progress, drawn: Schedule) -> None:
    """Set where counting starts in the initial groups (schedule deviation)."""
    if len(plan.warming):
        n = plan.requests.first_subgroup[len(drawn.fraction)]
        starts = progress.subgroups.reshape(-1, SUBGROUP_WORDS)[:n, START]
        starts += plan.warming[:n]
        return
    groups = np.arange(len(drawn.fraction), dtype=np.int32)
    turns = np.empty(most_epochs(plan.requests, len(groups)), np.int64)
    set_starts(plan.requests, groups, drawn.fraction, turns, progress.subgroups)


def _warmed(plan: Plan) -> npt.NDArray[np.float64] | None:
    """(n_group,) how much of what is traced of each group only warms the caches; None where groups are traced whole."""
    if not len(plan.warming):
        return None
    first, offset = plan.requests.first_subgroup, plan.requests.subgroup_offset
    warming = np.diff(np.concatenate([[0], np.cumsum(plan.warming)])[first])
    return np.asarray(warming / np.maximum(np.diff(offset[first]), 1))


def _missed_translations(
    plan: Plan, level: LevelPlan, queued: Queued, offsets: ChunkOffsets
) -> npt.NDArray[np.int64] | None:
    """(n_site,) requests of the cores that miss their translation buffers; None without these."""
    if plan.machine.translation is None:
        return None
    chunk = plan.space.chunk
    return missed_translations(
        plan.machine.translation,
        queued.queue.record,
        queued.first,
        queued.last,
        chunk if offsets.virtual is None else chunk + offsets.virtual,
        max(level.geometry.granules_per_line, level.geometry.down_granules),
        plan.n_sites,
    )


def _shared_stage(
    plan: Plan,
    levels: list[LevelPlan],
    k: int,
    stage: Stage,
    above: Queued,
    draws: npt.NDArray[np.uint64],
    longest: int,
    ends: npt.NDArray[np.int64],
) -> Queued:
    """Replay the queues of the level above through level k.

    longest : turns of the core that took the most
    ends : (n_slice, n_queue) the end of each queue in each slice of time
    """
    n_queue = len(above.first)
    core = np.arange(n_queue, dtype=np.int64)
    # Behind the first shared level there is one queue, and one instance.
    instance = plan.machine.levels[k].partitions_of(core) if k == 1 else np.zeros_like(core)
    # Requests of this level that pass during one miss, at the mean rate.
    turns = _latency_below(plan, k) / plan.machine.cycles_per_turn
    turns_in_flight = min(turns, plan.resident * SAMPLED_TURNS)
    window = max(1, int(turns_in_flight * int(above.last[-1]) / longest))
    counted_stage, warm_below = stage, 0
    repeated = plan.ordering.repeats
    repeats = repeated is not None and plan.machine.levels[k].size_bytes >= repeated
    for counting in (False, True) if repeats else (True,):
        stage = counted_stage
        if not counting:
            stage = stage._replace(counts=np.zeros_like(stage.counts))
        elif repeats:
            levels[k].forget_pending(stage.cache)
        stage.queue.used[:] = 0
        sources = Sources(
            queue=above.queue,
            span=lines_in_record(levels[k - 1], levels[k]),
            head=above.first.copy(),
            warm=above.warm,
            last=ends,
            partial_head=above.partial_first.copy(),
            instance=instance,
            capacity=levels[k - 1].pending_requests,
        )
        scratch = _scratch(above, ends, sources.capacity)
        warm_below = replay_shared(stage, draws, sources, window, scratch)
    zero = np.zeros(1, np.int64)
    last = np.array([stage.queue.used[0]], np.int64)
    return Queued(stage.queue, zero, np.array([warm_below], np.int64), last, zero)


def _scratch(above: Queued, ends: npt.NDArray[np.int64], capacity: int) -> Scratch:
    n_warm = (above.warm - above.first).sum()
    in_slices = np.diff(np.vstack([above.warm, ends]), axis=0)
    n_shuffled = np.minimum(in_slices, capacity).sum(axis=1).max(initial=n_warm)
    return Scratch(
        order=np.empty(int(n_shuffled), np.int32),
        active=np.empty(len(above.first), np.int64),
        record=np.empty(BATCH, np.uint64),
        **{name: np.empty(BATCH, np.int64) for name in ("entry", "partial_at", "instance", "core")},
    )


def _dram_stage(
    plan: Plan,
    level: LevelPlan,
    queued: Queued,
    seed: np.random.SeedSequence,
    offsets: ChunkOffsets,
) -> dram.DramSample:
    """Sample latencies of the requests that reached memory after the warm-up."""
    waiting = queued.last - queued.warm
    n = int(waiting.sum())
    if n <= 0:
        return dram.NO_SAMPLE
    generator = np.random.default_rng(seed)
    position, batch_offset = dram.sample_positions(
        generator, n, plan.machine.n_cores, plan.machine.subgroup_size
    )
    is_merged = len(waiting) == 1  # else no shared level has merged the cores' queues
    if is_merged:
        at = int(queued.warm[0]) + position
    else:
        at = dram.merged_positions(generator, position, batch_offset, queued.warm, waiting)
    address, size, kind = _requests(plan, level, queued.queue.record[at], offsets)
    sample = dram.sample_latencies(
        plan.machine.dram,
        address_bytes=address,
        size_bytes=size,
        is_read=kind == cache.LOAD,
        batch_offset=batch_offset,
        generator=generator,
    )
    if not is_merged:
        return sample
    together = int(queued.warm[0]) + dram.windows(plan.machine.dram, n)
    address, size, _ = _requests(plan, level, queued.queue.record[together], offsets)
    return replace(sample, bytes_per_row=dram.bytes_per_row(plan.machine.dram, address, size))


def _requests(
    plan: Plan, level: LevelPlan, record: npt.NDArray[np.uint64], offsets: ChunkOffsets
) -> tuple[npt.NDArray[np.int64], ...]:
    """Address and size in bytes, and kind, of records of the queue to memory."""
    line, mask, _, _, kind, _ = unpack_many(record)
    lowest = np.array([(m & -m).bit_length() - 1 if m else 0 for m in range(256)])[mask]
    dense = line * level.geometry.granules_per_line + lowest
    granule = plan.space.true_granule(dense)
    if offsets.physical is not None:  # the placement of pages determines channels and banks too
        granule = granule + offsets.physical[dense // CHUNK_GRANULES] * CHUNK_GRANULES
    size = level.tables.n_granules[mask].astype(np.int64) * GRANULE_BYTES
    return granule * GRANULE_BYTES, size, kind


def unpack_many(record: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.int64], ...]:
    """`memsim.hierarchy.cache.unpack` over an array: line, mask, full, site, kind, counted, each (n,)."""
    unpacked: tuple[npt.NDArray[np.int64], ...] = getattr(cache.unpack, "py_func", cache.unpack)(
        record
    )
    return unpacked


MissCache = Literal["unbounded", "associative"]


def with_miss_cache(k: int, cache_: MissCache) -> Change:
    """A change that makes level k unbounded, or a fully associative LRU cache of its size."""

    def changed(levels: list[LevelPlan]) -> list[LevelPlan]:
        level = levels[k]
        slots = level.geometry.touched_lines if cache_ == "unbounded" else level.geometry.data_lines
        return [*levels[:k], level.fully_associative(slots), *levels[k + 1 :]]

    return changed


def misses_with(
    plan: Plan, workspace: Workspace | None, seed: int, trial: int, k: int, cache_: MissCache
) -> npt.NDArray[np.int64]:
    """(n_site,) misses of level k if it is unbounded, or a fully associative LRU cache of its size.

    The levels above it and the ordering are those of the trial.
    """
    change = with_miss_cache(k, cache_)
    result = run_trial(plan, seed, trial, workspace=workspace, change=change, depth=k + 1)
    return misses_of(result.counts[k])


def miss_kinds(
    actual: npt.NDArray[np.int64],
    unbounded: npt.NDArray[np.int64],
    associative: npt.NDArray[np.int64],
) -> npt.NDArray[np.int64]:
    """(3, ...) cold, capacity and conflict misses from three counts of misses, each (...).

    Hill's definitions: cold misses also occur in an unbounded cache. Capacity misses are the others
    that also occur in a fully associative LRU cache of the same size. Conflict misses are the rest.
    If the real level has fewer misses than that LRU cache, none is a conflict miss.
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
