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
from memsim.trace import launch_work
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


def test_unequal_groups_are_looked_at_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """At first 64, then as many as make a thousand requests. Where groups are equal, the first are enough; for a short snapshot or a
    glance of some hundred groups a few, whose difference is the interval."""
    monkeypatch.setattr(typical, "BUDGET_REQUESTS", 1000)
    looked: list[int] = []

    def unequal(ids: Groups) -> Groups:
        looked.append(len(ids))
        return 1 + 10 * (ids % 32 == 0)

    assert mean_group([100_000], 10_000, unequal).half_width > 0
    assert looked[0] == 64
    assert len(looked) == 2
    assert looked[1] > 600
    looked.clear()

    def equal(ids: Groups) -> Groups:
        looked.append(len(ids))
        return np.full(len(ids), 7)

    assert mean_group((100, 100), 500, equal, typical.SHORT_GLANCE) == (7.0, 0.0)
    assert mean_group((100, 100), 500, equal) == (7.0, 0.0)
    assert looked == [5, 64]
    assert mean_group((100, 100), 2, lambda ids: 10 + ids % 100 // 30).half_width == 1


def test_intervals_cover_the_mean_group() -> None:
    """Of launches with random rows of groups, ramps and a few heavy groups: at least 93 of 100."""
    covered = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(3000, 30_000))
        at = np.arange(n)
        row = int(rng.integers(2, 400))
        kinds = [
            np.where(at // row % rng.integers(2, 12) == 0, rng.integers(1, 50), 100),
            100 + at * rng.integers(1, 200) // n,
            rng.lognormal(4, 1, n).astype(int) + 1,
        ]
        requests = np.array(kinds[seed % 3])
        mean = mean_group([n], 1000, lambda ids, of=requests: of[ids])
        covered += abs(mean.requests - requests.mean()) <= mean.half_width
    assert covered >= 93


def test_the_middle_is_kept_where_it_is_like_the_launch() -> None:
    assert typical_start([500, 200], 100, 102.0, lambda ids: np.full(len(ids), 100)) == 500

    def requests_of(ids: Groups) -> Groups:
        return np.where((ids >= 500) & (ids < 600), 50, np.where(ids < 300, 90, 101))

    assert typical_start([500, 200, 800], 100, 99.0, requests_of) == 800


def rows_of_groups(copied: str = "r < 8 or j < 1") -> Workload:
    """A copy by 64 x 9 groups of 128 x 16 floats; by default the last row of groups has one line in it, and a sixteenth of the work.

    copied : which lines j of which rows r of groups are
    """
    kernel = lp.make_kernel(
        "{[i, r, j]: 0 <= i < 8192 and 0 <= r < 9 and 0 <= j < 16}",
        f"out[r, j, i] = inp[r, j, i] {{if={copied}}}",
        [lp.GlobalArg("inp, out", np.float32, shape="9, 16, 8192")],
        lang_version=(2018, 2),
    )
    kernel = lp.split_iname(kernel, "i", 128, outer_tag="g.0", inner_tag="l.0")
    kernel = lp.tag_inames(kernel, "r:g.1")
    return Workload(kernel, {"inp": np.zeros((9, 16, 8192), np.float32)})


WORK = (8 + 1 / 16) / 9
"""Of a mean group, where one row of nine has a sixteenth of the work of the others."""


@pytest.mark.parametrize("tracer", ["polyhedral", "instrumented"])
def test_a_snapshot_says_how_its_groups_compare(tracer: Any) -> None:
    """The middle of the launch are whole groups. Of groups that are listed nothing is said."""
    trace = tracegen.trace(rows_of_groups(), "v100", groups=128, tracer=tracer)
    assert trace.launch_work_error is not None
    assert abs(trace.launch_work - WORK) < 0.03
    assert abs(trace.launch_work - WORK) <= trace.launch_work_error
    listed = tracegen.trace(rows_of_groups(), "v100", groups=list(range(64, 192)), tracer=tracer)
    assert listed.launch_work_error is None
    assert launch_work([listed]) == (1.0, None)


def eight_groups_a_core() -> memsim.Machine:
    """Of four cores."""
    on = random_launches.small_machine(0)
    return on.replace(residency=dataclasses.replace(on.residency, max_groups=8))


def test_a_single_snapshot_is_not_of_the_edge() -> None:
    """Nine rows of 64 groups, of which the middle one has one line in sixteen, for a snapshot of 64."""
    workload, on = rows_of_groups("r != 4 or j < 1"), eight_groups_a_core()
    (trace,) = tracegen.trace_snapshots(workload, on, snapshots=1, options=TraceOptions(waves=2))
    assert trace.n_groups == 64
    full = 2 * 16 * 128 * 4 / 32
    assert trace.n_granule == 64 * full
    assert trace.launch_work_error is not None
    assert abs(trace.launch_work - WORK) < trace.launch_work_error + 0.01


def test_totals_are_those_of_the_launch() -> None:
    """All groups are read once: 4 bytes a point, however few points the traced groups have."""
    on = eight_groups_a_core()
    exact = 4 * 64 * 128 * (16 * 8 + 1)
    snapshot = tracegen.trace(rows_of_groups(), on, groups=256)
    unknown = snapshot.replace(launch_work=1.0, launch_work_error=None)
    totals, without = (
        memsim.replay(one, on, trials=4).launch.read_bytes("DRAM") for one in (snapshot, unknown)
    )
    assert totals.low <= exact <= totals.high
    assert totals.parts["groups"] > 0
    assert abs(totals.mean / exact - 1) < 0.03
    assert without.mean / exact > 1.1


def test_several_snapshots_weigh_by_their_requests() -> None:
    one = make_trace([[[(0, range(3))]]], whole=False, launch_work=2.0, launch_work_error=0.1)
    other = make_trace([[[(0, range(1))]]], whole=False, launch_work=6.0, launch_work_error=0.3)
    work = launch_work([one, other])
    assert work.of_traced == pytest.approx(3.0)
    assert work.error == pytest.approx(0.15)
    assert work.half_width == pytest.approx(2.15)


def test_files_keep_it_and_impossible_numbers_are_refused(tmp_path: Any) -> None:
    trace = make_trace([[[(0, range(3))]]], whole=False, launch_work=1.25, launch_work_error=0.5)
    memsim.write_trace(trace, tmp_path / "a.trace")
    again = memsim.read_trace(tmp_path / "a.trace")
    assert (again.launch_work, again.launch_work_error) == (1.25, 0.5)
    for wrong in ({"launch_work": 0.0}, {"launch_work": np.nan}, {"launch_work_error": -1.0}):
        with pytest.raises(TraceError, match="launch_work"):
            trace.replace(**wrong)
