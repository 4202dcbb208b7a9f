"""The power law time = a*n^b from running sums, which can be fitted while a history is recorded."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from calib.history.errors import HistoryError
from calib.history.records import Record
from calib.history.regression import LEAST_SAMPLES, SPREAD, Question, law_words, student

LARGEST_EXPONENT = 700.0
"""The exponential of a larger number is none."""


@dataclass(frozen=True, kw_only=True)
class LogSums:
    """The running sums of a*n^b, as in StarPU's files; x is the size in bytes, y the time in seconds."""

    n: int = 0
    lnx: float = 0.0
    lnx2: float = 0.0
    lny: float = 0.0
    lny2: float = 0.0
    lnxlny: float = 0.0
    min_x: float = math.inf
    max_x: float = 0.0

    def add_record(self, record: Record) -> LogSums:
        """The sums with all accepted samples of a key, which have the same size."""
        state, x = record.accepted, math.log(record.size_bytes)
        return LogSums(
            n=self.n + state.n,
            lnx=self.lnx + state.n * x,
            lnx2=self.lnx2 + state.n * x * x,
            lny=self.lny + state.sum_ln,
            lny2=self.lny2 + state.sum_ln2,
            lnxlny=self.lnxlny + x * state.sum_ln,
            min_x=min(self.min_x, record.size_bytes),
            max_x=max(self.max_x, record.size_bytes),
        )


@dataclass(frozen=True, kw_only=True)
class PowerLaw:
    """time = a * size^b, by least squares of logarithms.

    deviation : standard deviation of ln t from the model
    misfit : root mean square of its relative errors on the keys' means
    """

    a: float
    b: float
    deviation: float
    sums: LogSums
    n_keys: int
    misfit: float
    kind: str = "power law"

    @property
    def n_samples(self) -> int:
        return self.sums.n

    @property
    def formula(self) -> str:
        return law_words(self.a, self.b, self.sums.max_x)

    def covers(self, question: Question) -> bool:
        return self.sums.min_x <= question.size_bytes <= self.sums.max_x

    def time_s(self, size: float) -> float:
        """The time at a size. Raises HistoryError where it is no number."""
        exponent = math.log(self.a) + self.b * math.log(size)
        if not abs(exponent) < LARGEST_EXPONENT:
            raise HistoryError(f"the power law {self.formula} gives no time for {size:g} bytes")
        return math.exp(exponent)

    def predict(self, record: Question) -> tuple[float, float, float]:
        """Time, and the interval of the next launch's time at CONFIDENCE, in seconds."""
        sums = self.sums
        x, mean = math.log(record.size_bytes), sums.lnx / sums.n
        sxx = sums.lnx2 - sums.lnx * mean
        width = self.deviation * math.sqrt(1 + 1 / sums.n + (x - mean) ** 2 / sxx)
        factor = math.exp(min(student(sums.n - 2) * width, LARGEST_EXPONENT))
        time_s = self.time_s(record.size_bytes)
        return time_s, time_s / factor, time_s * factor


def power_law(records: Iterable[Record]) -> PowerLaw | None:
    """The power law of one kernel's keys on one device; None while not calibrated."""
    used = [r for r in records if r.size_bytes > 0 and r.accepted.n > 0]
    sums = LogSums()
    for record in used:
        sums = sums.add_record(record)
    solved = solve_power_law(sums)
    if solved is None:
        return None
    a, b, deviation = solved
    law = PowerLaw(a=a, b=b, deviation=deviation, sums=sums, n_keys=len(used), misfit=math.nan)
    try:
        missed = [law.time_s(r.size_bytes) / r.accepted.mean - 1 for r in used]
    except HistoryError:
        return None
    return replace(law, misfit=float(np.sqrt(np.mean(np.square(missed)))))


def solve_power_law(sums: LogSums) -> tuple[float, float, float] | None:
    """(a, b, deviation of ln t); None below LEAST_SAMPLES, or where the sizes are too similar."""
    if sums.n < LEAST_SAMPLES or not sums.min_x < SPREAD * sums.max_x:
        return None
    n = sums.n
    sxx = sums.lnx2 - sums.lnx**2 / n
    sxy = sums.lnxlny - sums.lnx * sums.lny / n
    syy = sums.lny2 - sums.lny**2 / n
    if not sxx > 0.0:  # by rounding, where all sizes but a few are equal
        return None
    b = sxy / sxx
    log_a = (sums.lny - b * sums.lnx) / n
    if not (abs(log_a) < LARGEST_EXPONENT and abs(b) < LARGEST_EXPONENT):
        return None
    return math.exp(log_a), b, math.sqrt(max(syy - b * sxy, 0.0) / (n - 2))
