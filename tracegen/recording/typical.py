"""How much the groups of a launch request, from groups spread over it, and places that are like the launch.

Groups differ: those at an edge of a grid are half empty, rows of a sparse matrix have their own lengths. A
snapshot of a few waves may lie on such groups alone. Its counts are therefore scaled to the requests of
the launch rather than to its groups, and a single snapshot lies where groups request about as much as the
launch's mean group.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from memsim.statistics import CONFIDENCE
from tracegen.recording.snapshot import GOLDEN

Groups = npt.NDArray[np.int64]
RequestsOf = Callable[[Groups], Groups]
"""Ids of groups, ascending -> the requests of each."""

FEW, MOST = 64, 4096
"""Groups that are looked at first, and at most where these differ."""
BUDGET_REQUESTS = 2_000_000
SUBSAMPLES = 8
"""Each is spread over the launch by itself, so their means say how good the mean of all is (interpenetrating
samples, Mahalanobis 1946)."""
SNAPSHOTS_PART = 4
"""The first groups looked at are at most this part of the snapshot that they are for."""
SHORT = 2 * SUBSAMPLES * SNAPSHOTS_PART
"""Groups of a snapshot below which so many others would cost more than the snapshot: the groups of such a
launch do much work each."""
SHORT_GLANCE = 512
"""The same where many kernels are only glanced at, as in tuning."""
WINDOWS, WINDOW_GROUPS = 8, 16
"""Places that a snapshot may have, and groups by which one is judged."""
NEAR = 0.05
"""A place is like the launch if its groups request as much but for this part."""


class MeanGroup(NamedTuple):
    """requests : of the launch's mean group;  half_width : of its 95 % interval"""

    requests: float
    half_width: float


def spread(n_groups: int, n: int) -> Groups:
    """(n,) ids of groups, spread evenly over a launch in any part of their sequence."""
    return np.asarray(n_groups * ((np.arange(n) + 0.5) * GOLDEN % 1), np.int64)


class _Stratum(NamedTuple):
    """The groups of a grid with first <= index < end along each axis."""

    ranges: tuple[tuple[int, int], ...]

    @property
    def size(self) -> int:
        return math.prod(end - first for first, end in self.ranges)

    def sample(self, grid: Sequence[int], n: int) -> Groups:
        """Ids of n of its groups, spread evenly in any part of their sequence; of all where it has no more."""
        at = np.arange(self.size) if n >= self.size else spread(self.size, n)
        within = np.unravel_index(at, [end - first for first, end in self.ranges], order="F")
        along = [k + first for k, (first, _) in zip(within, self.ranges, strict=True)]
        return np.asarray(np.ravel_multi_index(along, tuple(grid), order="F"), np.int64)


