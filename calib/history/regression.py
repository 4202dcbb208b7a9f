"""Regressions of time over all keys of a kernel: a*n^b, a*n^b + c, and a linear one over user-defined terms.

They predict layouts that have not run. All minimise relative errors: a launch of 1 us matters as much as one of 1 s.
The law a*n^b comes from running sums, which can be fitted while a history is recorded.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from calib.history.errors import HistoryError
from calib.history.records import Record
from memsim.report import seconds

LEAST_SAMPLES = 10
"""Fewest samples of a calibrated model: StarPU's STARPU_CALIBRATE_MINIMUM."""
SPREAD = 0.9
"""The smallest size must be below this fraction of the largest, as in StarPU."""
LARGEST_SIZE = 2**64
FIT_LIMIT = 0.1
"""A model fits where the root mean square of its relative errors on the keys' means is at most this."""
CONFIDENCE = 0.95
NORMAL_95 = 1.959963984540054
"""The two-sided quantile of a normal variable at CONFIDENCE."""
UNKNOWN_VARIATION = 0.1
"""Relative deviation of a launch, assumed until it is known from this key or the kernel's others."""

F64 = npt.NDArray[np.float64]


def law_words(a: float, b: float, size: float) -> str:
    """The law a * size^b in seconds, in words: its time at one size in bytes, and what twice the bytes change."""
    with contextlib.suppress(OverflowError):
        return f"{seconds(a * size**b, 4)} for {size:,.0f} bytes, {2**b:.3g} times as long for twice the bytes"
    return f"{a:.4g} s * n^{b:.4g}"


@dataclass(frozen=True, kw_only=True)
class Question:
    """The input of a regression: a size in bytes, or the user's terms."""

    size_bytes: int = 0
    terms: Mapping[str, float] | None = None


def student(n_free: int) -> float:
    """The two-sided quantile of Student's t at CONFIDENCE; of a normal variable for 0."""
    from memsim.statistics import student_t

    return student_t(n_free + 1, CONFIDENCE) if n_free else NORMAL_95


@dataclass(frozen=True, kw_only=True)
class Linearised:
    """A model that is linear in its coefficients, or was linearised at its solution.

    names : of the coefficients
    gram_inverse : (n_coefficient, n_coefficient) of the design, weighted for relative errors
    deviation : relative standard deviation of a launch from the model
    lowest, highest : range of each input among the samples
    exponent : b of a*n^b + c; None for a linear regression
    """

    kind: str
    names: tuple[str, ...]
    coefficients: tuple[float, ...]
    gram_inverse: F64
    deviation: float
    n_samples: int
    n_keys: int
    misfit: float
    lowest: Mapping[str, float]
    highest: Mapping[str, float]
    exponent: float | None = None

    @property
    def formula(self) -> str:
        if self.exponent is not None:
            a, c = self.coefficients[0], self.coefficients[2]
            law = law_words(a, self.exponent, self.highest["size"])
            return f"{law}, and {seconds(c, 4)} at every size"
        parts = [
            f"{value:.4g} s" if name == INTERCEPT else f"{value:.4g} s * {name}"
            for name, value in zip(self.names, self.coefficients, strict=True)
        ]
        return " + ".join(parts)

    def _row(self, question: Question) -> tuple[float, F64]:
        """The prediction and its derivative by each coefficient."""
        if self.exponent is not None:
            a, c, x = self.coefficients[0], self.coefficients[2], question.size_bytes
            if not 0 < x < LARGEST_SIZE:
                raise HistoryError(f"the {self.kind} needs a size below 2^64, got {x}")
            power = float(x) ** self.exponent
            return a * power + c, np.array([power, a * power * math.log(x), 1.0])
        terms = question.terms or {}
        missing = [n for n in self.names if n != INTERCEPT and n not in terms]
        if missing:
            raise HistoryError(f"the linear model needs the terms {', '.join(missing)}")
        row = np.array([1.0 if n == INTERCEPT else float(terms[n]) for n in self.names])
        return float(row @ np.array(self.coefficients)), row

    def covers(self, question: Question) -> bool:
        values = {"size": question.size_bytes, **(question.terms or {})}
        return all(
            name in values and low <= values[name] <= self.highest[name]
            for name, low in self.lowest.items()
        )

    def predict(self, record: Question) -> tuple[float, float, float]:
        """Time, and the interval of the next launch's time at CONFIDENCE, in seconds.

        Raises HistoryError where a term is missing, or the model's time is not above 0.
        """
        time_s, row = self._row(record)
        if not time_s > 0.0:
            raise HistoryError(f"the {self.kind} gives {time_s:.3g} s there, which is not a time")
        relative = row / time_s
        leverage = float(relative @ self.gram_inverse @ relative)
        n_free = max(self.n_samples - len(self.names), 1)
        half = student(n_free) * self.deviation * math.sqrt(1 + max(leverage, 0.0)) * time_s
        return time_s, max(time_s - half, 0.0), time_s + half


