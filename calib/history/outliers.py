"""Outliers among times: those far from the median of a recent window, in units of the MAD.

StarPU rejects times that are 50 % off the running average. A first launch that takes a thousand times
too long (the driver compiles, pages are touched) then makes it reject all later ones. It does not
move the median.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

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
    """Which of these times are outliers, (..., n) bool.

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
