"""Which groups are traced."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracegen
from memsim.machine.file import load_machine
from memsim.montecarlo import warmup_waves_of
from memsim.montecarlo.occupancy import resident_groups
from tests.support import loopy_kernels as kernels
from tracegen.recording import snapshot


def test_without_a_machine_everything() -> None:
    (groups,) = snapshot.choose((10,), None)
    assert groups.tolist() == list(range(10))


def test_twelve_waves_after_a_golden_section() -> None:
    (groups,) = snapshot.choose((1000,), 20)
    assert len(groups) == 12 * 20
    assert groups[0] == int(0.618034 * (1000 - 240))
    assert np.all(np.diff(groups) == 1)


@pytest.mark.parametrize(
    "grid", [(40, 252, 8), (158, 63, 16), (20, 16, 504), (5000, 7, 3), (90, 90)]
)
@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_a_snapshot_lies_within_a_layer_that_holds_it(grid: tuple[int, ...], n: int) -> None:
    """Or within a row."""
    parts = list(itertools.accumulate(grid, operator.mul))
    for count in (1, 100, 1900):
        starts = snapshot.starts(grid, count, n)
        unit = next(size for size in parts if size >= count)
        assert all(start % unit <= unit - count for start in starts)
        n_free = parts[-1] - count
        assert sorted(starts) == starts
        assert all(0 <= start <= n_free for start in starts)


@pytest.mark.parametrize(
    ("grid", "length"), [((2084, 8), 2), ((9, 3, 5), 4), ((50,), 10), ((9, 2, 6), 18)]
)
def test_a_single_snapshot_has_no_last_group_of_the_axes_beyond(
    grid: tuple[int, ...], length: int
) -> None:
    """Though the middle of the launch may be one."""
    start = snapshot.amid(grid, length)
    at = np.unravel_index(start + np.arange(length), grid, order="F")
    unit = next(
        k for k, size in enumerate(itertools.accumulate(grid, operator.mul)) if size >= length
    )
    assert all((at[k] < grid[k] - 1).all() for k in range(unit + 1, len(grid)))
    assert len(set(zip(*(at[k] for k in range(unit + 1, len(grid))), strict=True))) <= 1


def test_the_middle_of_an_even_number_of_layers_is_avoided() -> None:
    """Of 16 layers of 63 rows of groups, the middle of the launch is where the ninth begins."""
    start = snapshot.amid((158, 63, 16), 1920)
    assert start // (158 * 63) == (start + 1919) // (158 * 63) == 7


def test_the_groups_that_begin_a_layer_are_counted() -> None:
    """A snapshot of ten waves of 20, of which four warm the caches and the last is not counted."""
    place = snapshot.layer_start((10, 50, 7), 210, 20)
    assert place.groups.tolist() == list(range(3 * 500 - 80, 3 * 500 + 130))
    assert place.occurrences == 7


@pytest.mark.parametrize(
    ("grid", "count"),
    [
        ((5000,), 210),  # a single row
        ((10, 50, 1), 210),  # a single layer
        ((10, 20, 7), 210),  # longer than a layer
        ((50_000, 7), 210),  # 7 starts of 110 groups among 350,000
    ],
)
def test_where_no_layer_begins_or_it_hardly_matters(grid: tuple[int, ...], count: int) -> None:
    assert snapshot.layer_start(grid, count, 20) is None


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


@pytest.mark.parametrize("grid", [(100, 90), (70, 9, 11)])
def test_snapshots_within_rows_lie_in_even_and_odd_ones(grid: tuple[int, ...]) -> None:
    for n in (2, 3, 6):
        rows = [start // grid[0] for start in snapshot.starts(grid, 60, n)]
        assert [row % 2 for row in rows] == [k % 2 for k in range(n)]


def test_small_launch_is_taken_whole() -> None:
    assert len(snapshot.choose((239,), 20)[0]) == 239
    assert len(snapshot.choose((240,), 20)[0]) == 240
    assert len(snapshot.choose((241,), 20)[0]) == 240


def test_several_snapshots_spread_over_the_launch() -> None:
    """One in each of equal parts, at distances that are no multiples of each other."""
    for n in (2, 3, 6, 12):
        starts = [int(groups[0]) for groups in snapshot.choose((100_120,), 10, snapshots=n)]
        assert [start * n // 100_000 for start in starts] == list(range(n))
    distances = np.diff(starts) / 100_000 * 12
    assert len(set(distances.round(3))) > 1
    assert 0.3 < distances.min() < distances.max() < 2


def test_number_of_groups_overrides() -> None:
    assert len(snapshot.choose((1000,), 20, 7)[0]) == 7
    assert list(snapshot.choose((1000,), 2000, 4)[0]) == [615, 616, 617, 618]
    assert len(snapshot.choose((5,), 20, 7)[0]) == 5


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
    context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of floats makes one request per eight lane-accesses, of doubles one per four."""
    machine = load_machine("v100")
    monkeypatch.setattr(snapshot, "BUDGET_GRANULES", 1 << 17)
    n_access = {}
    for dtype in (np.float32, np.float64):
        trace = tracegen.trace(kernels.copy(1 << 23, dtype=dtype), machine, context=context)
        n_access[dtype] = 2 * trace.n_groups * trace.launch.group_items
        assert trace.n_granule == 1 << 17
    assert n_access[np.float32] == 2 * n_access[np.float64]


def test_on_a_machine(context: Any) -> None:
    machine = load_machine("v100")
    traces = tracegen.trace_snapshots(
        kernels.copy(1 << 23, group=64), machine, snapshots=2, context=context
    )
    wave = machine.n_cores * resident_groups(machine, traces[0].launch).groups_per_core
    for trace in traces:
        assert trace.n_groups == snapshot.WAVES * wave
        assert not trace.whole
        assert trace.subgroup_size == machine.subgroup_size
    assert traces[0].workgroup[0] < traces[1].workgroup[0]
