"""Steps 1 and 2 of a trial: which core runs each group and when, and where counting starts in it.

Baghsorkhi et al. 2012, section 3.2, deal groups to cores by their number. On hardware groups begin in
order of their number, each on the core that is free first: neighbours in number are neighbours in
time, and every core becomes free at its own time, because groups last unequally long.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from memsim.compile import hot
from memsim.hierarchy.core_stage import (
    BARRIER,
    COUNT_SHIFT,
    MAX_REQUESTS_OF_ACCESS,
    START,
    STARTS_SEQUENCE,
    SUBGROUP_WORDS,
    Requests,
)
from memsim.montecarlo.options import Dispatch

SLICES_OF_WAVE = 4
"""Slices of time in which a shared level serves the cores, while as many groups begin as the machine
holds. With 16, the V100 stencil's volumes do not change, and the MI250X Laplacian's by 3 points at most."""
PLACES_APART, MOST_VARIATION = 10, 0.125
"""Standard deviation of when a place counts as free: the time in which ten groups begin, but of a group of one turn
at most an eighth of its time, and of n turns, which wait independently of each other, an eighth of it divided by sqrt(n).

The ten places were fitted to two GPUs: without them a group is often on the core of the group one wave before it,
and 16x1x64 and 16x2x32 groups of the V100 stencil reuse rows in L1 that they do not reuse on hardware.
Their L2 loads are 28 and 29 % too low with 0 places, 0 and 4 % with 5, +2 and -2 % off with 10.
On the MI250X, with 440 to 880 places, volumes of the Laplacian change by about 3 points or less from 0 to 10
places; with a tenth of the time instead, kernel 3 with m=4 and m=8 and kernel 4 with m=16 are 7, 15 and 12 %
too high, with ten places 1, 6 and 9 %. With ten places for groups of 273 turns that march through 64 planes, neighbours
are five planes apart and share little in L2: DRAM reads are twice as many as with a turn's eighth."""


class Work(NamedTuple):
    """What the groups of a launch have to do, each (n_group,).

    turns : int64, bulk sequences of the longest sub-group, at least 1
    cycles : float64, how long the group keeps a core: its turns and its requests
    """

    turns: npt.NDArray[np.int64]
    cycles: npt.NDArray[np.float64]


class Schedule(NamedTuple):
    """Where and when groups run in one trial.

    group : (n_group,) int32, core by core, in the order of execution
    core_offset : (n_core + 1,) int64
    fraction : (n_initial,) float64, how much of each initial group is over when counting begins
    start, end : (n_group,) float64 cycles since then, 0 at the earliest; None where groups are dealt
        by number, for this rule does not say when a group begins
    """

    group: npt.NDArray[np.int32]
    core_offset: npt.NDArray[np.int64]
    fraction: npt.NDArray[np.float64]
    start: npt.NDArray[np.float64] | None
    end: npt.NDArray[np.float64] | None

    def of_core(self, core: int) -> npt.NDArray[np.int32]:
        return self.group[self.core_offset[core] : self.core_offset[core + 1]]


def work_of(requests: Requests, cycles_per_turn: float) -> Work:
    """The work of every group. A turn of a sub-group takes the core `cycles_per_turn`, a request one
    cycle more."""
    first = requests.first_subgroup
    turns, n_requests = np.zeros((2, len(first) - 1), np.int64)
    count_work(requests, turns, n_requests)
    cycles = turns * np.diff(first) * cycles_per_turn + n_requests
    return Work(turns, np.asarray(cycles, np.float64))


