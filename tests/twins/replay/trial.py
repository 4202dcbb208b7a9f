"""The readable twin of one trial: the stochastic replay as a specification.

Baghsorkhi et al. 2012, section 3. It is slow on purpose: no compiler, no dense addresses, no packed
records. Tests require that `memsim.montecarlo.trial.run_trial` gives the same counts, and sends
memory the same requests in the same order.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from memsim.hierarchy.cache import N_COUNTS
from memsim.hierarchy.rng import Stream, trial_sequence
from memsim.hierarchy.translation import N_FRAMES, placement_key
from memsim.machine.model import Machine
from memsim.machine.parts import Level
from memsim.montecarlo.occupancy import levels_for, resident_groups
from memsim.montecarlo.options import GREEDY, ReplayOptions
from memsim.trace.model import BARRIER_SITE, GRANULE_BYTES, Direction, Trace
from tests.twins.replay.cache import PassingBy, Past, ReferenceCache, Request
from tests.twins.replay.core import Access, Core, Group, SubGroup
from tests.twins.replay.sub_cores import SubCores

BASE_STEP_GRANULES = 8  # random bases are multiples of 256 bytes ...
BASE_STEPS = 4096  # ... within 1 MiB
LANES_OF_A_BIT = 8  # of Trace.lane_groups
PLACES_APART = 10  # of when a place counts as free, in places ...
MOST_VARIATION = 0.125  # ... and of its time, for a group of one turn
SLICES_OF_WAVE = 4  # slices of time while the groups of a wave begin
SAMPLED_TURNS = 64  # upper bound of the turns of each resident group during a shared level's miss


class ReferenceTrial(NamedTuple):
    """The counts of one ordering, and the requests that reached memory.

    counts : (n_level, n_site, N_COUNTS) int64, columns as in memsim.hierarchy.cache
    memory : in order, with those of the warm-up
    missed_translations : (n_site,) int64, None where the machine does not describe translation
    """

    counts: npt.NDArray[np.int64]
    memory: list[Request]
    missed_translations: npt.NDArray[np.int64] | None = None


class Times(NamedTuple):
    """When a group begins and ends, in cycles from the beginning of counting; 0 at the earliest."""

    begin: float
    end: float


class Queues(NamedTuple):
    """What the queues of a level contain; the first `warm` of each from before counting began."""

    requests: list[list[Request]]
    warm: list[int]


@dataclass(frozen=True)
class Addresses:
    """The addresses of one trial: arrays may be moved, and pages may be placed at random."""

    trace: Trace
    machine: Machine
    seed: int
    trial: int
    random_bases: bool

    def virtual(self, granule: int) -> int:
        """The address of a granule as a core sees it."""
        if not self.random_bases:
            return granule
        return granule + BASE_STEP_GRANULES * int(self._steps[array_of(self.trace, granule)])

    def physical(self, granule: int) -> int:
        """The place of a granule in memory, as the levels that cores share see it."""
        address = self.virtual(granule)
        translation = self.machine.translation
        if translation is None or translation.placement == "contiguous":
            return address
        page, within = divmod(address * GRANULE_BYTES, translation.page_bytes)
        frame = Stream(page + self._placement_key).below(N_FRAMES)
        return (frame * translation.page_bytes + within) // GRANULE_BYTES

    @functools.cached_property
    def _steps(self) -> npt.NDArray[np.int64]:
        """By how many chunks of 256 bytes each array is moved."""
        generator = np.random.default_rng([self.seed, self.trial])
        return generator.integers(0, BASE_STEPS, size=max(1, len(self.trace.arrays)))

    @functools.cached_property
    def past(self) -> Past | None:
        """The granules that groups before the snapshot may have touched; None without such groups."""
        trace = self.trace
        ids = sorted(set(trace.workgroup.tolist()))
        if trace.whole or ids == list(range(len(ids))):
            return None
        if trace.earlier is None:
            return Past(set(), False)
        touched = {g for first, end in trace.earlier.tolist() for g in range(first, end)}
        largest = max((level.size_bytes for level in self.machine.levels), default=0)
        known = trace.earlier_groups == ids[0] or GRANULE_BYTES * len(touched) >= 2 * largest
        return Past(touched, known and ids == list(range(ids[0], ids[-1] + 1)))

    def left_in(self, level: Level) -> Past | None:
        """The same of a level behind the first, where the whole launch has run before with its caches kept."""
        if self.is_left_in(level):
            return None
        own, ids = self.past or Past(set(), True), sorted(set(self.trace.workgroup.tolist()))
        ranges = [] if self.trace.earlier is None else self.trace.earlier.tolist()
        n_touched = sum(end - first for first, end in ranges)
        together = ids == list(range(ids[0], ids[-1] + 1))
        if GRANULE_BYTES * n_touched >= 2 * level.size_bytes and together:
            return own
        return Past(own.touched, False)

    def is_left_in(self, level: Level) -> bool:
        """Whether such a launch leaves all that is traced of the next in a level, but for what that itself evicts."""
        used = {site.array for site in self.trace.sites}
        n_bytes = sum(a.size_bytes for a in self.trace.arrays if a.name in used)
        return self.trace.whole or n_bytes <= level.size_bytes

    @functools.cached_property
    def _placement_key(self) -> int:
        return placement_key(self.seed, self.trial)


def reference_trial(
    trace: Trace,
    machine: Machine,
    seed: int,
    trial: int,
    *,
    launch: int = 0,
    kept: list[ReferenceCache] | None = None,
    rows: tuple[int, int] | None = None,
    **changes: Any,
) -> ReferenceTrial:
    """One trial of a trace on a machine.

    changes : fields of memsim.montecarlo.options.ReplayOptions
    launch, kept, rows : given if the trace is one of several launches. `launch` is its number; `kept`
        are the shared levels as the launch before left them (empty for the first), and they are left
        there for the next; `rows` are its first row of the counts, and the rows of all launches
    """
    options = ReplayOptions(**changes)
    first_row, n_rows = rows or (0, max(1, len(trace.sites)))
    occupancy = resident_groups(machine, trace.launch, groups_per_core=options.groups_per_core)
    resident = occupancy.groups_per_core
    machine = machine.replace(levels=levels_for(machine, trace.launch, resident))
    addresses = Addresses(trace, machine, seed, trial, options.random_bases)
    counts = np.zeros((len(machine.levels), n_rows, N_COUNTS), np.int64)
    n_seeds = 3 + max(1, len(machine.levels))
    start_seed, core_seed, *level_seeds = trial_sequence(seed, trial, launch).spawn(n_seeds)
    generator = np.random.default_rng(start_seed)
    inside = options.deviation if options.deviation is not None else not trace.whole

    # Steps 1 and 2: groups go to cores; inside a launch, the initial ones are in progress.
    groups = groups_of(trace, machine, first_row, options.weights)
    wave = machine.n_cores * resident
    mark_counted(groups, wave, options.warmup_waves, trace.whole, inside)
    counts_start = options.counts_start
    if counts_start is None and inside and not trace.whole and options.warmup_waves is None:
        counts_start = len(groups) < 3 * wave
    if counts_start:
        for group in groups:
            group.counted = group.counted_from_start = True
    waves_before = int(trace.workgroup[0]) / wave
    cores, times = dispatched(
        groups, machine, resident, options.dispatch, inside, waves_before, generator
    )
    # Step 3: in each core, sub-groups take turns, and the first level serves their requests.
    past = addresses.past if kept is None else None
    queues, longest = core_stage(
        cores, resident, options.sampler, addresses, counts, core_seed, past
    )
    missed = missed_translations(queues, addresses, n_rows)
    # Steps 4 and 5: each shared level serves the queues of the level above.
    for k in range(1, len(machine.levels)):
        repeats = options.warm and addresses.is_left_in(machine.levels[k])
        left = addresses.left_in(machine.levels[k]) if options.warm else past
        cache, draws = shared_level(k, addresses, level_seeds[k], kept, left)
        window = shared_window(machine, k, resident, queues, longest)
        parts = slices(cores, times, resident, queues) if k == 1 else whole(queues)
        for counting in (False, True) if repeats else (True,):
            cache.counts = counts[k] if counting else np.zeros_like(counts[k])
            cache.forget_pending()
            served = shared_stage(cache, k, machine.levels[k - 1], queues, draws, window, parts)
        queues = served
    return ReferenceTrial(counts, list(itertools.chain.from_iterable(queues.requests)), missed)


def mark_counted(
    groups: list[Group], wave: int, warmup_waves: int | None, whole: bool, inside: bool
) -> None:
    """The first waves of a snapshot of three or more only warm the caches. Inside a launch its last wave,
    which no group follows, does not count either."""
    n_waves = len(groups) // wave
    if warmup_waves is None:
        warmup_waves = 0 if whole or n_waves < 3 else (n_waves - 1) // 2
    followed = inside and len(groups) >= max(warmup_waves + 2, 3) * wave
    for k, group in enumerate(groups):
        group.counted = k // wave >= warmup_waves
        if followed and k >= len(groups) - wave:
            group.counted = False


def core_stage(
    cores: list[list[Group]],
    resident: int,
    sampler: str,
    addresses: Addresses,
    counts: npt.NDArray[np.int64],
    seed: np.random.SeedSequence,
    past: Past | None,
) -> tuple[Queues, int]:
    """Step 3: replay every core; returns what it sends on, and the turns of the slowest core."""
    machine = addresses.machine
    latency_turns = math.ceil(latency_below(machine, 0) / machine.cycles_per_turn)
    requests, warm, longest = [], [], 1
    states = seed.generate_state(len(cores), np.uint64)
    for groups, state in zip(cores, states, strict=True):
        stream = Stream(int(state))
        first: ReferenceCache | PassingBy = PassingBy()
        if machine.levels:
            first = ReferenceCache(
                machine.levels[0], counts[0], stream, addresses.virtual, past=past
            )
        if sampler in GREEDY:
            below = latency_below(machine, 0)
            core: Core = SubCores(groups, resident, first, sampler, stream, machine, below)
        else:
            core = Core(groups, resident, first, sampler, stream, latency_turns, machine)
        core.run()
        requests.append(core.queue)
        warm.append(core.n_warm)
        cycles = machine.cycles_per_turn if sampler in GREEDY else 1
        longest = max(longest, math.ceil(core.turn / cycles))
    return Queues(requests, warm), longest


def missed_translations(
    queues: Queues, addresses: Addresses, n_rows: int
) -> npt.NDArray[np.int64] | None:
    """Counted requests of each site that miss the LRU translation buffer of their core."""
    translation = addresses.machine.translation
    if translation is None:
        return None
    missed = np.zeros(n_rows, np.int64)
    for queue in queues.requests:
        buffer: list[int] = []
        for request in queue:
            address = addresses.virtual(request.granules[0]) * GRANULE_BYTES
            page = address // translation.page_bytes
            if page in buffer:
                buffer.remove(page)
            elif request.counted:
                missed[request.site] += 1
            buffer.append(page)
            del buffer[: -(translation.entries + translation.under_way)]
    return missed


def shared_level(
    k: int,
    addresses: Addresses,
    seed: np.random.SeedSequence,
    kept: list[ReferenceCache] | None,
    past: Past | None,
) -> tuple[ReferenceCache, Stream]:
    """The cache of level k, empty or as the launch before left it, and the stream that draws queues."""
    draws, victims = (Stream(int(state)) for state in seed.generate_state(2, np.uint64))
    level = addresses.machine.levels[k]
    n_instances = -(-addresses.machine.n_cores // level.cores_per_instance)
    no_counts = np.zeros((0, N_COUNTS), np.int64)
    cache = ReferenceCache(level, no_counts, victims, addresses.physical, n_instances, past)
    if kept is not None:
        if len(kept) < k:
            kept.append(cache)
        cache = kept[k - 1]
        cache.take_over(victims, addresses.physical)
    return cache, draws


def latency_below(machine: Machine, k: int) -> float:
    """Latency of what serves the misses of level k, in core clocks."""
    below = machine.levels[k + 1] if k + 1 < len(machine.levels) else machine.dram
    return below.latency_cycles


def shared_window(machine: Machine, k: int, resident: int, queues: Queues, longest: int) -> int:
    """Requests that level k serves during one miss, at the mean rate: so long a sector is pending."""
    turns = min(latency_below(machine, k) / machine.cycles_per_turn, resident * SAMPLED_TURNS)
    return max(1, int(turns * sum(map(len, queues.requests)) / longest))


def shared_stage(
    cache: ReferenceCache,
    k: int,
    above: Level,
    queues: Queues,
    draws: Stream,
    window: int,
    parts: list[list[int]],
) -> Queues:
    """Steps 4 and 5: level k serves the queues of the level above, slice of time by slice; returns its
    single queue."""
    below: list[Request] = []
    warm_below = 0
    order = merged(queues, above.pending_requests, draws, parts)
    for now, (q, request) in enumerate(order):
        # Behind the first shared level there is one queue, and one instance.
        instance = partition_of(cache.level, q) if k == 1 else 0
        cache.complete_fills(now)
        below += cache.serve(request, instance, now, window, q)
        if now < sum(queues.warm):
            warm_below = len(below)
    return Queues([below], [warm_below])


def partition_of(level: Level, core: int) -> int:
    """The instance, or its partition, that a core is attached to: neighbouring cores share one."""
    instance, within = divmod(core, level.cores_per_instance)
    per_partition = level.cores_per_instance / level.n_partitions
    return instance * level.n_partitions + int(within // per_partition)


def array_of(trace: Trace, granule: int) -> int:
    """The array of a granule's 256-byte chunk: the last that begins before the end of the chunk."""
    end = granule // BASE_STEP_GRANULES * 256 + 255
    inside = [i for i, a in enumerate(trace.arrays) if a.base_bytes <= end]
    return max(inside, key=lambda i: (trace.arrays[i].base_bytes, i), default=0)


