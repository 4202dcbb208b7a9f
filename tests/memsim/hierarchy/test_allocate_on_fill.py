"""Allocation on fill: a line takes its slot when its data arrive. Against hand counts."""

from __future__ import annotations

import dataclasses

import pytest

from memsim.hierarchy.cache import ACCESSES, HITS, PENDING
from memsim.machine.parts import Level
from tests.support.small_machines import level, machine
from tests.support.traces import make_trace
from tests.support.trials import replayed

A, B, C, D = range(4)


def counted(bursts: list[list[int]], first: Level) -> tuple[int, int, int]:
    """(hits, pending, misses) of one sub-group that loads a list of lines in each turn."""
    accesses = [(0, [line], k == 0) for burst in bursts for k, line in enumerate(burst)]
    counts = replayed(make_trace([[accesses]]), machine(first)).counts[0, 0]
    missed = counts[ACCESSES] - counts[HITS] - counts[PENDING]
    return int(counts[HITS]), int(counts[PENDING]), int(missed)


@pytest.mark.parametrize(
    ("bursts", "on_miss", "on_fill"),
    [
        # Two lines. Within a turn nothing comes: a third line displaces the first only on a miss.
        ([[A, B, C, A]], (0, 0, 4), (0, 1, 3)),
        # A and B are there by the second turn, and stay for as long as C and D are under way.
        ([[A, B], [C, A, D, A]], (0, 1, 5), (2, 0, 4)),
        # In the third they are gone: D came last, C before it.
        ([[A, B], [C, D], [C, D, A]], (2, 0, 5), (2, 0, 5)),
        # The same line requested twice is fetched once.
        ([[A, A], [A]], (1, 1, 1), (1, 1, 1)),
    ],
)
def test_by_hand(
    bursts: list[list[int]], on_miss: tuple[int, int, int], on_fill: tuple[int, int, int]
) -> None:
    first = level(ways=2)
    assert counted(bursts, first) == on_miss
    assert counted(bursts, dataclasses.replace(first, allocate="on_fill")) == on_fill


@pytest.mark.parametrize("replacement", ["lru", "fifo", "random", "plru"])
def test_no_more_is_under_way_than_there_are_mshrs(replacement: str) -> None:
    """With one request in flight, each miss waits for the previous one, whose line then has a slot."""
    first = level(ways=4, allocate="on_fill", pending_requests=1, replacement=replacement)
    assert counted([[A, B, C, D, A, B, C]], first) == (3, 0, 4)
    many = dataclasses.replace(first, pending_requests=4)
    assert counted([[A, B, C, D, A, B, C]], many) == (0, 3, 4)


def test_lines_come_in_the_order_in_which_they_were_asked_for() -> None:
    """Three lines are requested in one turn, and the last two stay."""
    first = level(ways=2, allocate="on_fill")
    assert counted([[A, B, C], [C, B]], first) == (2, 0, 3)
    assert counted([[A, B, C], [A]], first) == (0, 0, 4)
