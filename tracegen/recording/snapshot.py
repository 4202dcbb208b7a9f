"""Which groups of a launch are traced: a few waves from its middle.

A wave is the number of groups that the machine holds resident. A snapshot extends across cores, to
consecutive groups, and along time, to groups that follow each other on one core (Baghsorkhi et al.
2012, section 3.1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from memsim.errors import KernelError

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
BUDGET_GRANULES = 16_000_000
"""Granules of a snapshot; a replay of this number takes about a second a trial."""
MOST_TRACES = 2
"""Several snapshots of a launch have budgets of so many together: 32 million granules, about 1 GB."""
LEAST_WAVES = 8
"""With fewer, a snapshot says too little of what stays in a large cache: see WAVES. On an H100, whose L2 is
eight times as large as a V100's, snapshots of two waves load 30 % too little from DRAM."""
SAMPLED_GROUPS = 8
"""Groups from which the granules of a lane-access are estimated."""

GOLDEN = (5**0.5 - 1) / 2
"""Multiples of the golden ratio, modulo 1, are spread evenly, however many there are (Weyl)."""

Groups = npt.NDArray[np.int64]


def choose(
    n_groups: int,
    wave: int | None,
    requested: int | Sequence[int] | None = None,
    snapshots: int = 1,
    waves: int = WAVES,
) -> list[Groups]:
    """The group ids of each snapshot, ascending.

    wave : groups resident on the whole machine; None without a machine, which selects all groups
    requested : a number of consecutive groups, or their ids
    waves : length of a snapshot where no groups are requested

    Raises KernelError for groups that the launch does not have.
    """
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
        np.arange(start, start + count, dtype=np.int64)
        for start in _starts(n_groups, count, wave or 1, snapshots)
    ]


def windows(n_groups: int, count: int, wave: int, n: int) -> list[int]:
    """Where a single snapshot of `count` groups may begin: in the middle, and at n - 1 other places."""
    free = n_groups - count
    starts = [int(free * ((0.5 + GOLDEN * k) % 1)) for k in range(n)]
    if count >= wave:
        starts = [start // wave * wave for start in starts]
    return list(dict.fromkeys(starts))


def within_budget(
    groups: Groups,
    accesses: npt.NDArray[np.int64],
    wave: int | None,
    granules_of: Callable[[npt.NDArray[np.int64]], int],
    part: float = 1.0,
) -> Groups:
    """The first groups of a snapshot that fit into the budgets, never less than two waves.

    accesses : (n_group,) lane-accesses counted in each
    granules_of : indices of sampled groups -> the granules of these groups
    part : of the budgets that this snapshot may take
    """
    most_granules, most_accesses = part * BUDGET_GRANULES, part * BUDGET_ACCESSES
    total = int(accesses.sum())
    if wave is None or total <= min(most_granules, most_accesses):
        return groups
    sample = np.unique(np.linspace(0, len(groups) - 1, SAMPLED_GROUPS).astype(np.int64))
    n_sampled = int(accesses[sample].sum())
    each = granules_of(sample) / n_sampled if n_sampled else 1.0
    budget = min(most_accesses, most_granules / each) if each else most_accesses
    affordable = int(np.searchsorted(np.cumsum(accesses), budget, side="right"))
    return groups[: max(affordable, FEWEST_WAVES * wave, 1)]


def _starts(n_groups: int, count: int, wave: int, snapshots: int) -> list[int]:
    """One in the middle, or one in each of so many equal parts of the launch, at unequal places in them:
    equal distances could be in step with what repeats itself along the launch."""
    free = n_groups - count
    if snapshots == 1:
        return windows(n_groups, count, wave, 1)
    within = [(0.5 + GOLDEN * k) % 1 for k in range(snapshots)]
    return [int(free * (k + place) / snapshots) for k, place in enumerate(within)]


def _listed(n_groups: int, requested: Sequence[int]) -> Groups:
    groups = np.unique(np.asarray(list(requested), np.int64))
    if len(groups) == 0:
        raise KernelError("groups must name at least one group, got none")
    if groups[0] < 0 or groups[-1] >= n_groups:
        bad = groups[0] if groups[0] < 0 else groups[-1]
        raise KernelError(f"groups must be ids below {n_groups}, got {bad}")
    return groups
