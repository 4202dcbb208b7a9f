"""Bytes of a whole launch: hand counts, and a snapshot scaled to its launch."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import memsim
from memsim.bounds import with_open_hits
from memsim.latency import DRAM
from memsim.report import text
from memsim.report.launch_totals import LaunchTotals, launch_totals
from memsim.report.summary import summarise
from memsim.report.table import launch_lines
from memsim.statistics import PAST, Estimate
from memsim.trace.model import ArrayExtent, Trace
from tests.support.small_machines import level, machine
from tests.support.traces import make_trace, sites

GROUPS = 64


def two_arrays(*, groups: int = GROUPS, of_groups: int = GROUPS) -> Trace:
    """Each group sweeps all 16 granules of x, twice, and reads and writes a granule of its own in y."""
    sweep = [(0, [k]) for k in range(16)] * 2
    trace = make_trace(
        [[[*sweep, (1, [16 + g]), (2, [16 + g])]] for g in range(groups)],
        ("load", "load", "store"),
        whole=groups == of_groups,
    )
    named = [
        dataclasses.replace(site, array=array)
        for site, array in zip(sites("load", "load", "store"), "xyy", strict=True)
    ]
    arrays = (
        ArrayExtent(name="x", base_bytes=0, size_bytes=512),
        ArrayExtent(name="y", base_bytes=512, size_bytes=32 * of_groups),
    )
    launch = dataclasses.replace(trace.launch, n_groups=of_groups)
    return trace.replace(sites=tuple(named), arrays=arrays, launch=launch)


def on(*, l2_lines: int = 256) -> memsim.Machine:
    return machine(
        level("L1", ways=1),
        level("L2", ways=l2_lines, cores_per_instance=4, write_policy="write_through"),
        cores=4,
        max_groups=2,
    )


def test_a_whole_launch_counts_as_it_is() -> None:
    """The L2 holds everything: x and y are read once. L1 has one line: each load goes to the L2."""
    totals = launch_totals(memsim.replay(two_arrays(), on(), trials=3).dataset)
    assert not totals.is_scaled
    by_name = {one.name: one for one in totals.arrays}
    assert (by_name["x"].times_read, by_name["y"].times_read) == (1, 1)
    assert by_name["y"].moved.write_bytes[DRAM].mean == 32 * GROUPS
    assert by_name["y"].moved.read_bytes["L2"].mean == 32 * GROUPS
    assert totals.moved.read_bytes[DRAM].mean == 512 + 32 * GROUPS
    assert totals.requested_bytes.mean == 32 * 34 * GROUPS
    # An L2 of one line, and a file that does not know the sizes of arrays.
    dataset = memsim.replay(two_arrays(), on(l2_lines=1), trials=3).dataset
    assert {one.name: one for one in launch_totals(dataset).arrays}["x"].times_read > 20
    del dataset.attrs["arrays"]
    assert all(np.isnan(one.times_read) for one in launch_totals(dataset).arrays)


def test_the_validated_error_of_hit_ratios_is_one_of_bytes() -> None:
    """33 loads of a sector in each group go to L1, where one in fifty may hit or not; those that miss go to L2."""
    for points in ({}, {"L1": 2.0}, {"L1": 2.0, "L2": 3.0}):
        replay = memsim.replay(two_arrays(), on().replace(model_error_points=points), trials=3)
        totals = launch_totals(replay.dataset)
        from_l2 = totals.moved.read_bytes["L2"].mean
        assert 0 < from_l2 < 32 * 33 * GROUPS
        expected = {"L2": 0.02 * 32 * 33 * GROUPS} if "L1" in points else {}
        expected |= {DRAM: 0.03 * from_l2} if "L2" in points else {}
        assert totals.model_error_bytes == pytest.approx(expected)
        named = {name for name in ("L2", DRAM) if f"{name} " in _with_model(totals)}
        assert named == set(expected)


def test_a_hit_more_or_less_is_as_many_bytes_as_a_miss_fetches() -> None:
    """Each group loads every other sector once: L1 fetches these, and L2 the ones beside them too."""
    trace = make_trace([[[(0, [2 * g])]] for g in range(GROUPS)], ("load",))
    pairs = machine(
        level("L1", line=64, sector=32),
        level("L2", line=64, sector=32, fill=64, ways=GROUPS, cores_per_instance=4),
        cores=4,
        max_groups=2,
    ).replace(model_error_points={"L1": 2.0, "L2": 3.0})
    totals = launch_totals(memsim.replay(trace, pairs, trials=3).dataset)
    assert totals.moved.read_bytes[DRAM].mean == 64 * GROUPS
    expected = {"L2": 0.02 * 32 * GROUPS, DRAM: 0.03 * 64 * GROUPS}
    assert totals.model_error_bytes == pytest.approx(expected)


def _with_model(totals: LaunchTotals) -> str:
    """Of the line of the whole launch, what has the model's error."""
    parts = launch_lines(totals)[0].removeprefix("whole launch: ").split("; ")
    return "; ".join(part for part in parts if "read (model ± " in part)