def groups_of(
    trace: Trace, machine: Machine, first_row: int, weights: Sequence[int] | None
) -> list[Group]:
    """The trace as objects, lanes coalesced; its first site has row first_row of the counts."""
    groups: list[Group] = []
    for s in range(trace.n_subgroup):
        if s == 0 or trace.workgroup[s] != trace.workgroup[s - 1]:
            groups.append(Group(len(groups)))
        begin, end = int(trace.subgroup_offset[s]), int(trace.subgroup_offset[s + 1])
        accesses = [access_of(trace, machine, p, first_row) for p in range(begin, end)]
        weight = 1 if weights is None else int(weights[s])
        groups[-1].subgroups.append(SubGroup(s, accesses, weight))
    return groups


def access_of(trace: Trace, machine: Machine, p: int, first_row: int) -> Access:
    """An access and its requests: one for each line, of each `coalesce_lanes` of its lanes."""
    site = int(trace.site[p])
    is_barrier = site == BARRIER_SITE
    kind: Direction = "load" if is_barrier else trace.sites[site].direction
    bypasses = not is_barrier and trace.sites[site].bypasses_l1
    goes_first = not is_barrier and trace.sites[site].nontemporal
    requests = []
    for lane in range(0, trace.subgroup_size, machine.coalesce_lanes):
        for bytes_of in bytes_of_lines(trace, machine, p, lane):
            written = bytes_of if kind == "store" else {}
            request = Request(
                tuple(bytes_of), kind, first_row + site, True, written, bypasses, goes_first
            )
            requests.append(request)
    return Access(
        first_row + site, kind, is_barrier, bool(trace.starts_sequence[p]), tuple(requests)
    )


