"""Statistics of a quantity over trials: its mean, a confidence interval of the mean, and the spread.

The half-width of the interval is the uncertainty of the mean over orderings. Sigma is the difference
between one ordering and another. Neither includes the error of the model itself.

Student's interval assumes normal values. For skewed values, mean and standard deviation are
correlated, and it covers too little; `factor` corrects for that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from memsim.errors import ResultError

CONFIDENCE = 0.95
MIN_TRIALS = 2
MIN_TRIALS_TO_STOP = 32
"""Stopping earlier would stop too often where sigma is underestimated: intervals from 16 trials cover
89.6 to 95.2 % instead of 95, those from 32 on 93.2 to 94.9 % (24 hit ratios of experiments.stochastic, 2000
repetitions)."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A quantity over trials: mean +- half_width at 95 % (NaN below two trials), sigma, n_trials.

    The interval is symmetric and not clipped to the quantity's range. Trials in which the quantity is
    undefined (NaN) do not count in n_trials; the mean is NaN if there are no others.
    """

    mean: float
    half_width: float
    sigma: float
    n_trials: int

    @property
    def low(self) -> float:
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        return self.mean + self.half_width

    @property
    def ci95(self) -> tuple[float, float]:
        return self.low, self.high

    @property
    def is_defined(self) -> bool:
        return math.isfinite(self.mean)

    @property
    def has_interval(self) -> bool:
        return math.isfinite(self.half_width)

    def scaled(self, factor: float) -> Estimate:
        """The same quantity in another unit."""
        return Estimate(
            mean=self.mean * factor,
            half_width=self.half_width * abs(factor),
            sigma=self.sigma * abs(factor),
            n_trials=self.n_trials,
        )

    def overlaps(self, other: Estimate) -> bool:
        """Whether the two intervals have a point in common; False if one is unknown."""
        return self.low <= other.high and other.low <= self.high


class TooFewTrialsError(ResultError):
    """There are too few trials for an interval; `estimate` has the mean and sigma so far."""

    def __init__(self, estimate: Estimate) -> None:
        super().__init__(
            f"a 95 % interval needs at least {MIN_TRIALS} trials, got {estimate.n_trials}"
        )
        self.estimate = estimate


def student_t(n_trials: int, confidence: float = CONFIDENCE) -> float:
    """The two-sided Student-t factor for the mean of n_trials >= 2 normal values."""
    return float(special.stdtrit(n_trials - 1, 0.5 + confidence / 2))


def factor(n_trials: npt.ArrayLike, skewness: npt.ArrayLike) -> Floats:
    """Half-width of the interval of a mean, in standard errors, for n_trials >= 2 values:

        t(n - 1) + (z / n) skewness^2 (z^4 + 2 z^2 - 3) / 18,   z the normal quantile.

    The second term compensates the coverage that a symmetric interval loses by skewness, from the
    second term of the Edgeworth expansion of a Studentized mean (P. Hall, The Bootstrap and Edgeworth
    Expansion, Springer 1992, section 2.6: q2 of the Studentized mean). Of the other two parts of q2,
    Student's t contains the one without moments; that of kurtosis, a fifteenth as large, is neglected.
    """
    n, freedom = np.asarray(n_trials, np.float64), np.asarray(n_trials) - 1
    z = float(special.ndtri(0.5 + CONFIDENCE / 2))
    skewed = z / n * np.square(skewness) * (z**4 + 2 * z**2 - 3) / 18
    return np.asarray(special.stdtrit(freedom, 0.5 + CONFIDENCE / 2) + skewed, np.float64)


def sample_skewness(
    n_trials: npt.ArrayLike, squares: npt.ArrayLike, cubes: npt.ArrayLike
) -> Floats:
    """Skewness from sums of squared and cubed deviations from the mean, corrected for the bias of
    normal samples (G1 of Joanes and Gill, The Statistician 47, 1998); 0 where it is undefined.

    It is clipped to sqrt(n), the skewness of one value that differs from n - 1 equal ones.
    """
    n, squares = np.asarray(n_trials, np.float64), np.asarray(squares, np.float64)
    with np.errstate(all="ignore"):
        skewness = cubes / squares / np.sqrt(squares) * n * np.sqrt(n - 1) / (n - 2)
    skewness = np.where(np.isfinite(skewness) & (n > 2) & (squares > 0), skewness, 0.0)
    return np.asarray(np.clip(skewness, -np.sqrt(n), np.sqrt(n)), np.float64)


def hit_ratio(accesses: npt.ArrayLike, hits: npt.ArrayLike, pending: npt.ArrayLike) -> Floats:
    """(hits + pending) / accesses, element by element; NaN without accesses.

    A pending sector counts as a hit: an earlier request has already fetched it from below.
    """
    n = np.asarray(accesses, np.float64)
    return np.where(n > 0, np.add(hits, pending) / np.maximum(n, 1), np.nan)


def describe(values: npt.ArrayLike) -> Estimate:
    """Mean, interval and spread of (n_trial,) values; what is undefined is NaN."""
    array = np.asarray(values, dtype=np.float64).ravel()
    array = array[np.isfinite(array)]
    n_trials = int(array.size)
    if n_trials == 0:
        return Estimate(mean=math.nan, half_width=math.nan, sigma=math.nan, n_trials=0)
    mean = float(array.mean())
    if n_trials < MIN_TRIALS:
        return Estimate(mean=mean, half_width=math.nan, sigma=math.nan, n_trials=n_trials)
    if np.all(
        array == array[0]
    ):  # in floating point, the mean of equal numbers may differ from them
        return Estimate(mean=float(array[0]), half_width=0.0, sigma=0.0, n_trials=n_trials)
    sigma = float(array.std(ddof=1))
    off = array - mean
    skewness = sample_skewness(n_trials, np.sum(off**2), np.sum(off**3))
    half_width = float(factor(n_trials, skewness)) * sigma / math.sqrt(n_trials)
    return Estimate(mean=mean, half_width=half_width, sigma=sigma, n_trials=n_trials)


def estimate(values: npt.ArrayLike) -> Estimate:
    """Like describe, but raises TooFewTrialsError if there is no interval."""
    result = describe(values)
    if result.n_trials < MIN_TRIALS:
        raise TooFewTrialsError(result)
    return result


def running(values: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Mean and half-width after 1, 2, ... n trials: two (n_trial,) arrays.

    Trials in which the quantity is undefined are skipped. The first half-width is NaN.
    """
    array = np.asarray(values, dtype=np.float64).ravel()
    array = array[np.isfinite(array)]
    count = np.arange(1, array.size + 1, dtype=np.float64)
    shift = array[0] if array.size else 0.0  # keeps the sums of powers small beside the mean
    centred = array - shift
    mean, square, cube = (np.cumsum(centred**k) / count for k in (1, 2, 3))
    squares = count * np.maximum(square - mean**2, 0.0)
    cubes = count * (cube - 3 * mean * square + 2 * mean**3)
    half_width = np.full(array.size, np.nan)
    n, squares, cubes = count[1:], squares[1:], cubes[1:]
    half_width[1:] = factor(n, sample_skewness(n, squares, cubes)) * np.sqrt(squares / (n - 1) / n)
    return mean + shift, half_width


