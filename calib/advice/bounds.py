"""Upper bounds from the trace alone: what a change of one access, or of one array, could gain at most."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from calib.advice import altered_traces
from calib.advice.altered_traces import coalesced, without
from calib.advice.trial import Changed
from calib.prediction import Prediction
from memsim.montecarlo import Replay
from memsim.trace import Trace

ACCESSES = 3
"""The most expensive accesses, and arrays, that are examined."""
POOR = 1.5
"""Requested sectors over the fewest, from which an access is poorly coalesced."""

Alter = Callable[[Changed], Changed]


@dataclass(frozen=True, kw_only=True)
class Change:
    """A change of what a prediction starts from. code : how a user makes it, if he can"""

    what: str
    remedy: str
    alter: Alter
    code: tuple[str, ...] = ()


def upper_bounds(prediction: Prediction, traces: Sequence[Trace]) -> Iterator[Change]:
    """What-ifs of the accesses that cost most.

    Perfect coalescing: each access requests the fewest sectors that could carry its bytes. A resident
    array: a level serves its loads. An access that is gone: neither it nor a wait for it remains.
    """
    replay = prediction.replay
    assert replay is not None
    data = replay.dataset
    cost = _cost(data)
    order = np.argsort(-cost, kind="stable")
    names = data["site"].values.astype(str)
    arrays = data["array"].values.astype(str)
    directions = data["direction"].values.astype(str)
    ratio = data["site_sectors"].values / np.maximum(data["site_ideal_sectors"].values, 1)
    seen: list[str] = []
    for site in (int(k) for k in order[:ACCESSES] if cost[order[0]] > 0):
        if ratio[site] >= POOR and directions[site] != "atomic":
            yield Change(
                what=f"{names[site]} perfectly coalesced",
                remedy="coalesced",
                alter=_each(coalesced, names[site]),
            )
        if directions[site] == "load" and arrays[site] not in seen:
            seen.append(str(arrays[site]))
            yield from _resident(replay, str(arrays[site]))
        yield Change(
            what=f"without {names[site]}",
            remedy="gone",
            alter=_each(without, names[site]),
        )


def _resident(replay: Replay, array: str) -> Iterator[Change]:
    """An array in the first level, and in each other level that fetches it from below."""
    first, *others = replay.level_names
    yield Change(
        what=f"{array} resident in {first}",
        remedy="resident",
        alter=altered(partial(altered_traces.resident, array=array)),
    )
    data = replay.dataset
    loads = (data["array"] == array) & (data["direction"] == "load")
    for level in others:
        if data["read_bytes"].sel(level=level).where(loads).sum() > 0:
            kept = resident(replay, array, level)
            yield Change(
                what=f"{array} resident in {level}",
                remedy="resident",
                alter=partial(_replayed, replay=kept),
            )


def _replayed(start: Changed, *, replay: Replay) -> Changed:
    return replace(start, replay=replay)


def _cost(data: Any) -> np.ndarray[Any, Any]:
    """(site,) bytes moved below the first level, and sectors requested of it, in bytes."""
    moved = (data["read_bytes"] + data["write_bytes"]).mean("trial").transpose("level", "site")
    return np.asarray(moved.values.sum(axis=0) + 32.0 * data["site_sectors"].values)


def _each(change: Callable[[Trace, int], Trace], name: str) -> Alter:
    """Applies a change to a site of every trace that has it."""

    def of(trace: Trace) -> Trace:
        if name not in trace.site_names:
            return trace
        return change(trace, trace.site_names.index(name))

    return altered(of)


def altered(change: Callable[[Trace], Trace]) -> Alter:
    return lambda start: replace(start, traces=[change(one) for one in start.traces])


def resident(replay: Replay, array: str, level: str) -> Replay:
    """The replay with loads of an array that hit in a level where they reach it; all else is as it was.

    The levels below see none of them, and DRAM reads nothing for them. That the array takes the place of
    others in this level, or no longer replaces them, is left out.
    """
    data = replay.dataset.copy(deep=True)
    of_array = data["array"].values.astype(str) == array
    chosen = np.flatnonzero(of_array & (data["direction"].values.astype(str) == "load"))
    first = replay.level_names.index(level)
    here, below = (
        {"level": first, "site": chosen},
        {"level": slice(first + 1, None), "site": chosen},
    )
    saved = data["read_bytes"].isel(level=-1, site=chosen).sum("site")
    data["dram_read_bytes"] = data["dram_read_bytes"] - saved.astype(np.int64)
    data["hits"][here] = data["accesses"][here]
    data["pending"][here] = 0
    data["read_bytes"][here] = 0
    unknown = ("open", "likely", "doubtful")
    for name in ("accesses", "hits", "pending", "read_bytes", "far_hits", *unknown):
        if name in data:
            data[name][below] = 0
    for name in unknown:
        if name in data:
            data[name][here] = 0
    return Replay(data)
