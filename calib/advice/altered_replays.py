"""Replays altered as a change of what a cache keeps would alter them."""

from __future__ import annotations

import numpy as np

from memsim.montecarlo import Replay


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
