"""Step 3 of a trial: the sub-groups of a core take turns, and issue requests to its first cache.

Cores are independent of each other up to their queues for the next level: groups are assigned to
cores beforehand, and nothing that happens below the first level affects their order. Cores are
therefore replayed one by one, each with a cache small enough to stay in the CPU's own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from memsim.compile import hot, inner, nth, prefetch
from memsim.hierarchy.cache import (
    ACCESSES,
    ATOMIC,
    HITS,
    I32,
    I64,
    LINE,
    LOAD,
    LONG_AGO,
    LOOSE_ROUND_ROBIN,
    META,
    NEXT,
    PENDING,
    PREV,
    STORE,
    U8,
    U32,
    U64,
    UNIFORM,
    UNKNOWN,
    row_of,
    set_turns,
    slot_of,
)
from memsim.hierarchy.loads import complete_fills, pending, read
from memsim.hierarchy.replacement import drop, used
from memsim.hierarchy.rng import below
from memsim.hierarchy.stores import Store, update, write


class Requests(NamedTuple):
    """A trace in the lines of one machine: a request is the part of an access within one line.

    subgroup_offset : (n_subgroup + 1,) int64, into the accesses
    first_request, first_partial : (n_subgroup,) int64, into the requests and the partial masks
    group : (n_subgroup,) int32
    access : (n_access,) uint32, see `pack_access`
    request : uint64, line | requested granules << 32 | fully written granules << 40
    partial : uint32, byte masks of the partly written granules of stores, in order
    first_subgroup : (n_group + 1,) int32
    """

    subgroup_offset: I64
    first_request: I64
    first_partial: I64
    group: I32
    access: U32
    request: U64
    partial: U32
    first_subgroup: I32


STARTS_SEQUENCE, BARRIER = 1, 2
KIND_SHIFT, COUNT_SHIFT, SITE_SHIFT = 2, 4, 17
MAX_REQUESTS_OF_ACCESS = (1 << (SITE_SHIFT - COUNT_SHIFT)) - 1


@inner
def pack_access(flags, kind, count, site):
    """An access: flags 2 bits (STARTS_SEQUENCE, BARRIER), kind 2, number of requests 13, site 15."""
    return np.uint32(flags | kind << KIND_SHIFT | count << COUNT_SHIFT | site << SITE_SHIFT)


def unpack_accesses(access: U32) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.integer]]:
    """(n,) the kinds, and (n,) the numbers of requests, of packed accesses (n,)."""
    return (access >> KIND_SHIFT) & 3, (access >> COUNT_SHIFT) & MAX_REQUESTS_OF_ACCESS


class Progress(NamedTuple):
    """The progress of the sub-groups and groups of a launch.

    subgroups : (n_subgroup * SUBGROUP_WORDS,) int64: AT (the next access), START (the access at which
        counting starts), END, REQUEST and PARTIAL (the next ones), READY (the turn from which it no
        longer waits for data), WEIGHT (bulk sequences in one turn) and GROUP
    at_barrier : (n_subgroup,) uint8, waits at a barrier
    parked : (n_subgroup,) uint8, has reached its start while the warm-up continues elsewhere
    alive, waiting : (n_group,) int32, sub-groups that have not ended, and those at a barrier
    counted : (n_group,) uint8, 0 for groups that only warm the caches, 2 for those of which everything
        is counted, 1 for those of which all but the part before their start is
    ring : (n_scheduler, a power of two) int32, the sub-groups of each scheduler that are ready for a turn, one
        ring for all where the order is not round robin;  ends : (n_scheduler, 2) int64, its head and length
    scheduler : (n_subgroup,) uint8, the scheduler of each sub-group that has begun
    dealt : (1,) int64, sub-groups of the core that have begun
    next_scheduler : (1,) int64, the one whose turn it is, -1 where any may be next
    """

    subgroups: I64
    at_barrier: U8
    parked: U8
    alive: I32
    waiting: I32
    counted: U8
    ring: I32
    ends: I64
    scheduler: U8
    dealt: I64
    next_scheduler: I64


AT, START, END, REQUEST, PARTIAL, READY, WEIGHT, GROUP = range(8)
SUBGROUP_WORDS = 8
"""Words of a sub-group: 64 bytes, one cache line of the CPU."""


@inner
def _push(progress, s):
    q, wrap = progress.scheduler[nth(s)], progress.ring.shape[1] - 1
    progress.ring[nth(q), nth((progress.ends[nth(q), 0] + progress.ends[nth(q), 1]) & wrap)] = s
    progress.ends[nth(q), 1] += 1


@inner
def _first(progress, q):
    """The first ready sub-group of a scheduler."""
    wrap = progress.ring.shape[1] - 1
    return np.int64(progress.ring[nth(q), nth(progress.ends[nth(q), 0] & wrap)])


@inner
def _pop(progress, q):
    """Remove and return the first ready sub-group of a scheduler."""
    s = _first(progress, q)
    progress.ends[nth(q), 0] += 1
    progress.ends[nth(q), 1] -= 1
    return s


@inner
def take(progress, k):
    """Remove and return the k-th ready sub-group of the only scheduler; those before it keep their order."""
    wrap, head = progress.ring.shape[1] - 1, progress.ends[0, 0]
    s = progress.ring[0, nth((head + k) & wrap)]
    for i in range(k, 0, -1):
        progress.ring[0, nth((head + i) & wrap)] = progress.ring[0, nth((head + i - 1) & wrap)]
    progress.ends[0, 0] += 1
    progress.ends[0, 1] -= 1
    return np.int64(s)


@inner
def deal(progress, first, last):
    """Sub-groups that begin go to the schedulers in turn."""
    n = len(progress.ends)
    if n > 1:
        for s in range(first, last):
            progress.scheduler[nth(s)] = progress.dealt[0] % n
            progress.dealt[0] += 1


@inner
def _next_scheduler(progress, rng):
    """The scheduler that has the turn, or the next one that has a ready sub-group; -1 if none has."""
    n, q = len(progress.ends), progress.next_scheduler[0]
    takes_turns = q >= 0
    if not takes_turns:
        q = below(rng, n)
    for _ in range(n):
        after = q + 1 if q + 1 < n else np.int64(0)
        if progress.ends[nth(q), 1] > 0:
            if takes_turns:
                progress.next_scheduler[0] = after
            return q
        q = after
    return np.int64(-1)


@inner
def _pick(progress, sampler, rng, turn):
    """Remove and return the ready sub-group that has the turn, -1 if there is none."""
    if sampler < LOOSE_ROUND_ROBIN:
        q = _next_scheduler(progress, rng)
        return _pop(progress, q) if q >= 0 else q
    n = progress.ends[0, 1]
    if n == 0:
        return np.int64(-1)
    if sampler == UNIFORM:
        return take(progress, below(rng, n))
    wrap, head = progress.ring.shape[1] - 1, progress.ends[0, 0]
    best, best_turn = 0, np.int64(2**62)
    for k in range(n):
        s = np.int64(progress.ring[0, nth((head + k) & wrap)])
        ready = max(progress.subgroups[nth(s * SUBGROUP_WORDS + READY)], turn)
        if ready < best_turn:
            best, best_turn = k, ready
            if ready <= turn:
                break
    return take(progress, best)


@inner
def place(requests, progress, warming, s):
    """After its turn, a sub-group has ended, is parked at its start, waits at a barrier, or is ready."""
    me = s * SUBGROUP_WORDS
    p = progress.subgroups[nth(me + AT)]
    if p == progress.subgroups[nth(me + END)]:
        progress.alive[nth(progress.subgroups[nth(me + GROUP)])] -= 1
    elif warming and p >= progress.subgroups[nth(me + START)]:
        progress.parked[nth(s)] = 1
    elif requests.access[nth(p)] & np.uint32(BARRIER):
        progress.subgroups[nth(me + AT)] = p + 1
        progress.at_barrier[nth(s)] = 1
        progress.waiting[nth(progress.subgroups[nth(me + GROUP)])] += 1
    else:
        _push(progress, s)


@inner
def settle(requests, progress, warming, g):
    """Release a group's barriers for as long as all its live sub-groups wait at one."""
    while progress.waiting[nth(g)] > 0 and progress.waiting[nth(g)] == progress.alive[nth(g)]:
        progress.waiting[nth(g)] = 0
        for s in range(requests.first_subgroup[nth(g)], requests.first_subgroup[nth(g + 1)]):
            if progress.at_barrier[nth(s)]:
                progress.at_barrier[nth(s)] = 0
                place(requests, progress, warming, s)


