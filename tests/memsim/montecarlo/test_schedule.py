"""Where and when groups run: closed forms, and halos that groups share."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from memsim.hierarchy.cache import ACCESSES, READ_GRANULES
from memsim.montecarlo.options import Dispatch
from memsim.montecarlo.plan import make_plan
from memsim.montecarlo.schedule import Schedule, Work, schedule, spread
from memsim.trace.model import BARRIER_SITE, Trace
from tests.support.small_machines import level, machine
from tests.support.traces import make_trace
from tests.support.trials import replayed


def drawn(
    cycles: list[float],
    n_cores: int,
    resident: int,
    seed: int = 0,
    *,
    dispatch: Dispatch = "first_free",
    inside: bool = False,
    dies: int = 1,
    turns: int = 1,
    waves_before: float = 0.0,
) -> Schedule:
    work = Work(np.full(len(cycles), turns, np.int64), np.array(cycles, np.float64))
    options = {"dispatch": dispatch, "inside": inside, "waves_before": waves_before, "dies": dies}
    return schedule(work, n_cores, resident, np.random.default_rng(seed), **options)


def core_of(found: Schedule) -> list[int]:
    """The core of each group."""
    cores = np.repeat(np.arange(len(found.core_offset) - 1), np.diff(found.core_offset))
    return [int(core) for core in cores[np.argsort(found.group)]]


def test_equal_groups_of_many_turns_fill_the_machine_wave_by_wave() -> None:
    """Sixty groups on five places of three cores: four waves, in each of which every core has five, and which begin
    one group's time after another, within a part of it that grows."""
    result = drawn([7.0] * 60, n_cores=3, resident=5, turns=1_000_000)
    widest = 7 * float(spread(np.int64(1_000_000), 3))
    assert widest < 0.01
    for wave in range(4):
        cores = core_of(result)[15 * wave : 15 * (wave + 1)]
        assert Counter(cores) == {0: 5, 1: 5, 2: 5}
        starts = result.start[15 * wave : 15 * (wave + 1)]
        assert np.all((starts >= 7.0 * wave) & (starts <= 7.0 * wave + widest))
    np.testing.assert_allclose(result.end, result.start + 7.0, atol=widest)


@pytest.mark.parametrize(
    ("turns", "waves", "expected"),
    [(1, 0, 1), (16, 0, 1 / 16), (16, 100, 1), (300, 16, 0.1), (48, 0.25, 0.0377)],
)
def test_groups_of_a_wave_begin_within_a_part_of_their_time(
    turns: int, waves: float, expected: float
) -> None:
    """One turn at first; its variance, 1 / (12 turns^2), grows by 1 / (64 turns) a wave."""
    width = float(spread(np.int64(turns), waves))
    assert width == pytest.approx(expected, rel=0.01)
    if width < 1:
        assert width**2 / 12 == pytest.approx(1 / (12 * turns**2) + waves / (64 * turns))
    # Eight groups of a wave are equally far apart, around the circle that their time is.
    result = drawn([1.0] * 16, 8, 1, inside=True, turns=turns, waves_before=waves)
    gaps = np.sort(np.diff(np.r_[result.fraction, result.fraction[0] - 1]))[::-1]
    np.testing.assert_allclose(gaps[:7], -width / 8)
    assert gaps[7] == pytest.approx(-(1 - 7 / 8 * width))


def test_round_robin_deals_by_number() -> None:
    assert core_of(drawn([1.0] * 8, 3, 2, dispatch="round_robin")) == [0, 1, 2, 0, 1, 2, 0, 1]