INTERCEPT = "1"
_EXPONENTS = np.linspace(0.1, 4.0, 40)


def power_law_with_offset(records: Iterable[Record]) -> Linearised | None:
    """time = a * size^b + c with a, c >= 0, by nonlinear least squares; None while not calibrated.

    For each exponent the best a and c solve a linear problem, so only b is searched: on a grid, then by
    Brent's method in the best cell. It has three parameters and needs four different sizes.
    """
    from scipy.optimize import minimize_scalar, nnls

    used = [r for r in records if r.size_bytes > 0 and r.accepted.n > 0]
    sizes = np.array([r.size_bytes for r in used], dtype=np.float64)
    n = np.array([r.accepted.n for r in used], dtype=np.float64)
    if n.sum() < LEAST_SAMPLES or len(set(sizes)) < 4 or sizes.min() >= SPREAD * sizes.max():
        return None
    means = np.array([r.accepted.mean for r in used])
    weight = np.sqrt(n) / means
    unit = float(sizes.max())  # powers of sizes in bytes would be badly conditioned

    def solve(exponent: float) -> tuple[F64, float]:
        design = np.column_stack([(sizes / unit) ** exponent, np.ones_like(sizes)])
        # Columns of equal norm: otherwise nnls stops early where times are microseconds.
        scale = np.linalg.norm(weight[:, None] * design, axis=0)
        solution, left = nnls(weight[:, None] * design / scale, np.sqrt(n))
        return solution / scale, float(left) ** 2

    losses = [solve(float(exponent))[1] for exponent in _EXPONENTS]
    best = int(np.argmin(losses))
    cell = (
        float(_EXPONENTS[max(best - 1, 0)]),
        float(_EXPONENTS[min(best + 1, len(_EXPONENTS) - 1)]),
    )
    minimum = minimize_scalar(
        lambda b: solve(float(b))[1], bounds=cell, method="bounded", options={"xatol": 1e-10}
    )
    exponent = float(minimum.x)
    (scaled_a, c), _ = solve(exponent)
    if scaled_a == 0.0:  # the times do not grow with the size
        return None
    a = float(scaled_a) / unit**exponent
    power = sizes**exponent
    design = np.column_stack([power, a * power * np.log(sizes), np.ones_like(sizes)])
    return _linearised(
        "power law with offset",
        ("a", "b", "c"),
        (a, exponent, float(c)),
        design,
        a * power + c,
        used,
        bounds={"size": sizes},
        exponent=exponent,
    )