REQUESTS_AHEAD = 4
"""Distance of prefetching, in requests of a sub-group."""


@inner
def _prefetch_groups(cache, requests, progress, groups, k):
    """Prefetch what the sub-groups of the k-th group and of those after it read first, step by step: of the one
    after next their words, of the next one their first access and requests, and of this one the first lines."""
    if k + 2 < len(groups):
        g = groups[nth(k + 2)]
        for s in range(requests.first_subgroup[nth(g)], requests.first_subgroup[nth(g + 1)]):
            prefetch(progress.subgroups, s * SUBGROUP_WORDS)
    if k + 1 < len(groups):
        g = groups[nth(k + 1)]
        for s in range(requests.first_subgroup[nth(g)], requests.first_subgroup[nth(g + 1)]):
            prefetch(requests.access, progress.subgroups[nth(s * SUBGROUP_WORDS + AT)])
            prefetch(requests.request, progress.subgroups[nth(s * SUBGROUP_WORDS + REQUEST)])
    g = groups[nth(k)]
    for s in range(requests.first_subgroup[nth(g)], requests.first_subgroup[nth(g + 1)]):
        first = progress.subgroups[nth(s * SUBGROUP_WORDS + REQUEST)]
        for r in range(first, first + REQUESTS_AHEAD):
            prefetch(cache.lines, 2 * (np.int64(requests.request[nth(r)]) & 0xFFFFFFFF))


