"""The readable twin of one trial: the stochastic replay (seed 001, section 3) as a specification.

Slow on purpose: no compiler, no dense addresses, no packed records. Tests demand that
`memsim.montecarlo.trial.run_trial` gives the same counts, and memory the same requests in the same order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from memsim.hierarchy.cache import N_COUNTS
from memsim.hierarchy.rng import Stream, trial_sequence
from memsim.hierarchy.translation import N_FRAMES, placement_key
from memsim.machine.model import Machine
from memsim.machine.parts import Level, Translation
from memsim.montecarlo.occupancy import levels_for, resident_groups
from memsim.reference.cache import PassingBy, ReferenceCache, Request
from memsim.reference.core import Access, Core, Group, SubGroup
from memsim.trace.model import BARRIER_SITE, GRANULE_BYTES, Direction, Trace

BASE_STEP_GRANULES = 8  # random bases are multiples of 256 bytes ...
BASE_STEPS = 4096  # ... within 1 MiB
LANES_OF_A_BIT = 8  # of Trace.lane_groups
SAMPLED_TURNS = 64  # bounds how many turns of each resident group a shared level's miss may take


class ReferenceTrial(NamedTuple):
    """counts : (n_level, n_site, N_COUNTS) int64, columns as in memsim.hierarchy.cache
    memory : what reached DRAM, in order, the warm-up's included
    missed_translations : (n_site,), None where the machine says nothing of translation
    """

    counts: npt.NDArray[np.int64]
    memory: list[Request]
    missed_translations: npt.NDArray[np.int64] | None = None


def reference_trial(
    trace: Trace,
    machine: Machine,
    seed: int,
    trial: int,
    *,
    sampler: str = "wrr",
    dispatch: str | None = None,
    deviation: bool | None = None,
    staggered: bool = False,
    warmup_waves: int | None = None,
    warm_l2: bool = False,
    random_bases: bool = False,
    groups_per_core: int | None = None,
    weights: Sequence[int] | None = None,
    launch: int = 0,
    kept: list[ReferenceCache] | None = None,
    rows: tuple[int, int] | None = None,
) -> ReferenceTrial:
    """One trial of a trace on a machine; options as in memsim.montecarlo.plan.make_plan.

    Where the trace is one of several launches, `launch` is its number, `kept` the shared levels as
    the one before left them (empty for the first; they are left there for the next), and `rows` its
    first row of counts and how many rows all have.
    """
    first_row, n_rows = rows or (0, max(1, len(trace.sites)))
    occupancy = resident_groups(machine, trace.launch, groups_per_core=groups_per_core)
    resident = occupancy.groups_per_core
    levels = levels_for(machine, trace.launch, resident)
    n_cores, n_levels = machine.n_cores, max(1, len(levels))
    counts = np.zeros((len(levels), n_rows, N_COUNTS), np.int64)
    misses_take = [level.latency_cycles for level in levels[1:]] + [machine.dram.latency_cycles]

    start_seed, core_seed, *level_seeds = trial_sequence(seed, trial, launch).spawn(3 + n_levels)
    generator = np.random.default_rng(start_seed)
    fractions = generator.random(n_cores)
    groups = groups_of(trace, machine, first_granules(machine, levels), weights, first_row)
    cores = dealt(groups, n_cores, resident, dispatch or machine.dispatch, generator)
    core_streams = [Stream(int(s)) for s in core_seed.generate_state(n_cores, np.uint64)]
    bases = np.random.default_rng([seed, trial])
    steps = bases.integers(0, BASE_STEPS, size=max(1, len(trace.arrays)))

    def moved(granule: int) -> int:
        """A granule's address in this trial."""
        if not random_bases:
            return granule
        return granule + BASE_STEP_GRANULES * int(steps[array_of(trace, granule)])

    key = placement_key(seed, trial)

    def placed(granule: int) -> int:
        """Where it lies in memory, as the levels that cores share see it."""
        at = moved(granule)
        if machine.translation is None or machine.translation.placement == "contiguous":
            return at
        page, within = divmod(at * GRANULE_BYTES, machine.translation.page_bytes)
        frame = Stream(page + key).below(N_FRAMES)
        return (frame * machine.translation.page_bytes + within) // GRANULE_BYTES

    waves = max(len(core) for core in cores)
    waves = -(-waves // resident)
    if warmup_waves is None:
        warmup_waves = 0 if trace.whole else waves // 2
    for core, fraction in zip(cores, fractions, strict=True):
        for i, group in enumerate(core):
            group.counted = i // resident >= warmup_waves
        if deviation if deviation is not None else not trace.whole:
            n_begun = min(len(groups), n_cores * resident)
            for group in core[:resident]:
                in_turn = 1 - (group.number + fractions[0]) / n_begun
                set_starts(group, in_turn if staggered else fraction)

    queues: list[list[Request]] = []
    warm: list[int] = []
    longest = 1
    for core, stream in zip(cores, core_streams, strict=True):
        first = ReferenceCache(levels[0], counts[0], stream, moved) if levels else PassingBy()
        latency_turns = math.ceil(misses_take[0] / machine.cycles_per_turn)
        running = Core(core, resident, first, sampler, stream, latency_turns)
        running.run()
        queues.append(running.queue)
        warm.append(running.n_warm)
        longest = max(longest, running.turn)

    missed = None
    if machine.translation is not None:
        missed = np.zeros(n_rows, np.int64)
        for queue in queues:
            look_up(queue, machine.translation, moved, missed)

    for k in range(1, len(levels)):
        draws, victims = (Stream(int(s)) for s in level_seeds[k].generate_state(2, np.uint64))
        n_instances = -(-n_cores // levels[k].cores_per_instance)
        cache = ReferenceCache(levels[k], counts[k], victims, placed, n_instances)
        if kept is not None:
            if len(kept) < k:
                kept.append(cache)
            cache = kept[k - 1]
            cache.take_over(victims, placed)
        # The requests that pass while one miss is under way, at the mean rate.
        in_flight = min(misses_take[k] / machine.cycles_per_turn, resident * SAMPLED_TURNS)
        window = max(1, int(in_flight * sum(map(len, queues)) / longest))
        for counting in (False, True) if warm_l2 else (True,):
            cache.counts = counts[k] if counting else np.zeros_like(counts[k])
            cache.forget_pending()
            below: list[Request] = []
            warm_below = 0
            order = merged(queues, warm, levels[k - 1].pending_requests, draws)
            for now, (q, request) in enumerate(order):
                # Behind the first shared level there is one queue, and one instance.
                instance = partition_of(levels[k], q) if k == 1 else 0
                cache.land(now)
                below += cache.serve(request, instance, now, window, q)
                if now < sum(warm):
                    warm_below = len(below)
        queues, warm = [below], [warm_below]
    return ReferenceTrial(counts, list(itertools.chain.from_iterable(queues)), missed)


def look_up(
    queue: Sequence[Request],
    translation: Translation,
    moved: Callable[[int], int],
    missed: npt.NDArray[np.int64],
) -> None:
    """What one core sends on, looked up in its buffer of pages, the latest last."""
    held: list[int] = []
    for request in queue:
        page = moved(request.granules[0]) * GRANULE_BYTES // translation.page_bytes
        if page in held:
            held.remove(page)
        elif request.counted:
            missed[request.site] += 1
        held.append(page)
        del held[: -translation.entries]


def partition_of(level: Level, core: int) -> int:
    """The instance, or its partition, that a core asks: neighbouring cores share one."""
    instance, within = divmod(core, level.cores_per_instance)
    per_partition = level.cores_per_instance / level.n_partitions
    return instance * level.n_partitions + int(within // per_partition)


def array_of(trace: Trace, granule: int) -> int:
    """The array that a granule's 256-byte block lies in: the last to begin before the block ends."""
    end = granule // BASE_STEP_GRANULES * 256 + 255
    inside = [i for i, a in enumerate(trace.arrays) if a.base_bytes <= end]
    return max(inside, key=lambda i: (trace.arrays[i].base_bytes, i), default=0)


def groups_of(
    trace: Trace,
    machine: Machine,
    line_granules: int,
    weights: Sequence[int] | None,
    first_row: int = 0,
) -> list[Group]:
    """The trace as objects, lanes coalesced; its first site has row first_row of the counts."""
    groups: list[Group] = []
    for s in range(trace.n_subgroup):
        if s == 0 or trace.workgroup[s] != trace.workgroup[s - 1]:
            groups.append(Group(len(groups)))
        begin, end = int(trace.subgroup_offset[s]), int(trace.subgroup_offset[s + 1])
        accesses = [
            access_of(trace, machine, line_granules, p, first_row) for p in range(begin, end)
        ]
        weight = 1 if weights is None else int(weights[s])
        groups[-1].subgroups.append(SubGroup(s, accesses, weight))
    return groups


def access_of(trace: Trace, machine: Machine, line_granules: int, p: int, first_row: int) -> Access:
    """An access's requests: what each `coalesce_lanes` of its lanes ask of each line."""
    site = int(trace.site[p])
    is_barrier = site == BARRIER_SITE
    kind: Direction = "load" if is_barrier else trace.sites[site].direction
    requests = []
    for lane in range(0, trace.subgroup_size, machine.coalesce_lanes):
        asked: dict[int, dict[int, int]] = {}
        for i in range(int(trace.granule_offset[p]), int(trace.granule_offset[p + 1])):
            bits = range(lane // LANES_OF_A_BIT, (lane + machine.coalesce_lanes) // LANES_OF_A_BIT)
            all_lanes = machine.coalesce_lanes == trace.subgroup_size
            if all_lanes or any(int(trace.lane_groups[i]) >> bit & 1 for bit in bits):
                granule = int(trace.granule[i])
                line = asked.setdefault(granule // line_granules, {})
                line[granule] = int(trace.byte_mask[i])
        for line in asked.values():
            written = line if kind == "store" else {}
            bypasses = not is_barrier and trace.sites[site].bypasses_l1
            requests.append(Request(tuple(line), kind, first_row + site, True, written, bypasses))
    return Access(
        first_row + site, kind, is_barrier, bool(trace.starts_sequence[p]), tuple(requests)
    )


def n_sequences(subgroup: SubGroup) -> int:
    """Bulk sequences of a sub-group."""
    return sum(access.starts_sequence for access in subgroup.accesses)


def first_granules(machine: Machine, levels: Sequence[Level]) -> int:
    """Granules in a line of what a core's requests meet first."""
    unit = levels[0].line_bytes if levels else machine.dram.burst_bytes
    return max(1, unit // GRANULE_BYTES)


def dealt(
    groups: list[Group],
    n_cores: int,
    resident: int,
    dispatch: str,
    generator: np.random.Generator,
) -> list[list[Group]]:
    """Step 1: each core's groups, in order.

    Round robin by id; or (dynamic) to whichever place falls free first, a group lasting as many
    turns as its longest sub-group has bulk sequences; or (random) each wave in a random order: the
    groups of a wave take the places in the order of numbers that the places draw.
    """
    cores: list[list[Group]] = [[] for _ in range(n_cores)]
    if dispatch == "round_robin":
        for group in groups:
            cores[group.number % n_cores].append(group)
        return cores
    if dispatch == "random":
        n_waves = -(-len(groups) // (n_cores * resident))
        draws = generator.random((n_waves, n_cores * resident))
        places = [int(p) % n_cores for wave in draws for p in np.argsort(wave)]
        for group, core in zip(groups, places, strict=False):
            cores[core].append(group)
        return cores
    free_at = [0] * (resident * n_cores)  # place p is one of core p % n_cores
    for group in groups:
        place = free_at.index(min(free_at))
        cores[place % n_cores].append(group)
        free_at[place] += max(1, *map(n_sequences, group.subgroups))
    return cores


def set_starts(group: Group, fraction: float) -> None:
    """Step 2, schedule deviation: a group begins to count after a fraction of its barrier epochs;
    where it has no barriers, each sub-group after that fraction of its bulk sequences."""
    barriers = [[p for p, a in enumerate(s.accesses) if a.is_barrier] for s in group.subgroups]
    epochs = 1 + max(map(len, barriers))
    for subgroup, at in zip(group.subgroups, barriers, strict=True):
        if epochs > 1:
            skipped = int(fraction * epochs)
            begins = [0, *(p + 1 for p in at)]
        else:
            skipped = int(fraction * n_sequences(subgroup))
            begins = [p for p, access in enumerate(subgroup.accesses) if access.starts_sequence]
        if skipped:
            subgroup.start = begins[skipped] if skipped < len(begins) else len(subgroup.accesses)


def merged(
    queues: list[list[Request]], warm: list[int], capacity: int, stream: Stream
) -> Iterator[tuple[int, Request]]:
    """Steps 4 and 5: queues interleave at random, each first in, first out; yields (queue, request).

    What they hold from the warm-up goes first, every interleaving as likely as any other. Then a
    queue is drawn with a weight of what waits in it, of which the machine holds `capacity` at most:
    one is proposed uniformly, and taken with probability waiting / capacity.
    """
    order = [q for q in range(len(queues)) for _ in range(warm[q])]
    for i in range(len(order) - 1, 0, -1):  # Fisher and Yates
        j = stream.below(i + 1)
        order[i], order[j] = order[j], order[i]
    heads = [iter(queue) for queue in queues]
    for q in order:
        yield q, next(heads[q])
    waiting = [len(queue) - n for queue, n in zip(queues, warm, strict=True)]
    active = [q for q, n in enumerate(waiting) if n]
    while active:
        k = 0
        while len(active) > 1:
            k = stream.below(len(active))
            if waiting[active[k]] >= capacity or stream.below(capacity) < waiting[active[k]]:
                break
        q = active[k]
        yield q, next(heads[q])
        waiting[q] -= 1
        if not waiting[q]:
            active[k] = active[-1]
            active.pop()
