"""Running statistics of times, and a test whether their distribution is bimodal."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calib.history.errors import HistoryError
from memsim.report import percent, seconds

SHORTEST_S = 1e-15
"""No launch takes a femtosecond; for longer times, quotients of times are finite."""
LONGEST_S = 1e9
"""No launch takes 30 years; for shorter times the sum of squares over 2^63 samples is finite."""

FAR_APART = 4.0
"""Times are examined and drawn in logarithms where the longest, without the slowest hundredth, is this many
times the shortest."""

TWO_MODES_P = 0.01
TWO_MODES_LEAST = 5
"""Fewest samples of the smaller mode; it must also have a tenth of all samples."""


def check_time(time_s: float) -> float:
    """The time itself. Raises HistoryError unless it lies between SHORTEST_S and LONGEST_S."""
    if not SHORTEST_S <= time_s < LONGEST_S:
        raise HistoryError(
            f"a launch's time must lie between {SHORTEST_S:g} and {LONGEST_S:g} s, got {time_s}"
        )
    return float(time_s)


@dataclass(frozen=True)
class Running:
    """n, mean, squared deviations from it, extremes, and the sums that regressions need; the database keeps them in this order.

    m2 : sum of (t - mean)^2, in s^2
    sum_ln, sum_ln2 : sums of ln t and its square, t in seconds
    """

    n: int = 0
    mean: float = 0.0
    m2: float = 0.0
    low: float = math.inf
    high: float = -math.inf
    sum_ln: float = 0.0
    sum_ln2: float = 0.0

    def add(self, time_s: float) -> Running:
        """The statistics with one more time. Raises HistoryError where it is invalid."""
        return self.merged(running([time_s]))

    def merged(self, other: Running) -> Running:
        """The statistics of both sets of samples together (Chan, Golub and LeVeque)."""
        n = self.n + other.n
        if n == 0:
            return self
        step = other.mean - self.mean
        return Running(
            n=n,
            mean=self.mean + step * other.n / n,
            m2=self.m2 + other.m2 + step * step * self.n * other.n / n,
            low=min(self.low, other.low),
            high=max(self.high, other.high),
            sum_ln=self.sum_ln + other.sum_ln,
            sum_ln2=self.sum_ln2 + other.sum_ln2,
        )

    @property
    def deviation(self) -> float:
        """The sample standard deviation (with n - 1), in seconds; nan for fewer than two samples."""
        return math.sqrt(self.m2 / (self.n - 1)) if self.n > 1 else math.nan

    @property
    def variation(self) -> float:
        """Standard deviation divided by mean; nan for fewer than two samples."""
        return self.deviation / self.mean if self.n > 1 else math.nan


def running(times_s: npt.ArrayLike) -> Running:
    """The statistics of an array of times, in two passes. Raises HistoryError where a time is invalid."""
    times = np.asarray(times_s, dtype=np.float64)
    if times.size == 0:
        return Running()
    check_time(float(times.min()))
    check_time(float(times.max()))
    mean, log = float(times.mean()), np.log(times)
    return Running(
        n=times.size,
        mean=mean,
        m2=float(np.sum((times - mean) ** 2)),
        low=float(times.min()),
        high=float(times.max()),
        sum_ln=float(log.sum()),
        sum_ln2=float(np.sum(log * log)),
    )


@dataclass(frozen=True, kw_only=True)
class TwoModes:
    """A bimodal distribution: the two modes in seconds, the share of the lower one, and the p-value."""

    low_s: float
    high_s: float
    low_share: float
    p: float

    def __str__(self) -> str:
        return (
            f"bimodal: {percent(self.low_share, 0)} of the launches near {seconds(self.low_s, 4)}, the"
            f" rest near {seconds(self.high_s, 4)} (p = {self.p:.1g})"
        )


def two_modes(times_s: npt.ArrayLike) -> TwoModes | None:
    """The two modes of a bimodal distribution (as in Augonnet et al. 2009, figure 8), else None.

    The best split into two clusters gives two centres. In a unimodal distribution the middle third between
    them has at least as many samples as the emptier of the two equal windows around the centres. The
    distribution is bimodal where it has fewer, by a binomial test at TWO_MODES_P. Where the times are
    far apart their logarithms are tested: a launch that waits for others takes several times as long as
    one that does not, and its times scatter in proportion.
    """
    from scipy.stats import binom

    ordered = np.sort(np.asarray(times_s, dtype=np.float64))
    n = len(ordered)
    least = max(TWO_MODES_LEAST, n // 10)
    if n < 2 * least:
        return None
    wide = far_apart(ordered)
    if wide:
        ordered = np.log(ordered)
    cut = _best_cut(ordered, least)
    low, high = float(np.median(ordered[:cut])), float(np.median(ordered[cut:]))
    third = (high - low) / 3
    if third <= 0.0:
        return None

    def count_near(centre: float) -> int:
        left, right = centre - third / 2, centre + third / 2
        return int(np.searchsorted(ordered, right) - np.searchsorted(ordered, left))

    middle = count_near((low + high) / 2)
    beside = min(count_near(low), count_near(high))
    p = float(binom.cdf(middle, middle + beside, 0.5))
    if p >= TWO_MODES_P:
        return None
    low_s, high_s = (math.exp(low), math.exp(high)) if wide else (low, high)
    return TwoModes(low_s=low_s, high_s=high_s, low_share=cut / n, p=p)


def far_apart(times_s: npt.NDArray[np.float64]) -> bool:
    """Whether the times, without the slowest hundredth, differ by a factor of FAR_APART."""
    return bool(np.quantile(times_s, 0.99) > FAR_APART * times_s.min())


def _best_cut(ordered: npt.NDArray[np.float64], least: int) -> int:
    """The split of sorted values into two clusters with least squares; each has at least `least` values."""
    n = len(ordered)
    centred = ordered - ordered.mean()
    left_sum = np.cumsum(centred)[:-1]
    left_n = np.arange(1, n)
    between = left_sum**2 / left_n + left_sum**2 / (n - left_n)  # the sums cancel: total is 0
    between[: least - 1] = -1.0
    between[n - least :] = -1.0
    return int(np.argmax(between)) + 1
