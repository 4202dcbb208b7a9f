"""Merges the events of lanes into events of sub-groups, in lockstep as in `tracegen.recording.subgroup`.

The next step takes the lanes whose next event has the smallest number. Numbers ascend in the text and a
back-edge comes after its loop's body, so lanes that left a loop, or skipped a branch, wait for the
rest. An event that several lanes share is one event of the sub-group.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from memsim.compile import compiled

_DONE = 1 << 30


@compiled
def _merged(
    tokens: Any, offset: Any, group_items: Any, width: Any, at: Any, following: Any, counts: Any
) -> None:
    n_groups = (len(offset) - 1) // group_items
    for group in range(n_groups):
        for first in range(0, group_items, width):
            lanes = min(width, group_items - first)
            base = group * group_items + first
            for lane in range(lanes):
                at[lane] = offset[base + lane]
                following[lane] = _DONE
                if at[lane] < offset[base + lane + 1]:
                    following[lane] = tokens[at[lane]]
            while True:
                least = _DONE
                for lane in range(lanes):
                    least = min(least, following[lane])
                if least == _DONE:
                    break
                counts[least] += 1
                for lane in range(lanes):
                    if following[lane] == least:
                        at[lane] += 1
                        following[lane] = _DONE
                        if at[lane] < offset[base + lane + 1]:
                            following[lane] = tokens[at[lane]]


def subgroup_events(
    tokens: npt.NDArray[np.uint16],
    offset: npt.NDArray[np.int64],
    group_items: int,
    width: int,
    n_events: int,
) -> npt.NDArray[np.int64]:
    """How often each event happens to a sub-group.

    tokens : event numbers, work-item by work-item
    offset : (n_item + 1,) where the tokens of each work-item begin; whole groups of them
    """
    counts = np.zeros(n_events, np.int64)
    at, following = np.zeros(width, np.int64), np.zeros(width, np.int64)
    _merged(tokens, offset, np.int64(group_items), np.int64(width), at, following, counts)
    return counts