@inner
def start_next(cache, requests, progress, groups, next_group, began, record):
    """Start the next group that has any access; returns the index after it.

    began : (n_group,) int64, set to `record` for the groups that begin
    """
    while next_group < len(groups):
        _prefetch_groups(cache, requests, progress, groups, next_group)
        g = groups[nth(next_group)]
        began[nth(g)] = record
        next_group += 1
        first, last = requests.first_subgroup[nth(g)], requests.first_subgroup[nth(g + 1)]
        progress.alive[nth(g)] = last - first
        deal(progress, first, last)
        for s in range(first, last):
            place(requests, progress, False, s)
        settle(requests, progress, False, g)
        if progress.alive[nth(g)] > 0:
            break
    return next_group


@inner
def issue(stage, requests, progress, me, word, counted, turn, window):
    """Issue all requests of one access."""
    tables, cache = stage.tables, stage.cache
    kind = (word >> KIND_SHIFT) & 3
    site = word >> SITE_SHIFT
    r = progress.subgroups[nth(me + REQUEST)]
    stop = r + ((word >> COUNT_SHIFT) & MAX_REQUESTS_OF_ACCESS)
    progress.subgroups[nth(me + REQUEST)] = stop
    # Loads that hit completely are most of the work on kernels that reuse their data. They have a loop of their
    # own, which has few enough variables for the CPU's registers.
    quick = kind == LOAD and stage.geometry.caches_loads
    accesses, young_hits = np.int64(0), np.int64(0)
    while True:
        while quick and r < stop:
            request = np.int64(requests.request[nth(r)])
            ahead = np.int64(requests.request[nth(r + REQUESTS_AHEAD)]) & 0xFFFFFFFF
            prefetch(cache.lines, 2 * ahead)
            line, mask = request & 0xFFFFFFFF, (request >> 32) & 0xFF
            slot = slot_of(cache, line, 2 * line)
            need = np.int64(tables.sectors[nth(mask)])
            if slot < 0 or need & ~np.int64(cache.slots[nth(slot + META)]):
                break
            used(stage.geometry, cache, slot, np.int64(cache.lines[nth(2 * line + 1)]))
            accesses += tables.n_sectors[nth(need)]
            young_hits += pending(stage, slot, need, turn, window)
            r += 1
        if r >= stop:
            break
        request = np.int64(requests.request[nth(r)])
        r += 1
        line, mask = request & 0xFFFFFFFF, (request >> 32) & 0xFF
        if kind == STORE:
            full = request >> 40
            n_bytes = np.int64(tables.n_granules[nth(mask & ~full)])
            taken = progress.subgroups[nth(me + PARTIAL)]
            for k in range(n_bytes):
                stage.store_bytes[nth(k)] = requests.partial[nth(taken + k)]
            progress.subgroups[nth(me + PARTIAL)] = taken + n_bytes
            write(stage, 0, Store(line, mask, full, site, counted, 0, turn), window)
        elif kind == ATOMIC:
            update(stage, 0, Store(line, mask, 0, site, counted, 0, turn), window)
        else:
            read(stage, 0, line, mask, 0, site, kind, counted, turn, window)
    row = row_of(stage.n_site, site, counted)
    stage.counts[nth(row), nth(ACCESSES)] += accesses
    stage.counts[nth(row), nth(HITS)] += accesses - young_hits
    stage.counts[nth(row), nth(PENDING)] += young_hits


