"""The event simulation, compiled. Its specification is tests/twins/event_simulation.py.

A prediction with its interval needs thousands of runs of some ten thousand events; interpreted, a run
takes a tenth of a second to a second.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from memsim.compile import hot, inner

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
MOST_LAG = 127
"""Most blocks for which a wait lags behind its loads; one that lags more is taken to lag so much."""
MOST_BUSY = 0.97
"""Part of a channel's time from which on its backlog alone is waited for."""


class Simulated(NamedTuple):
    """Inputs of the simulation: n blocks, and the order in which sub-groups run them.

    units : (n, n_unit) cycles of the core's units in each turn;  turns : (n,);  longest : (n,) the unit that a
        block occupies longest
    alone : (n,) cycles of each turn of a sub-group that has the core to itself
    latency : (n,);  channels : (n, n_channel) cycles of channels
    own : (n_channel,) whether each core has a channel of its own; others are shared by all
    queue, turnaround : (n_channel,);  used : (n, n_channel) probability that a block's loads use a channel at all
    loads, waits : (n,) whether a block loads, and whether a sub-group waits after it for what it has loaded
    lag : (n,) 0: the latency after a block is waited for; k > 0: instead, what was loaded up to the block k before it; below 0:
        nothing
    barrier : (n,) whether a barrier ends a block
    path : (tlp, longest path) the blocks of a group's sub-groups in order;  length : (tlp,) how many
    """

    units: Floats
    turns: Integers
    longest: Integers
    alone: Floats
    latency: Floats
    channels: Floats
    own: npt.NDArray[np.bool_]
    queue: Floats
    turnaround: Floats
    used: Floats
    loads: npt.NDArray[np.bool_]
    waits: npt.NDArray[np.bool_]
    lag: Integers
    barrier: npt.NDArray[np.bool_]
    path: Integers
    length: Integers


class _State(NamedTuple):
    """The working memory of a run.

    channel_free : (n_core, n_channel) when a channel has served all requests so far, of shared ones in row 0;  served : for how
        many cycles
    unit_free : (n_core, n_unit) when a unit has served all blocks so far
    free : (n_core, n_subgroup) when a sub-group may continue;  at : blocks that it has issued
    arrival : (n_core, n_subgroup) when channels have served all that it has loaded so far
    there : (n_core, n_subgroup, MOST_LAG + 1) when all has arrived that it had loaded up to each of its last blocks; one
        column where no block lags
    following : (n_core, n_subgroup) the step of its path that it issues next;  taken : turns that it has had of it;
        event : the event that describes it
    order : (n_core, n_subgroup) runnable sub-groups, the longest without a turn first;  runnable : (n_core,) how many
    arrived : (n_core, n_group) sub-groups at the group's barrier;  arrived_ids : which
    next_time, next_place : (n_core,) when the core issues next, and the place in `order` of the issuer
    wants : (n_core, n_subgroup) the unit that the next block occupies longest;  wanted : (n_core, n_unit) runnable
        sub-groups that want it
    members : (n_subgroup,) the places of sub-groups in their groups
    busy : (n_core,) until when a unit works;  n_idle : (n_core,) how often none did so far
    """

    channel_free: Floats
    served: Floats
    unit_free: Floats
    free: Floats
    arrival: Floats
    there: Floats
    at: Integers
    following: Integers
    taken: Integers
    event: Integers
    order: Integers
    runnable: Integers
    arrived: Integers
    arrived_ids: Integers
    next_time: Floats
    next_place: Integers
    wanted: Integers
    busy: Floats
    n_idle: Integers
    wants: Integers
    members: Integers


def drawn(core: int, subgroup: int, at: int, n: int) -> int:
    """One of n numbers, as if at random, for a sub-group's block."""
    x = (core * 0x9E3779B1 + subgroup * 0x85EBCA6B + at * 0xC2B2AE35) & 0xFFFFFFFF
    x ^= x >> 15
    x = x * 0x2C1B3C6D & 0xFFFFFFFF
    x ^= x >> 12
    x = x * 0x297A2D39 & 0xFFFFFFFF
    x ^= x >> 15
    return x % n


