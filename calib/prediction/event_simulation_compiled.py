"""The event simulation, compiled. Its specification is calib.prediction.event_simulation.readable.

A prediction with its interval needs thousands of runs of some ten thousand events; interpreted, a run
takes a tenth of a second to a second.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from memsim.compile import hot

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


class _Blocks(NamedTuple):
    """(n,) latencies of each block, cycles of a sub-group that is alone, and loads, (n, n_unit) cycles of the core's units, and (n, n_channel) cycles of
    channels that all cores share. longest : (n,) the unit that a block occupies longest"""

    units: Floats
    longest: Integers
    latency: Floats
    alone: Floats
    channels: Floats
    barrier: npt.NDArray[np.bool_]
    loads: Integers


class _State(NamedTuple):
    """The working memory of a run.

    channel_free : (n_channel,) when a channel has served all requests so far
    unit_free : (n_core, n_unit) when a unit has served all blocks so far
    free : (n_core, n_subgroup) when a sub-group may continue;  at : blocks that it has issued
    following : (n_core, n_subgroup) the block that it issues next
    order : (n_core, n_subgroup) runnable sub-groups, the longest without a turn first;  runnable : (n_core,)
        how many they are
    arrived : (n_core, n_group) sub-groups at the group's barrier;  arrived_ids : which
    next_time, next_place : (n_core,) when the core issues next, and the place in `order` of the issuer
    left : (n_core, in_flight) when the latest loads left, a ring;  issued : (n_core,) loads issued so far
    """

    channel_free: Floats
    unit_free: Floats
    free: Floats
    at: Integers
    following: Integers
    order: Integers
    runnable: Integers
    arrived: Integers
    arrived_ids: Integers
    next_time: Floats
    next_place: Integers
    left: Floats
    issued: Integers


@hot
def _run(blocks, state, tlp, n_step, issuers, times):  # type: ignore[no-untyped-def]
    """See `run`; fills issuers and times."""
    units, longest, latency, alone, channels, barrier, loads = blocks
    (
        channel_free,
        unit_free,
        free,
        at,
        following,
        order,
        runnable,
        arrived,
        arrived_ids,
        next_time,
        next_place,
        left,
        issued,
    ) = state
    in_flight = left.shape[1]
    n, n_channel = channels.shape
    n_core, n_subgroup = free.shape
    n_unit = units.shape[1]
    for e in range(n_core * n_subgroup * n_step):
        c = 0
        for k in range(1, n_core):
            if next_time[k] < next_time[c]:
                c = k
        place = next_place[c]
        s = order[c, place]
        b = following[c, s]
        begin = next_time[c]
        done = begin
        for k in range(n_unit):
            if units[b, k] > 0:
                unit_free[c, k] = max(begin, unit_free[c, k]) + units[b, k]
                done = max(done, unit_free[c, k])
        done = max(done, free[c, s] + alone[b])
        ready = done + latency[b]
        for k in range(n_channel):
            if channels[b, k] > 0:
                channel_free[k] = max(done + latency[b], channel_free[k]) + channels[b, k]
                ready = max(ready, channel_free[k])
        if in_flight and loads[b]:
            leaves = ready
            if issued[c]:
                leaves = max(ready, left[c, (issued[c] - 1) % in_flight])
            for k in range(issued[c], issued[c] + loads[b]):
                left[c, k % in_flight] = leaves
            issued[c] += loads[b]
        issuers[0, e], issuers[1, e], issuers[2, e] = c, s, b
        times[0, e], times[1, e], times[2, e] = begin, done, ready
        free[c, s] = ready
        at[c, s] += 1
        following[c, s] = b + 1 if b + 1 < n else 0
        for k in range(place, runnable[c] - 1):
            order[c, k] = order[c, k + 1]
        runnable[c] -= 1
        if barrier[b]:
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
                    if at[c, other] < n_step:
                        order[c, runnable[c]] = other
                        runnable[c] += 1
        elif at[c, s] < n_step:
            order[c, runnable[c]] = s
            runnable[c] += 1
        soonest = unit_free[c, 0]  # no block begins before
        for k in range(1, n_unit):
            soonest = min(soonest, unit_free[c, k])
        soonest = max(soonest, begin)
        first, first_place = np.inf, 0
        for k in range(runnable[c]):
            other = order[c, k]
            if free[c, other] >= first:
                continue
            block = following[c, other]
            when = max(unit_free[c, longest[block]], free[c, other])
            wanted = min(loads[block], in_flight)
            if wanted:
                when = max(when, left[c, (issued[c] + wanted - 1) % in_flight])
            if when < first:
                first, first_place = when, k
                if when <= soonest:
                    break
        next_time[c], next_place[c] = first, first_place


def run(
    units: Floats,
    latency: Floats,
    channels: Floats,
    barrier: npt.NDArray[np.bool_],
    *,
    tlp: int,
    blp: int,
    cores: int,
    rounds: int,
    alone: Floats,
    loads: Integers,
    in_flight: int,
) -> tuple[npt.NDArray[np.int64], Floats]:
    """Runs the simulation; see calib.prediction.event_simulation.events.

    units : (n, n_unit);  latency, barrier, alone, loads : (n,);  channels : (n, n_channel) cycles of a channel that all cores share

    Returns (core, sub-group, block) and (start of issue, end of issue, arrival of data) of every event,
    (3, n_event) each.
    """
    n, n_channel = channels.shape
    n_subgroup, n_step = tlp * blp, n * rounds
    issuers = np.empty((3, cores * n_subgroup * n_step), np.int64)
    times = np.empty((3, cores * n_subgroup * n_step))
    state = _State(
        channel_free=np.zeros(n_channel),
        unit_free=np.zeros((cores, units.shape[1])),
        free=np.zeros((cores, n_subgroup)),
        at=np.zeros((cores, n_subgroup), np.int64),
        following=np.zeros((cores, n_subgroup), np.int64),
        order=np.tile(np.arange(n_subgroup), (cores, 1)),
        runnable=np.full(cores, n_subgroup),
        arrived=np.zeros((cores, blp), np.int64),
        arrived_ids=np.zeros((cores, blp, tlp), np.int64),
        next_time=np.zeros(cores),
        next_place=np.zeros(cores, np.int64),
        left=np.zeros((cores, in_flight)),
        issued=np.zeros(cores, np.int64),
    )
    blocks = _Blocks(units, units.argmax(axis=1), latency, alone, channels, barrier, loads)
    _run(blocks, state, tlp, n_step, issuers, times)
    return issuers, times
