"""The results of probes: numbers with intervals and methods, curves, and reasons where there is no result."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from memsim import machine
from memsim.errors import MemsimError

Floats = npt.NDArray[np.float64]
N_RESAMPLED = 200
Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A measured number.

    low, high : its 95 % interval, or the cell of the grid where that is wider
    how : the method, for the machine file
    """

    value: float
    low: float
    high: float
    unit: str
    how: str

    def source(self) -> str:
        """The text of `source` in a machine file."""
        interval = f"{_number(self.low)} to {_number(self.high)}"
        return f"measured: {self.how}; 95 %: {interval}{' ' + self.unit if self.unit else ''}"


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A measured curve and the edges detected in it.

    reading : one or two sentences that explain it;  edges : (x, label)
    joined : whether the points are one curve, and not separate trials
    """

    title: str
    x_label: str
    x: Floats
    y: Floats
    y_label: str = "ns per dependent load"
    edges: tuple[tuple[float, str], ...] = ()
    log_x: bool = True
    log_y: bool = True
    reading: str = ""
    joined: bool = True


@dataclass
class Notebook:
    """The results of all probes so far.

    findings : key -> number; keys are those of a machine file where it has one
    words : key -> (value, method) of results that are not numbers, such as policies
    silent : probe -> why it has no result
    """

    findings: dict[str, Finding] = field(default_factory=dict)
    words: dict[str, tuple[str, str]] = field(default_factory=dict)
    curves: list[Curve] = field(default_factory=list)
    silent: dict[str, str] = field(default_factory=dict)

    def note(self, key: str, finding: Finding) -> None:
        self.findings[key] = finding

    def say(self, key: str, value: str, how: str) -> None:
        self.words[key] = (value, how)

    def draw(self, title: str, x_label: str, x: Floats, y: Floats, **fields: Any) -> None:
        """Keeps a curve. fields : further ones of Curve"""
        self.curves.append(Curve(title=title, x_label=x_label, x=x, y=y, **fields))

    def cannot_tell(self, probe: str, why: str) -> None:
        """Notes why a probe has no result."""
        self.silent[probe] = " ".join(why.split())[:400] or "no reason given"


class Unclear(MemsimError):
    """A probe ran, but its measurements do not determine the result."""


def attempt(book: Notebook, probe: str, run: Callable[[], Result]) -> Result | None:
    """The result of a probe; None, with the reason noted, where the device or the measurements fail.

    Any exception of a driver is such a reason, so that later probes can run.
    """
    try:
        return run()
    except (KeyboardInterrupt, SystemExit):
        raise
    except MemoryError:
        book.cannot_tell(probe, "not measured: out of memory")
    except Unclear as error:
        book.cannot_tell(probe, f"not determined: {error}")
    except Exception as error:
        reason = next((line for line in str(error).splitlines() if line.strip()), "")
        book.cannot_tell(probe, f"not measured: {type(error).__name__}: {reason}")
    return None


def lower_end(times: Floats) -> tuple[float, float]:
    """(low, least): the 95 % interval of the undisturbed time, where noise only increases times.

    Resampling cannot give it, because no draw is less than the least time. Where the density of the noise
    is positive at its lower end, n (least - end) and the gaps (n - i + 1)(x_i - x_i-1) between the m + 1
    smallest of n times are exponential with the same mean. So n (least - end) / (mean of m gaps) is
    F(2, 2 m), whose 95 % point is m (20^(1/m) - 1) (Robson and Whitlock 1964, for m = 1). The smaller half
    of the times is used, since strong disturbances are not this noise. Equal times count once; the
    caller adds the clock's resolution.
    """
    x = np.unique(times)
    n = len(x)
    if n < 2:
        return float(x[0]), float(x[0])
    m = max(n // 2, 1)
    gap = float(np.mean((n - np.arange(1, m + 1)) * np.diff(x)[:m]))
    return float(x[0] - m * (20 ** (1 / m) - 1) / n * gap), float(x[0])


def rate(amount: float, spent_s: Floats, tick_s: float, unit: str, how: str) -> Finding:
    """How much a second, from the times of the same amount, each to a tick of the clock."""
    low_s, least_s = lower_end(spent_s)
    return Finding(
        value=amount / least_s,
        low=amount / (least_s + tick_s),
        high=amount / max(low_s - tick_s, 0.1 * least_s),
        unit=unit,
        how=how,
    )


def interval_of(values: Floats) -> tuple[float, float]:
    """The middle 95 % of resampled values."""
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)


def resampled(values: Floats) -> Floats:
    """(N_RESAMPLED, ..., n) of n values each, drawn with replacement along the last axis."""
    n = values.shape[-1]
    draws = np.random.default_rng(0).integers(0, n, (N_RESAMPLED, n))
    return np.stack([values[..., draw] for draw in draws])


def resampled_interval(
    repeats: Floats, statistic: Callable[[Floats], float]
) -> tuple[float, float]:
    """The 95 % interval of a statistic of the least repeats."""
    least = resampled(repeats).min(axis=-1)
    return interval_of(np.array([statistic(values) for values in least], np.float64))


def size_text(size_bytes: float) -> str:
    """Bytes in the largest binary unit: 32 KiB, 1.5 MiB."""
    return machine.size_text(round(size_bytes))


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "unknown"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
