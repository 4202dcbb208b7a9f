"""Sub-groups of several cores in turn, compiled: arrays in and out. calib.prediction.event_simulation.readable is its text.

Thousands of runs of some ten thousand events make one prediction with its interval; interpreted, each
takes a tenth of a second to a second.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from memsim.compile import hot

Floats = npt.NDArray[np.float64]


@hot
def _run(issue, latency, channels, barrier, tlp, n_step, whole, times, channel_free, free, at, order, waits, held, held_by, next_time, next_place):  # type: ignore[no-untyped-def]  # fmt: skip
    """See `run`; the arrays behind `times` are its working memory, at their first values."""
    n, n_channel = channels.shape
    n_core, n_subgroup = free.shape
    for e in range(n_core * n_subgroup * n_step):
        c = 0
        for k in range(1, n_core):
            if next_time[k] < next_time[c]:
                c = k
        place = next_place[c]
        s = order[c, place]
        b = at[c, s] % n
        begin = next_time[c]
        done = begin + issue[b]
        there = done + latency[b]
        for k in range(n_channel):
            if channels[b, k] > 0:
                channel_free[k] = max(done + latency[b], channel_free[k]) + channels[b, k]
                there = max(there, channel_free[k])
        whole[0, e], whole[1, e], whole[2, e] = c, s, b
        times[0, e], times[1, e], times[2, e] = begin, done, there
        free[c, s] = there
        at[c, s] += 1
        for k in range(place, waits[c] - 1):
            order[c, k] = order[c, k + 1]
        waits[c] -= 1
        if barrier[b]:
            g = s // tlp
            held_by[c, g, held[c, g]] = s
            held[c, g] += 1
            if held[c, g] == tlp:
                held[c, g] = 0
                latest = 0.0
                for k in range(tlp):
                    latest = max(latest, free[c, held_by[c, g, k]])
                for k in range(tlp):
                    other = held_by[c, g, k]
                    free[c, other] = latest
                    if at[c, other] < n_step:
                        order[c, waits[c]] = other
                        waits[c] += 1
        elif at[c, s] < n_step:
            order[c, waits[c]] = s
            waits[c] += 1
        next_time[c] = np.inf
        for k in range(waits[c]):
            when = max(done, free[c, order[c, k]])
            if when < next_time[c]:
                next_time[c] = when
                next_place[c] = k
                if when == done:
                    break


def run(
    issue: Floats,
    latency: Floats,
    channels: Floats,
    barrier: npt.NDArray[np.bool_],
    *,
    tlp: int,
    blp: int,
    cores: int,
    rounds: int,
) -> tuple[npt.NDArray[np.int64], Floats]:
    """Core, sub-group and block, and start, end of issue and arrival of data, of every event.

    issue, latency, barrier : (n,);  channels : (n, n_channel) cycles of a channel that all cores share
    Returns (3, n_event) each.
    """
    n, n_channel = channels.shape
    n_subgroup, n_step = tlp * blp, n * rounds
    whole = np.empty((3, cores * n_subgroup * n_step), np.int64)
    times = np.empty((3, cores * n_subgroup * n_step))
    _run(
        *(issue, latency, channels, barrier, tlp, n_step, whole, times),
        np.zeros(n_channel),
        np.zeros((cores, n_subgroup)),
        np.zeros((cores, n_subgroup), np.int64),
        np.tile(np.arange(n_subgroup), (cores, 1)),
        np.full(cores, n_subgroup),
        np.zeros((cores, blp), np.int64),
        np.zeros((cores, blp, tlp), np.int64),
        np.zeros(cores),
        np.zeros(cores, np.int64),
    )
    return whole, times