@pytest.mark.filterwarnings("ignore::memsim.errors.SnapshotWarning")
def test_a_snapshot_is_scaled_to_the_launch() -> None:
    """A quarter of the launch, of which a part is counted: y is written once by every group of it."""
    trace = two_arrays(groups=GROUPS, of_groups=4 * GROUPS)
    totals = launch_totals(memsim.replay(trace, on(), trials=4).dataset)
    assert totals.is_scaled
    assert totals.factor.mean > 4
    (y,) = (one for one in totals.arrays if one.name == "y")
    assert y.moved.write_bytes[DRAM].mean == pytest.approx(32 * 4 * GROUPS, rel=1e-9)
    assert y.times_read == pytest.approx(1, rel=1e-9)


def test_lines_for_people() -> None:
    of_one = on().replace(n_schedulers=1)
    replay = memsim.replay(two_arrays(), of_one, trials=3, deviation=False)
    first, y, x = launch_lines(summarise(replay.dataset).launch)
    assert first.startswith("whole launch: L2 ")
    # Two groups in step share what the single line of L1 holds: half of 64 KiB.
    assert x == "  x: 512 B, read 1.0 times; L2 32.0 KiB read; DRAM 512 B read"
    assert y.startswith("  y: 2.0 KiB, read 1.0 times; L2 2.0 KiB read, 2.0 KiB written; DRAM 2.0")


def test_bytes_with_their_interval() -> None:
    mib = 2.0**20
    shown = {(3 * mib, mib / 4): "3.0 ± 0.2 MiB", (3 * mib, 1024.0): "3.0 MiB", (3 * mib, 3 * mib): "3.0 ± 3.0 MiB",
             (3 * mib, 4 * mib): "3.0 (0.0 to 7.0) MiB", (200 * 1024.0, np.nan): "200 KiB"}  # fmt: skip
    for (mean, half_width), words in shown.items():
        size = Estimate(mean=mean, half_width=half_width, sigma=0.0, n_trials=5)
        assert text.byte_estimate(size.between(0.0)) == words


def written_back(trace: Trace, *, l2_lines: int = 64) -> Estimate:
    """DRAM bytes that the launch writes, with an L2 that keeps stores; as reports show it."""
    keeps = {"write_policy": "write_back", "write_allocate": "no_fetch"}
    l2 = level("L2", ways=l2_lines, cores_per_instance=4, **keeps)
    on = machine(level("L1", ways=1), l2, cores=4, max_groups=2)
    return summarise(memsim.replay(trace, on, trials=4).dataset).launch.moved.write_bytes[DRAM]


def storing(groups: int, of_groups: int, first: int = 0) -> Trace:
    """Each group reads and writes two granules of its own."""
    trace = make_trace(
        [[[(s, [2 * (first + g) + k]) for k in range(2) for s in (0, 1)]] for g in range(groups)],
        ("load", "store"),
        whole=groups == of_groups,
    )
    launch = dataclasses.replace(trace.launch, n_groups=of_groups)
    return trace.replace(
        launch=launch,
        workgroup=trace.workgroup + first,
        earlier=np.array([[0, 2 * first]], np.int64) if first else None,
        earlier_groups=first,
    )


def test_what_stays_dirty_is_not_written_back() -> None:
    """Of 512 granules that are stored, the 64 of the last groups stay in the L2."""
    assert written_back(storing(256, 256)).mean == 32 * (512 - 64)


@pytest.mark.filterwarnings("ignore::memsim.errors.SnapshotWarning")
@pytest.mark.parametrize("n_groups", [10, 40, 80])
def test_neither_does_it_in_a_snapshot(n_groups: int) -> None:
    """Whether or not the snapshot has written back anything: the L2 holds what 32 groups store. Ten fill a third
    of it, so what earlier groups left in the rest may be dirty."""
    written = written_back(storing(n_groups, 256, first=100))
    assert written.low <= 32 * (512 - 64) <= written.high
    if n_groups == 10:
        assert written.parts["past"] > 0
    else:
        assert written.mean == pytest.approx(32 * (512 - 64), rel=0.01)


def test_arrays_whose_order_is_open_are_not_taken_for_each_other() -> None:
    """If earlier groups have left all of x in the L2, y is the array that is read most from DRAM. L1 asks for both as before."""
    replay = memsim.replay(two_arrays(), on(l2_lines=1), trials=3)
    missed = replay.dataset["accesses"] - replay.dataset["hits"]
    is_open = (replay.dataset["level"] == "L2") & (replay.dataset["array"] == "x")
    opened = (missed * is_open).transpose(*replay.dataset["hits"].dims)
    dataset = replay.dataset.assign(open=opened, likely=0 * opened)
    ends = [launch_totals(with_open_hits(dataset, hits)) for hits in ("none", "every")]
    assert ends[0].ranked().arrays[0].name == "x"
    assert ends[1].ranked().arrays[0].name == "y"
    launch = dataclasses.replace(replay, dataset=dataset).launch
    assert [one.name for one in launch.arrays] == ["x", "y"]
    for one in launch.arrays:
        assert PAST not in one.moved.read_bytes["L2"].parts
    assert [PAST in one.moved.read_bytes[DRAM].parts for one in launch.arrays] == [True, False]