def spread(turns: npt.NDArray[np.int64], waves: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The part of a group's time within which the groups of a wave begin, after so many waves; 1: evenly spread.

    The first ones begin within one turn, for the first loads of all wait for each other. After that, the variance of
    when a group begins grows in each wave by that of how long one lasts (MOST_VARIATION); a uniform distribution of width
    w has the variance w^2 / 12. The order is kept, as in queues.
    """
    variance = 12 * MOST_VARIATION**2 * np.asarray(waves, np.float64) / turns
    return np.asarray(np.minimum(np.sqrt(1.0 / turns**2 + variance), 1.0))


def schedule(
    work: Work,
    n_cores: int,
    resident: int,
    generator: np.random.Generator,
    *,
    dispatch: Dispatch = "first_free",
    inside: bool = False,
    waves_before: float = 0.0,
    dies: int = 1,
    over: npt.NDArray[np.float64] | None = None,
) -> Schedule:
    """Draw where and when the groups of one trial run.

    resident : groups that a core holds
    inside : the first groups are in progress, as inside a launch, instead of at their beginning
    waves_before : how many waves of groups have run before them then
    dies : to which groups are dealt in turn, for good: the first cores are those of the first die
    over : (n_group,) how much of each is over where it is known

    Which core is free first is random among those that become free at nearly the same time, but no core
    is left behind: cores share what is below them, and one that is late finds it less busy. The groups that run
    at the same time have begun at equal distances, the first in number first, within a part of a group's time that grows
    from wave to wave (`spread`). `round_robin` deals groups by number, and all initial groups of a core are equally far,
    each core's at a random point (Baghsorkhi et al. 2012, section 3.2.1).
    """
    n_groups, n_places = len(work.turns), n_cores * resident
    n_initial = min(n_groups, n_places)
    begun = generator.random(n_cores)
    at = np.arange(max(n_groups, n_places), dtype=np.int64)
    of_die = n_cores // dies
    dealt = at % dies * of_die + at // dies % of_die
    if dispatch == "round_robin":
        core = dealt[:n_groups]
        fraction = begun[core[:n_initial]]
        start = end = None
    else:
        places = dealt[:n_places]
        if inside and (over is None or n_groups >= n_places):  # else all began with the launch
            for die in range(dies):
                places[die::dies] = generator.permutation(places[die::dies])
        variation = np.minimum(PLACES_APART / n_places, MOST_VARIATION / np.sqrt(work.turns))
        wave, rank = np.divmod(np.arange(n_groups), n_initial)
        rank = (rank + 0.5) / n_initial
        begins, ends = (rank * spread(work.turns, waves_before + wave + k) for k in (0, 1))
        fraction = np.sort((begun[0] - begins[:n_initial]) % 1)[::-1]
        if over is not None:
            fraction = over[:n_initial]
        start, end = np.zeros(n_groups), work.cycles * (1 + ends - begins)
        end[:n_initial] = work.cycles[:n_initial] * (
            1 - fraction if inside else 1 + ends[:n_initial]
        )
        late = variation * generator.standard_normal(n_groups) * work.cycles
        core = np.empty(n_groups, np.int64)
        core[:n_initial] = places[:n_initial]
        for die in range(dies):
            mine = [np.ascontiguousarray(each[die::dies]) for each in (core, start, end, late)]
            dispatch_first_free(*mine, np.empty(len(range(die, n_initial, dies)), np.int64))
            core[die::dies], start[die::dies], end[die::dies] = mine[:3]
    if not inside:
        fraction = np.zeros(n_initial)
    order = np.argsort(core, kind="stable").astype(np.int32)
    core_offset = np.zeros(n_cores + 1, np.int64)
    np.cumsum(np.bincount(core, minlength=n_cores), out=core_offset[1:])
    return Schedule(order, core_offset, fraction, start, end)


@hot
def dispatch_first_free(core, start, end, late, heap):  # type: ignore[no-untyped-def]
    """Let groups begin in order of number, each where and when the first of those before it ends.

    core : (n_group,) int64, given for the initial groups;  start : (n_group,) float64, filled
    end : (n_group,) float64, for the initial groups when they end, for the others how long they last;
        on return when they end
    late : (n_group,) float64, how much later than its end a group's place counts as free; overwritten
    heap : (n_initial,) int64, scratch: the running groups, the first that counts as over on top
    """
    n_initial = len(heap)
    for g in range(len(end)):
        at = g if g < n_initial else 0
        if g < n_initial:
            late[g] += end[g]
            while at > 0 and late[g] < late[heap[(at - 1) // 2]]:
                heap[at] = heap[(at - 1) // 2]
                at = (at - 1) // 2
        else:
            core[g] = core[heap[0]]
            start[g] = end[heap[0]]
            end[g] += start[g]
            late[g] += end[g]
            while 2 * at + 1 < n_initial:
                child = 2 * at + 1
                if child + 1 < n_initial and late[heap[child + 1]] < late[heap[child]]:
                    child += 1
                if late[g] <= late[heap[child]]:
                    break
                heap[at] = heap[child]
                at = child
        heap[at] = g


def slice_ends(
    drawn: Schedule,
    resident: int,
    began: npt.NDArray[np.int64],
    warm: npt.NDArray[np.int64],
    last: npt.NDArray[np.int64],
) -> npt.NDArray[np.int64]:
    """(n_slice, n_core) the end of each core's queue in each slice of time.

    began : (n_group,) the record of its core's queue with which each group begins
    warm, last : (n_core,) the records with which counting begins and the queue ends

    A core is in time where one of its groups begins, and between these points its requests follow
    evenly. Without times there is one slice.
    """
    if drawn.start is None or drawn.end is None:
        return last[None].copy()
    n_cores = len(last)
    n_waves = -(-len(began) // (n_cores * resident))
    at = np.linspace(0, drawn.end.max(), SLICES_OF_WAVE * n_waves + 1)[1:]
    ends = np.repeat(last[None], len(at), axis=0)
    for core in range(n_cores):
        groups = drawn.of_core(core)
        if len(groups):
            later = groups[resident:]
            begin = np.sort(drawn.start[later])
            time = np.concatenate([[0.0], begin, [drawn.end[groups].max()]])
            record = np.concatenate([warm[core : core + 1], began[later], last[core : core + 1]])
            ends[:, core] = np.interp(at, time, record)
    ends[-1] = last
    return ends


@hot
def count_work(requests, turns, n_requests):  # type: ignore[no-untyped-def]
    """Count, for each group, the bulk sequences of its longest sub-group, at least 1, and its requests.

    turns, n_requests : (n_group,) int64, zeros
    """
    for s in range(len(requests.group)):
        n, g = np.int64(0), requests.group[s]
        for p in range(requests.subgroup_offset[s], requests.subgroup_offset[s + 1]):
            word = np.int64(requests.access[p])
            n += word & STARTS_SEQUENCE
            n_requests[g] += (word >> COUNT_SHIFT) & MAX_REQUESTS_OF_ACCESS
        turns[g] = max(turns[g], n, 1)


@hot
def set_starts(requests, groups, fraction, turns, subgroups):  # type: ignore[no-untyped-def]
    """Set where counting starts in each sub-group of a core's initial groups (schedule deviation).

    fraction : (n_group,) of a group's turns: of the bulk sequences of its longest sub-group in each barrier
        epoch. All its sub-groups start in the epoch in which that point lies, each after the same part of
        its own sequences there
    turns : (most_epochs,) int64, scratch
    subgroups : see memsim.hierarchy.core_stage.Progress
    """
    for i in range(len(groups)):
        g = groups[i]
        n_epochs = _count_epochs(requests, g, turns)
        left, epoch = fraction[i] * turns[:n_epochs].sum(), 0
        while epoch + 1 < n_epochs and left >= turns[epoch]:
            left -= turns[epoch]
            epoch += 1
        part = left / max(turns[epoch], 1)
        for s in range(requests.first_subgroup[g], requests.first_subgroup[g + 1]):
            begin, end = requests.subgroup_offset[s], requests.subgroup_offset[s + 1]
            begin = _after(requests.access, begin, end, epoch, BARRIER)
            n, p = np.int64(0), begin
            while p < end and not np.int64(requests.access[p]) & BARRIER:
                n += np.int64(requests.access[p]) & STARTS_SEQUENCE
                p += 1
            subgroups[s * SUBGROUP_WORDS + START] = _after(
                requests.access, begin, p, np.int64(part * n), STARTS_SEQUENCE
            )


@hot
def _count_epochs(requests, group, turns):  # type: ignore[no-untyped-def]
    """Count, for each barrier epoch of a group, the bulk sequences of its longest sub-group; returns the
    number of epochs."""
    turns[:] = 0
    last = 0
    for s in range(requests.first_subgroup[group], requests.first_subgroup[group + 1]):
        epoch, n = 0, np.int64(0)
        for p in range(requests.subgroup_offset[s], requests.subgroup_offset[s + 1]):
            word = np.int64(requests.access[p])
            if word & BARRIER:
                epoch, n = epoch + 1, np.int64(0)
            else:
                n += word & STARTS_SEQUENCE
            turns[epoch] = max(turns[epoch], n)
        last = max(last, epoch)
    return last + 1


@hot
def most_epochs(requests, n_group):  # type: ignore[no-untyped-def]
    """The barrier epochs of the sub-group with most of them, among the first groups."""
    most = 0
    for s in range(requests.first_subgroup[n_group]):
        n = 0
        for p in range(requests.subgroup_offset[s], requests.subgroup_offset[s + 1]):
            if np.int64(requests.access[p]) & BARRIER:
                n += 1
        most = max(most, n)
    return most + 1


@hot
def _after(access, begin, end, skipped, bit):  # type: ignore[no-untyped-def]
    """The access after `skipped` barriers, or bulk sequences; `end` if there are fewer."""
    if skipped == 0:
        return begin
    seen = 0
    for p in range(begin, end):
        if np.int64(access[p]) & bit:
            seen += 1
            if bit == BARRIER and seen == skipped:
                return p + 1
            if bit == STARTS_SEQUENCE and seen == skipped + 1:
                return p
    return end
