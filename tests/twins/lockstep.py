"""The readable twin of the merge: which accesses one lane keeps, and the lanes in lockstep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tracegen.instrumented import tables
from tracegen.instrumented.probes import Probe


def lane_tokens_kept(
    tokens: Sequence[tuple[int, int]], probes: Sequence[Probe], reduced: bool
) -> list[tuple[int, int]]:
    """One work-item's (position, index) of accesses, the redundant ones left out where `reduced`."""
    alone = lockstep([tokens], probes, reduced)
    return [(step.position, step.lanes[0]) for step in alone if step.lanes is not None]


@dataclass(frozen=True)
class Step:
    """One sub-group access: its position, and lane -> index of the active lanes (None at a barrier)."""

    position: int
    lanes: dict[int, int] | None
    starts_sequence: bool
    waits: int


def lockstep(
    lanes: Sequence[Sequence[tuple[int, int]]], probes: Sequence[Probe], reduced: bool
) -> list[Step]:
    """The accesses of one sub-group from its lanes' tokens, as `merge` writes them."""
    keys, kills = tables.keys(probes), tables.kills(probes)
    rest = [list(lane) for lane in lanes]
    known: list[dict[int, int]] = [{} for _ in lanes]
    made_known: dict[int, int] = {}
    latest: dict[int, int] = {}
    steps: list[Step] = []
    fresh, sequence = True, 0
    while any(rest):
        position = min(lane[0][0] for lane in rest if lane)
        probe, key = probes[position], keys[position]
        passed = {
            n: lane.pop(0)[1] for n, lane in enumerate(rest) if lane and lane[0][0] == position
        }
        active = dict(passed)
        if probe.kind == "barrier":
            known = [{} for _ in lanes]
        for n in passed:
            for killed in kills[position]:
                known[n].pop(killed, None)
        if probe.kind == "edge":
            fresh = True
            continue
        if reduced and probe.kind == "load":
            active = {n: index for n, index in passed.items() if known[n].get(key) != index}
            if len(active) < len(passed):
                latest[position] = max(latest.get(position, -1), made_known[key])
        if key >= 0:
            for n, index in passed.items():
                known[n][key] = index
        if active:
            waits = max((latest.get(feed, -1) for feed in probe.feeds), default=-1)
            barrier = probe.kind == "barrier"
            starts = fresh or barrier or (probe.kind == "load" and waits >= sequence)
            sequence = len(steps) if starts else sequence
            if probe.kind == "load":
                latest[position] = len(steps)
            made_known[key] = len(steps) if probe.kind == "load" else waits
            steps.append(Step(position, None if barrier else active, starts, waits))
            fresh = barrier
    return steps
