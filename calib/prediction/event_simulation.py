"""An event simulation of the sub-groups on some cores: the reference for the latency hidden factor.

A core has units (arithmetic of several kinds, L1's pipe, issue slots) that work at once. They serve a block in
turns of a few cycles, between which they serve others, as schedulers select a sub-group for each instruction.
Among the sub-groups whose data have arrived, and whose next turn finds the unit free that it needs longest, the
core selects the one that has waited longest since its last turn; if there is none, no turn begins until there is. Groups
that start together stay in phase, so they do not hide each other's initial latency. (An H200 takes
most loads from the oldest group, but with the oldest group first in all turns, predicted times are farther from the
measured ones: experiments/hardware/README.md.) Its other units serve the turn when they have served earlier ones, and it ends
when all have, but no sooner than its sub-group would issue it alone: sub-groups that can issue at the same time share
the units, and each waits for its own results.

What a block moves is queued at channels (L2, DRAM, ...) when its last turn ends. A channel serves the requests of all
cores one after another, so n cores share n times the bandwidth of one core's share; or each core has its own. Loads of a channel whose requests
arrive at random wait longer, as in a queue with constant service time (M/D/1). A sub-group waits until its loads so
far have been served, and then for the block's latency, which is drawn anew for each execution. It waits for stores only
where they are given as loads. In a software pipeline it waits for what earlier blocks have loaded, while later loads are under way. A barrier at the end of a block stops a group until the data of all its sub-groups have arrived. All cores
start at time 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from calib.prediction.event_simulation_compiled import MOST_LAG, Simulated, run

Floats = npt.NDArray[np.float64]
MOST_TURNS_A_BLOCK = 64
"""Most turns of a block, which bound the time of a simulation."""


@dataclass(frozen=True, kw_only=True)
class Events:
    """The issued blocks in the order of their issue, (n_event,) each.

    core, subgroup, block : which sub-group of which core issued which block; sub-groups are numbered from
        0 on each core
    step : the block's place in the sub-group's path
    start_cycles, issued_cycles : when the block's issue began and ended; other blocks of the core may be
        issued meanwhile
    ready_cycles : when its data had arrived
    idle_cycles : for each core, (n, 2) when it begins to issue nothing, and when it goes on
    """

    core: npt.NDArray[np.int64]
    subgroup: npt.NDArray[np.int64]
    block: npt.NDArray[np.int64]
    step: npt.NDArray[np.int64]
    start_cycles: Floats
    issued_cycles: Floats
    ready_cycles: Floats
    idle_cycles: list[Floats]

    @property
    def end_cycles(self) -> float:
        return float(self.ready_cycles.max(initial=0.0))


class Options(TypedDict, total=False):
    """What a simulation can have beside its blocks, n of them.

    alone_cycles : (n,) in which a sub-group issues a block if it has the core to itself; 0 if empty
    loads, waits : (n,) whether a block loads, and whether a sub-group waits after it for what it has loaded; all do if
        empty
    lag : (n,) 0 where the latency after a block is waited for; k > 0 where instead all is waited for that was loaded up to
        the block k before it, at most MOST_LAG; below 0 where nothing is; 0 if empty
    own_channels : (n_channel,) whether each core has a channel of its own; none has if empty
    channel_used : (n, n_channel) probability that a block's loads use a channel at all; 1 if empty
    queue_cycles : (n_channel,) service time of a channel's many servers, for whose requests arrive at random: beside
        the channel's backlog a load waits queue_cycles r / (2 (1 - r)), where r is the part of its time so far for
        which the channel was busy; 0 if empty
    turnaround_cycles : (n_channel,) beside both it waits turnaround_cycles r^2; 0 if empty
    paths : (tlp,) the blocks that each sub-group of a group runs, in order, with equally many barriers; all n
        blocks if empty
    turn_cycles : most that a unit serves a block before it may serve others; but no block has more than MOST_TURNS_A_BLOCK
    """

    alone_cycles: Sequence[float]
    loads: Sequence[bool]
    waits: Sequence[bool]
    lag: Sequence[int]
    own_channels: Sequence[bool]
    channel_used: npt.ArrayLike
    queue_cycles: Sequence[float]
    turnaround_cycles: Sequence[float]
    paths: Sequence[Sequence[int]]
    turn_cycles: float


def events(
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
    """Simulates `rounds` runs of a program of n blocks by blp groups of tlp sub-groups on each core.

    issue_cycles : (n, n_unit) for which a block occupies each unit of the core, or (n,) of the only one
    latency_cycles : (n,), or (n, n_quantile) in equally many executions each;  barrier : (n,)
    channel_cycles : (n, n_channel) transfer time at one core's share of each channel
    """
    simulated = _simulated(
        issue_cycles, latency_cycles, channel_cycles, barrier, tlp, cores, options
    )
    return _events(*run(simulated, tlp=tlp, blp=blp, cores=cores, rounds=rounds))


def _simulated(
    issue_cycles: npt.ArrayLike,
    latency_cycles: npt.ArrayLike,
    channel_cycles: npt.ArrayLike,
    barrier: Sequence[bool],
    tlp: int,
    cores: int,
    options: Options,
) -> Simulated:
    n = len(barrier)
    units = np.asarray(issue_cycles, np.float64).reshape(n, -1)
    channels = np.asarray(channel_cycles, np.float64).reshape(n, -1)
    own = np.array(options.get("own_channels") or [False] * channels.shape[1], np.bool_)
    channels = channels / np.where(own, 1, cores)
    used = np.asarray(options.get("channel_used", ()), np.float64)
    paths = options.get("paths") or [list(range(n))] * tlp
    length = np.array([len(path) for path in paths])
    path = np.zeros((tlp, int(length.max())), np.int64)
    for row, blocks in zip(path, paths, strict=True):
        row[: len(blocks)] = blocks
    return Simulated(
        units=units,
        turns=_turns(units, options.get("turn_cycles", math.inf)),
        longest=units.argmax(axis=1),
        alone=np.array(options.get("alone_cycles") or [0.0] * n, np.float64),
        latency=np.asarray(latency_cycles, np.float64).reshape(n, -1),
        channels=channels,
        own=own,
        queue=np.array(options.get("queue_cycles") or [0.0] * channels.shape[1], np.float64),
        turnaround=np.array(
            options.get("turnaround_cycles") or [0.0] * channels.shape[1], np.float64
        ),
        used=used if used.size else np.ones_like(channels),
        loads=np.array(options.get("loads") or [True] * n, np.bool_),
        waits=np.array(options.get("waits") or [True] * n, np.bool_),
        lag=np.minimum(np.array(options.get("lag") or [0] * n, np.int64), MOST_LAG),
        barrier=np.asarray(barrier, np.bool_),
        path=path,
        length=length,
    )


def _turns(units: Floats, turn_cycles: float) -> npt.NDArray[np.int64]:
    """(n,) turns in which units serve a block."""
    turns = np.ceil(units.max(axis=1) / turn_cycles)
    return np.asarray(np.clip(turns, 1, MOST_TURNS_A_BLOCK), np.int64)


def _events(issuers: npt.NDArray[np.int64], times: Floats, idle_cycles: list[Floats]) -> Events:
    return Events(
        core=issuers[0],
        subgroup=issuers[1],
        block=issuers[2],
        step=issuers[3],
        start_cycles=times[0],
        issued_cycles=times[1],
        ready_cycles=times[2],
        idle_cycles=idle_cycles,
    )
