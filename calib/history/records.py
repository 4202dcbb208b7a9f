"""A timed launch, and the statistics of one key."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from calib.history.errors import HistoryError
from calib.history.key import Key
from calib.history.statistics import LONGEST_S, SHORTEST_S, Running, running

WINDOW = 64
"""Latest samples that are kept for every key."""
LEAST = 4
"""Fewest samples among which outliers are looked for: the median of three is one of them."""
CUT = 6.0
"""Least distance of an outlier from the median of many samples, in robust standard deviations."""
FEW = 16
"""The MAD of few samples may be small by chance, so the cut is CUT * (1 + FEW/n). Fewer than one in 10,000
windows of normal samples then loses a sample, for every n from 4 to 64 (with CUT alone: one in 70 at
n = 10)."""
FLOOR = 0.02
"""Least robust deviation, as a fraction of the median: times on an idle device are equal to the clock's
tick, and their MAD is 0."""
SHARE = 0.1
"""If more than this fraction of the window is far from the median, it is a second mode, and all are kept."""
NORMAL = 1.4826
"""Ratio of standard deviation and MAD of a normal distribution."""


def cut(n: int) -> float:
    """Least distance of an outlier among n samples from their median, in robust standard deviations."""
    return CUT * (1 + FEW / n)


def outliers(times_s: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Which of these times are outliers, far from the median in units of the MAD: (..., n) bool.

    StarPU rejects times that are 50 % off the running average. A first launch that takes a thousand times too long
    (the driver compiles, pages are touched) then makes it reject all later ones. It does not move the median.

    One sample, or the fraction SHARE of them, may be outliers; where more are far off, none is.

    times_s : (..., n) seconds; the last axis is a window
    """
    times = np.asarray(times_s, dtype=np.float64)
    n = times.shape[-1]
    if n < LEAST:
        return np.zeros(times.shape, dtype=np.bool_)
    middle = np.median(times, axis=-1, keepdims=True)
    off = np.abs(times - middle)
    scale = np.maximum(NORMAL * np.median(off, axis=-1, keepdims=True), FLOOR * middle)
    far = off > cut(n) * scale
    few = np.count_nonzero(far, axis=-1, keepdims=True) <= max(1, int(SHARE * n))
    return np.asarray(far & few)


OWN = "measured"
MOST = 2**63
"""Numbers of the database are below this."""
LARGEST_LOG = 800.0
"""No time has a logarithm further from 0."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One timed launch.

    size_bytes : bytes of all its data, for regressions over the size; 0 where unknown
    terms : name -> value of quantities that the user defines, for the linear regression
    at : time of the measurement in seconds of the Unix epoch; now where None
    """

    key: Key
    time_s: float
    size_bytes: int = 0
    terms: Mapping[str, float] = field(default_factory=dict)
    at: float | None = None


@dataclass(frozen=True, kw_only=True)
class Record:
    """The statistics of one key.

    accepted : statistics of the samples that are not outliers
    seen : number of all samples, including rejected ones
    recent : (up to 64,) the latest samples in seconds, oldest first, including rejected ones
    source : `measured`, or the program from which the statistics were imported
    """

    key: Key
    size_bytes: int
    terms: Mapping[str, float]
    accepted: Running
    seen: int
    rejected: int
    recent: npt.NDArray[np.float64]
    first_at: float
    last_at: float
    source: str = OWN

    def with_samples(self, times_s: npt.ArrayLike, first_at: float, last_at: float) -> Record:
        """The record with more samples, each compared with the 64 latest ones up to it.

        While the window contains all samples of the key, each new sample causes the earlier ones to be
        examined again. So a first launch that took a thousand times too long is rejected once there are
        samples to compare it with. The result does not depend on how samples are split into calls.
        """
        times = np.asarray(times_s, dtype=np.float64)
        together = np.concatenate([self.recent, times])
        accepted, rejected = self.accepted, self.rejected
        n_recent = len(self.recent)
        n_again = min(WINDOW - n_recent, len(times)) if self.seen == n_recent else 0
        if n_again > 0:
            every_sample = together[: n_recent + n_again]
            far = outliers(every_sample)
            accepted, rejected = running(every_sample[~far]), int(far.sum())
        later = times[n_again:]
        if len(later):
            # Imported statistics may include samples that were never in the window.
            width = min(WINDOW, n_recent + n_again + 1)
            windows = np.lib.stride_tricks.sliding_window_view(together, width)[-len(later) :]
            far = outliers(windows)[:, -1]
            accepted = accepted.merged(running(later[~far]))
            rejected += int(far.sum())
        return replace(
            self,
            accepted=accepted,
            seen=self.seen + len(times),
            rejected=rejected,
            recent=together[-WINDOW:],
            first_at=min(self.first_at, first_at),
            last_at=max(self.last_at, last_at),
        )


def check_record(record: Record) -> Record:
    """The record itself. Raises HistoryError where no set of times has its statistics."""
    state, recent, key = record.accepted, record.recent, record.key
    for text in (key.kernel, key.device, key.driver, record.source):
        if not text.isascii() and text != text.encode("utf-8", "replace").decode():
            raise _broken(record, "its names must be text")
    counts = (record.size_bytes, state.n, record.seen, record.rejected)
    if not all(0 <= count < MOST for count in counts) or state.n + record.rejected != record.seen:
        raise _broken(record, "its counts must be those of its samples")
    if not isinstance(record.terms, Mapping) or not all(
        isinstance(name, str) and isinstance(value, (int, float, np.number)) and abs(value) < 1e100
        for name, value in record.terms.items()
    ):
        raise _broken(record, "its terms must be numbers below 1e100")
    if len(recent) > min(record.seen, WINDOW) or not np.all(
        (recent >= SHORTEST_S) & (recent < LONGEST_S)
    ):
        raise _broken(record, f"its latest samples must be at most {WINDOW} times")
    if not (math.isfinite(record.first_at) and record.first_at <= record.last_at < math.inf):
        raise _broken(record, "its first sample must not be later than its last")
    if state.n > 0:
        slack = 1e-9 * state.mean
        if not (
            SHORTEST_S <= state.mean < LONGEST_S
            and 0 <= state.low <= state.mean + slack
            and state.mean - slack <= state.high < math.inf
            and 0 <= state.m2 <= state.n * LONGEST_S**2
            and abs(state.sum_ln) <= state.n * LARGEST_LOG
            and 0 <= state.sum_ln2 <= state.n * LARGEST_LOG**2
        ):
            raise _broken(record, "its mean, deviation and extremes must be those of times")
    return record


def _broken(record: Record, rule: str) -> HistoryError:
    key = record.key
    return HistoryError(f"{key.kernel[:80]!r} with layout {key.layout:08x}: {rule}")
