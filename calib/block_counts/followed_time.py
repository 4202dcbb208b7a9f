"""The time of a launch at a size that never ran: predicted where it is small, and counted where it is not.

Small sizes are traced, replayed and predicted. The time that one busy cycle of the units takes there is
followed as a line in log(size) (calib.block_counts.hit_ratio_trend.trend), its interval Student's for a new
observation, and multiplied by the busy cycles that the blocks' closed forms give at the size asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calib.block_counts.hit_ratio_trend import LEAST_SIZES, trend
from memsim.errors import MemsimError


@dataclass(frozen=True, kw_only=True)
class SmallSize:
    """A size that was predicted.

    seconds, half_width_s : the prediction's mean and 95 % half-width over orderings (0 where unknown)
    busy_cycles : of all units and cores together
    """

    size: float
    seconds: float
    half_width_s: float
    busy_cycles: float


@dataclass(frozen=True, kw_only=True)
class FollowedTime:
    """seconds at `size`, its 95 % interval [low_s, high_s], and what a reader must know of it"""

    size: float
    seconds: float
    low_s: float
    high_s: float
    warning: str


def followed_time(small: Sequence[SmallSize], size: float, busy_cycles: float) -> FollowedTime:
    """The time at a size whose blocks take so many busy cycles, of all units and cores together.

    The interval holds the scatter of the small sizes about their line, and the widest of their own
    intervals over orderings, added in squares. Raises MemsimError for fewer than four different sizes.
    """
    sizes = np.array([each.size for each in small])
    if len(np.unique(sizes)) < LEAST_SIZES:
        raise MemsimError(
            f"a time is followed from at least {LEAST_SIZES} sizes, got {len(np.unique(sizes))}"
        )
    each_cycle = np.array([one.seconds / one.busy_cycles for one in small])
    line = trend(sizes, each_cycle, size)
    ordering = max(one.half_width_s / one.busy_cycles for one in small)
    below = np.hypot(line.mean - line.low, ordering)
    above = np.hypot(line.high - line.mean, ordering)
    low, high = float(sizes.min()), float(sizes.max())
    warning = ""
    if not low <= size <= high:
        warning = (
            f"size {size:g} was not replayed: the time a busy cycle of {low:g}..{high:g} is followed to"
            " it; where the data outgrow a cache in between, it breaks and no interval knows"
        )
    return FollowedTime(
        size=size,
        seconds=line.mean * busy_cycles,
        low_s=max(line.mean - below, 0.0) * busy_cycles,
        high_s=(line.mean + above) * busy_cycles,
        warning=warning,
    )