_drawn = inner(drawn)


@hot
def _run(blocks, state, longest_wait, tlp, rounds, issuers, times, idle):  # type: ignore[no-untyped-def]
    """See `run`; fills issuers, times and idle."""
    (
        units,
        turns,
        longest,
        alone,
        latency,
        channels,
        own,
        queue,
        turnaround,
        used,
        loads,
        waits,
        lag,
        barrier,
        path,
        length,
    ) = blocks
    (
        channel_free,
        served,
        unit_free,
        free,
        arrival,
        there,
        at,
        following,
        taken,
        event,
        order,
        runnable,
        arrived,
        arrived_ids,
        next_time,
        next_place,
        wanted,
        busy,
        n_idle,
        wants,
        members,
    ) = state
    n_channel = channels.shape[1]
    n_core = len(free)
    n_unit = units.shape[1]
    n_there = there.shape[2]  # a power of two
    begun = ended = 0
    while ended < issuers.shape[1]:
        c = 0
        for k in range(1, n_core):
            if next_time[k] < next_time[c]:
                c = k
        place = next_place[c]
        s = order[c, place]
        step = following[c, s]
        member = members[s]
        b = path[member, step]
        begin = next_time[c]
        done = begin
        for k in range(n_unit):
            if units[b, k] > 0:
                unit_free[c, k] = max(begin, unit_free[c, k]) + units[b, k]
                done = max(done, unit_free[c, k])
        done = max(done, free[c, s] + alone[b])
        if begin > busy[c]:
            idle[c, n_idle[c], 0], idle[c, n_idle[c], 1] = busy[c], begin
            n_idle[c] += 1
        busy[c] = max(busy[c], min(done, begin + units[b, longest[b]]))
        if taken[c, s] == 0:
            event[c, s] = begun
            issuers[0, begun], issuers[1, begun] = c, s
            issuers[2, begun], issuers[3, begun] = b, step
            times[0, begun] = begin
            begun += 1
        taken[c, s] += 1
        ready = done
        last = taken[c, s] == turns[b]
        if last:
            taken[c, s] = 0
            for k in range(n_channel):
                if channels[b, k] > 0:
                    q = c if own[k] else 0
                    channel_free[q, k] = max(done, channel_free[q, k]) + channels[b, k]
                    served[q, k] += channels[b, k]
                    if loads[b]:
                        busy_part = min(served[q, k] / max(done + longest_wait, 1.0), MOST_BUSY)
                        queued = channel_free[q, k] - done
                        queued += queue[k] * busy_part / (2 * (1 - busy_part))
                        queued += turnaround[k] * busy_part * busy_part
                        arrival[c, s] = max(arrival[c, s], done + used[b, k] * queued)
            waited = latency[b, _drawn(c, s, at[c, s], latency.shape[1])]
            if n_there > 1:
                arrived_at = there[c, s, (at[c, s] - 1) & (n_there - 1)]
                if loads[b]:
                    arrived_at = max(arrived_at, max(done, arrival[c, s]) + waited)
                there[c, s, at[c, s] & (n_there - 1)] = arrived_at
            if lag[b] == 0:
                ready = (max(done, arrival[c, s]) if waits[b] else done) + waited
            elif 0 < lag[b] <= at[c, s]:
                ready = max(done, there[c, s, (at[c, s] - lag[b]) & (n_there - 1)])
            times[1, event[c, s]], times[2, event[c, s]] = done, ready
            ended += 1
            at[c, s] += 1
            following[c, s] = step + 1 if step + 1 < length[member] else 0
            wants[c, s] = longest[path[member, following[c, s]]]
        free[c, s] = ready
        for k in range(place, runnable[c] - 1):
            order[c, k] = order[c, k + 1]
        runnable[c] -= 1
        wanted[c, longest[b]] -= 1
        if last and barrier[b]:
            g = s // tlp
            arrived_ids[c, g, arrived[c, g]] = s
            arrived[c, g] += 1
            if arrived[c, g] == tlp:
                arrived[c, g] = 0
                latest = 0.0
                for k in range(tlp):
                    latest = max(latest, free[c, arrived_ids[c, g, k]])
                for k in range(tlp):
                    other = arrived_ids[c, g, k]
                    free[c, other] = latest
                    if at[c, other] < rounds * length[members[other]]:
                        order[c, runnable[c]] = other
                        runnable[c] += 1
                        wanted[c, wants[c, other]] += 1
        elif at[c, s] < rounds * length[member]:
            order[c, runnable[c]] = s
            runnable[c] += 1
            wanted[c, wants[c, s]] += 1
        soonest = np.inf  # no turn begins before
        for k in range(n_unit):
            if wanted[c, k]:
                soonest = min(soonest, unit_free[c, k])
        soonest = max(soonest, begin)
        first, first_place = np.inf, 0
        for k in range(runnable[c]):
            other = order[c, k]
            when = free[c, other]
            if when >= first:
                continue
            when = max(unit_free[c, wants[c, other]], when)
            if when < first:
                first, first_place = when, k
                if when <= soonest:
                    break
        next_time[c], next_place[c] = first, first_place


