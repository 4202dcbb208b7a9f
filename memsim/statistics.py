"""Statistics of a quantity over trials: its mean, a confidence interval of the mean, and the spread.

The half-width of the interval is the uncertainty of the mean over orderings. Sigma is the difference
between one ordering and another. Neither includes the error of the model itself.

Student's interval assumes normal values. For skewed values, mean and standard deviation are
correlated, and it covers too little; `factor` corrects for that.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import scipy

ORDERING, PLACE, PHASE, PAST, GROUPS = "ordering", "place", "phase", "past", "groups"
PAGES = "pages"
"""Parts of an interval: the order in which accesses are served, the place of the snapshot, whether groups
that begin together stay in step, what groups before the snapshot have left in the caches, how much
groups that were not traced request, and where the pages of arrays lie in memory."""
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

    The half-width is that of a symmetric interval; the interval ends where the quantity does. Trials in which the
    quantity is undefined (NaN) do not count in n_trials; the mean is NaN if there are no others.

    least, most : that the quantity can be
    parts : half-widths by their cause, where there is more than the ordering: `ordering` and `place` are
        independent of each other, so the squares of these two add up; the others add up plainly
    """

    mean: float
    half_width: float
    sigma: float
    n_trials: int
    parts: Mapping[str, float] = field(default_factory=dict)
    least: float = -math.inf
    most: float = math.inf

    def __str__(self) -> str:
        return (
            f"{self.mean:.4g} ± {self.half_width:.2g}" if self.has_interval else f"{self.mean:.4g}"
        )

    @property
    def low(self) -> float:
        return self._possible(self.mean - self.half_width)

    @property
    def high(self) -> float:
        return self._possible(self.mean + self.half_width)

    def _possible(self, end: float) -> float:
        return end if math.isnan(end) else min(max(end, self.least), self.most)

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
            parts={name: half * abs(factor) for name, half in self.parts.items()},
            least=min(self.least * factor, self.most * factor),
            most=max(self.least * factor, self.most * factor),
        )

    def between(self, least: float, most: float = math.inf) -> Estimate:
        """The quantity with what it can be."""
        return dataclasses.replace(self, least=least, most=most)

    def shifted(self, by: float) -> Estimate:
        """The quantity and a known one together."""
        return dataclasses.replace(
            self, mean=self.mean + by, least=self.least + by, most=self.most + by
        )

    def with_part(self, name: str, half_width: float) -> Estimate:
        """The estimate with a wider interval, for another reason why it may be wrong."""
        parts = dict(self.parts) or {ORDERING: self.half_width}
        return dataclasses.replace(
            self, half_width=self.half_width + half_width, parts={**parts, name: half_width}
        )

    def overlaps(self, other: Estimate) -> bool:
        """Whether the two intervals have a point in common; False if one is unknown."""
        return self.low <= other.high and other.low <= self.high


def student_t(n_trials: int, confidence: float = CONFIDENCE) -> float:
    """The two-sided Student-t factor for the mean of n_trials >= 2 normal values."""
    return float(scipy.special.stdtrit(n_trials - 1, 0.5 + confidence / 2))


def factor(n_trials: npt.ArrayLike, skewness: npt.ArrayLike) -> Floats:
    """Half-width of the interval of a mean, in standard errors, for n_trials >= 2 values:

        t(n - 1) + (z / n) skewness^2 (z^4 + 2 z^2 - 3) / 18,   z the normal quantile.

    The second term compensates the coverage that a symmetric interval loses by skewness, from the
    second term of the Edgeworth expansion of a Studentized mean (P. Hall, The Bootstrap and Edgeworth
    Expansion, Springer 1992, section 2.6: q2 of the Studentized mean). Of the other two parts of q2,
    Student's t contains the one without moments; that of kurtosis, a fifteenth as large, is neglected.
    """
    n, freedom = np.asarray(n_trials, np.float64), np.asarray(n_trials) - 1
    z = float(scipy.special.ndtri(0.5 + CONFIDENCE / 2))
    skewed = z / n * np.square(skewness) * (z**4 + 2 * z**2 - 3) / 18
    return np.asarray(scipy.special.stdtrit(freedom, 0.5 + CONFIDENCE / 2) + skewed, np.float64)


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


