"""What takes long is not all run each time: every week has its part, and the slow suite runs all.

Cases that are alike, of one code under test, have the mark `weekly(n)`: of each test function, a run of all tests takes one case in n, in n
weeks all of them. Where a file is named, all of its cases run. `pytest -m 'weekly'` runs all of them.
"""

from __future__ import annotations

import datetime
import os
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeVar

import pytest

T = TypeVar("T")

WEEK = int(os.environ.get("MEMSIM_WEEK") or datetime.date.today().isocalendar().week)
"""The number of the week, which chooses the parts."""


def part_of(everything: Sequence[T], size: int, week: int = WEEK) -> set[T]:
    """So many of them, in their order from week to week."""
    return {everything[(size * week + k) % len(everything)] for k in range(size)}


def of_other_weeks(items: Iterable[pytest.Item], week: int = WEEK) -> list[pytest.Item]:
    """The cases with the mark `weekly` that are not this week's; functions do not all begin with their first case."""
    n_cases, others = Counter[str](), []
    for item in items:
        mark = item.get_closest_marker("weekly")
        function, _, case = item.nodeid.partition("[")
        if mark and case:
            turn = n_cases[function] + zlib.crc32(function.encode()) + week
            n_cases[function] += 1
            if turn % mark.args[0]:
                others.append(item)
    return others