def mean_group(
    grid: Sequence[int], n_snapshot: int, requests_of: RequestsOf, short: int = SHORT
) -> MeanGroup:
    """The mean group of a launch, for a snapshot of `n_snapshot` groups.

    Where the first groups looked at differ, more are, until these have BUDGET_REQUESTS. Those that are first
    or last along an axis, and those inside, are strata (Cochran, Sampling Techniques, 1977, section 5.3). For
    a short snapshot it is one group at each edge.

    short : groups below which a snapshot is short, at least SHORT
    """
    if n_snapshot < short:
        return _mean_of_edges(grid, requests_of)
    n_groups, strata = math.prod(grid), _strata(grid)
    n = max(min(FEW, n_snapshot // SNAPSHOTS_PART) - len(strata), SUBSAMPLES)
    few = [spread(n_groups, n), *(one.sample(grid, 1) for one in strata)]
    found = _requests(np.concatenate(few), requests_of)
    if np.ptp(found) == 0:
        return MeanGroup(float(found[0]), 0.0)
    affordable = min(int(BUDGET_REQUESTS / found.mean()), 2 * n_snapshot // SNAPSHOTS_PART, MOST)
    sizes = np.array([one.size for one in strata])
    samples = [
        one.sample(grid, int(n))
        for one, n in zip(strata, _allocated(sizes, affordable), strict=True)
    ]
    requests = _requests(np.concatenate(samples), requests_of)
    by_stratum = np.split(requests, np.cumsum([len(ids) for ids in samples])[:-1])
    means = [_subsample_means(*one) for one in zip(sizes, by_stratum, strict=True)]
    subsamples = sizes / n_groups @ np.array(means)
    deviation = subsamples.std(ddof=1) if np.ptp(subsamples) > 0 else 0.0
    student = scipy.special.stdtrit(SUBSAMPLES - 1, 0.5 + CONFIDENCE / 2)
    unseen = max(1 - len(requests) / n_groups, 0.0)
    half_width = student * deviation * np.sqrt(unseen / SUBSAMPLES)
    return MeanGroup(float(subsamples.mean()), float(half_width))


def _strata(grid: Sequence[int]) -> list[_Stratum]:
    """The groups that are first, last or between along each axis; the largest stratum is inside the grid."""
    along = [itertools.pairwise(sorted({0, 1, n - 1, n})) for n in grid]
    return [_Stratum(ranges) for ranges in itertools.product(*along)]


def _allocated(sizes: Groups, affordable: int) -> Groups:
    """(n_stratum,) how many groups of each stratum are looked at: in proportion to their sizes, but at least
    one for each subsample, or where that is not affordable, one."""
    least = SUBSAMPLES if 2 * SUBSAMPLES * len(sizes) <= affordable else 1
    wanted = np.maximum((sizes / sizes.sum() * affordable).astype(np.int64), least)
    largest = np.argmax(sizes)
    wanted[largest] = max(affordable - int(np.delete(wanted, largest).sum()), SUBSAMPLES)
    return np.where(wanted < SUBSAMPLES, 1, wanted // SUBSAMPLES * SUBSAMPLES)


def _subsample_means(size: int, requests: Groups) -> npt.NDArray[np.float64]:
    """(SUBSAMPLES,) means of the subsamples of a stratum; all equal where its mean is taken as exact."""
    if len(requests) in (1, size):
        return np.full(SUBSAMPLES, requests.mean())
    return np.array([requests[k::SUBSAMPLES].mean() for k in range(SUBSAMPLES)])


def _mean_of_edges(grid: Sequence[int], requests_of: RequestsOf) -> MeanGroup:
    """The mean group if only the last groups along each axis differ, as where a grid exceeds its data.

    How much two groups inside differ is what is open.
    """
    insides = [(n - 1) // 2 for n in grid]
    ids, counts = [_number(grid, [inside // 2 for inside in insides])], [0]
    for last in itertools.product(*((False, True) if n > 1 else (False,) for n in grid)):
        at = [n - 1 if end else inside for n, inside, end in zip(grid, insides, last, strict=True)]
        ids.append(_number(grid, at))
        counts.append(
            math.prod(1 if end or n == 1 else n - 1 for n, end in zip(grid, last, strict=True))
        )
    found = _requests(np.array(ids, np.int64), requests_of).astype(np.float64)
    mean = found @ np.array(counts, np.float64) / math.prod(grid)
    return MeanGroup(float(mean), float(abs(found[0] - found[1])))


def _number(grid: Sequence[int], at: Sequence[int]) -> int:
    """The number of the group at a place; the first axis runs fastest."""
    return int(sum(k * math.prod(grid[:axis]) for axis, k in enumerate(at)))


def typical_start(starts: list[int], length: int, of_launch: float, requests_of: RequestsOf) -> int:
    """Where a snapshot begins: at the first of some places if this is like the launch, else at the one that
    is most like it."""
    inside = np.unique(spread(length, WINDOW_GROUPS))

    def off(start: int) -> float:
        return abs(float(requests_of(start + inside).mean()) / of_launch - 1)

    if not of_launch or off(starts[0]) <= NEAR:
        return starts[0]
    return min(starts, key=off)


def _requests(ids: Groups, requests_of: RequestsOf) -> Groups:
    """Requests in the order of `ids`, which may repeat."""
    unique, at = np.unique(ids, return_inverse=True)
    return np.asarray(requests_of(unique)[at])
