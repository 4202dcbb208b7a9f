"""The slow readable twins of the merge: what one lane keeps, and how lanes line up."""

from __future__ import annotations

from collections.abc import Sequence

from tracegen import sequences
from tracegen.instrument import Probe


def lane_tokens_kept(
    tokens: Sequence[tuple[int, int]], probes: Sequence[Probe], reduced: bool
) -> list[tuple[int, int]]:
    """One work-item's (position, index) of accesses, the redundant ones left out where `reduced`."""
    keys, kills = sequences.keys(probes), sequences.kills(probes)
    known: dict[int, int] = {}
    kept = []
    for position, index in tokens:
        probe, key = probes[position], keys[position]
        if probe.kind == "barrier":
            known.clear()
        for killed in kills[position]:
            known.pop(killed, None)
        if probe.kind in ("edge", "barrier"):
            continue
        if not (reduced and probe.kind == "load" and known.get(key) == index):
            kept.append((position, index))
        if key >= 0:
            known[key] = index
        if probe.closes >= 0:
            for killed in kills[probe.closes]:
                known.pop(killed, None)
    return kept
