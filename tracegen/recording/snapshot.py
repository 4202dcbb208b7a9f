"""Which groups of a launch are traced: a few waves, at one place or at several.

A wave is the number of groups that the machine holds resident. A snapshot extends across cores, to
consecutive groups, and along time, to groups that follow each other on one core (Baghsorkhi et al.
2012, section 3.1).
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from memsim.errors import KernelError
from memsim.montecarlo import warmup_waves_of

WAVES = 12
"""Length of a snapshot, in waves; half of it warms the caches.

Merge sort on a C2050 needs ten waves until the phases of its groups have mixed: the L2 write hits of the
waves 0 to 15 are 48, 61, 69, 75, 78, 81, 82, 83, 84, 84, ... 84 %, and 87 % in the last wave, which has
fewer neighbours. For the 25-point stencil on a V100 (experiments.hardware, five shapes, three positions
each), the volume of stores to memory is wrong by 102 % with 4 waves, because little has been evicted by
then, by 2.7 % with 8 waves and by 0.7 % with 16. Longer snapshots do not improve loads: their errors are
2.8, 2.8 and 2.7 % at the L2 and 3.2, 2.6 and 3.5 % at memory, where the three positions differ by 7 to
10 %.
"""
FEWEST_WAVES = 2
BUDGET_ACCESSES = 128_000_000
"""Lane-accesses of a snapshot; this number is traced in a few seconds."""
BUDGET_INSTRUCTIONS = 2e9
"""Instructions of the lanes of a snapshot, as a GPU would execute them; kernels that compute much between their
accesses are traced for a few seconds too."""
BUDGET_GRANULES = 16_000_000
"""Granules of a snapshot; a replay of this number takes about a second a trial."""
MOST_TRACES = 2
"""Several snapshots of a launch have budgets of so many together: 32 million granules, about 1 GB."""
WHOLE_LAUNCH = 5
"""A launch whose groups are all resident, or nearly, has so many times the budgets, about 2.5 GB: recorded as a whole it costs two or
three times what windows of its run do, and nothing is left open: windows of a matrix product whose groups stay have no stores."""
LEAST_WAVES = 8
"""With fewer, a snapshot says too little of what stays in a large cache: see WAVES. On an H100, whose L2 is
eight times as large as a V100's, snapshots of two waves load 30 % too little from DRAM."""
SAMPLED_GROUPS = 8
"""Groups from which the cost of a snapshot is estimated."""

GOLDEN = (5**0.5 - 1) / 2
"""Multiples of the golden ratio, modulo 1, are spread evenly, however many there are (Weyl)."""

Groups = npt.NDArray[np.int64]


class Place(NamedTuple):
    """groups : of a snapshot;  occurrences : see memsim.trace.Trace"""

    groups: Groups
    occurrences: int = 0


RARE = 0.01
"""Part of a launch below which what is peculiar to starts of its layers is not traced."""


def choose(
    grid: Sequence[int],
    wave: int | None,
    requested: int | Sequence[int] | None = None,
    snapshots: int = 1,
    waves: int = WAVES,
) -> list[Groups]:
    """The group ids of each snapshot, ascending.

    grid : groups along each axis; the first axis runs fastest
    wave : groups resident on the whole machine; None without a machine, which selects all groups
    requested : a number of consecutive groups, or their ids
    waves : length of a snapshot where no groups are requested

    Raises KernelError for groups that the launch does not have.
    """
    n_groups = math.prod(grid)
    if snapshots < 1:
        raise KernelError(f"snapshots must be at least 1, got {snapshots}")
    if requested is not None and not isinstance(requested, (int, np.integer)):
        return [_listed(n_groups, requested)] * snapshots
    if requested is not None:
        count = int(requested)
        if count < 1:
            raise KernelError(f"groups must be at least 1, got {count}")
    else:
        count = n_groups if wave is None else waves * wave
    count = min(count, n_groups)
    return [
        np.arange(start, start + count, dtype=np.int64) for start in starts(grid, count, snapshots)
    ]


