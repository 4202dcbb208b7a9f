"""Schedulers serve their own sub-groups in turn; they take turns themselves, or any of them is next."""

from __future__ import annotations

import numpy as np
import pytest

from memsim.hierarchy.cache import HITS, PENDING
from memsim.machine.model import Machine
from memsim.machine.rules import RuleError
from memsim.trace.model import BARRIER_SITE, Trace
from tests.support.small_machines import level, machine
from tests.support.traces import make_trace
from tests.support.trials import replayed

STEPS = 400


def followers(n: int, *, barriers: bool = False) -> Trace:
    """Sub-groups that all load the same lines, one after another."""
    after = [(BARRIER_SITE, [])] if barriers else []
    loads = [access for i in range(STEPS) for access in ((0, [i]), *after)]
    return make_trace([[list(loads) for _ in range(n)]])


def hits_of(trace: Trace, on: Machine, trial: int = 0) -> int:
    return int(replayed(trace, on, trial).counts[0, :, [HITS, PENDING]].sum())


def on_line(turns: str, n_schedulers: int = 2, ways: int = 1) -> Machine:
    """A cache of `ways` lines in one set."""
    cache = level(ways=ways, sets=1)
    return machine(cache, n_schedulers=n_schedulers, scheduler_turns=turns)


def test_in_fixed_turns_the_second_of_two_finds_what_the_first_loaded() -> None:
    assert hits_of(followers(2), on_line("fixed")) == STEPS


def test_schedulers_that_take_turns_have_equal_parts_whatever_they_serve() -> None:
    """Two sub-groups on the first scheduler and one on the second, which therefore runs at twice their speed. The
    first of the two loads every second line of those that it loads, at the same time: one of them hits each line.
    With one scheduler for all they have equal speeds, and meet at the beginning only."""
    every_second = [(0, [2 * i]) for i in range(STEPS)]
    every = [(0, [i]) for i in range(2 * STEPS)]
    others = [(0, [10 * STEPS + i]) for i in range(STEPS)]
    trace = make_trace([[every_second, every, others]])
    two = [hits_of(trace, on_line("fixed", ways=16), k) for k in range(5)]
    one = [hits_of(trace, on_line("fixed", n_schedulers=1, ways=16), k) for k in range(5)]
    assert min(two) >= STEPS - 4
    assert max(one) <= 16


def test_free_schedulers_drift_apart_as_a_random_walk() -> None:
    """The distance of two sub-groups grows by one if the first has the turn, and falls by one else: it is a
    random walk of 2 STEPS steps until one ends. A cache with more lines than its range holds all that the second
    loads; with one line, only what the first has loaded in the turn before."""
    hits = np.array([hits_of(followers(2), on_line("free"), k) for k in range(20)])
    # A walk of n steps is at 0 about sqrt(2 n / pi) times; from there half of the next two turns are of both.
    returns = np.sqrt(2 * 2 * STEPS / np.pi)
    assert 0 < hits.mean() < 2 * returns < STEPS / 4
    wide = on_line("free", ways=8 * int(np.sqrt(2 * STEPS)))
    assert [hits_of(followers(2), wide, k) for k in range(5)] == [STEPS] * 5


@pytest.mark.parametrize("turns", ["fixed", "free"])
def test_barriers_keep_them_together(turns: str) -> None:
    trace = followers(2, barriers=True)
    assert [hits_of(trace, on_line(turns), k) for k in range(5)] == [STEPS] * 5


def test_each_scheduler_serves_its_own_in_turn() -> None:
    """Of four sub-groups, two on each scheduler: those of one scheduler stay together, so with one line for each
    scheduler's position at least every second load hits."""
    trace = followers(4)
    hits = [hits_of(trace, on_line("free", ways=2 * STEPS), k) for k in range(3)]
    assert hits == [3 * STEPS] * 3
    near = np.mean([hits_of(trace, on_line("free", ways=2), k) for k in range(10)])
    far = np.mean([hits_of(trace, on_line("free", n_schedulers=4, ways=2), k) for k in range(10)])
    assert near > STEPS > far


def test_one_scheduler_has_every_turn() -> None:
    trace = make_trace([[[(0, [i])] for i in range(4)]])
    free, fixed = on_line("free", n_schedulers=1), on_line("fixed", n_schedulers=1)
    for trial in range(3):
        assert np.array_equal(
            replayed(trace, free, trial).counts, replayed(trace, fixed, trial).counts
        )


def test_other_turns_are_refused() -> None:
    with pytest.raises(RuleError, match="scheduler_turns must be one of"):
        machine(level(), scheduler_turns="random")