def run(
    simulated: Simulated, *, tlp: int, blp: int, cores: int, rounds: int
) -> tuple[npt.NDArray[np.int64], Floats, list[Floats]]:
    """Runs the simulation; see calib.prediction.event_simulation.events.

    Returns (core, sub-group, block, step) and (start of issue, end of issue, arrival of data) of every event,
    (4, n_event) and (3, n_event), and for each core (n, 2) when no unit of it begins to work, and when one does.
    """
    n_channel, n_unit = simulated.channels.shape[1], simulated.units.shape[1]
    n_subgroup = tlp * blp
    n_event = cores * blp * rounds * int(simulated.length.sum())
    issuers = np.empty((4, n_event), np.int64)
    times = np.empty((3, n_event))
    turns = simulated.turns
    n_turn = (
        blp
        * rounds
        * sum(
            int(turns[one[:length]].sum())
            for one, length in zip(simulated.path, simulated.length, strict=True)
        )
    )
    idle = np.empty((cores, n_turn, 2))
    state = _State(
        channel_free=np.zeros((cores, n_channel)),
        served=np.zeros((cores, n_channel)),
        unit_free=np.zeros((cores, n_unit)),
        free=np.zeros((cores, n_subgroup)),
        arrival=np.zeros((cores, n_subgroup)),
        there=np.zeros((cores, n_subgroup, MOST_LAG + 1 if simulated.lag.any() else 1)),
        at=np.zeros((cores, n_subgroup), np.int64),
        following=np.zeros((cores, n_subgroup), np.int64),
        taken=np.zeros((cores, n_subgroup), np.int64),
        event=np.zeros((cores, n_subgroup), np.int64),
        order=np.tile(np.arange(n_subgroup), (cores, 1)),
        runnable=np.full(cores, n_subgroup),
        arrived=np.zeros((cores, blp), np.int64),
        arrived_ids=np.zeros((cores, blp, tlp), np.int64),
        next_time=np.zeros(cores),
        next_place=np.zeros(cores, np.int64),
        wanted=np.zeros((cores, n_unit), np.int64),
        busy=np.zeros(cores),
        n_idle=np.zeros(cores, np.int64),
        members=np.arange(n_subgroup) % tlp,
        wants=np.tile(simulated.longest[simulated.path[:, 0]], (cores, blp)),
    )
    first, times_first = np.unique(simulated.longest[simulated.path[:, 0]], return_counts=True)
    state.wanted[:, first] = blp * times_first
    of_turn = simulated._replace(
        units=simulated.units / turns[:, None], alone=simulated.alone / turns
    )
    longest_wait = float(simulated.latency.max())
    _run(of_turn, state, longest_wait, tlp, rounds, issuers, times, idle)
    return issuers, times, [idle[c, :n] for c, n in enumerate(state.n_idle)]