def linear(records: Iterable[Record]) -> Linearised | None:
    """time = c0 + sum of c_i * term_i over the user's terms; None while not calibrated.

    It uses the keys that have all terms of the first key. The result is None also where the terms of the
    keys do not determine the coefficients.
    """
    used = [r for r in records if r.terms and r.accepted.n > 0]
    if not used:
        return None
    names = tuple(sorted(used[0].terms))
    used = [r for r in used if all(name in r.terms for name in names)]
    values = np.array([[r.terms[name] for name in names] for r in used], dtype=np.float64)
    design = np.column_stack([np.ones(len(used)), values])
    n = np.array([r.accepted.n for r in used], dtype=np.float64)
    means = np.array([r.accepted.mean for r in used])
    spread = all(v.min() < SPREAD * v.max() for v in values.T)
    if n.sum() < LEAST_SAMPLES or not spread or len(used) <= len(names) + 1:
        return None
    weighted = (np.sqrt(n) / means)[:, None] * design
    scale = np.linalg.norm(weighted, axis=0)
    if not (scale > 0.0).all():  # terms so small that their squares are 0
        return None
    solution, _, rank, _ = np.linalg.lstsq(weighted / scale, np.sqrt(n), rcond=None)
    if rank < len(names) + 1:
        return None
    coefficients = solution / scale
    return _linearised(
        "linear regression",
        (INTERCEPT, *names),
        tuple(map(float, coefficients)),
        design,
        design @ coefficients,
        used,
        bounds=dict(zip(names, values.T, strict=True)),
    )


def _linearised(
    kind: str,
    names: tuple[str, ...],
    coefficients: tuple[float, ...],
    design: F64,
    predicted: F64,
    used: Sequence[Record],
    *,
    bounds: Mapping[str, F64],
    exponent: float | None = None,
) -> Linearised:
    n = np.array([r.accepted.n for r in used], dtype=np.float64)
    means = np.array([r.accepted.mean for r in used])
    within = np.array([r.accepted.m2 for r in used])
    total = int(n.sum())
    missed = predicted / means - 1
    weighted = (np.sqrt(n) / means)[:, None] * design
    squares = float(np.sum(n * missed**2) + np.sum(within / means**2))
    return Linearised(
        kind=kind,
        names=names,
        coefficients=coefficients,
        gram_inverse=_inverse_gram(weighted),
        deviation=math.sqrt(squares / max(total - len(names), 1)),
        n_samples=total,
        n_keys=len(used),
        misfit=float(np.sqrt(np.mean(missed**2))),
        lowest={name: float(v.min()) for name, v in bounds.items()},
        highest={name: float(v.max()) for name, v in bounds.items()},
        exponent=exponent,
    )


def _inverse_gram(design: F64) -> F64:
    """(X'X)^-1; columns, which differ by ten orders of magnitude, are normalised first."""
    length = np.linalg.norm(design, axis=0)
    scaled = design / length
    return np.linalg.pinv(scaled.T @ scaled, hermitian=True) / np.outer(length, length)


LARGEST_EXPONENT = 700.0
"""The exponential of a larger number is none."""


@dataclass(frozen=True, kw_only=True)
class LogSums:
    """The running sums of a*n^b, as in StarPU's files; x is the size in bytes, y the time in seconds."""

    n: int
    lnx: float
    lnx2: float
    lny: float
    lny2: float
    lnxlny: float
    min_x: float
    max_x: float


def log_sums(records: Sequence[Record]) -> LogSums:
    """The sums over all accepted samples of some keys, of which each has one size."""
    weighted = [(r.accepted, math.log(r.size_bytes)) for r in records]
    return LogSums(
        n=sum(state.n for state, _ in weighted),
        lnx=sum(state.n * x for state, x in weighted),
        lnx2=sum(state.n * x * x for state, x in weighted),
        lny=sum(state.sum_ln for state, _ in weighted),
        lny2=sum(state.sum_ln2 for state, _ in weighted),
        lnxlny=sum(x * state.sum_ln for state, x in weighted),
        min_x=min((r.size_bytes for r in records), default=math.inf),
        max_x=max((r.size_bytes for r in records), default=0.0),
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
    sums = log_sums(used)
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