def in_whole_rows(grid: Sequence[int], wave: int, count: int, *, at_most: bool = False) -> int:
    """The length nearest to `count` whose counted groups are whole rows or layers of the grid: an even number,
    where there is more than one; `count` itself where they are less than about one row.

    Groups differ along a row, and where a row of an array is no multiple of a line, even rows differ from odd
    ones. Three snapshots of one and a half rows may all count more of the odd ones, and then agree on what
    is wrong.

    at_most : not longer than `count`
    """
    sizes = [int(size) for size in itertools.accumulate(grid, operator.mul)]
    warmup_waves = warmup_waves_of(count // wave)
    counted = count - (warmup_waves + 1) * wave
    if not warmup_waves or count >= sizes[-1]:
        return count
    for unit in sorted({size for size in sizes if 1 < size < sizes[-1]}, reverse=True):
        whole = _rows(counted / unit, at_most) * unit
        full_waves = whole // wave
        if full_waves:
            warmup = min(max(warmup_waves, full_waves - 1), full_waves)
            if (length := whole + (warmup + 1) * wave) < sizes[-1]:
                return length
    return count


def _rows(n: float, at_most: bool) -> int:
    """One or an even number, near n or not more than it; 0 where n is hardly a row."""
    if at_most:
        return int(n) if n < 2 else 2 * int(n / 2)
    return int(n + 0.25) if n < 1.5 else 2 * round(n / 2)


def starts(grid: Sequence[int], count: int, n: int) -> list[int]:
    """Where each of n snapshots of `count` groups begins: one in each of n equal parts of the launch.

    Within its part it begins after another multiple of the golden ratio: equal distances, and simple
    fractions of a launch, may be in step with what repeats itself along it. If a row or layer of the grid
    holds the snapshot, it lies within one: see `layer_start`.
    """
    if n == 1:
        return [amid(grid, count)]
    n_groups, (unit, _) = math.prod(grid), _smallest_part(grid, count)
    n_units = n_groups // unit
    result = []
    for k in range(n):
        within = GOLDEN * (k + 1) % 1
        at = n_units * (k + within) / n
        if n_units >= n:  # even rows, and odd ones
            row = int(n_units * (k + 0.5) / n)
            at = row + (row + k) % 2 * (1 if row + 1 < n_units else -1) + within
        result.append(int(at) * unit + int((unit - count) * (at % 1)))
    return result


def layer_start(grid: Sequence[int], count: int, wave: int) -> Place | None:
    """A snapshot of `count` groups whose counted ones begin a row or layer of the grid; None where the grid has
    a single one that holds so many, or so many that their starts hardly matter.

    A snapshot of the 25-point stencil (experiments.hardware) in which a layer begins reads up to a fifth more
    from DRAM, for nothing that the layer before it has read is used again. So does that of the launch.
    """
    n_groups, (unit, _) = math.prod(grid), _smallest_part(grid, count)
    n_units, uncounted = n_groups // unit, warmup_waves_of(count // wave) * wave
    first, counted = n_units // 2 * unit - uncounted, count - uncounted - wave
    if n_units == 1 or first < 0 or (n_units - 1) * counted < RARE * n_groups:
        return None
    return Place(np.arange(first, first + count, dtype=np.int64), n_units)


def amid(grid: Sequence[int], count: int) -> int:
    """Where a single snapshot begins: within the middle one of the rows or layers that hold it, else within the
    launch, after a golden section. No group of it is the last along another axis, though the middle of the
    launch may be."""
    unit, n_axes = _smallest_part(grid, count)
    start, stride = int((unit - count) * GOLDEN), unit
    for extent in grid[n_axes:]:
        start += (extent - 1) // 2 * stride
        stride *= extent
    return start


def _smallest_part(grid: Sequence[int], count: int) -> tuple[int, int]:
    """The groups of a row of the grid, of a layer or of all, whichever first holds `count`; and its axes."""
    sizes = itertools.accumulate(grid, operator.mul)
    return next((size, k) for k, size in enumerate(sizes, 1) if size >= count)


class Cost(NamedTuple):
    """Lane-accesses, granules, and the instructions of all lanes, 0 where these are not known."""

    accesses: float
    granules: float
    instructions: float = 0.0


def within_budget(groups: Groups, wave: int, each: Cost, part: float = 1.0) -> Groups:
    """The first groups of a snapshot that fit into a part of the budgets, never less than two waves.

    each : the mean of a group
    """
    budgets = zip((BUDGET_ACCESSES, BUDGET_GRANULES, BUDGET_INSTRUCTIONS), each, strict=True)
    fits = [part * budget / cost for budget, cost in budgets if cost]
    return groups[: max(int(min(fits, default=len(groups))), FEWEST_WAVES * wave, 1)]


def sample(n_groups: int) -> npt.NDArray[np.int64]:
    """Indices of the groups that stand for all in what is estimated, ascending: amid equal parts."""
    n = min(SAMPLED_GROUPS, n_groups)
    return np.asarray((2 * np.arange(n) + 1) * n_groups // (2 * n), np.int64)


def _listed(n_groups: int, requested: Sequence[int]) -> Groups:
    groups = np.unique(np.asarray(list(requested), np.int64))
    if len(groups) == 0:
        raise KernelError("groups must name at least one group, got none")
    if groups[0] < 0 or groups[-1] >= n_groups:
        bad = groups[0] if groups[0] < 0 else groups[-1]
        raise KernelError(f"groups must be ids below {n_groups}, got {bad}")
    return groups
