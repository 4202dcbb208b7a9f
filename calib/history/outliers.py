"""Tells a launch that was disturbed from one that belongs: median and MAD over a recent window.

StarPU drops what lies 50 % off the running average, so a first launch a thousand times too long
(the driver compiling, pages being touched) makes it drop all the good ones that follow. The median
does not move for it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

WINDOW = 64
"""Latest samples kept for every key, whatever else is kept."""
LEAST = 4
"""Samples below which nothing is judged: the median of three is one of them."""
CUT = 6.0
"""Robust deviations from the median, of many samples."""
FEW = 16
"""The MAD of few samples may be small by chance, so the cut is CUT * (1 + FEW/n): below one window
in 10,000 of normal samples then loses one, for every n from 4 to 64 (at CUT alone: one in 70 at 10).
"""
FLOOR = 0.02
"""Of the median: times on a quiet device repeat to the clock's tick, and their MAD is 0."""
SHARE = 0.1
"""Of the window: more than this cannot be accidents, they are a second hill, and all are kept."""
NORMAL = 1.4826
"""MAD to standard deviation, for a normal distribution."""


def cut(n: int) -> float:
    """Robust deviations beyond which one of n samples is an outlier."""
    return CUT * (1 + FEW / n)


def outliers(times_s: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Which of these times are outliers: too many robust deviations off the median.

    times_s : (..., n) seconds, the last axis a window of its own; returns (..., n) bool
    One sample, or SHARE of them, may be outliers; where more are far off, none is.
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
