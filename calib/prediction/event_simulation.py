"""Sub-groups of some cores in turn, event by event: what the latency hidden factor is held against.

A core issues one block at a time. Of the sub-groups whose data are there the one goes on that had no
turn for longest; where there is none, the core waits for the first. A block's data are there when
`latency` has passed since it was issued and every channel has brought its part: a channel (L2, DRAM, ...)
serves one request after the other, whichever core asks, so n cores have n times the channel of one. A
barrier at a block's end holds a group until all of its sub-groups have their data. All cores
start together, as a launch does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calib.prediction.event_simulation_compiled import run
from calib.prediction.latency_hiding import Blocks

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Events:
    """What happened, in the order in which blocks were issued, (n_event,) each.

    core, subgroup, block : who issued, and which block of the program; sub-groups of each core
        count from 0
    start_cycles, issued_cycles : when it had the core, and when it had issued
    ready_cycles : when its data were there
    """

    core: npt.NDArray[np.int64]
    subgroup: npt.NDArray[np.int64]
    block: npt.NDArray[np.int64]
    start_cycles: Floats
    issued_cycles: Floats
    ready_cycles: Floats

    @property
    def end_cycles(self) -> float:
        return float(self.ready_cycles.max(initial=0.0))


def events(
    issue_cycles: Sequence[float],
    latency_cycles: Sequence[float],
    channel_cycles: npt.ArrayLike,
    barrier: Sequence[bool],
    *,
    tlp: int,
    blp: int,
    rounds: int = 1,
    cores: int = 1,
) -> Events:
    """Run a program of n blocks `rounds` times in each of blp groups of tlp sub-groups of each core.

    issue_cycles, latency_cycles, barrier : (n,);  channel_cycles : (n, n_channel) of one core's share
    """
    n = len(issue_cycles)
    whole, times = run(
        np.asarray(issue_cycles, np.float64),
        np.asarray(latency_cycles, np.float64),
        np.asarray(channel_cycles, np.float64).reshape(n, -1) / cores,
        np.asarray(barrier, np.bool_),
        tlp=tlp,
        blp=blp,
        cores=cores,
        rounds=rounds,
    )
    return _events(whole, times)


def readable(
    issue_cycles: Sequence[float],
    latency_cycles: Sequence[float],
    channel_cycles: npt.ArrayLike,
    barrier: Sequence[bool],
    *,
    tlp: int,
    blp: int,
    rounds: int = 1,
    cores: int = 1,
) -> Events:
    """As `events`, in plain Python: what it must do."""
    n = len(issue_cycles)
    channels = (np.asarray(channel_cycles, np.float64).reshape(n, -1) / cores).tolist()
    channel_free = [0.0] * len(channels[0])
    everyone = range(tlp * blp)
    free = [[0.0 for _ in everyone] for _ in range(cores)]  # when a sub-group may go on
    at = [[0 for _ in everyone] for _ in range(cores)]  # blocks that it has issued
    order = [list(everyone) for _ in range(cores)]  # who had no turn for longest comes first
    waiting: list[list[list[int]]] = [[[] for _ in range(blp)] for _ in range(cores)]
    now = [0.0] * cores
    rows = []
    while any(order):
        start, c, _, s = min(
            (max(now[c], free[c][s]), c, place, s)
            for c in range(cores)
            for place, s in enumerate(order[c])
        )
        block = at[c][s] % n
        now[c] = start + issue_cycles[block]
        ready = now[c] + latency_cycles[block]
        for k, cycles in enumerate(channels[block]):
            if cycles:
                # The first byte comes after the latency, or when the channel has served who came before.
                channel_free[k] = max(now[c] + latency_cycles[block], channel_free[k]) + cycles
                ready = max(ready, channel_free[k])
        rows.append((c, s, block, start, now[c], ready))
        free[c][s] = ready
        at[c][s] += 1
        order[c].remove(s)
        going = [s]
        if barrier[block]:
            held = waiting[c][s // tlp]
            held.append(s)
            going = list(held) if len(held) == tlp else []
            latest = max(free[c][k] for k in held)
            for k in going:
                free[c][k] = latest
            if going:
                held.clear()
        order[c] += [k for k in going if at[c][k] < n * rounds]
    table = np.array(rows, np.float64).reshape(-1, 6)
    return _events(table[:, :3].T.astype(np.int64), table[:, 3:].T)


def simulate(blocks: Blocks, tlp: int, blp: int, *, rounds: int = 1) -> float:
    """Cycles of one of `rounds` runs of a cyclic program, as `latency_hiding.cyclic` makes it."""
    found = events(
        blocks.issue_cycles.tolist(),
        blocks.latency_cycles.tolist(),
        blocks.bandwidth_cycles,
        blocks.barrier.tolist(),
        tlp=tlp,
        blp=blp,
        rounds=rounds,
    )
    return found.end_cycles / rounds


def _events(whole: npt.NDArray[np.int64], times: Floats) -> Events:
    return Events(
        core=whole[0],
        subgroup=whole[1],
        block=whole[2],
        start_cycles=times[0],
        issued_cycles=times[1],
        ready_cycles=times[2],
    )
