"""How much the groups of a launch request beside a snapshot's, and where a single snapshot lies."""

from __future__ import annotations

import dataclasses
from typing import Any

import loopy as lp
import numpy as np
import pytest

import memsim
import tracegen
from memsim.errors import TraceError
from memsim.trace import Trace, launch_work
from tests.support import random_launches
from tests.support.traces import make_trace
from tracegen.options import TraceOptions
from tracegen.recording import typical
from tracegen.recording.typical import Groups, mean_group, spread, typical_start
from tracegen.workloads import Workload


@pytest.mark.parametrize("first", [0, 1000])
def test_spread_groups_are_everywhere(first: int) -> None:
    """Any 64 in a row, of a launch cut into 64 parts, leave no eight parts in a row without a group."""
    found = spread(6400, first + 64)[first:]
    assert np.diff(np.sort(found), prepend=0, append=6400).max() < 800


def test_equal_groups_need_no_interval() -> None:
    mean = mean_group([10_000], 1000, lambda ids: np.full(len(ids), 7))
    assert mean == (7.0, 0.0)


@pytest.mark.parametrize("grid", [(7,), (5, 4), (6, 1, 3), (2, 2, 2), (1, 9)])
def test_a_short_snapshot_looks_at_a_group_of_each_edge(grid: tuple[int, ...]) -> None:
    """Groups that differ only in whether they are the last along an axis: their mean is exact."""
    at = np.stack(np.unravel_index(np.arange(np.prod(grid)), grid, order="F"))
    last = at == np.array(grid)[:, None] - 1
    requests = np.prod(np.where(last, np.array([2, 3, 5])[: len(grid), None], 10), axis=0)
    looked: list[int] = []

    def requests_of(ids: Groups) -> Groups:
        looked.extend(ids.tolist())
        return requests[ids]

    mean = mean_group(grid, 2, requests_of)
    assert mean.requests == pytest.approx(requests.mean())
    assert mean.half_width == 0
    assert len(looked) <= 9


@pytest.mark.parametrize("grid", [(20, 504, 16), (7, 300), (3000,), (1, 2, 900)])
def test_edges_of_a_grid_are_counted_as_often_as_they_are(grid: tuple[int, ...]) -> None:
    """Groups that differ only in being first or last along an axis: their mean is exact, though a group
    makes so many requests that only some 300 are looked at."""
    at = np.stack(np.unravel_index(np.arange(np.prod(grid)), grid, order="F"))
    size = np.array(grid)[:, None]
    requests = np.prod(np.where(at == size - 1, 13, np.where(at == 0, 17, 19)), axis=0)
    mean = mean_group(grid, 1500, lambda ids: requests[ids])
    assert mean.requests == pytest.approx(requests.mean(), rel=1e-12)
    assert mean.half_width == 0


def test_a_glance_of_some_hundred_groups_counts_as_short() -> None:
    looked: list[int] = []

    def requests_of(ids: Groups) -> Groups:
        looked.append(len(ids))
        return np.full(len(ids), 7)

    assert mean_group((100, 100), 500, requests_of, typical.SHORT_GLANCE) == (7.0, 0.0)
    assert mean_group((100, 100), 500, requests_of) == (7.0, 0.0)
    assert looked == [5, 64]


