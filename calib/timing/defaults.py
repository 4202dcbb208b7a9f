"""Defaults of timings, which commands read without loading NumPy."""

from __future__ import annotations

from typing import Literal

Statistic = Literal["median", "minimum", "mean"]

TRIALS = 60
"""Trials of a kernel (Stevens and Klöckner 2020, section 6.1.4)."""
TRIAL_S = 0.05
"""Duration of a trial in calibration. A single launch of 0.1 ms is shorter than a disturbance."""
MOST_LAUNCHES = 64
"""Launches per trial. More of a kernel that is shorter than its launch overhead would time the host."""
