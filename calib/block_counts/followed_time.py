"""The time of a launch at a size that is not executed, extrapolated from predictions of small sizes.

Small sizes are traced, replayed and predicted. Their time per busy cycle of the units is fitted by a line
in log(size) (calib.block_counts.hit_ratio_trend.trend), with Student's interval for a new observation, and
multiplied by the busy cycles at the requested size, which the closed forms of the blocks give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calib.block_counts.hit_ratio_trend import LEAST_SIZES, trend
from memsim.errors import MemsimError


@dataclass(frozen=True, kw_only=True)
class SmallSize:
    """A predicted size.

    seconds, half_width_s : mean and 95 % half-width over orderings (0 where unknown)
    busy_cycles : summed over all units and cores
    """

    size: float
    seconds: float
    half_width_s: float
    busy_cycles: float


@dataclass(frozen=True, kw_only=True)
class FollowedTime:
    """The extrapolated time: seconds at `size`, its 95 % interval [low_s, high_s], and a warning."""

    size: float
    seconds: float
    low_s: float
    high_s: float
    warning: str


def followed_time(small: Sequence[SmallSize], size: float, busy_cycles: float) -> FollowedTime:
    """The time at a size whose blocks take `busy_cycles`, summed over all units and cores.

    The interval combines, as the root of the sum of squares, the scatter of the small sizes about their
    line and the widest of their intervals over orderings. Raises MemsimError for fewer than
    LEAST_SIZES different sizes.
    """
    sizes = np.array([each.size for each in small])
    if len(np.unique(sizes)) < LEAST_SIZES:
        raise MemsimError(
            f"a time is extrapolated from at least {LEAST_SIZES} sizes, got {len(np.unique(sizes))}"
        )
    per_cycle = np.array([one.seconds / one.busy_cycles for one in small])
    line = trend(sizes, per_cycle, size)
    ordering = max(one.half_width_s / one.busy_cycles for one in small)
    below = np.hypot(line.mean - line.low, ordering)
    above = np.hypot(line.high - line.mean, ordering)
    low, high = float(sizes.min()), float(sizes.max())
    warning = ""
    if not low <= size <= high:
        warning = (
            f"size {size:g} was not replayed: the time per busy cycle is extrapolated from"
            f" {low:g}..{high:g}; where the data outgrow a cache in between, it leaves the trend, and the"
            " interval does not include this"
        )
    return FollowedTime(
        size=size,
        seconds=line.mean * busy_cycles,
        low_s=max(line.mean - below, 0.0) * busy_cycles,
        high_s=(line.mean + above) * busy_cycles,
        warning=warning,
    )