def test_groups_inside_that_differ_widen_the_interval() -> None:
    mean = mean_group((100, 100), 2, lambda ids: 10 + ids % 100 // 30)
    assert mean.half_width == 1


def test_unequal_groups_are_looked_at_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """At first 64, then as many as make a thousand requests."""
    monkeypatch.setattr(typical, "BUDGET_REQUESTS", 1000)
    looked: list[int] = []

    def requests_of(ids: Groups) -> Groups:
        looked.append(len(ids))
        return 1 + 10 * (ids % 32 == 0)

    mean = mean_group([100_000], 10_000, requests_of)
    assert looked[0] == 64
    assert len(looked) == 2
    assert looked[1] > 600
    assert mean.half_width > 0


def test_intervals_cover_the_mean_group() -> None:
    """Of launches with random rows of groups, ramps and a few heavy groups: at least 93 of 100."""
    covered = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(3000, 30_000))
        at = np.arange(n)
        row = int(rng.integers(2, 400))
        requests = np.array(
            [
                np.where(at // row % rng.integers(2, 12) == 0, rng.integers(1, 50), 100),
                100 + at * rng.integers(1, 200) // n,
                rng.lognormal(4, 1, n).astype(int) + 1,
            ][seed % 3]
        )
        mean = mean_group([n], 1000, lambda ids, of=requests: of[ids])
        covered += abs(mean.requests - requests.mean()) <= mean.half_width
    assert covered >= 93


def test_the_middle_is_kept_where_it_is_like_the_launch() -> None:
    assert typical_start([500, 200], 100, 102.0, lambda ids: np.full(len(ids), 100)) == 500


def test_another_place_where_the_middle_is_not() -> None:
    def requests_of(ids: Groups) -> Groups:
        return np.where((ids >= 500) & (ids < 600), 50, np.where(ids < 300, 90, 101))

    assert typical_start([500, 200, 800], 100, 99.0, requests_of) == 800


def edged(rows: int = 9, last: int = 1) -> Workload:
    """A copy of 64 columns in `rows` rows of groups 128 wide and 16 high, the last with `last` lines in it:
    of 64 x 9 groups the last 64 do a sixteenth of the work."""
    columns, height = 64 * 128, 16 * (rows - 1) + last
    kernel = lp.make_kernel(
        f"{{[i, j]: 0 <= i < {columns} and 0 <= j < {height}}}",
        f"out[{columns} * j + i] = inp[{columns} * j + i]",
        [lp.GlobalArg("inp, out", np.float32, shape=lp.auto)],
        lang_version=(2018, 2),
    )
    kernel = lp.split_iname(kernel, "i", 128, outer_tag="g.0", inner_tag="l.0")
    kernel = lp.split_iname(kernel, "j", 16, outer_tag="g.1")
    return Workload(kernel, {"inp": np.zeros(columns * height, np.float32)})


@pytest.mark.parametrize("tracer", ["polyhedral", "instrumented"])
def test_a_snapshot_says_how_its_groups_compare(tracer: Any) -> None:
    """The middle of the launch are whole groups, and one row of nine has a sixteenth of their work."""
    machine = memsim.load_machine("v100")
    trace = tracegen.trace(edged(), machine, groups=128, tracer=tracer)
    assert trace.launch_work_error is not None
    expected = (8 + 1 / 16) / 9
    assert abs(trace.launch_work - expected) < 0.03
    assert abs(trace.launch_work - expected) <= trace.launch_work_error


def test_listed_groups_say_nothing_of_others() -> None:
    machine = memsim.load_machine("v100")
    trace = tracegen.trace(edged(), machine, groups=list(range(64, 192)))
    assert trace.launch_work_error is None
    assert launch_work([trace]) == (1.0, None)


def eight_groups_a_core() -> memsim.Machine:
    """Of four cores."""
    on = random_launches.small_machine(0)
    return on.replace(residency=dataclasses.replace(on.residency, max_groups=8))


def test_a_single_snapshot_is_not_of_the_edge() -> None:
    """Nine rows of 64 groups, of which the middle one has one line in sixteen, for a snapshot of 64."""
    on = eight_groups_a_core()
    kernel = lp.make_kernel(
        "{[i, r, j]: 0 <= i < 8192 and 0 <= r < 9 and 0 <= j < 16}",
        "out[j, r, i] = inp[j, r, i] {if=r != 4 or j < 1}",
        [lp.GlobalArg("inp, out", np.float32, shape="16, 9, 8192")],
        lang_version=(2018, 2),
    )
    kernel = lp.split_iname(kernel, "i", 128, outer_tag="g.0", inner_tag="l.0")
    kernel = lp.tag_inames(kernel, "r:g.1")
    workload = Workload(kernel, {"inp": np.zeros((16, 9, 8192), np.float32)})
    (trace,) = tracegen.trace_snapshots(workload, on, snapshots=1, options=TraceOptions(waves=2))
    assert trace.n_groups == 64
    full = 2 * 16 * 128 * 4 / 32
    assert trace.n_granule == 64 * full
    assert trace.launch_work_error is not None
    assert abs(trace.launch_work - (8 + 1 / 16) / 9) < trace.launch_work_error + 0.01


def moved_by(traces: Trace | list[Trace], on: memsim.Machine) -> memsim.Estimate:
    replay = memsim.replay(traces, on, trials=4)
    return replay.launch.read_bytes("DRAM")


def test_totals_are_those_of_the_launch() -> None:
    """All groups are read once: 4 bytes a point, however few points the traced groups have."""
    on = eight_groups_a_core()
    workload = edged()
    exact = 4 * 64 * 128 * (16 * 8 + 1)
    snapshot = tracegen.trace(workload, on, groups=256)
    totals = moved_by(snapshot, on)
    assert totals.low <= exact <= totals.high
    assert totals.parts["groups"] > 0
    assert abs(totals.mean / exact - 1) < 0.03
    unknown = moved_by(snapshot.replace(launch_work=1.0, launch_work_error=None), on)
    assert unknown.mean / exact > 1.1


def test_several_snapshots_weigh_by_their_requests() -> None:
    one = make_trace([[[(0, range(3))]]], whole=False, launch_work=2.0, launch_work_error=0.1)
    other = make_trace([[[(0, range(1))]]], whole=False, launch_work=6.0, launch_work_error=0.3)
    work = launch_work([one, other])
    assert work.of_traced == pytest.approx(3.0)
    assert work.error == pytest.approx(0.15)
    assert work.half_width == pytest.approx(2.15)


@pytest.mark.parametrize(
    "changes", [{"launch_work": 0.0}, {"launch_work": np.nan}, {"launch_work_error": -1.0}]
)
def test_impossible_numbers_are_refused(changes: Any) -> None:
    trace = make_trace([[[(0, range(3))]]], whole=False)
    with pytest.raises(TraceError, match="launch_work"):
        trace.replace(**changes)


def test_files_keep_it(tmp_path: Any) -> None:
    trace = make_trace([[[(0, range(3))]]], whole=False, launch_work=1.25, launch_work_error=0.5)
    memsim.write_trace(trace, tmp_path / "a.trace")
    again = memsim.read_trace(tmp_path / "a.trace")
    assert (again.launch_work, again.launch_work_error) == (1.25, 0.5)
