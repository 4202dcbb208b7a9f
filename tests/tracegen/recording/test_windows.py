"""Windows of the run of long groups, against whole groups and counts by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import memsim
import tracegen
from calib.prediction.prediction import predict_replayed
from experiments.kernels import warp_group_steps
from memsim.bounds import widened, with_open_hits
from memsim.report.launch_totals import LaunchTotals, launch_totals
from memsim.trace import Trace
from tracegen.executed import windows as executed
from tracegen.executed.launches import _run, bound_launches
from tracegen.executed.run import ExecutedRun
from tracegen.options import TraceOptions
from tracegen.recording import snapshot, windows

MACHINE = memsim.load_machine("rtx3090")
COLUMNS = """
extern "C" __global__ void columns(const float *x, float *y, int n)
{
  int i = blockIdx.x * blockDim.x + threadIdx.x, all = gridDim.x * blockDim.x;
  float sum = 0;
#pragma unroll 1
  for (int k = 0; k < n; k++)
    sum += x[(size_t)k * all + i];
  y[i] = sum;
}
"""
TILES = """
extern "C" __global__ void tiles(const float *x, float *y, int n)
{
  __shared__ float tile[64];
  float sum = 0;
  for (int k = 0; k < n; k++) {
    tile[threadIdx.x] = x[k * 64 + threadIdx.x];
    __syncthreads();
    sum += tile[63 - threadIdx.x];
    __syncthreads();
  }
  y[blockIdx.x * 64 + threadIdx.x] = sum;
}
"""
PHASES = """
extern "C" __global__ void phases(const float *x, float *y, int n)
{
  int i = blockIdx.x * blockDim.x + threadIdx.x, all = gridDim.x * blockDim.x;
  float sum = 0;
#pragma unroll 1
  for (int k = 0; k < n / 2; k++)
    sum += x[k * all + i];
#pragma unroll 1
  for (int k = 0; k < n / 2; k++)
    sum += x[i * n + k];
  y[i] = sum;
}
"""
GENERIC = """
extern "C" __global__ void generic(const float *x, float *y, int n)
{
  __shared__ float tile[64];
  tile[threadIdx.x] = threadIdx.x;
  __syncthreads();
  float sum = 0;
#pragma unroll 1
  for (int k = 0; k < n; k++) {
    const float *from = k % 4 ? tile : x + k * 64;
    sum += from[threadIdx.x];
  }
  y[blockIdx.x * 64 + threadIdx.x] = sum;
}
"""


def workload(source: str, n: int, groups: int, block: int) -> tracegen.CudaWorkload:
    name = source.split("void ")[1].split("(")[0]
    items = groups * block
    size = n * 64 if name == "tiles" else n * items
    arguments = {"x": np.ones(size, np.float32), "y": np.zeros(items, np.float32), "n": n}
    return tracegen.CudaWorkload(
        source=source, kernel=name, arguments=arguments, grid=groups, block=block
    )


def run_of(made: tracegen.CudaWorkload, machine: memsim.Machine = MACHINE) -> ExecutedRun:
    options = TraceOptions()
    return _run(next(bound_launches(made, machine, options)), made, machine, options)


def traced(
    made: tracegen.CudaWorkload,
    monkeypatch: pytest.MonkeyPatch,
    granules: int | None,
    snapshots: int = 3,
) -> list[Trace]:
    """Snapshots of a launch: in windows of so many granules, or of whole groups."""
    with monkeypatch.context() as patch:
        patch.setattr(executed, "CHEAP_STEPS", 1 if granules else 1 << 60)
        patch.setattr(windows, "GRANULES", granules)
        if granules:
            patch.setattr(snapshot, "within_budget", lambda groups, *_: groups[:1])
        options = TraceOptions(start=snapshots > 1)
        return tracegen.trace_snapshots(made, MACHINE, snapshots=snapshots, options=options)


def totals(replay: memsim.Replay) -> LaunchTotals:
    found = [launch_totals(with_open_hits(replay.dataset, k)) for k in ("likely", "none", "every")]
    return widened(*found)


@pytest.mark.parametrize(("source", "by_barriers"), [(COLUMNS, False), (TILES, True)])
def test_a_window_is_a_part_of_the_whole(source: str, by_barriers: bool) -> None:
    """Steps 10 to 19 of each sub-group, accesses or barriers, in a run that has recorded nothing before."""
    made = workload(source, 40, 2, 64)
    whole = run_of(made).execution.run(np.arange(2))
    chosen = np.array([[10, 20], [10, 20]])
    part = run_of(made).execution.run(np.arange(2), windows=chosen, by_barriers=by_barriers)
    starts = np.concatenate([[0], np.cumsum(whole.subgroup_accesses)])
    own = np.concatenate([[0], np.cumsum(part.subgroup_accesses)])
    ends, own_ends = (np.concatenate([[0], one.granule_end]) for one in (whole, part))
    for k in range(len(starts) - 1):
        access = whole.access[starts[k] : starts[k + 1]]
        is_step = access < 0 if by_barriers else access >= 0
        before = np.cumsum(is_step) - is_step
        at = np.flatnonzero((before >= 10) & (before < 20))
        assert part.access[own[k] : own[k + 1]].tolist() == access[at].tolist()
        first, last = starts[k] + at[0], starts[k] + at[-1]
        granules = part.granule[own_ends[own[k]] : own_ends[own[k + 1]]]
        assert granules.tolist() == whole.granule[ends[first] : ends[last + 1]].tolist()
    assert part.progress.tolist() == [20] * len(part.progress)


def test_one_that_has_passed_its_window_goes_on_for_those_that_wait_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A warp group copies eight slabs, two tiles each, of which it passes four; the other stores when it has multiplied all."""
    run = run_of(warp_group_steps.product("apart", 512), memsim.load_machine("h100"))
    whole = run.execution.run(np.arange(1))
    part = run.execution.run(np.arange(1), windows=np.array([[4, 8]]))
    starts = np.concatenate([[0], np.cumsum(whole.subgroup_accesses)])
    own = np.concatenate([[0], np.cumsum(part.subgroup_accesses)])
    steps = [whole.access[starts[k] : starts[k + 1]] for k in range(8)]
    passed = [part.access[own[k] : own[k + 1]] for k in range(8)]
    assert [one[one >= 0].tolist() for one in passed] == [
        one[one >= 0][4:8].tolist() for one in steps
    ]
    assert sum(len(one) > 0 for one in passed) == 5
    assert part.progress.max() >= 8
    monkeypatch.setattr(executed, "CHEAP_STEPS", 1)
    assert executed.sampled_run(run) is None, "where one copies, equal steps are no equal times"
    monkeypatch.setattr(executed, "REST", -1)
    assert executed.sampled_run(run) is not None


