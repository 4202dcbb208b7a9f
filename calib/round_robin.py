"""One core's sub-groups in turn, event by event: what the latency hidden factor is held against.

A core issues one block at a time. Of the sub-groups whose data are there the next in turn goes on;
where there is none, the core waits for the first. A block's data are there when `latency` has passed
since it was issued and every way has brought its part: a way (L2, DRAM, ...) serves one request
after the other, for so many cycles each. A barrier at a block's end holds a group until all of its
sub-groups have their data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calib.latency_hiding import Blocks

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Events:
    """What happened, in the order in which blocks were issued, (n_event,) each.

    subgroup, block : who issued, and which block of the program
    start_cycles, issued_cycles : when it had the core, and when it had issued
    ready_cycles : when its data were there
    """

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
    way_cycles: npt.ArrayLike,
    barrier: Sequence[bool],
    *,
    tlp: int,
    blp: int,
    rounds: int = 1,
) -> Events:
    """Run a program of n blocks `rounds` times in each of blp groups of tlp sub-groups.

    issue_cycles, latency_cycles, barrier : (n,);  way_cycles : (n, n_way)
    """
    n, n_subgroup = len(issue_cycles), tlp * blp
    n_step = n * rounds
    ways = np.asarray(way_cycles, np.float64).reshape(n, -1).tolist()
    way_free = [0.0] * len(ways[0])
    free = [0.0] * n_subgroup  # when a sub-group may go on
    at = [0] * n_subgroup  # blocks that it has issued
    waiting: list[list[int]] = [[] for _ in range(blp)]
    order = list(range(n_subgroup))  # who has had no turn for longest comes first
    now = 0.0
    rows: list[tuple[int, int, float, float, float]] = []
    while order:
        s = next((k for k in order if free[k] <= now), None)
        if s is None:
            s = min(order, key=lambda k: free[k])
        start = max(now, free[s])
        block = at[s] % n
        now = start + issue_cycles[block]
        ready = now + latency_cycles[block]
        for k, cycles in enumerate(ways[block]):
            if cycles:
                # The first byte comes after the latency, or when the way has served who came before.
                way_free[k] = max(now + latency_cycles[block], way_free[k]) + cycles
                ready = max(ready, way_free[k])
        rows.append((s, block, start, now, ready))
        free[s] = ready
        at[s] += 1
        order.remove(s)
        if barrier[block]:
            held = waiting[s // tlp]
            held.append(s)
            if len(held) == tlp:
                latest = max(free[k] for k in held)
                for k in held:
                    free[k] = latest
                order += [k for k in held if at[k] < n_step]
                held.clear()
        elif at[s] < n_step:
            order.append(s)
    table = np.array(rows, np.float64).reshape(-1, 5)
    return Events(
        subgroup=table[:, 0].astype(np.int64),
        block=table[:, 1].astype(np.int64),
        start_cycles=table[:, 2],
        issued_cycles=table[:, 3],
        ready_cycles=table[:, 4],
    )


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