@dataclass(frozen=True, kw_only=True)
class WelchTest:
    """Welch's unequal-variances t test: difference of means b - a, with its 95 % half-width.

    p_value : probability of a difference at least as large if the means were equal; NaN if a side
        has fewer than two trials
    """

    difference: float
    half_width: float
    p_value: float


def welch(a: Estimate, b: Estimate) -> WelchTest:
    """Welch's test of two estimates. It uses means and sigmas alone, and no correction for skewness.

    If neither varies (a deterministic replay), equal means have p = 1 and others p = 0.
    """
    difference = b.mean - a.mean
    if min(a.n_trials, b.n_trials) < MIN_TRIALS:
        return WelchTest(difference=difference, half_width=math.nan, p_value=math.nan)
    variances: Sequence[float] = (a.sigma**2 / a.n_trials, b.sigma**2 / b.n_trials)
    total = sum(variances)
    if total == 0.0:
        return WelchTest(difference=difference, half_width=0.0, p_value=float(difference == 0))
    ratio = variances[0] / total  # of the two squares, relative: no underflow for tiny variances
    freedom = 1 / (ratio**2 / (a.n_trials - 1) + (1 - ratio) ** 2 / (b.n_trials - 1))
    error = math.sqrt(total)
    return WelchTest(
        difference=difference,
        half_width=float(special.stdtrit(freedom, 0.5 + CONFIDENCE / 2)) * error,
        p_value=2 * float(special.stdtr(freedom, -abs(difference) / error)),
    )


def bins(values: npt.ArrayLike, least_width: float = 1e-9) -> Floats:
    """Edges of 10 to 40 equal bins over finite values; one bin if all values are the same."""
    array = np.asarray(values, dtype=np.float64)
    low, high = (float(array.min()), float(array.max())) if array.size else (0.0, 1.0)
    if high - low < max(least_width, 1e-9 * abs(high)):
        half = max(0.5 * least_width, 0.005 * abs(low), 1e-6)
        return np.array([low - half, high + half])
    n_bins = int(np.clip(np.sqrt(array.size) * 2, 10, 40))
    return np.linspace(low, high, n_bins + 1)