@pytest.mark.parametrize(("source", "by_barriers"), [(COLUMNS, False), (TILES, True)])
def test_windows_of_copied_groups(source: str, by_barriers: bool) -> None:
    """They are those of groups that are executed; a group whose window lies elsewhere is no copy."""
    chosen = np.array([[10, 20], [10, 20], [12, 25], [10, 20], [12, 25]])
    made = []
    for copies in (False, True):
        execution = run_of(workload(source, 40, 5, 64)).execution
        if not copies:
            execution.__dict__["movement"] = None
        one = execution.run(np.arange(5), windows=chosen, by_barriers=by_barriers)._asdict()
        del one["seconds"], one["like"]
        made.append({name: np.asarray(of).tolist() for name, of in one.items()})
        assert (execution.movement is None) != copies
    assert made[0] == made[1]
    assert made[0]["progress"] == [20] * 4 + [25] * 2 + [20] * 2 + [25] * 2


def test_runs_are_counted_by_hand() -> None:
    """Two groups of two sub-groups load 40 times each and store once, and are short enough to be traced whole. By one instruction, 30
    of 40 loads are of local memory."""
    (whole,) = tracegen.trace_snapshots(workload(COLUMNS, 40, 2, 64), MACHINE, snapshots=1)
    assert whole.warming is None
    counted = run_of(workload(COLUMNS, 40, 2, 64)).counted(np.arange(2), by_barriers=False)
    assert sorted(counted.runs.tolist()) == [4, 160]
    assert counted.progress.tolist() == [41] * 4
    assert len(counted.granule) == 0
    tiles = run_of(workload(TILES, 40, 2, 64)).counted(np.arange(2), by_barriers=True)
    assert tiles.progress.tolist() == [80] * 4
    generic = run_of(workload(GENERIC, 40, 2, 64)).counted(np.arange(2), by_barriers=False)
    assert sorted(generic.runs.tolist()) == [0, 4, 40]
    assert generic.progress.tolist() == [11] * 4


