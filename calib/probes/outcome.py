"""What a probe found: numbers with their intervals and how they were found, curves, or why not."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from memsim.errors import MemsimError

Floats = npt.NDArray[np.float64]
Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One number. low, high : its 95 % interval, or the grid's cell where that is wider"""

    value: float
    low: float
    high: float
    unit: str
    how: str

    def source(self) -> str:
        """What a machine file says of it."""
        interval = f"{_number(self.low)} to {_number(self.high)}"
        return f"measured: {self.how}; 95 %: {interval}{' ' + self.unit if self.unit else ''}"


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A curve and the edges detected in it.

    reading : how a stranger reads it, a sentence or two;  edges : (x, what it is)
    joined : whether the points are one curve, and not a series of trials
    """

    title: str
    x_label: str
    y_label: str
    x: Floats
    y: Floats
    edges: tuple[tuple[float, str], ...] = ()
    log_x: bool = True
    log_y: bool = True
    reading: str = ""
    joined: bool = True


@dataclass
class Notebook:
    """What all probes found, under way.

    findings : dotted key as in a machine file where there is one -> number
    words : what was found that is no number (policies); value and how
    silent : probe -> why it told nothing
    """

    findings: dict[str, Finding] = field(default_factory=dict)
    words: dict[str, tuple[str, str]] = field(default_factory=dict)
    curves: list[Curve] = field(default_factory=list)
    silent: dict[str, str] = field(default_factory=dict)

    def note(self, key: str, finding: Finding) -> None:
        self.findings[key] = finding

    def say(self, key: str, value: str, how: str) -> None:
        self.words[key] = (value, how)

    def cannot_tell(self, probe: str, why: str) -> None:
        """Keeps the first line of a reason."""
        self.silent[probe] = " ".join(why.split())[:400] or "no reason given"


class Unclear(MemsimError):
    """A probe ran, and its numbers do not tell what was asked."""


def attempt(book: Notebook, probe: str, run: Callable[[], Result]) -> Result | None:
    """The result of a probe; None, with the reason noted, where the device or the numbers refuse.

    Whatever a driver raises is a reason: the probes after it go on.
    """
    try:
        return run()
    except (KeyboardInterrupt, SystemExit):
        raise
    except MemoryError:
        book.cannot_tell(probe, "not measured: out of memory")
    except Unclear as error:
        book.cannot_tell(probe, f"not told: {error}")
    except Exception as error:
        reason = next((line for line in str(error).splitlines() if line.strip()), "")
        book.cannot_tell(probe, f"not measured: {type(error).__name__}: {reason}")
    return None


def lower_end(times: Floats) -> tuple[float, float]:
    """(low, least): the 95 % interval of what times would be undisturbed, where noise only adds.

    Resampling cannot tell it: no draw is less than the least. Where the noise has a density at its
    lower end, n (least - end) and the gaps (n - i + 1)(x_i - x_i-1) between the m + 1 smallest of n
    are exponential with one mean, so n (least - end) / (mean of m gaps) is F(2, 2 m), whose 95 % point
    is m (20^(1/m) - 1) (Robson and Whitlock 1964, for m = 1). The smaller half is used: what disturbs
    strongly is not the noise that is always there. Equal times count once; that a clock ticks, the
    caller adds.
    """
    x = np.unique(times)
    n = len(x)
    if n < 2:
        return float(x[0]), float(x[0])
    m = max(n // 2, 1)
    gap = float(np.mean((n - np.arange(1, m + 1)) * np.diff(x)[:m]))
    return float(x[0] - m * (20 ** (1 / m) - 1) / n * gap), float(x[0])


def interval_of(values: Floats) -> tuple[float, float]:
    """The middle 95 % of resampled values."""
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)


def resampled_least(repeats: Floats, seed: int = 0, n: int = 200) -> Floats:
    """(n, ...) least of repeats, drawn again with replacement from the last axis."""
    rng = np.random.default_rng(seed)
    n_repeat = repeats.shape[-1]
    draws = rng.integers(0, n_repeat, (n, n_repeat))
    return np.stack([repeats[..., draw].min(axis=-1) for draw in draws])


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "unknown"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
