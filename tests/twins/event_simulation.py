"""The readable twin of calib.prediction.event_simulation: the simulation in plain Python, as its specification."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import numpy as np
import numpy.typing as npt

from calib.prediction.event_simulation import Events, Options, _events, _simulated
from calib.prediction.event_simulation_compiled import MOST_BUSY, drawn


def readable(
    issue_cycles: npt.ArrayLike,
    latency_cycles: npt.ArrayLike,
    channel_cycles: npt.ArrayLike,
    barrier: Sequence[bool],
    *,
    tlp: int,
    blp: int,
    rounds: int = 1,
    cores: int = 1,
    **options: Unpack[Options],
) -> Events:
    """What `calib.prediction.event_simulation.events` returns for the same arguments."""
    given = _simulated(issue_cycles, latency_cycles, channel_cycles, barrier, tlp, cores, options)
    units, longest = given.units.tolist(), given.longest.tolist()
    turns, alone = given.turns.tolist(), given.alone.tolist()
    channels, latency = given.channels.tolist(), given.latency.tolist()
    longest_wait = float(given.latency.max())
    lengths = given.length.tolist()
    path = [row[:length] for row, length in zip(given.path.tolist(), lengths, strict=True)]
    channel_free = [[0.0] * len(channels[0]) for _ in range(cores)]
    served = [[0.0] * len(channels[0]) for _ in range(cores)]
    subgroups = range(tlp * blp)
    free = [[0.0 for _ in subgroups] for _ in range(cores)]  # when a sub-group may continue
    at = [[0 for _ in subgroups] for _ in range(cores)]  # blocks that it has issued
    order = [list(subgroups) for _ in range(cores)]  # the longest without a turn first
    arrival = [[0.0 for _ in subgroups] for _ in range(cores)]  # of all that it has loaded
    there: list[list[list[float]]] = [[[] for _ in subgroups] for _ in range(cores)]  # by block
    waiting: list[list[list[int]]] = [[[] for _ in range(blp)] for _ in range(cores)]
    taken = [[0 for _ in subgroups] for _ in range(cores)]  # turns of the next block
    begun: list[list[list[float]]] = [[[] for _ in subgroups] for _ in range(cores)]  # its row
    busy = [0.0] * cores
    idle: list[list[tuple[float, float]]] = [[] for _ in range(cores)]
    unit_free = [[0.0 for _ in units[0]] for _ in range(cores)]

    def step_of(core: int, subgroup: int) -> int:
        return at[core][subgroup] % len(path[subgroup % tlp])

    def block_of(core: int, subgroup: int) -> int:
        return int(path[subgroup % tlp][step_of(core, subgroup)])

    rows = []
    while any(order):
        start, c, _, s = min(
            (max(unit_free[c][longest[block_of(c, s)]], free[c][s]), c, place, s)
            for c in range(cores)
            for place, s in enumerate(order[c])
        )
        block = block_of(c, s)
        issued = start
        for u, cycles in enumerate(units[block]):
            if cycles:
                unit_free[c][u] = max(start, unit_free[c][u]) + cycles / turns[block]
                issued = max(issued, unit_free[c][u])
        issued = max(issued, free[c][s] + alone[block] / turns[block])
        if start > busy[c]:
            idle[c].append((busy[c], start))
        busy[c] = max(busy[c], min(issued, start + max(units[block]) / turns[block]))
        if not taken[c][s]:
            begun[c][s] = [c, s, block, step_of(c, s), start]
            rows.append(begun[c][s])
        taken[c][s] += 1
        if taken[c][s] < turns[block]:
            free[c][s] = issued
            order[c].remove(s)
            order[c].append(s)
            continue
        taken[c][s] = 0
        for k, cycles in enumerate(channels[block]):
            if cycles:
                q = c if given.own[k] else 0
                channel_free[q][k] = max(issued, channel_free[q][k]) + cycles
                served[q][k] += cycles
                if given.loads[block]:
                    busy_part = min(served[q][k] / max(issued + longest_wait, 1.0), MOST_BUSY)
                    queued = channel_free[q][k] - issued
                    queued += given.queue[k] * busy_part / (2 * (1 - busy_part))
                    queued += given.turnaround[k] * busy_part * busy_part
                    arrival[c][s] = max(arrival[c][s], issued + given.used[block, k] * queued)
        cycles = latency[block][drawn(c, s, at[c][s], len(latency[block]))]
        here = max(issued, arrival[c][s]) + cycles if given.loads[block] else 0.0
        there[c][s].append(max([here, *there[c][s][-1:]]))
        lag = int(given.lag[block])
        ready = issued
        if lag == 0:
            ready = (max(issued, arrival[c][s]) if given.waits[block] else issued) + cycles
        elif 0 < lag <= at[c][s]:
            ready = max(issued, there[c][s][-1 - lag])
        begun[c][s] += [issued, ready]
        free[c][s] = ready
        at[c][s] += 1
        order[c].remove(s)
        released = [s]
        if barrier[block]:
            group = waiting[c][s // tlp]
            group.append(s)
            released = list(group) if len(group) == tlp else []
            latest = max(free[c][k] for k in group)
            for k in released:
                free[c][k] = latest
            if released:
                group.clear()
        order[c] += [k for k in released if at[c][k] < len(path[k % tlp]) * rounds]
    table = np.array(rows, np.float64).reshape(-1, 7)
    idle_cycles = [np.array(gaps, np.float64).reshape(-1, 2) for gaps in idle]
    return _events(table[:, :4].T.astype(np.int64), table[:, 4:].T, idle_cycles)
