"""Which groups are traced, at how many places of a launch, and how long each snapshot is."""

from __future__ import annotations

import functools
import itertools
import math
import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracegen
from memsim import load_machine
from memsim.montecarlo import resident_groups, warmup_waves_of
from tests.support import loopy_kernels as kernels
from tracegen.options import TraceOptions
from tracegen.recording import snapshot


@pytest.mark.parametrize(
    ("n_groups", "wave", "requested", "chosen"),
    [
        (10, None, None, range(10)),  # without a machine
        (1000, 20, None, range(469, 469 + 240)),  # twelve waves, after a golden section of the rest
        (239, 20, None, range(239)),
        (240, 20, None, range(240)),
        (241, 20, None, range(240)),
        (1000, 20, 7, range(613, 620)),
        (1000, 2000, 4, range(615, 619)),
        (5, 20, 7, range(5)),
    ],
)
def test_chosen_groups_follow_each_other(
    n_groups: int, wave: int | None, requested: int | None, chosen: range
) -> None:
    (groups,) = snapshot.choose((n_groups,), wave, requested)
    assert groups.tolist() == list(chosen)


@pytest.mark.parametrize(
    "grid", [(40, 252, 8), (158, 63, 16), (20, 16, 504), (5000, 7, 3), (90, 90)]
)
def test_a_snapshot_lies_within_a_layer_that_holds_it(grid: tuple[int, ...]) -> None:
    """Or within a row."""
    parts = list(itertools.accumulate(grid, operator.mul))
    for count, n in itertools.product((1, 100, 1900), (1, 2, 3, 6)):
        starts = snapshot.starts(grid, count, n)
        unit = next(size for size in parts if size >= count)
        assert all(start % unit <= unit - count for start in starts)
        assert sorted(starts) == starts
        assert all(0 <= start <= parts[-1] - count for start in starts)


@pytest.mark.parametrize(
    ("grid", "length"), [((2084, 8), 2), ((9, 3, 5), 4), ((50,), 10), ((9, 2, 6), 18)]
)
def test_a_single_snapshot_has_no_last_group_of_the_axes_beyond(
    grid: tuple[int, ...], length: int
) -> None:
    """Though the middle of the launch may be one."""
    start = snapshot.amid(grid, length)
    at = np.unravel_index(start + np.arange(length), grid, order="F")
    sizes = itertools.accumulate(grid, operator.mul)
    beyond = range(1 + next(k for k, size in enumerate(sizes) if size >= length), len(grid))
    assert all((at[k] < grid[k] - 1).all() for k in beyond)
    assert all(len(set(at[k])) == 1 for k in beyond)


def test_the_middle_of_an_even_number_of_layers_is_avoided() -> None:
    """Of 16 layers of 63 rows of groups, the middle of the launch is where the ninth begins."""
    start = snapshot.amid((158, 63, 16), 1920)
    assert start // (158 * 63) == (start + 1919) // (158 * 63) == 7


def test_the_groups_that_begin_a_layer_are_counted() -> None:
    """A snapshot of ten waves of 20, of which four warm the caches and the last is not counted. None where no layer begins, or it hardly
    matters: of a single row, a single layer, one that is shorter, and of 7 starts of 110 groups among 350,000."""
    place = snapshot.layer_start((10, 50, 7), 210, 20)
    assert place.groups.tolist() == list(range(3 * 500 - 80, 3 * 500 + 130))
    assert place.occurrences == 7
    for grid in ((5000,), (10, 50, 1), (10, 20, 7), (50_000, 7)):
        assert snapshot.layer_start(grid, 210, 20) is None