@inner
def _turn(stage, requests, progress, s, counted, turn, window):
    """A sub-group issues as many bulk sequences as its weight; a barrier ends the turn.

    Returns whether the turn ended before another sequence, so that the sub-group stays ready.
    """
    me = s * SUBGROUP_WORDS
    if stage.geometry.on_fill is not None:
        complete_fills(stage, turn)
    p, start = progress.subgroups[nth(me + AT)], progress.subgroups[nth(me + START)]
    limit = start if p < start else progress.subgroups[nth(me + END)]
    before = stage.queue.used[0]
    left = progress.subgroups[nth(me + WEIGHT)]
    first = True
    while p < limit:
        word = np.int64(requests.access[nth(p)])
        if word & BARRIER:
            break
        if word & STARTS_SEQUENCE and not first:
            left -= 1
            if left == 0:
                break
        issue(stage, requests, progress, me, word, counted, turn, window)
        p += 1
        first = False
    progress.subgroups[nth(me + AT)] = p
    progress.subgroups[nth(me + READY)] = turn + window if stage.queue.used[0] > before else turn
    # Its next turn is a round away: there is time to load what it will read.
    prefetch(requests.access, p)
    prefetch(requests.request, progress.subgroups[nth(me + REQUEST)] + REQUESTS_AHEAD)
    prefetch(requests.partial, progress.subgroups[nth(me + PARTIAL)])
    return left == 0


@inner
def _rotate(progress, rng):
    """Choose at random the first scheduler, where they take turns, and the first ready sub-group of each."""
    if progress.next_scheduler[0] >= 0 and len(progress.ends) > 1:
        progress.next_scheduler[0] = below(rng, len(progress.ends))
    for q in range(len(progress.ends)):
        n = progress.ends[nth(q), 1]
        if n > 1:
            for _ in range(below(rng, n)):
                _push(progress, _pop(progress, q))


@inner
def admit_first(requests, progress, groups, n_first):
    """Make the initial groups resident, to run up to their starts; returns their sub-groups."""
    n_resident = 0
    progress.dealt[0] = 0
    for i in range(n_first):
        g = groups[nth(i)]
        first, stop = requests.first_subgroup[nth(g)], requests.first_subgroup[nth(g + 1)]
        progress.alive[nth(g)] = stop - first
        n_resident += stop - first
        deal(progress, first, stop)
        for s in range(first, stop):
            place(requests, progress, True, s)
        settle(requests, progress, True, g)
    return n_resident


@inner
def resume(requests, progress, groups, n_first):
    """The warm-up is over: the parked sub-groups of the initial groups continue."""
    for i in range(n_first):
        g = groups[nth(i)]
        for s in range(requests.first_subgroup[nth(g)], requests.first_subgroup[nth(g + 1)]):
            if progress.parked[nth(s)]:
                progress.parked[nth(s)] = 0
                place(requests, progress, False, s)
        settle(requests, progress, False, g)


@hot
def clear(geometry, cache):
    """Empty a level: all instances, all sets."""
    words = geometry.ways * geometry.stride
    for set_ in range(len(cache.sets)):
        base = set_ * words
        first = base + words - geometry.stride
        for slot in range(base, base + words, geometry.stride):
            cache.slots[nth(slot + LINE)] = UNKNOWN
            cache.slots[nth(slot + META)] = 0
            set_turns(geometry, cache.slots, slot, 0xFF, LONG_AGO)
            cache.slots[nth(slot + NEXT)] = slot - geometry.stride if slot > base else first
            cache.slots[nth(slot + PREV)] = slot + geometry.stride if slot < first else base
        cache.sets[nth(set_)] = base
    for i in range(len(cache.ways)):
        cache.ways[nth(i)] = 0
    for i in range(len(cache.data)):
        cache.data[nth(i)] = 0
    for i in range(len(cache.unknown)):
        cache.unknown[nth(i)] = geometry.ways
    for first in range(0, len(cache.traces), max(geometry.touched_lines, 1)):
        for i in range(geometry.touched_lines):
            cache.traces[nth(first + i)] = cache.past[nth(i)]
    while cache.fills[1] > 0:
        first = cache.fills[0]
        cache.in_flight[nth(cache.fills[nth(2 + 2 * first)] & ((1 << 40) - 1))] = 0
        cache.fills[0] = first + 1 if 2 * first + 4 < len(cache.fills) else 0
        cache.fills[1] -= 1


