"""Step 3 of a trial where a core's schedulers are greedy: sub-cores, and the memory pipe they share.

A core is divided into sub-cores, each with a scheduler and sub-groups of its own, dealt to them in turn.
The accesses of all of them pass one memory pipe, which takes one at a time (Huerta et al., *Dissecting and
Modeling the Architecture of Modern GPU Cores*, MICRO 2025, sections 5.1 and 5.4). A scheduler stays with
a sub-group until that must wait, and then takes the youngest that need not (their section 5.1.2), or the
oldest. Time is in cycles of the core: what a scheduler can choose from depends on which data have arrived.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from memsim.compile import hot, inner, nth
from memsim.hierarchy.cache import (
    BYPASS,
    I32,
    I64,
    LOAD,
    META,
    STORE,
    TURNS,
    U8,
    aligned,
    slot_of,
)
from memsim.hierarchy.core_stage import (
    AT,
    BARRIER,
    COUNT_SHIFT,
    END,
    GROUP,
    KIND_SHIFT,
    MAX_REQUESTS_OF_ACCESS,
    READY,
    REQUEST,
    START,
    STARTS_SEQUENCE,
    SUBGROUP_WORDS,
    admit_first,
    begin_core,
    issue,
    place,
    replay_core,
    resume,
    settle,
    start_next,
    take,
)
from memsim.hierarchy.loads import complete_fills
from memsim.hierarchy.rng import below

NEVER = 1 << 62
"""A time after all others: of a sub-group that waits for others, or has ended."""


class Timing(NamedTuple):
    """How long things take in a core, in its cycles.

    issue_cycles : between two accesses of one scheduler
    access_cycles : of any access in the memory pipe, which takes `lines_per_cycle` of its requests a cycle
    hit_cycles, miss_cycles : from the pipe to the data
    start_cycles : from the end of a group to the first instruction of the one that follows
    youngest : the youngest sub-group is preferred, not the oldest
    """

    issue_cycles: int
    access_cycles: float
    lines_per_cycle: float
    hit_cycles: int
    miss_cycles: int
    start_cycles: int
    youngest: bool


class SubCores(NamedTuple):
    """The sub-groups of the resident groups by scheduler, in the order in which they began.

    of : (n_subgroup,) uint8, the scheduler of each sub-group
    listed : (n_scheduler, most) int32, sub-groups;  ready : (n_scheduler, most) int64, when they can issue
    n : (n_scheduler,) int64, sub-groups listed
    last : (n_scheduler,) int64, the position of the one that issued last, -1 if it has left
    free : (n_scheduler,) int64, when the scheduler can issue again
    soonest : (n_scheduler,) int64, when the first of its sub-groups can
    """

    of: U8
    listed: I32
    ready: I64
    n: I64
    last: I64
    free: I64
    soonest: I64


def empty_sub_cores(n_schedulers: int, n_subgroup: int, most: int) -> SubCores:
    """Sub-cores without sub-groups; most : resident sub-groups of the core"""
    of_each: list[npt.NDArray[np.int64]] = [np.zeros(n_schedulers, np.int64) for _ in range(4)]
    return SubCores(
        np.zeros(n_subgroup, np.uint8),
        aligned((n_schedulers, most), np.int32),
        aligned((n_schedulers, most), np.int64),
        *of_each,
    )


@inner
def _deal(requests, progress, cores, g, begins):
    """Each sub-group of a group goes to the scheduler that has the fewest; they begin at `begins`."""
    for s in range(requests.first_subgroup[nth(g)], requests.first_subgroup[nth(g + 1)]):
        fewest = 0
        for i in range(1, len(cores.n)):
            if cores.n[nth(i)] < cores.n[nth(fewest)]:
                fewest = i
        k = cores.n[nth(fewest)]
        cores.of[nth(s)] = fewest
        cores.listed[nth(fewest), nth(k)] = s
        cores.ready[nth(fewest), nth(k)] = NEVER
        cores.n[nth(fewest)] = k + 1
        progress.subgroups[nth(s * SUBGROUP_WORDS + READY)] = begins


@inner
def _leave(progress, cores, g):
    """A group has ended: its sub-groups leave their schedulers."""
    for i in range(len(cores.n)):
        kept, last = 0, np.int64(-1)
        for k in range(cores.n[nth(i)]):
            s = np.int64(cores.listed[nth(i), nth(k)])
            if progress.subgroups[nth(s * SUBGROUP_WORDS + GROUP)] == g:
                continue
            if k == cores.last[nth(i)]:
                last = np.int64(kept)
            cores.listed[nth(i), nth(kept)] = s
            cores.ready[nth(i), nth(kept)] = cores.ready[nth(i), nth(k)]
            kept += 1
        cores.n[nth(i)], cores.last[nth(i)] = kept, last


@inner
def _find_soonest(cores, i):
    """Find anew when the first sub-group of a scheduler can issue."""
    soonest = np.int64(NEVER)
    for k in range(cores.n[nth(i)]):
        soonest = min(soonest, cores.ready[nth(i), nth(k)])
    cores.soonest[nth(i)] = soonest


@inner
def _release(progress, cores):
    """Sub-groups that have begun, or passed a barrier, can issue once their data are there."""
    while progress.ends[0, 1] > 0:
        s = take(progress, 0)
        i = cores.of[nth(s)]
        k = 0
        while cores.listed[nth(i), nth(k)] != s:
            k += 1
        ready = progress.subgroups[nth(s * SUBGROUP_WORDS + READY)]
        cores.ready[nth(i), nth(k)] = ready
        cores.soonest[nth(i)] = min(cores.soonest[nth(i)], ready)


@inner
def _follow(
    cache, requests, progress, cores, groups, next_group, began, record, ended, now, timing
):  # fmt: skip
    """A group has ended, and the next one begins in its place; returns the index after it."""
    ends = now
    for s in range(requests.first_subgroup[nth(ended)], requests.first_subgroup[nth(ended + 1)]):
        ends = max(ends, progress.subgroups[nth(s * SUBGROUP_WORDS + READY)])
    _leave(progress, cores, ended)
    after = start_next(cache, requests, progress, groups, next_group, began, record)
    if after > next_group:
        g = groups[nth(after - 1)]
        if progress.alive[nth(g)] > 0:
            _deal(requests, progress, cores, g, ends + timing.start_cycles)
            _release(progress, cores)
    return after


@inner
def _turn_of(cores, now, first):
    """The scheduler that has the pipe next, and when: the first that can issue, in turn from `first`."""
    chosen, at = np.int64(-1), np.int64(NEVER)
    for j in range(len(cores.n)):
        i = first + j if first + j < len(cores.n) else first + j - len(cores.n)
        time = max(cores.soonest[nth(i)], cores.free[nth(i)], now)
        if time < at:
            chosen, at = np.int64(i), time
    return chosen, at


@inner
def _choose(cores, i, now, youngest):
    """The position of the sub-group that a scheduler takes."""
    k = cores.last[nth(i)]
    if k >= 0 and cores.ready[nth(i), nth(k)] <= now:
        return k
    n = cores.n[nth(i)]
    k = n - 1 if youngest else np.int64(0)
    while cores.ready[nth(i), nth(k)] > now:
        k += -1 if youngest else 1
    return k


@inner
def _data_at(stage, requests, first, kind, now, timing):
    """When the data arrive of requests that were served at `now`, from `first` on.

    Sectors that were already on their way arrive when those did that asked for them first.
    """
    kept = stage.geometry.caches_loads if kind == LOAD else stage.geometry.write_back
    if kind == BYPASS or not kept:
        return now + timing.miss_cycles
    at = now + timing.hit_cycles
    for r in range(first[0], first[1]):
        request = np.int64(requests.request[nth(r)])
        line = request & 0xFFFFFFFF
        need = np.int64(stage.tables.sectors[nth((request >> 32) & 0xFF)])
        slot = slot_of(stage.cache, line, 2 * line)
        if slot < 0 or need & ~np.int64(stage.cache.slots[nth(slot + META)]):
            return max(at, now + timing.miss_cycles)
        for g in range(stage.geometry.granules_per_line):
            if need >> g & 1:
                asked = np.int64(stage.cache.slots[nth(slot + TURNS + g)])
                at = max(at, asked + timing.miss_cycles)
    return at


@inner
def _access(stage, requests, progress, s, counted, now, timing):
    """A sub-group issues one access; returns when the pipe is free again."""
    me = s * SUBGROUP_WORDS
    p = progress.subgroups[nth(me + AT)]
    word = np.int64(requests.access[nth(p)])
    first = progress.subgroups[nth(me + REQUEST)]
    n_requests = (word >> COUNT_SHIFT) & MAX_REQUESTS_OF_ACCESS
    busy = max(timing.access_cycles, n_requests / timing.lines_per_cycle, 1.0)
    now += np.int64(np.ceil(busy))
    if stage.geometry.on_fill is not None:
        complete_fills(stage, now)
    issue(stage, requests, progress, me, word, counted, now, timing.miss_cycles)
    kind = (word >> KIND_SHIFT) & 3
    if kind != STORE and n_requests > 0:
        at = _data_at(stage, requests, (first, first + n_requests), kind, now, timing)
        progress.subgroups[nth(me + READY)] = max(progress.subgroups[nth(me + READY)], at)
    progress.subgroups[nth(me + AT)] = p + 1
    return now


@inner
def _goes_on(requests, progress, s, warming, now):
    """When a sub-group can issue its next access; NEVER if it ends, or waits for others, before that.

    A bulk sequence, and a store, wait for the data of the sub-group's loads.
    """
    me = s * SUBGROUP_WORDS
    p = progress.subgroups[nth(me + AT)]
    if p == progress.subgroups[nth(me + END)] or (
        warming and p >= progress.subgroups[nth(me + START)]
    ):
        return np.int64(NEVER)
    word = np.int64(requests.access[nth(p)])
    if word & BARRIER:
        return np.int64(NEVER)
    if word & STARTS_SEQUENCE or (word >> KIND_SHIFT) & 3 == STORE:
        return max(progress.subgroups[nth(me + READY)], now)
    return now


@inner
def _begin(requests, progress, cores, groups, n_first):
    """Make the initial groups resident, to run up to their starts."""
    progress.ends[:] = 0
    cores.n[:] = 0
    cores.free[:] = 0
    cores.last[:] = -1
    cores.soonest[:] = NEVER
    for i in range(n_first):
        _deal(requests, progress, cores, groups[nth(i)], 0)
    admit_first(requests, progress, groups, n_first)


@hot
def replay_cores(
    stage, streams, requests, progress, cores, group, core_offset, resident, order, began, queues
):  # fmt: skip
    """Replay all cores, one by one.

    streams : (n_core,) uint64, the random stream of each
    cores : the SubCores of each where schedulers are greedy, and order is their Timing; else None, and order is
        (sampler, latency_turns), see memsim.hierarchy.core_stage.replay_core
    group, core_offset : see memsim.montecarlo.schedule.Schedule
    queues : filled; its turns are cycles where schedulers are greedy
    """
    for core in range(len(core_offset) - 1):
        begin_core(stage, streams, queues, core)
        groups = group[core_offset[nth(core)] : core_offset[nth(core + 1)]]
        if len(groups) > 0:
            if cores is None:
                turns, warm = replay_core(
                    stage, requests, progress, groups, resident, order[0], order[1], began
                )
            else:
                turns, warm = _replay_sub_cores(
                    stage, requests, progress, cores, groups, resident, order, began
                )
            queues.turns[nth(core)], queues.warm[nth(core)] = turns, warm
        queues.last[nth(core)] = stage.queue.used[0]


@inner
def _replay_sub_cores(stage, requests, progress, cores, groups, resident, timing, began):
    """Replay one core's groups; returns (cycles, records queued before counting began).

    groups : (n,) int32, the core's groups in order, `resident` at a time
    began : (n_group,) int64, set for the groups that follow the initial ones: the records queued before
        each

    Which scheduler has the pipe first is random. The initial groups first run up to their starts
    (schedule deviation). This warms the cache and is not counted.
    """
    n_first = min(resident, len(groups))
    _begin(requests, progress, cores, groups, n_first)
    now, warm, next_group = np.int64(0), stage.queue.used[0], n_first
    for phase in range(2):
        warming = phase == 0
        if not warming:
            warm = stage.queue.used[0]
            resume(requests, progress, groups, n_first)
        first = below(stage.rng, len(cores.n)) if len(cores.n) > 1 else np.int64(0)
        _release(progress, cores)
        if not warming:
            for k in range(n_first):
                g = np.int64(groups[nth(k)])
                if progress.alive[nth(g)] == 0:  # it ended before counting began
                    next_group = _follow(
                        stage.cache, requests, progress, cores, groups, next_group, began, warm, g, now,
                        timing,
                    )  # fmt: skip
        while True:
            i, at = _turn_of(cores, now, first)
            if at == NEVER:
                break
            first = i + 1 if i + 1 < len(cores.n) else 0
            k = _choose(cores, i, at, timing.youngest)
            s = np.int64(cores.listed[nth(i), nth(k)])
            g = progress.subgroups[nth(s * SUBGROUP_WORDS + GROUP)]
            counted = np.int64(progress.counted[nth(g)] > warming)
            now = _access(stage, requests, progress, s, counted, at, timing)
            goes_on = _goes_on(requests, progress, s, warming, now)
            cores.free[nth(i)] = at + timing.issue_cycles
            cores.last[nth(i)] = k
            cores.ready[nth(i), nth(k)] = goes_on
            if goes_on == NEVER:
                place(requests, progress, warming, s)
                settle(requests, progress, warming, g)
                _release(progress, cores)
            _find_soonest(cores, i)
            if not warming and progress.alive[nth(g)] == 0:
                record = stage.queue.used[0]
                next_group = _follow(
                    stage.cache, requests, progress, cores, groups, next_group, began, record, g, now,
                    timing,
                )  # fmt: skip
    return now, warm
