"""What takes long is not all run each time: every week has its part, and the slow suite runs all."""

from __future__ import annotations

import datetime
import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

WEEK = int(os.environ.get("MEMSIM_WEEK") or datetime.date.today().isocalendar().week)
"""The number of the week, which chooses the parts."""


def part_of(everything: Sequence[T], size: int, week: int = WEEK) -> set[T]:
    """So many of them, in their order from week to week."""
    return {everything[(size * week + k) % len(everything)] for k in range(size)}