def test_groups_are_dealt_to_dies_in_turn() -> None:
    """Two dies of three cores: even groups run on the first three, however long those of the other die last."""
    for inside in (False, True):
        found = drawn([1.0, 9.0] * 40, n_cores=6, resident=2, inside=inside, dies=2)
        assert [core // 3 for core in core_of(found)] == [0, 1] * 40
    assert core_of(drawn([1.0] * 7, 6, 2, dispatch="round_robin", dies=2)) == [0, 3, 1, 4, 2, 5, 0]
    assert core_of(drawn([1.0], n_cores=6, resident=2, dies=2)) == [0]


def test_a_launch_smaller_than_the_machine_spreads_over_its_cores() -> None:
    assert core_of(drawn([1.0] * 4, n_cores=6, resident=3)) == [0, 1, 2, 3]


def test_a_long_group_keeps_its_place() -> None:
    """While the first group lasts, the other core runs all others, one after another."""
    result = drawn([200.0] + [1.0] * 50, n_cores=2, resident=1)
    assert core_of(result) == [0] + [1] * 50
    np.testing.assert_allclose(result.start[2:], result.end[1:-1])


def test_groups_of_one_turn_are_evenly_spread() -> None:
    for inside in (False, True):
        result = drawn([8.0] * 24, n_cores=2, resident=4, inside=inside)
        # One group begins in every eighth of a group's time.
        np.testing.assert_allclose(np.diff(np.sort(result.start[8:])[:12]), 1.0)
        assert Counter(core_of(result)[:8]) == {0: 4, 1: 4}


def test_a_group_is_seldom_on_the_core_of_the_group_one_wave_before() -> None:
    """With equal groups on 80 places the end of each varies by ten places. The same core follows in fewer
    than one of ten cases, and cores that are free one after another stay near each other."""
    same, far = [], []
    for seed in range(20):
        core = np.array(core_of(drawn([1.0] * 800, 80, 1, seed, inside=True)))
        same.append(np.mean(core[80:] == core[:-80]))
        turn = [np.flatnonzero(core == c) for c in range(80)]
        far += [float(np.abs(np.diff(groups) - 80).mean()) for groups in turn]
    assert 1 / 80 < np.mean(same) < 1 / 10
    assert np.mean(far) < 20


def test_trials_differ() -> None:
    one, other = (drawn([1.0] * 200, 10, 2, seed, inside=True) for seed in (0, 1))
    assert core_of(one) != core_of(other)
    again = drawn([1.0] * 200, 10, 2, 0, inside=True)
    assert core_of(one) == core_of(again)


# What groups share


def with_halos(n_groups: int, turns: list[int]) -> Trace:
    """Group g reads lines of its own, `turns[g % len(turns)]` of them, then its halos g and g + 1."""
    groups, own = [], 10 * n_groups
    for g in range(n_groups):
        n = turns[g % len(turns)]
        accesses = [(0, [own + k]) for k in range(n)]
        own += n
        groups.append([[*accesses, (1, [g]), (1, [g + 1])]])
    return make_trace(groups, ("load", "load"))


def fetched_halos(turns: list[int], dispatch: Dispatch) -> float:
    """Fetches of a halo from memory, in the mean, with an L2 of 64 lines."""
    n = 800
    on = machine(
        level("L1", ways=1), level("L2", ways=64, cores_per_instance=8), cores=8, max_groups=1
    )
    result = replayed(with_halos(n, turns), on, dispatch=dispatch)
    return float(result.counts[1, 1, READ_GRANULES]) / (n + 1)


@pytest.mark.parametrize("turns", [[4], [1, 7], [2, 2, 2, 2, 2, 2, 2, 9]])
def test_in_step_a_shared_halo_is_fetched_once(turns: list[int]) -> None:
    assert fetched_halos(turns, "first_free") < 1.15


def test_out_of_step_a_shared_halo_is_fetched_twice() -> None:
    """Dealt by number, four cores have all long groups and fall behind the others."""
    assert fetched_halos([1, 7], "round_robin") > 1.8


def test_groups_that_no_group_follows_are_not_counted() -> None:
    """Of five waves inside a launch two warm the caches and the last one is not counted. Two are too few for
    either: a wave that begins with hardly anything loaded would read what neighbours share once more."""
    trace = make_trace([[[(0, [g])]] for g in range(20)], whole=False)
    on = machine(level(), cores=2, max_groups=2)
    assert list(np.flatnonzero(make_plan(trace, on)[0].counted())) == list(range(8, 16))
    whole, _ = make_plan(make_trace([[[(0, [g])]] for g in range(20)]), on)
    assert whole.counted().all()
    two, _ = make_plan(make_trace([[[(0, [g])]] for g in range(8)], whole=False), on)
    assert two.counted().all()


def loaded_from_memory(n_groups: int) -> float:
    """Sectors from memory per sector asked for, with 64 resident groups. A group loads 32 lines, all but one of
    which the next one loads too, and after a barrier one of its own: 2 of 33, once neighbours share."""
    groups = [
        [[*[(0, [g + k]) for k in range(32)], (BARRIER_SITE, []), (0, [100_000 + g])]]
        for g in range(n_groups)
    ]
    trace = make_trace(groups, ("load",), whole=False)
    on = machine(
        level("L1", ways=1), level("L2", ways=4096, cores_per_instance=8), cores=8, max_groups=8
    )
    counts = np.sum([replayed(trace, on, trial).counts for trial in range(8)], axis=0)
    return float(counts[1, 0, READ_GRANULES] / counts[0, 0, ACCESSES])


@pytest.mark.parametrize("n", [16, 64, 66, 191])
def test_a_snapshot_below_three_waves_loads_each_of_its_lines_once(n: int) -> None:
    """Were only that counted which follows once the first groups are in progress, what neighbours share would
    be loaded already: 16 groups would load half as much as a long snapshot. Were only the two groups counted
    that follow a wave, four times as much: they run ahead of those that share their lines."""
    assert loaded_from_memory(n) == pytest.approx((n + 31 + n) / (33 * n))


def test_a_long_snapshot_loads_what_the_launch_does() -> None:
    assert loaded_from_memory(512) == pytest.approx(2 / 33, rel=0.02)