class CoreQueues(NamedTuple):
    """Where the queue of each core is in the queue of all, and how long the core took, each (n_core,) int64.

    first, last : its records;  warm : the end of those from before counting began
    partial_first : its first partial mask;  turns : turns of the core
    """

    first: I64
    warm: I64
    last: I64
    partial_first: I64
    turns: I64


@inner
def begin_core(stage, streams, queues, core):
    """Empty the first level for a core, which has its own stream of random numbers."""
    used = stage.queue.used
    queues.first[nth(core)], queues.partial_first[nth(core)] = used[0], used[1]
    queues.warm[nth(core)] = used[0]
    clear(stage.geometry, stage.cache)
    stage.rng[0] = streams[nth(core)]


@inner
def replay_core(stage, requests, progress, groups, resident, sampler, latency_turns, began):
    """Replay one core's groups; returns (turns, records queued before counting began).

    groups : (n,) int32, the core's groups in order, `resident` at a time
    latency_turns : turns that a miss takes. A sector is pending if it was requested less than so
        many turns ago, and within the last round of the resident sub-groups: none of them issues
        again before its data arrive
    began : (n_group,) int64, set for the groups that follow the initial ones: the records queued before
        each

    The initial groups first run up to their starts (schedule deviation). This warms the cache and is
    not counted, unless the launch begins here. In round robin, each scheduler serves its sub-groups in turn; which
    scheduler is next is random, unless they take turns.
    """
    progress.ends[:] = 0
    turn = np.int64(0)
    n_first = min(resident, len(groups))
    n_resident = admit_first(requests, progress, groups, n_first)
    window = max(min(latency_turns, n_resident), 1)
    warm = stage.queue.used[0]
    next_group = n_first
    # One loop for both phases: the warm-up (phase 0) ends when every initial sub-group is parked.
    for phase in range(2):
        warming = phase == 0
        if not warming:
            warm = stage.queue.used[0]
            resume(requests, progress, groups, n_first)
        _rotate(progress, stage.rng)
        if not warming:
            for i in range(n_first):
                if progress.alive[nth(groups[nth(i)])] == 0:
                    next_group = start_next(
                        stage.cache, requests, progress, groups, next_group, began, warm
                    )
        while True:
            s = _pick(progress, sampler, stage.rng, turn)
            if s < 0:
                break
            follower = _first(progress, progress.scheduler[nth(s)]) * SUBGROUP_WORDS
            prefetch(requests.access, progress.subgroups[nth(follower + AT)])
            prefetch(requests.request, progress.subgroups[nth(follower + REQUEST)])
            g = progress.subgroups[nth(s * SUBGROUP_WORDS + GROUP)]
            counted = np.int64(progress.counted[nth(g)] > warming)
            more = _turn(stage, requests, progress, s, counted, turn, window)
            turn += 1
            if more:
                _push(progress, s)
                continue
            place(requests, progress, warming, s)
            settle(requests, progress, warming, g)
            if not warming and progress.alive[nth(g)] == 0:
                next_group = start_next(
                    stage.cache, requests, progress, groups, next_group, began, stage.queue.used[0]
                )
    return turn, warm


@hot
def discard(geometry, cache, first_line, n_line):
    """Drop lines from all instances, dirty or not: the host has overwritten their data."""
    words = geometry.ways * geometry.stride
    for set_ in range(len(cache.sets)):
        for slot in range(set_ * words, (set_ + 1) * words, geometry.stride):
            line = cache.slots[nth(slot + LINE)]
            if line >= 0 and first_line <= line < first_line + n_line:
                drop(geometry, cache, slot, set_)
