"""Plateaus and edges of latency curves, with intervals.

A curve is cut into pieces of constant log-latency that minimise

    sum over pieces of squared deviations  +  penalty * (number of pieces)

exactly, by dynamic programming (Jackson et al. 2005). Pieces that are long enough are plateaus. Noise only
increases a latency, so the value of a point is its least repeat. The edge of a plateau is the last point
within its spread. Intervals come from resampled repeats, widened to the cell of the grid.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from calib.probes.outcome import Floats, resampled_interval

LEAST_POINTS = 2
LEAST_RISE = 1.25
"""Plateaus whose levels differ by a smaller factor are one plateau."""
FIVE_SIGMA = 5.0
LEAST_STEP = 0.04
"""A point is off its plateau only if it is this fraction above it, because clocks vary as much."""
SHELF_OCTAVES = 1.0
MOST_SHELF_SLOPE = 0.35
"""Greatest slope of log latency over log size on a shelf, over SHELF_OCTAVES."""
STEEPER = 2.0
"""Before and after a shelf the curve is at least this many times as steep."""
PART_OF_RISE = 0.1
"""A point is off its plateau where it is this fraction of the rise to the next plateau above it."""


@dataclass(frozen=True, kw_only=True)
class Plateau:
    """Points first..last (inclusive) of a curve at one latency."""

    first: int
    last: int
    level: float


@dataclass(frozen=True, kw_only=True)
class Edge:
    """The edge of a plateau.

    x : the last point on the plateau;  low, high : its 95 % interval
    end : where the next plateau begins
    astray : fraction of the points up to x and from `end` on that are closer to the other plateau
    """

    x: float
    low: float
    high: float
    end: float
    astray: float


def pieces(y: Floats, penalty: float) -> list[tuple[int, int]]:
    """(first, last) of each piece of constant y in the optimal cut, each of at least LEAST_POINTS; O(n^2)."""
    n = len(y)
    sums = np.concatenate([[0.0], np.cumsum(y)])
    squares = np.concatenate([[0.0], np.cumsum(y**2)])
    best = np.full(n + 1, np.inf)
    best[0] = -penalty
    came_from = np.zeros(n + 1, np.int64)
    for end in range(LEAST_POINTS, n + 1):
        begin = np.arange(0, end - LEAST_POINTS + 1)
        length = end - begin
        total = sums[end] - sums[begin]
        cost = squares[end] - squares[begin] - total**2 / length + best[begin] + penalty
        k = int(np.argmin(cost))
        best[end], came_from[end] = cost[k], begin[k]
    parts = []
    end = n
    while end > 0:
        parts.append((int(came_from[end]), end - 1))
        end = int(came_from[end])
    return parts[::-1]


def plateaus(x: Floats, y: Floats, least_octaves: float = 0.75) -> list[Plateau]:
    """The plateaus of a rising curve, each at least LEAST_RISE times the previous one.

    The penalty is that of a Schwarz criterion with the noise of the curve's flat half, at least 3 %.

    least_octaves : least width of a plateau in log2 x
    """
    log = np.log(y)
    steps = np.abs(np.diff(log))
    noise = max(float(np.median(np.sort(steps)[: max(len(steps) // 2, 1)])), 0.03)
    cut = pieces(log, penalty=4 * noise**2 * np.log(len(y)))
    flat: list[Plateau] = []
    for first, last in cut:
        level = float(np.exp(np.median(log[first : last + 1])))
        if flat and level < flat[-1].level * LEAST_RISE:
            before = flat[-1]
            if level > before.level / LEAST_RISE:
                flat[-1] = Plateau(first=before.first, last=last, level=before.level)
            continue
        wide = np.log2(x[last] / x[first]) >= least_octaves
        if wide or last == len(x) - 1:
            flat.append(Plateau(first=first, last=last, level=level))
    return flat


def with_shelves(x: Floats, y: Floats, flat: list[Plateau]) -> list[Plateau]:
    """The plateaus and, between two of them, the shelf where the curve rises least, if there is one.

    A level that scattered pages fill unevenly, or that is shared with others, has no flat stretch. It is
    visible as a stretch with at most half of the slope on both sides.
    """
    log_x, log_y = np.log2(x), np.log2(y)
    filled = flat[:1]
    for below, above in itertools.pairwise(flat):
        shelf = _shelf(log_x, log_y, below, above)
        filled += [above] if shelf is None else [shelf, above]
    return filled


def _shelf(log_x: Floats, log_y: Floats, below: Plateau, above: Plateau) -> Plateau | None:
    low, high = np.log2(below.level * LEAST_RISE), np.log2(above.level / LEAST_RISE)
    slopes, shelves = [], []
    for first in range(below.last, above.first):
        last = int(np.searchsorted(log_x, log_x[first] + SHELF_OCTAVES, side="right")) - 1
        if last >= above.first:
            break
        part = slice(first, last + 1)
        slope = float(np.polyfit(log_x[part], log_y[part], 1)[0])
        slopes.append(slope)
        level = float(np.median(log_y[part]))
        if low <= level <= high:
            shelves.append((slope, first, last, level))
    if not shelves:
        return None
    slope, first, last, level = min(shelves)
    before = max(slopes[: first - below.last + 1])
    behind = float(log_y[above.first] - log_y[last]) / float(log_x[above.first] - log_x[last])
    if slope > MOST_SHELF_SLOPE or min(before, behind) < max(STEEPER * slope, MOST_SHELF_SLOPE):
        return None
    near = np.flatnonzero(np.abs(log_y - level) <= 0.5 * np.log2(LEAST_RISE))
    near = near[(near > below.last) & (near < above.first)]
    return Plateau(first=int(near[0]), last=int(near[-1]), level=float(2**level))


def edge(
    x: Floats, repeats: Floats, low_level: float, high_level: float, n_flat: int = 0
) -> Edge | None:
    """The edge between low_level and high_level; None where there is none, or where it is too noisy.

    repeats : (n_x, n_repeat) latencies
    n_flat : number of first points that lie on the plateau: their median is its level, and their spread
        determines how far off a point must be; 0: PART_OF_RISE determines it

    The edge's `end` is where latencies are within PART_OF_RISE of high_level; NaN where they never are.
    """
    threshold = low_level + PART_OF_RISE * (high_level - low_level)
    upper = high_level - PART_OF_RISE * (high_level - low_level)
    if n_flat:
        flat = repeats.min(axis=1)[:n_flat]
        middle_of_flat = float(np.median(flat))
        spread = 1.48 * float(np.median(np.abs(flat - middle_of_flat)))
        threshold = middle_of_flat + max(FIVE_SIGMA * spread, LEAST_STEP * middle_of_flat)
        # Where the level is shared with others, the first points are already off their plateau.
        if middle_of_flat > LEAST_RISE * low_level or threshold > 0.5 * (low_level + high_level):
            return None

    def last_within(least: Floats) -> int:
        inside = np.flatnonzero(least <= threshold)
        return int(inside[-1]) if len(inside) else -1

    at = last_within(repeats.min(axis=1))
    if at < 0 or at == len(x) - 1:
        return None
    low, high = resampled_interval(repeats, last_within)
    beyond = min(int(np.ceil(high)) + 1, len(x) - 1)
    least = repeats.min(axis=1)
    reached = np.flatnonzero(least >= upper)
    reached = reached[reached > at]
    middle = 0.5 * (low_level + high_level)
    wrong = np.concatenate(
        [least[: at + 1] > threshold, least[reached[0] :] < middle if len(reached) else []]
    )
    return Edge(
        x=float(x[at]),
        low=float(x[max(int(np.floor(low)), 0)]),
        high=float(x[beyond]),
        end=float(x[reached[0]]) if len(reached) else float("nan"),
        astray=float(wrong.mean()),
    )
