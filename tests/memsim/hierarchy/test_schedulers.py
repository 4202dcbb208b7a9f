"""Schedulers serve their own sub-groups in turn, and take turns themselves, or any of them is next; others are greedy.

Against closed forms; test_twin.py compares with the readable twin.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from memsim.errors import ReplayError
from memsim.hierarchy.cache import HITS, PENDING
from memsim.machine.model import Machine
from memsim.machine.rules import RuleError
from memsim.montecarlo.plan import make_plan
from memsim.montecarlo.trial import Workspace, run_trial, unpack_many
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


def hits_of(trace: Trace, on: Machine, trial: int = 0, **options: Any) -> int:
    return int(replayed(trace, on, trial, **options).counts[0, :, [HITS, PENDING]].sum())


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


# Greedy schedulers, and the memory pipe that they share


def sweeps(n_subgroups: int, lines: int, rounds: int, *, in_bulk: bool = False) -> Trace:
    """Each sub-group sweeps lines of its own; in bulk, its loads do not wait for each other."""
    swept = [(i % lines, i == 0 or not in_bulk) for i in range(lines * rounds)]
    each = [[(0, [100 * s + line], starts) for line, starts in swept] for s in range(n_subgroups)]
    return make_trace([each])


def lines_asked(trace: Trace, on: Machine, sampler: str, trial: int = 0) -> list[int]:
    """The granules that the first level asks for, in order; each in a line of its own."""
    plan, _ = make_plan(trace, on, sampler=sampler)
    work = Workspace(plan)
    run_trial(plan, 1, trial, workspace=work, depth=1)
    queue = work.queues[0]
    line, *_ = unpack_many(queue.record[: queue.used[0]])
    return [int(plan.space.true_granule(one)) for one in line]


@pytest.mark.parametrize("sampler", ["gto", "gty"])
@pytest.mark.parametrize("data_cycles", [0, 1, 7])
def test_as_many_subgroups_run_as_hide_the_latency(sampler: str, data_cycles: int) -> None:
    """Eight sub-groups sweep five lines each, three times. Data arrive `data_cycles` after the next access
    could be issued, so 1 + data_cycles of the sub-groups keep the pipe busy and the others do not begin.
    If the working sets of those fit, all but the first sweeps hit. Round robin evicts every line."""
    lines, rounds, n = 5, 3, 8
    running = 1 + data_cycles
    trace = sweeps(n, lines, rounds)
    latency = float(max(data_cycles, 1))

    def on(sets: int) -> Machine:
        # With a latency of one cycle and two cycles an access, data are there before the next access.
        first = level(ways=-1, sets=sets, latency_cycles=latency)
        each = 2.0 if data_cycles == 0 else 1.0
        return machine(first, miss_turns=latency, cycles_per_turn=each, n_schedulers=1)

    assert hits_of(trace, on(running * lines), sampler=sampler) == n * lines * (rounds - 1)
    if running < n:
        assert hits_of(trace, on(running * lines), sampler="wrr") == 0
    # One line less, and the running sub-groups evict each other's lines too.
    assert hits_of(trace, on(running * lines - 1), sampler=sampler) == 0


@pytest.mark.parametrize("schedulers", [1, 2, 4])
def test_each_scheduler_keeps_a_subgroup_in_the_pipe(schedulers: int) -> None:
    """Four sub-groups sweep three lines twice without waiting: each scheduler stays with one of its own,
    and their accesses pass the pipe in turn."""
    trace = sweeps(4, 3, 2, in_bulk=True)
    fits = machine(level(ways=-1, sets=3 * schedulers), n_schedulers=schedulers)
    assert hits_of(trace, fits, sampler="gty") == 4 * 3
    smaller = machine(level(ways=-1, sets=3 * schedulers - 1), n_schedulers=schedulers)
    assert hits_of(trace, smaller, sampler="gty") == 0


@pytest.mark.parametrize(
    ("lines_per_cycle", "miss_cycles", "pending"),
    [
        (1.0, 7, {0, 1}),
        (1.0, 8, {1}),
        (1.0, 1, {0}),
        (3.0, 3, {0, 1}),
        (3.0, 4, {1}),
        (6.0, 3, {1}),
    ],
)
def test_a_divergent_access_keeps_the_pipe(
    lines_per_cycle: float, miss_cycles: int, pending: set[int]
) -> None:
    """Scheduler 0 loads a line twice, for two of its sub-groups; if scheduler 1 does not go first, its
    access of six lines is in between. The second load is then 1 + 6 / lines_per_cycle cycles after the
    first, otherwise 1: it is pending where the data take longer."""
    trace = make_trace(
        [[[(0, [0])], [(1, [10 * k for k in range(1, 7)])], [(0, [0])]]], ("load",) * 2
    )
    first = level(ways=-1, sets=8, tags_per_cycle=lines_per_cycle)
    on = machine(first, n_schedulers=2, miss_turns=miss_cycles)
    found = {int(replayed(trace, on, k, sampler="gty").counts[0, 0, PENDING]) for k in range(20)}
    assert found == pending


@pytest.mark.parametrize(("lanes", "pending"), [(32.0, 1), (16.0, 0)])
def test_an_access_keeps_the_pipe_for_its_lanes(lanes: float, pending: int) -> None:
    """Two sub-groups load one line: one cycle, or two, after each other."""
    trace = make_trace([[[(0, [0])], [(0, [0])]]])
    on = machine(level(), miss_turns=2, throughputs={"load_store_lanes": lanes})
    assert replayed(trace, on, sampler="gty").counts[0, 0, PENDING] == pending


@pytest.mark.parametrize(("sampler", "order"), [("gto", [0, 1, 2, 3]), ("gty", [3, 2, 1, 0])])
def test_the_preferred_subgroup_is_the_oldest_or_the_youngest(
    sampler: str, order: Sequence[int]
) -> None:
    trace = make_trace([[[(0, [s])] for s in range(2)], [[(0, [s])] for s in (2, 3)]])
    on = machine(level(), max_groups=2, n_schedulers=1)
    assert lines_asked(trace, on, sampler) == order


@pytest.mark.parametrize(
    ("start_cycles", "sampler", "order"),
    [
        # Group 1 ends when its data arrive, in cycle 4. Group 0 could issue at 5, 9 and 13.
        (0.0, "gty", [10, 0, 20, 1, 21, 2, 3]),
        (0.0, "gto", [0, 10, 1, 20, 2, 21, 3]),
        (20.0, "gty", [10, 0, 1, 2, 3, 20, 21]),
    ],
)
def test_a_group_that_follows_is_the_youngest(
    start_cycles: float, sampler: str, order: Sequence[int]
) -> None:
    long = [(0, [i]) for i in range(4)]
    trace = make_trace([[long], [[(0, [10])]], [[(0, [20]), (0, [21])]]])
    first = level(ways=-1, sets=8, latency_cycles=3.0)
    options = {"miss_turns": 3, "group_start_cycles": start_cycles}
    on = machine(first, max_groups=2, n_schedulers=1, **options)
    assert lines_asked(trace, on, sampler) == order


def test_a_store_waits_for_the_data_of_its_subgroup() -> None:
    """Both sub-groups load before the first stores: the data take longer than an access."""
    each = [[(0, [10 * s]), (1, [10 * s + 1], False)] for s in range(2)]
    trace = make_trace([each], ("load", "store"))
    on = machine(level(ways=-1, sets=4), n_schedulers=1, miss_turns=5)
    assert lines_asked(trace, on, "gty") == [10, 0, 11, 1]


def test_subgroups_are_dealt_to_the_scheduler_with_the_fewest() -> None:
    """Of three sub-groups, the first and the third share one of two schedulers: it takes the third first.
    The other group fills the gap: its first sub-group, the fourth, is on the other scheduler."""
    trace = make_trace([[[(0, [s])] for s in range(3)], [[(0, [3])]]])
    on = machine(level(), max_groups=2, n_schedulers=2)
    found = {tuple(lines_asked(trace, on, "gty", trial)) for trial in range(20)}
    assert found == {(2, 3, 0, 1), (3, 2, 1, 0)}


def test_contradictions_are_refused() -> None:
    with pytest.raises(ReplayError, match="weights apply to samplers that take turns"):
        make_plan(sweeps(1, 1, 1), machine(level()), sampler="gty", weights=[2])
    with pytest.raises(RuleError, match="n_schedulers must be positive, got 0"):
        machine(level(), n_schedulers=0)
    with pytest.raises(RuleError, match="scheduler_turns must be one of"):
        machine(level(), scheduler_turns="random")