@dataclass(frozen=True)
class Places:
    """The places of a launch that trials replay in turn: trial i replays place i modulo n.

    phases : instead of places, trials alternate between two assumptions on the whole launch. Neither is
        known to be true, so the interval covers both

    traced_share : of the launch's groups
    own_weights : shares of the launch that the last places stand for alone, such as its start, where caches are
        empty; the places before these are samples of the rest
    has_start : the last place is the start of the launch
    pages_share : of the variance over trials, what is due to where pages lie: all orderings of one run have the
        same pages, so the interval covers their spread and not only that of the mean
    """

    n: int = 1
    traced_share: float = 1.0
    own_weights: tuple[float, ...] = ()
    has_start: bool = False
    phases: bool = False
    pages_share: float = 0.0

    def of_ratio(self, sizes: npt.ArrayLike) -> Places:
        """The same places for a ratio: one that stands for itself has the share that it has of the denominators.

        sizes : (n_trial,) denominators, of a whole launch that were everywhere as at the trial's place
        """
        if not self.own_weights:
            return self
        by_place = [np.nanmean(np.asarray(sizes, np.float64)[k :: self.n]) for k in range(self.n)]
        parts = self.weights * np.nan_to_num(by_place)
        if parts.sum() <= 0:
            return self
        own = parts[self.n_samples :] / parts.sum()
        return dataclasses.replace(self, own_weights=tuple(own.tolist()))

    @property
    def n_samples(self) -> int:
        """Places that are samples of what they stand for."""
        return self.n - len(self.own_weights)

    @property
    def weights(self) -> Floats:
        """(n,) of each place in a mean."""
        samples = np.full(self.n_samples, self._sampled / self.n_samples)
        return np.concatenate([samples, self.own_weights])

    @property
    def _sampled(self) -> float:
        """The share of the launch that the samples stand for."""
        return 1 - sum(self.own_weights)

    def ordering(self, half_widths: npt.ArrayLike) -> Floats:
        """Half-width of the weighted mean, from those of the places (n, ...); of phases, which are not averaged but
        one of which is true, the larger."""
        if self.phases:
            return np.asarray(np.max(np.asarray(half_widths, np.float64), axis=0))
        squares = np.square(np.asarray(half_widths, np.float64))
        return np.asarray(np.sqrt(np.tensordot(np.square(self.weights), squares, 1)))

    def place(self, means: npt.ArrayLike) -> Floats:
        """Half-width of the weighted mean due to the choice of the samples, from the means (n, ...):
        Student's interval for a sample of a finite population."""
        m, samples = self.n_samples, np.asarray(means, np.float64)[: self.n_samples]
        if self.phases:
            return np.asarray(np.ptp(samples, axis=0) / 2)
        if m < MIN_TRIALS:
            return np.zeros(samples.shape[1:])
        between = np.where(np.ptp(samples, axis=0) > 0, samples.std(axis=0, ddof=1), 0.0)
        untraced = math.sqrt(max(1 - self.traced_share, 0.0)) * self._sampled
        return np.asarray(student_t(m) * between / math.sqrt(m) * untraced)


ONE_PLACE = Places()
PHASES = Places(2, phases=True)


def describe(values: npt.ArrayLike, places: Places = ONE_PLACE) -> Estimate:
    """As `_describe`, with the part `pages` where these matter."""
    found = _describe(values, places)
    if not (places.pages_share and found.has_interval and found.sigma):
        return found
    t = student_t(max(found.n_trials - places.n + 1, MIN_TRIALS))
    return found.with_part(PAGES, t * math.sqrt(places.pages_share) * found.sigma)


def _describe(values: npt.ArrayLike, places: Places = ONE_PLACE) -> Estimate:
    """Mean, interval and spread of (n_trial,) values; what is undefined is NaN.

    With several places, sigma and the part `ordering` of the interval are those within a place, and the
    part `place` is that due to the choice of the places (Cochran, Sampling Techniques, 1977, sections 2.6,
    5.4 and 10.2: stratified samples of a finite population; the variance between places contains that
    of the orderings within them).
    """
    array = np.asarray(values, dtype=np.float64).ravel()
    if places.n > 1 and len(array) >= 2 * places.n:
        by_place = [_describe(array[k :: places.n]) for k in range(places.n)]
        if all(place.has_interval for place in by_place):
            return _over_places(by_place, places)
    elif places.own_weights and len(array) >= places.n and np.isfinite(array).all():
        return _with_own_places(array, places)
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


def _over_places(by_place: list[Estimate], places: Places) -> Estimate:
    means = np.array([place.mean for place in by_place])
    sigmas = np.array([place.sigma for place in by_place])
    trials = np.array([place.n_trials for place in by_place])
    n_trials = int(trials.sum())
    if places.phases:
        widths = np.array([place.half_width for place in by_place])
    else:
        widths = student_t(n_trials - places.n + 1) * sigmas / np.sqrt(trials)
    ordering, place = float(places.ordering(widths)), float(places.place(means))
    return Estimate(
        mean=float(means[0]) if np.all(means == means[0]) else float(places.weights @ means),
        half_width=ordering + place if places.phases else math.hypot(ordering, place),
        sigma=math.sqrt(float(places.weights @ np.square(sigmas))),
        n_trials=n_trials,
        parts={ORDERING: ordering, PHASE if places.phases else PLACE: place},
    )


def _with_own_places(array: Floats, places: Places) -> Estimate:
    """An estimate from fewer than two trials of some place. Those that stand for themselves are taken to vary as
    much as the samples do, with their choice."""
    place = np.arange(len(array)) % places.n
    samples = _describe(array[place < places.n_samples])
    own = [_describe(array[place == k]) for k in range(places.n_samples, places.n)]
    weights = places.weights[places.n_samples :]
    errors = [
        weight / math.sqrt(max(one.n_trials, 1)) for weight, one in zip(weights, own, strict=True)
    ]
    half_widths = [(1 - sum(weights)) * samples.half_width]
    if samples.has_interval:
        half_widths += [student_t(samples.n_trials) * samples.sigma * error for error in errors]
    parts = [samples.mean, *(one.mean for one in own)]
    return Estimate(
        mean=float(np.dot([1 - sum(weights), *weights], parts)),
        half_width=math.hypot(*half_widths),
        sigma=samples.sigma,
        n_trials=samples.n_trials + sum(one.n_trials for one in own),
    )


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
        half_width=float(scipy.special.stdtrit(freedom, 0.5 + CONFIDENCE / 2)) * error,
        p_value=2 * float(scipy.special.stdtr(freedom, -abs(difference) / error)),
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