@pytest.mark.parametrize(
    ("grid", "wave", "count", "counted"),
    [
        ((32, 40), 8, 96, 64),  # six waves of 8 are one and a half rows
        ((64, 40), 8, 96, 64),
        ((70, 40), 8, 96, None),  # hardly more than half a row
        ((5000,), 20, 240, None),
        ((316, 126, 8), 320, 3840, 6 * 316),
        ((4, 126, 63), 160, 1920, 2 * 4 * 126),  # layers rather than rows
        ((10, 50, 7), 20, 40, None),  # two waves, of which none warms the caches
        ((10, 4), 10, 40, None),  # the whole launch
    ],
)
def test_whole_rows_are_counted(
    grid: tuple[int, ...], wave: int, count: int, counted: int | None
) -> None:
    length = snapshot.in_whole_rows(grid, wave, count)
    if counted is None:
        assert length == count
    else:
        assert length - (warmup_waves_of(length // wave) + 1) * wave == counted


@given(
    st.lists(st.integers(1, 400), min_size=1, max_size=3),
    st.integers(1, 300),
    st.integers(3, 24),
    st.booleans(),
)
def test_rows_change_a_snapshot_by_less_than_a_half(
    grid: list[int], wave: int, waves: int, at_most: bool
) -> None:
    count = min(waves * wave, math.prod(grid))
    length = snapshot.in_whole_rows(grid, wave, count, at_most=at_most)
    assert 0.5 * count < length <= min(count if at_most else 1.5 * count, math.prod(grid))
    if length != count:
        warmup_waves = warmup_waves_of(length // wave)
        assert warmup_waves
        assert (length - (warmup_waves + 1) * wave) % grid[0] == 0 or grid[0] == 1


def test_several_snapshots_spread_over_the_launch() -> None:
    """One in each of equal parts, at distances that are no multiples of each other; within rows, in even and odd ones."""
    for n in (2, 3, 6, 12):
        starts = [int(groups[0]) for groups in snapshot.choose((100_120,), 10, snapshots=n)]
        assert [start * n // 100_000 for start in starts] == list(range(n))
    distances = np.diff(starts) / 100_000 * 12
    assert len(set(distances.round(3))) > 1
    assert 0.3 < distances.min() < distances.max() < 2
    for grid, n in itertools.product(((100, 90), (70, 9, 11)), (2, 3, 6)):
        rows = [start // grid[0] for start in snapshot.starts(grid, 60, n)]
        assert [row % 2 for row in rows] == [k % 2 for k in range(n)]


def test_budget_keeps_two_waves(monkeypatch: pytest.MonkeyPatch) -> None:
    """10 accesses, 4 requests and 100 instructions per group."""
    groups, each = np.arange(100, 180), snapshot.Cost(10, 4, 100)
    kept = functools.partial(snapshot.within_budget, groups, each=each)
    monkeypatch.setattr(snapshot, "BUDGET_ACCESSES", 505)
    assert len(kept(20)) == 50
    assert len(kept(30)) == 60
    monkeypatch.setattr(snapshot, "BUDGET_GRANULES", 180)
    assert kept(20).tolist() == list(range(100, 145))
    monkeypatch.setattr(snapshot, "BUDGET_INSTRUCTIONS", 4200)
    assert len(kept(10)) == 42
    assert len(kept(10, part=0.5)) == 21
    assert len(snapshot.within_budget(groups, 10, snapshot.Cost(0, 0))) == 80


def test_samples_lie_amid_equal_parts() -> None:
    assert snapshot.sample(80).tolist() == [5, 15, 25, 35, 45, 55, 65, 75]
    assert snapshot.sample(3).tolist() == [0, 1, 2]


def test_what_is_in_one_line_for_all_lanes_gets_more_groups(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A copy of floats makes one request per eight lane-accesses, of doubles one per four."""
    monkeypatch.setattr(snapshot, "BUDGET_GRANULES", 1 << 17)
    n_access = []
    for dtype in (np.float32, np.float64):
        trace = tracegen.trace(kernels.copy(1 << 23, dtype=dtype), "v100")
        n_access.append(2 * trace.n_groups * trace.launch.group_items)
        assert trace.n_granule == 1 << 17
    assert n_access[0] == 2 * n_access[1]


GRANULES_OF_GROUP = 2 * 64 * 4 // 32
"""A group of 64 work-items copies as many floats."""


@pytest.mark.parametrize(
    ("waves_of_budget", "expected"),
    [
        (100, [12, 12, 12, 12]),  # three places and the start
        (2 * 10, [10, 10, 10, 10]),  # they share the budget of two
        (2 * 7, [9, 9, 9]),  # of each 7 waves would fit: without the start, 9 do
        (2 * 5, [10, 10]),  # without the start, 6 would
        (7, [12]),  # of each of two, 7 would fit, so there is one, with the budget of two
        (4, [8]),
    ],
)
def test_fewer_snapshots_replace_several_short_ones(
    waves_of_budget: int, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = load_machine("v100")
    workload = kernels.copy(1 << 23, group=64)
    launch = tracegen.trace(workload, machine, groups=1).launch
    wave = machine.n_cores * resident_groups(machine, launch).groups_per_core
    budget = waves_of_budget * wave * GRANULES_OF_GROUP
    monkeypatch.setattr(snapshot, "BUDGET_GRANULES", budget)
    options = TraceOptions(start=True, earlier=False)
    traces = tracegen.trace_snapshots(workload, machine, snapshots=3, options=options)
    assert [trace.n_groups // wave for trace in traces] == expected
    assert not any(trace.whole for trace in traces)
    *places, last = (int(trace.workgroup[0]) for trace in traces)
    assert places == sorted(places)
    assert (last == 0) == (len(traces) == 4)