def bytes_of_lines(trace: Trace, machine: Machine, p: int, lane: int) -> list[dict[int, int]]:
    """granule -> byte mask, line by line, of the accesses of `coalesce_lanes` lanes from `lane` on."""
    bits = range(lane // LANES_OF_A_BIT, (lane + machine.coalesce_lanes) // LANES_OF_A_BIT)
    all_lanes = machine.coalesce_lanes == trace.subgroup_size
    line_granules = first_granules(machine)
    lines: dict[int, dict[int, int]] = {}
    for i in range(int(trace.granule_offset[p]), int(trace.granule_offset[p + 1])):
        if all_lanes or any(int(trace.lane_groups[i]) >> bit & 1 for bit in bits):
            granule = int(trace.granule[i])
            lines.setdefault(granule // line_granules, {})[granule] = int(trace.byte_mask[i])
    return list(lines.values())


def n_sequences(subgroup: SubGroup) -> int:
    """Bulk sequences of a sub-group."""
    return sum(access.starts_sequence for access in subgroup.accesses)


def first_granules(machine: Machine) -> int:
    """Granules in a line of the first level; without caches, in a burst of memory."""
    unit = machine.levels[0].line_bytes if machine.levels else machine.dram.burst_bytes
    return max(1, unit // GRANULE_BYTES)


def dispatched(
    groups: list[Group],
    machine: Machine,
    resident: int,
    dispatch: str,
    inside: bool,
    waves_before: float,
    generator: np.random.Generator,
) -> tuple[list[list[Group]], dict[int, Times] | None]:
    """Each core's groups, in order, and when each group runs; None where nothing says when.

    round_robin : by number; inside a launch, the initial groups of a core are equally far.
    first_free : in order of number, each to the core that is free first, or to one that is free at nearly the same time.
    Those of a wave begin at equal distances within a part of their time that grows from wave to wave.
    Groups are dealt to the dies in turn, for good; the first cores are those of the first die.
    """
    n_cores, dies = machine.n_cores, machine.n_dies
    of_die = n_cores // dies

    def dealt(k: int) -> int:
        return k % dies * of_die + k // dies % of_die

    n_initial = min(len(groups), n_cores * resident)
    cores: list[list[Group]] = [[] for _ in range(n_cores)]
    begun = generator.random(n_cores)
    if dispatch == "round_robin":
        for k, group in enumerate(groups):
            cores[dealt(k)].append(group)
            if inside and k < n_initial:
                set_starts(group, begun[dealt(k)])
        return cores, None
    places = [dealt(place) for place in range(n_cores * resident)]
    if inside:
        for die in range(dies):
            places[die::dies] = generator.permutation(places[die::dies]).tolist()
    times: dict[int, Times] = {}
    turns_of = [max(1, *map(n_sequences, group.subgroups)) for group in groups]

    def begins(k: int, later: int = 0) -> float:
        waves = waves_before + k // n_initial + later
        width = math.sqrt(1.0 / turns_of[k] ** 2 + 12 * MOST_VARIATION**2 * waves / turns_of[k])
        return (k % n_initial + 0.5) / n_initial * min(width, 1.0)

    points = sorted(((begun[0] - begins(k)) % 1 for k in range(n_initial)), reverse=True)
    drawn = generator.standard_normal(len(groups))
    # Of each die: when a group counts as over, its number, its end and its core.
    running: list[list[tuple[float, int, float, int]]] = [[] for _ in range(dies)]
    for k, (group, turns) in enumerate(zip(groups, turns_of, strict=True)):
        requests = sum(len(a.requests) for s in group.subgroups for a in s.accesses)
        cycles = turns * len(group.subgroups) * machine.cycles_per_turn + requests
        lasts = cycles * (1 + begins(k, 1) - begins(k))
        if k < n_initial:
            begin, core = 0.0, places[k]
            lasts = cycles * (1 - points[k] if inside else 1 + begins(k, 1))
            if inside:
                set_starts(group, points[k])
        else:
            _, _, begin, core = heapq.heappop(running[k % dies])
        end = begin + lasts
        variation = min(PLACES_APART / len(places), MOST_VARIATION / math.sqrt(turns))
        counts = end + variation * drawn[k] * cycles
        heapq.heappush(running[k % dies], (counts, k, end, core))
        times[group.number] = Times(begin, end)
        cores[core].append(group)
    return cores, times


def slices(
    cores: list[list[Group]], times: dict[int, Times] | None, resident: int, queues: Queues
) -> list[list[int]]:
    """The end of each core's queue in each slice of time.

    A core is in time where a group begins; between these points its requests follow evenly. They are
    numbered over all cores, so that numbers are rounded as in the fast trial.
    """
    if times is None:
        return whole(queues)
    n_waves = -(-len(times) // (len(cores) * resident))
    latest = max(time.end for time in times.values())
    ends = []
    for now in np.linspace(0, latest, SLICES_OF_WAVE * n_waves + 1)[1:]:
        row, first = [], 0
        for groups, queue, n_warm in zip(cores, queues.requests, queues.warm, strict=True):
            points = [(0.0, n_warm)]
            later = groups[resident:]
            begins = sorted(times[g.number].begin for g in later)
            points += zip(begins, (g.first_record for g in later), strict=True)
            if groups:
                points.append((max(times[g.number].end for g in groups), len(queue)))
            time, record = np.array(points).T
            row.append(int(np.interp(now, time, first + record)) - first)
            first += len(queue)
        ends.append(row)
    return [*ends[:-1], *whole(queues)]


def whole(queues: Queues) -> list[list[int]]:
    """One slice of time, in which all queues end."""
    return [[len(queue) for queue in queues.requests]]


def set_starts(group: Group, fraction: float) -> None:
    """A group starts to count after a fraction of its turns, the bulk sequences of the longest sub-group in
    each of its barrier epochs: each sub-group in the epoch in which that is, after the same part of its own
    sequences there."""
    epochs = [epochs_of(subgroup) for subgroup in group.subgroups]
    longest = [
        max(map(len, sequences)) for sequences in itertools.zip_longest(*epochs, fillvalue=())
    ]
    left, epoch = fraction * sum(longest), 0
    while epoch + 1 < len(longest) and left >= longest[epoch]:
        left -= longest[epoch]
        epoch += 1
    part = left / max(longest[epoch], 1)
    for subgroup, sequences in zip(group.subgroups, epochs, strict=True):
        barriers = [p for p, access in enumerate(subgroup.accesses) if access.is_barrier]
        begins = [0, *(p + 1 for p in barriers)]
        if epoch >= len(begins):
            subgroup.start = len(subgroup.accesses)
            continue
        skipped = int(part * len(sequences[epoch]))
        subgroup.start = sequences[epoch][skipped] if skipped else begins[epoch]


def epochs_of(subgroup: SubGroup) -> list[list[int]]:
    """Where the bulk sequences of a sub-group begin, by barrier epoch."""
    epochs: list[list[int]] = [[]]
    for p, access in enumerate(subgroup.accesses):
        if access.is_barrier:
            epochs.append([])
        elif access.starts_sequence:
            epochs[-1].append(p)
    return epochs


def merged(
    queues: Queues, capacity: int, stream: Stream, parts: list[list[int]]
) -> Iterator[tuple[int, Request]]:
    """Steps 4 and 5: a random valid interleaving of queues, each first in, first out.

    Yields (queue, request). The requests of the warm-up come first; all their interleavings are
    equally likely. Then, slice of time by slice, a queue is drawn with a weight of the requests that
    wait in it, of which the machine holds `capacity` at most. When no queue has more, all interleavings
    of what is left are equally likely too.

    parts : the end of each queue in each slice
    """
    heads = [iter(queue) for queue in queues.requests]
    before = [0] * len(heads)
    for i, ends in enumerate([queues.warm, *parts]):
        waiting = [end - begin for begin, end in zip(before, ends, strict=True)]
        by_weight = drawn(waiting, capacity, stream) if i else []
        for q in by_weight:
            yield q, next(heads[q])
        for q in shuffled(waiting, stream):
            yield q, next(heads[q])
        before = ends


def shuffled(waiting: list[int], stream: Stream) -> list[int]:
    """Queues in random order, each as often as requests wait in it."""
    order = [q for q, n in enumerate(waiting) for _ in range(n)]
    for i in range(len(order) - 1, 0, -1):  # Fisher and Yates
        j = stream.below(i + 1)
        order[i], order[j] = order[j], order[i]
    return order


def drawn(waiting: list[int], capacity: int, stream: Stream) -> Iterator[int]:
    """Queues, until in none of them more than `capacity` wait: one is proposed uniformly, and accepted with
    probability waiting / capacity. What is taken no longer waits."""
    active = [q for q, n in enumerate(waiting) if n]
    while max(waiting, default=0) > capacity:
        k = 0
        while len(active) > 1:
            k = stream.below(len(active))
            if waiting[active[k]] >= capacity or stream.below(capacity) < waiting[active[k]]:
                break
        q = active[k]
        waiting[q] -= 1
        yield q
        if not waiting[q]:
            active[k] = active[-1]
            active.pop()
