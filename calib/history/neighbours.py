"""Time between the recorded sizes next below and next above, on a straight line in logarithms.

No law is assumed over all sizes, so it also serves where caches bend the times. Its intervals are those
of a Brownian motion of ln t over ln n, of which the straight line is the best linear predictor between two
known points: the variance there is sigma^2 (x - a) (b - x) / (b - a) (a Brownian bridge; Karatzas and
Shreve, Brownian Motion and Stochastic Calculus, section 5.6). sigma^2 comes from recorded sizes that are
left out and predicted from those next to them, or from how far the recorded times themselves lie apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calib.history.errors import HistoryError
from calib.history.records import Record
from calib.history.regression import NORMAL_95, UNKNOWN_VARIATION, Question, student
from memsim.report import seconds

F64 = npt.NDArray[np.float64]
MOST_LEFT_OUT = 12
"""Sizes nearest to the question that are left out in turn: times elsewhere may bend in other ways."""


@dataclass(frozen=True, kw_only=True)
class Neighbours:
    """The recorded sizes of a kernel, each with the mean of ln t.

    x, y : (n_size,) ln of the size in bytes, ascending, and the mean of ln t, t in seconds
    n : (n_size,) samples
    deviation : standard deviation of a launch's ln t from the mean of its size
    n_free : degrees of freedom of the deviation; 0 where it is assumed
    misfit : root mean square of the relative errors on the keys' means, which is 0 where no two keys have
        the same size; nan for two sizes, which say nothing of what lies between them
    """

    x: F64
    y: F64
    n: F64
    deviation: float
    n_free: int
    n_keys: int
    misfit: float
    kind: str = "neighbours in size"

    @property
    def n_samples(self) -> int:
        return int(self.n.sum())

    @property
    def formula(self) -> str:
        return f"straight lines in logarithms between {len(self.x)} sizes"

    def covers(self, question: Question) -> bool:
        return question.size_bytes > 0 and bool(
            self.x[0] <= math.log(question.size_bytes) <= self.x[-1]
        )

    def around(self, question: Question) -> str:
        """The recorded times next to a covered question, in words."""
        right = self._right(math.log(question.size_bytes))
        ends = [
            f"{seconds(math.exp(self.y[k]), 4)} at {math.exp(self.x[k]):,.0f} bytes"
            for k in (right - 1, right)
        ]
        return " and ".join(ends)

    def _right(self, x: float) -> int:
        """The point at the right end of the gap that holds x."""
        return min(max(int(np.searchsorted(self.x, x)), 1), len(self.x) - 1)

    def predict(self, record: Question) -> tuple[float, float, float]:
        """Time, and the interval of the next launch's time at CONFIDENCE, in seconds.

        Raises HistoryError beyond the recorded sizes.
        """
        if not self.covers(record):
            low, high = np.exp(self.x[[0, -1]])
            raise HistoryError(
                f"the {self.kind} need a size between {low:.0f} and {high:.0f} bytes,"
                f" got {record.size_bytes}"
            )
        x = math.log(record.size_bytes)
        right = self._right(x)
        a, b = self.x[right - 1], self.x[right]
        part = (x - a) / (b - a)
        y = (1 - part) * self.y[right - 1] + part * self.y[right]
        of_mean = (1 - part) ** 2 / self.n[right - 1] + part**2 / self.n[right]
        of_launch = student(self.n_free) * self.deviation * math.sqrt(1 + of_mean)
        between = self._between(x, right) * math.sqrt((x - a) * (b - x) / (b - a))
        half = math.hypot(of_launch, between)
        return math.exp(y), math.exp(y - half), math.exp(y + half)

    def _between(self, x: float, right: int) -> float:
        """The quantile at CONFIDENCE of the motion's sigma, in ln t per square root of ln n.

        It is that of the sizes left out, at most that of the times themselves: of all gaps, or of this one,
        which may hold the edge of a cache.
        """
        squares = np.diff(self.y) ** 2 / np.diff(self.x)
        spread = NORMAL_95 * math.sqrt(max(float(np.mean(squares)), float(squares[right - 1])))
        if len(self.x) < 3:
            return spread
        inner = np.arange(1, len(self.x) - 1)
        inner = inner[np.argsort(np.abs(self.x[inner] - x), kind="stable")[:MOST_LEFT_OUT]]
        missed, noise, bridge = self._left_out(inner)
        sigma2 = max(float(np.mean((missed**2 - noise) / bridge)), 0.0)
        return min(student(len(inner)) * math.sqrt(sigma2), spread)

    def _left_out(self, inner: npt.NDArray[np.intp]) -> tuple[F64, F64, F64]:
        """Of sizes predicted without themselves: errors of ln t, what launches contribute to their squares,
        and (x - a) (b - x) / (b - a)."""
        a, x, b = (self.x[inner + k] for k in (-1, 0, 1))
        part = (x - a) / (b - a)
        missed = (1 - part) * self.y[inner - 1] + part * self.y[inner + 1] - self.y[inner]
        of_means = (1 - part) ** 2 / self.n[inner - 1] + 1 / self.n[inner]
        of_means = of_means + part**2 / self.n[inner + 1]
        return missed, self.deviation**2 * of_means, (x - a) * (b - x) / (b - a)


def neighbours(records: Iterable[Record]) -> Neighbours | None:
    """The recorded sizes of one kernel on one device; None for fewer than two.

    Keys of the same size are one point, with all their samples.
    """
    used = [r for r in records if r.size_bytes > 0 and r.accepted.n > 0]
    sizes, point = np.unique([r.size_bytes for r in used], return_inverse=True)
    if len(sizes) < 2:
        return None
    n_of, sum_of, sum2_of = (
        np.array([getattr(r.accepted, name) for r in used], dtype=np.float64)
        for name in ("n", "sum_ln", "sum_ln2")
    )
    n, sums, squares = (
        np.bincount(point, values).astype(np.float64) for values in (n_of, sum_of, sum2_of)
    )
    y = sums / n
    n_free = int(n.sum()) - len(sizes)
    within = float(np.maximum(squares - sums * y, 0.0).sum())
    means = np.array([r.accepted.mean for r in used])
    of_sizes = np.bincount(point, n_of * means) / n
    missed = of_sizes[point] / means - 1
    return Neighbours(
        x=np.log(sizes.astype(np.float64)),
        y=y,
        n=n,
        deviation=math.sqrt(within / n_free) if n_free > 1 else UNKNOWN_VARIATION,
        n_free=n_free if n_free > 1 else 0,
        n_keys=len(used),
        misfit=float(np.sqrt(np.mean(missed**2))) if len(sizes) > 2 else math.nan,
    )