def test_windows_lie_in_equal_parts_and_at_both_ends() -> None:
    found = windows.windows(1000, 10, 500.0, 40, 4)
    assert [one.counted_from - one.begin for one in found] == [24] * 5 + [0]
    parts = (2, 0, 3, 1)  # the order of 0.62, 0.24, 0.85 and 0.47, multiples of the golden ratio
    assert [one.begin // 125 for one in found[:4]] == list(parts)
    assert [one.groups[0] // 250 for one in found[:4]] == [0, 1, 2, 3]
    assert all(one.groups[0] % 10 == 0 and len(one.groups) == 10 for one in found)
    rest = windows.windows(1004, 10, 500.0, 40, 4) + windows.windows(104, 10, 500.0, 40, 4)
    assert [(one.share, *one.groups) for one in rest if len(one.groups) < 10] == [
        (4 / 104, 100, 101, 102, 103)
    ]
    assert (found[4].end, found[4].counted_from) == (516, 484)
    assert (found[5].begin, found[5].end) == (0, 16)
    assert [one.share for one in found] == [0, 0, 0, 0, 0.032, 0.032]
    assert len(windows.windows(1000, 10, 500.0, 40, 1)) == 1


def test_a_window_counts_whole_trips() -> None:
    """Of 23 steps a loop of three makes four trips, and one of 30 none."""
    trips = {1: 16, 3: 12, 10: 20, 23: 23, 32: 16, 100: 12}
    assert {trip: windows.whole_trips(23, trip) for trip in trips} == trips
    assert windows.whole_trips(1000, 3) == 960
    # A trip of 32 steps does not fit into half of the window, but costs less than twice as much.
    for trip, steps, counted in ((3, 46, 12), (32, 64, 32), (64, 46, 16)):
        (one,) = windows.windows(1000, 10, 500.0, 46, 1, trip)
        assert (one.end - one.begin, one.end - one.counted_from) == (steps, counted)


def test_a_trip_is_counted_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """A load; two barriers of each of four tiles, for the compiler unrolls that loop; and eight loads."""
    monkeypatch.setattr(executed, "CHEAP_STEPS", 1)
    unrolled = COLUMNS.replace("unroll 1", "unroll 8").replace("columns", "unrolled")
    found = [
        executed.sampled_run(run_of(workload(source, 400, 20, 64)))
        for source in (COLUMNS, TILES, unrolled)
    ]
    assert [one.trip for one in found if one is not None] == [1, 8, 8]


def test_groups_that_do_nothing_have_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 40 groups the first five load and the others end at once: eight are looked at, one of them long."""
    monkeypatch.setattr(executed, "CHEAP_STEPS", 100)
    ends = COLUMNS.replace("  float sum", "  if (blockIdx.x >= 5) return;\n  float sum")
    sampled = executed.sampled_run(run_of(workload(ends, 400, 40, 64)))
    assert sampled is not None
    assert (len(sampled.groups), sampled.steps) == (8, 401)
    assert sampled.accesses.mean() == 2 * 401 / 8
    assert executed.sampled_run(run_of(workload(ends.replace(">= 5", ">= 0"), 400, 40, 64))) is None


@pytest.mark.parametrize("copies", [True, False])
@pytest.mark.parametrize(("source", "by_barriers"), [(COLUMNS, False), (TILES, True)])
def test_what_came_before_a_window(
    source: str, by_barriers: bool, copies: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against the accesses of a run of all groups: those of the window's groups before it, and of waves of eight before these."""
    run = run_of(workload(source, 200, 40, 64))
    monkeypatch.setattr(executed, "CHEAP_STEPS", 1)
    sampled = executed.sampled_run(run)
    assert sampled.by_barriers == by_barriers
    if not copies:
        run.execution.__dict__["movement"] = None
    window = windows.Window(np.arange(20, 28), 60, 90, 75)
    granules = [
        np.unique(run.recorded(np.arange(first, first + 8), steps, by_barriers).granule)
        for first, steps in ((20, [[0, 60]] * 8), (12, [[0, 1 << 40]] * 8), (4, [[0, 1 << 40]] * 8))
        for steps in [np.array(steps)]
    ]
    for enough, n_waves in ((1, 0), (32 * len(granules[0]) + 1, 1), (1 << 50, 3)):
        monkeypatch.setattr(executed, "enough_bytes", lambda machine, enough=enough: enough)
        touched = executed.touched_before(run, sampled, window, 8, {})
        found = np.concatenate([np.arange(*one) for one in touched.ranges])
        assert touched.n_groups == (0, 8, 16, 20)[n_waves]
        everything = np.unique(np.concatenate(granules[: n_waves + 1]))
        assert np.isin(found, everything).all() or n_waves == 3
        if enough == 1:  # the latest part alone
            assert len(found) < len(granules[0])
        else:
            assert np.isin(granules[0], found).all()
        if n_waves == 3:
            first = run.recorded(np.arange(4), np.array([[0, 1 << 40]] * 4), by_barriers).granule
            assert found.tolist() == np.unique(np.concatenate([everything, first])).tolist()
    monkeypatch.setattr("tracegen.recording.earlier.BUDGET_GRANULES", 10)
    assert executed.touched_before(run, sampled, window, 8, {}) is None  # it would take too long


def test_what_came_before_several_windows_is_executed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three windows of the same groups each finds what it finds alone, and no part of the run is looked at twice."""
    run, looked = run_of(workload(COLUMNS, 200, 8, 64)), []
    monkeypatch.setattr(executed, "CHEAP_STEPS", 1)
    monkeypatch.setattr(executed, "enough_bytes", lambda machine: 1 << 50)
    sampled, touched, kept = executed.sampled_run(run), run.touched, {}
    monkeypatch.setattr(
        run,
        "touched",
        lambda groups, steps, by: looked.append(steps[0]) or touched(groups, steps, by),
    )
    for begin in (40, 90, 150):
        window = windows.Window(np.arange(8), begin, begin + 20, begin + 10)
        together = executed.touched_before(run, sampled, window, 8, kept)
        n = len(looked)
        alone = executed.touched_before(run, sampled, window, 8, {})
        del looked[n:]
        assert together.ranges.tolist() == alone.ranges.tolist()
    parts = np.zeros(150, np.int64)
    for begin, end in looked:
        parts[begin:end] += 1
    assert (parts == 1).all()


def test_what_warms_ends_between_the_same_barriers() -> None:
    """Of two sub-groups the second is a barrier ahead after three accesses: it is counted from that barrier on."""
    access = np.array([5, 5, 5, 5, -1, 5, 5, 5, -1, 5, 5, 5], np.int32)
    offset = np.array([0, 7, 12])
    assert windows.warming(access, offset, 3, False, 2).tolist() == [3, 1]
    assert windows.warming(access, offset, 1, True, 2).tolist() == [5, 2]


@pytest.mark.parametrize(("source", "n", "block"), [(COLUMNS, 512, 128), (TILES, 512, 64)])
def test_windows_say_what_whole_groups_say(
    source: str, n: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = workload(source, n, 200, block)
    everything, traces = (traced(made, monkeypatch, granules) for granules in (None, 20_000))
    whole = memsim.replay(everything, MACHINE, trials=4)
    assert sum(one.traced_part for one in traces) < 0.6
    assert all(one.warming is not None and not one.whole for one in traces)
    assert "windows of it were traced" in traces[0].provenance["compiler"]["notes"][0]
    replay = memsim.replay(traces, MACHINE, trials=10)
    expected, found = totals(whole), totals(replay)
    assert found.requested_bytes.mean == pytest.approx(expected.requested_bytes.mean, rel=1e-3)
    for way in ("read_bytes", "write_bytes"):
        for name, value in getattr(expected.moved, way).items():
            interval = getattr(found.moved, way)[name]
            assert interval.low <= value.mean * 1.001
            assert value.mean <= interval.high * 1.001
    floors: list[Any] = [
        predict_replayed(each, one, MACHINE).timing.floor_means_s
        for each, one in ((everything, whole), (traces, replay))
    ]
    for name in ("arithmetic", "L1"):
        assert floors[1][name] == pytest.approx(floors[0][name], rel=0.03)


def test_phases_that_differ_widen_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second half of each group's run reads rows instead of columns."""
    made = workload(PHASES, 256, 200, 128)
    whole, found = (
        totals(memsim.replay(traced(made, monkeypatch, granules), MACHINE, trials=trials))
        for granules, trials in ((None, 4), (50_000, 10))
    )
    for name, value in whole.moved.read_bytes.items():
        estimate = found.moved.read_bytes[name]
        assert estimate.low <= value.mean <= estimate.high
        assert estimate.half_width > 0.1 * estimate.mean
    assert found.requested_bytes.mean == pytest.approx(whole.requested_bytes.mean, rel=1e-3)


def test_groups_that_begin_together_are_dealt_to_all_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """200 groups on 82 cores, which hold 16 each: a tile is read once by each core, not by those that a random deal leaves out. What is
    stored at the end is dirty when the launch ends, and stays in L2."""
    traces = traced(workload(TILES, 512, 200, 64), monkeypatch, 80_000)
    found = totals(memsim.replay(traces, MACHINE, trials=10)).moved
    assert found.read_bytes["L2"].mean == pytest.approx(82 * 512 * 256, rel=1e-3)
    assert found.write_bytes["DRAM"].mean == 0


def test_what_no_window_has_is_said_and_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single short window lies in one of two loops: the report says so, and the interval contains twice as much."""
    traces = traced(workload(PHASES, 256, 200, 128), monkeypatch, 1, snapshots=1)
    (note, *_) = traces[0].provenance["compiler"]["notes"]
    assert "1 windows of it were traced" in note
    assert "Accesses that no window has are 50 % of all; the bytes of their misses are not" in note
    assert traces[0].launch_work_error == pytest.approx(0.5, abs=0.01)
    found = totals(memsim.replay(traces, MACHINE, trials=4)).requested_bytes
    assert found.parts["groups"] == pytest.approx(0.5 * found.mean, rel=0.02)
