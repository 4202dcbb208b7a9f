"""Windows in time: what the groups that a machine holds resident do for a while, where whole groups cost too much.

The groups of one wave are executed up to the same place of their run, in step, and recorded from there on. Some windows lie in
equal parts of the run; one is its start, and one its end. The first half of a window warms the caches and is not
counted, but for the start's. How often an access is executed in all is known from groups that are executed without
being recorded.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tracegen.recording import snapshot

Integers = npt.NDArray[np.int64]

GRANULES = 4_000_000
"""Of a window of WAVES: a few of these are traced and replayed within seconds."""
LEAST_STEPS = 16
"""Of a window, whatever they cost."""
LEAST_BARRIERS = 64
"""With so many, barriers are the steps by which sub-groups of a group are equally far; else accesses are."""
RARE = 0.03
"""Part of a launch that a wave must be which does not fill the machine, to have a window of its own: its groups share less."""
MOST_TRIPS = 32
"""Numbers of four bytes in a line."""
PROBE_STEPS = 64
"""Of the sampled groups, from which the granules of a step are estimated."""


class Run(NamedTuple):
    """What the sampled groups of a launch do when they run alone.

    groups : ids;  by_barriers : whether a step is a barrier of the group, or an access of a sub-group
    steps : of the longest sub-group, the mean over groups;  accesses : (n_group,) of all sub-groups
    runs : (n_place,) executions of each access by a group, the mean;  segments : (n_segment,) likewise of the code's segments
    granules : of a group's step;  instructions : of a group, of all lanes;  n_subgroup : of a group
    """

    groups: Integers
    by_barriers: bool
    steps: float
    accesses: Integers
    runs: npt.NDArray[np.float64]
    segments: npt.NDArray[np.float64]
    granules: float
    instructions: float
    n_subgroup: int

    @property
    def trip(self) -> int:
        """Steps of a trip of the loop in which the access lies that is executed most often, where the others are in it too.

        A group runs alone, so its sub-groups' mean executions of that access are the trips.
        """
        trips = float(self.runs.max(initial=0.0)) / self.n_subgroup
        return max(round(self.steps / trips), 1) if trips > 0 else 1

    @property
    def cost(self) -> snapshot.Cost:
        """Of a whole group."""
        lane_accesses = 32.0 * float(self.accesses.mean())
        return snapshot.Cost(lane_accesses, self.granules * self.steps, self.instructions)


class Window(NamedTuple):
    """groups : ids, ascending;  begin, end : steps that are recorded of each;  counted_from : step
    share : of the launch, where nothing else stands for it; 0 for a sample of the rest
    """

    groups: Integers
    begin: int
    end: int
    counted_from: int
    share: float = 0.0

    @property
    def steps(self) -> Integers:
        """(n_group, 2)"""
        return np.tile(np.array([self.begin, self.end], np.int64), (len(self.groups), 1))


def length(run: Run, n_groups: int, granules: float) -> int:
    """The steps of a window of so many groups that request so many granules, the part included that is not counted."""
    return max(int(granules / max(run.granules * n_groups, 1e-9)), LEAST_STEPS)


def whole_trips(counted: int, trip: int) -> int:
    """So many steps, or fewer: a power of two of trips of a loop, or a trip divided by one. A loop that reads neighbouring numbers
    takes a new sector in one of 8 trips: windows of 23 trips would differ by a third. So would those of 24 steps in a loop of 32
    steps that the compiler has made of 16 trips: they are 16 steps long.

    trip : steps
    """
    most = min(counted // trip, MOST_TRIPS)
    if most:
        unit = trip << most.bit_length() - 1
    else:
        unit = max(trip >> (trip // max(counted, 1)).bit_length(), 1)
    return counted // unit * unit


def windows(
    n_groups: int, wave: int, steps: float, long: int, n_places: int, trip: int = 1
) -> list[Window]:
    """Those of a launch whose groups have so many steps: `n_places` of `long` steps, each in its own part of the launch and
    of the run, and beside several the end, the start and, where the last wave does not fill the machine, the last groups.

    The groups are whole waves, as they are if groups stay in step: of a launch whose waves cross rows of its grid, some do.
    In the parts of the run they lie in another sequence than in those of the launch: kernels do something else where both are the same,
    as all-pairs sums, which then read what the group has read as its own. trip : steps of a loop, see whole_trips
    """
    n, last = min(wave, n_groups), max(int(steps), 1)
    if long // 2 < trip <= long:  # a trip is counted whole, for twice the cost at most
        long = 2 * trip
    long = min(long, last)
    counted = whole_trips(long - long // 2, trip)
    warm = long - counted
    found = []
    within = [snapshot.GOLDEN * (k + 1) % 1 for k in range(n_places)]
    for k in range(n_places):
        part = (sorted(within).index(within[k]) + within[k]) / n_places
        at = warm + int(max(last - long, 0) * part)
        first = int(n_groups // n * (k + within[k]) / n_places) * n
        ids = first + np.arange(n, dtype=np.int64)
        found.append(Window(ids, at - warm, at + counted, at))
    if n_places == 1:
        return found
    rest = n_groups % n if n < n_groups else 0
    if RARE * n_groups < rest:
        at = found[n_places // 2].begin
        ids = np.arange(n_groups - rest, n_groups, dtype=np.int64)
        found.append(Window(ids, at, at + long, at + warm, rest / n_groups))
    ids, share = found[n_places // 2].groups, min(counted / last, 1 / 3)
    end = max(last - counted, 0)
    found.append(Window(ids, max(end - warm, 0), last + counted, end, share))
    return [*found, Window(ids, 0, counted, 0, share)]


def warming(
    access: npt.NDArray[np.int32], offset: Integers, steps: int, by_barriers: bool, n: int
) -> Integers:
    """(n_subgroup,) how many of a sub-group's first recorded accesses come before counting begins, after so many steps.

    access : -1 for a barrier;  offset : (n_subgroup + 1,);  n : sub-groups of a group

    All sub-groups of a group begin to be counted between the same barriers.
    """
    is_barrier = access < 0
    wanted = np.full(len(offset) - 1, steps, np.int64)
    if by_barriers:
        return _after(is_barrier, offset, wanted)
    found = np.minimum(_after(~is_barrier, offset, wanted), np.diff(offset))
    barriers = np.concatenate([[0], np.cumsum(is_barrier)])
    passed = barriers[offset[:-1] + found] - barriers[offset[:-1]]
    if not is_barrier.any():
        return found
    epoch = np.repeat(passed.reshape(-1, n).min(axis=1), n)
    latest = _after(is_barrier, offset, epoch + 1) - 1  # at the barrier that ends the epoch
    has_end = barriers[offset[1:]] - barriers[offset[:-1]] > epoch
    return np.where(has_end, np.minimum(found, np.maximum(latest, 0)), found)


def _after(counts: npt.NDArray[np.bool_], offset: Integers, wanted: Integers) -> Integers:
    """(n_subgroup,) accesses up to and with the wanted-th of those that count; all where there are fewer."""
    total = np.concatenate([[0], np.cumsum(counts)])
    target = total[offset[:-1]] + wanted
    at = np.searchsorted(total, target, side="left")
    return np.asarray(np.clip(at - offset[:-1], 0, np.diff(offset)), np.int64)


def weights(
    sites: list[npt.NDArray[np.int32]],
    places: list[npt.NDArray[np.int32]],
    runs: npt.NDArray[np.float64],
    n_groups: int,
    n_site: int,
) -> tuple[npt.NDArray[np.float64], float]:
    """(n_site,) executions of each site in n_groups whole groups over those recorded, and which part of all executions were
    those of accesses that no window has.

    sites, places : of each recorded access that is no barrier, of all windows;  runs : see Run
    """
    recorded = np.sum([np.bincount(one, minlength=len(runs)) for one in places], axis=0)
    each = np.where(recorded > 0, n_groups * runs / np.maximum(recorded, 1), 0.0)
    weighted, counted = np.zeros(n_site), np.zeros(n_site)
    for site, place in zip(sites, places, strict=True):
        weighted += np.bincount(site, weights=each[place], minlength=n_site)
        counted += np.bincount(site, minlength=n_site)
    unseen = float(runs[recorded == 0].sum() / runs.sum()) if runs.sum() else 0.0
    return np.where(counted > 0, weighted / np.maximum(counted, 1), 0.0), unseen
