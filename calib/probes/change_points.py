"""Edges in curves: where a latency leaves one plateau for the next, and how sure that is.

A curve is cut into pieces of constant log-latency so that

    sum over pieces of squared deviations  +  penalty * (number of pieces)

is least (Jackson et al. 2005, exact by dynamic programming); pieces that are long enough are
plateaus. Noise only ever adds to a latency, so a point is its least repeat, and the edge of a
plateau is the last point that lies within its spread. Intervals come from drawing the repeats again,
widened to the cell of the grid.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from calib.probes.outcome import Floats, interval_of, resampled_least

LEAST_RISE = 1.25
"""Plateaus closer than this are one."""
FIVE_SIGMA = 5.0
LEAST_STEP = 0.04
"""What a point must lie above its plateau, of that: what clocks and neighbours make of it."""
SHELF_OCTAVES = 1.0
MOST_SHELF_SLOPE = 0.35
"""Of log latency against log size, over SHELF_OCTAVES."""
STEEPER = 2.0
"""Before a shelf and behind it the curve is so many times as steep."""
PART_OF_RISE = 0.1
"""A point is off its plateau where it lies this part of the rise to the next one above it."""


@dataclass(frozen=True, kw_only=True)
class Plateau:
    """Points first..last (inclusive) of a curve at one latency."""

    first: int
    last: int
    level: float


@dataclass(frozen=True, kw_only=True)
class Edge:
    """The last x on a plateau, the first x off it at 95 %, and the x where the next one begins.

    astray : of the points up to x and from end on, the part that lies nearer to the other plateau
    """

    x: float
    low: float
    high: float
    end: float
    astray: float


def pieces(y: Floats, penalty: float, least_points: int = 2) -> list[tuple[int, int]]:
    """(first, last) of the pieces of constant y that cost least; O(n^2)."""
    n = len(y)
    sums = np.concatenate([[0.0], np.cumsum(y)])
    squares = np.concatenate([[0.0], np.cumsum(y**2)])
    best = np.full(n + 1, np.inf)
    best[0] = -penalty
    came_from = np.zeros(n + 1, np.int64)
    for end in range(least_points, n + 1):
        begin = np.arange(0, end - least_points + 1)
        length = end - begin
        total = sums[end] - sums[begin]
        cost = squares[end] - squares[begin] - total**2 / length + best[begin] + penalty
        k = int(np.argmin(cost))
        best[end], came_from[end] = cost[k], begin[k]
    found = []
    end = n
    while end > 0:
        found.append((int(came_from[end]), end - 1))
        end = int(came_from[end])
    return found[::-1]


def plateaus(x: Floats, y: Floats, least_octaves: float = 0.75) -> list[Plateau]:
    """Plateaus of a curve that rises: at least so wide in log2 x, each LEAST_RISE above the last.

    The penalty is that of a Schwarz criterion with the noise of the curve's flat half, at least 3 %.
    """
    log = np.log(y)
    steps = np.abs(np.diff(log))
    noise = max(float(np.median(np.sort(steps)[: max(len(steps) // 2, 1)])), 0.03)
    cut = pieces(log, penalty=4 * noise**2 * np.log(len(y)))
    found: list[Plateau] = []
    for first, last in cut:
        level = float(np.exp(np.median(log[first : last + 1])))
        if found and level < found[-1].level * LEAST_RISE:
            before = found[-1]
            if level > before.level / LEAST_RISE:
                found[-1] = Plateau(first=before.first, last=last, level=before.level)
            continue
        wide = np.log2(x[last] / x[first]) >= least_octaves
        if wide or last == len(x) - 1:
            found.append(Plateau(first=first, last=last, level=level))
    return found


def with_shelves(x: Floats, y: Floats, found: list[Plateau]) -> list[Plateau]:
    """The plateaus, and between two of them the shelf, if there is one, where the curve rises least.

    A level that scattered pages fill unevenly, or that others use as well, has no flat stretch: the end
    of the level above runs into its own. It shows as a slope that is half of those beside it.
    """
    log_x, log_y = np.log2(x), np.log2(y)
    filled = found[:1]
    for below, above in itertools.pairwise(found):
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
    """Where (n_x, n_repeat) latencies leave low_level on the way to high_level; None where never, or
    where the first points are not on low_level or too noisy to tell.

    n_flat : so many first points lie on the plateau: their median is its level there, and their
        spread says how far off it a point must be; 0: PART_OF_RISE
    end : where they come within PART_OF_RISE of high_level, NaN where they do not
    """
    threshold = low_level + PART_OF_RISE * (high_level - low_level)
    upper = high_level - PART_OF_RISE * (high_level - low_level)
    if n_flat:
        flat = repeats.min(axis=1)[:n_flat]
        middle_of_flat = float(np.median(flat))
        spread = 1.48 * float(np.median(np.abs(flat - middle_of_flat)))
        threshold = middle_of_flat + max(FIVE_SIGMA * spread, LEAST_STEP * middle_of_flat)
        # Where others use the level as well, the first points are off their plateau already.
        if middle_of_flat > LEAST_RISE * low_level or threshold > 0.5 * (low_level + high_level):
            return None

    def last_within(least: Floats) -> int:
        inside = np.flatnonzero(least <= threshold)
        return int(inside[-1]) if len(inside) else -1

    at = last_within(repeats.min(axis=1))
    if at < 0 or at == len(x) - 1:
        return None
    again = np.array([last_within(least) for least in resampled_least(repeats)])
    low, high = interval_of(again.astype(np.float64))
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
