"""Many trials: when they stop, the effect of Ctrl-C, and independence of the workers."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import typeof

from memsim.errors import ReplayError
from memsim.hierarchy.cache import ACCESSES, HITS, N_COUNTS, OPEN, PENDING
from memsim.hierarchy.dram import DramSample
from memsim.machine.file import load_machine
from memsim.montecarlo import plan_files
from memsim.montecarlo.one_launch import replay
from memsim.montecarlo.plan import Plan, make_plan
from memsim.montecarlo.trial import TrialResult, run_trial
from memsim.montecarlo.workers import Stopping, Workers, hit_ratio
from memsim.statistics import ONE_PLACE, Places, describe
from tests.support.order_sensitive import on, trace
from tests.support.traces import make_trace
from tests.support.trials import run_trials, trials_on


@pytest.fixture(scope="module")
def plan() -> Plan:
    return make_plan(trace(), on())[0]


@pytest.fixture(scope="module")
def expected(plan: Plan) -> list[TrialResult]:
    return [run_trial(plan, 5, i) for i in range(6)]


def check_equal(found: list[TrialResult], expected: list[TrialResult]) -> None:
    assert [result.trial for result in found] == [result.trial for result in expected]
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine.counts, theirs.counts)
        np.testing.assert_array_equal(mine.dram.latency_cycles, theirs.dram.latency_cycles)
        assert mine.dram.row_hit_ratio == theirs.dram.row_hit_ratio
        assert mine.dram_read_bytes == theirs.dram_read_bytes
        assert mine.dram_write_bytes == theirs.dram_write_bytes


def result(*hits: int, of: int = 100) -> TrialResult:
    """A trial of one level with the given hits of each site; -1 for no accesses."""
    counts = np.zeros((1, len(hits), N_COUNTS), np.int64)
    counts[0, :, ACCESSES] = [0 if n < 0 else of for n in hits]
    counts[0, :, HITS] = [max(0, n - 1) for n in hits]
    counts[0, :, PENDING] = [min(1, max(0, n)) for n in hits]
    none = np.zeros(0, np.int64)
    return TrialResult(0, counts, DramSample(np.zeros(0, np.float32), 0.0), 0, 0, None, none, none)


def test_never_stops_before_32_trials() -> None:
    stopping = Stopping(0.01)
    enough = [stopping.enough(result(50)) for _ in range(36)]
    assert enough == [False] * 31 + [True] * 5
    assert not any(Stopping(None).enough(result(50)) for _ in range(40)), "no half-width"


def test_stops_when_every_interval_is_narrow_enough() -> None:
    rng = np.random.default_rng(1)
    ratios = rng.integers(30, 70, size=(120, 4))
    ratios[::3, 2] = -1  # undefined in every third trial
    ratios[:, 3] = 30 * (rng.random(120) < 0.1)  # skewed
    half_width = 0.03
    stopping = Stopping(half_width)
    for i, row in enumerate(ratios):
        enough = stopping.enough(result(*row))
        widths = []
        for site in ratios[: i + 1].T:
            values = site[site >= 0] / 100
            if len(values) > 1:
                widths.append(describe(values).half_width)
        assert enough == (i >= 31 and max(widths) <= half_width)
    assert enough  # both outcomes were seen
    np.testing.assert_array_equal(hit_ratio(result(50, 0, -1).counts), [[0.5, 0.0, np.nan]])


def with_open(hits: int, n_open: int) -> TrialResult:
    one = result(hits)
    one.counts[0, :, OPEN] = n_open
    return one


@pytest.mark.parametrize(
    ("n_open", "model_error", "least"),
    [(0, 0.0, 8), (0, 0.04, 8), (0, 0.06, 8), (6, 0.0, 8), (0, 0.08, 4), (0, 0.3, 4), (0, 0.3, 8)],
)
def test_stops_where_the_ordering_matters_little_beside_what_else_is_open(
    n_open: int, model_error: float, least: int
) -> None:
    stopping = Stopping(0.008, ONE_PLACE, np.array([[model_error]]), least)
    hits = [48 + 4 * (i % 2) for i in range(40)]
    enough = [stopping.enough(with_open(n, n_open)) for n in hits]
    small = (0.008 + model_error + n_open / 200) / 4
    for n in range(least, 41):
        limit = small if n < 32 else max(small, 0.008)
        assert enough[n - 1] == (describe(np.array(hits[:n]) / 100).half_width <= limit)
    assert not any(enough[: least - 1])
    assert enough[-1]


def test_the_ordering_is_judged_within_a_place() -> None:
    """Places that differ by 20 points, without any difference between orderings."""
    stopping = Stopping(0.005, Places(3), np.zeros((1, 1)))
    enough = [stopping.enough(result(40 + 10 * (i % 3))) for i in range(10)]
    assert enough == [False] * 7 + [True] * 3


def test_trials_are_numbered_and_stop_in_order(plan: Plan, expected: list[TrialResult]) -> None:
    found, interrupted = run_trials([plan], seed=5, trials=6)
    assert not interrupted
    check_equal(found, expected)
    steady = make_plan(make_trace([[[(0, [1])]]]), on())[0]
    assert len(run_trials([steady], seed=0, trials=40, ci=0.1)[0]) == 32
    assert len(run_trials([steady], seed=0, trials=7, ci=0.1)[0]) == 7


def test_snapshots_take_turns(plan: Plan) -> None:
    other = make_plan(trace(6), on())[0]
    found, _ = run_trials([plan, other], seed=5, trials=4)
    check_equal(found, [run_trial((plan, other)[i % 2], 5, i) for i in range(4)])


def test_a_plan_in_files_is_the_same_plan(
    plan: Plan, expected: list[TrialResult], tmp_path: Path
) -> None:
    """Its machine may be one whose L1 is smaller beside local memory."""
    plan_files.save(plan, tmp_path)
    opened = plan_files.load(tmp_path)
    assert (opened.machine.levels, opened.machine.dram) == (plan.machine.levels, plan.machine.dram)
    assert opened.ordering == plan.ordering
    assert typeof(opened.requests) == typeof(plan.requests), "so that workers compile nothing anew"
    check_equal([run_trial(opened, 5, i) for i in range(6)], expected)
    v100, few = load_machine("v100"), trace(2)
    few = few.replace(launch=dataclasses.replace(few.launch, local_memory_bytes=20 * 1024))
    carved = make_plan(few, v100)[0]
    assert carved.machine.levels[0].size_bytes < v100.levels[0].size_bytes
    (tmp_path / "carved").mkdir()
    plan_files.save(carved, tmp_path / "carved")
    assert plan_files.load(tmp_path / "carved").machine == carved.machine


def test_two_workers_give_the_numbers_of_one(
    plan: Plan, expected: list[TrialResult], tmp_path: Path
) -> None:
    seen: list[int] = []
    run = {"seed": 5, "trials": 6, "jobs": 2, "scratch": tmp_path}
    found, interrupted = run_trials([plan], progress=lambda done, of: seen.append(done), **run)
    assert not interrupted
    check_equal(found, expected)
    assert seen == [1, 2, 3, 4, 5, 6]
    assert not list(tmp_path.iterdir())
    one, two = (run_trials([plan], seed=2, trials=60, jobs=jobs, ci=0.03)[0] for jobs in (1, 2))
    assert 16 <= len(one) < 60
    check_equal(two, one)


def stopped_after(n: int) -> Iterator[None]:
    """A progress bar during which Ctrl-C is pressed."""
    for _ in range(n - 1):
        yield
    raise KeyboardInterrupt


@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_keeps_what_is_done(plan: Plan, expected: list[TrialResult], jobs: int) -> None:
    pressed = stopped_after(3)
    found, interrupted = run_trials(
        [plan], seed=5, trials=6, jobs=jobs, progress=lambda done, of: next(pressed)
    )
    assert interrupted
    check_equal(found, expected[:3])


def test_ctrl_c_marks_the_replay() -> None:
    pressed = stopped_after(3)
    cut = replay(trace(), on(), trials=6, seed=5, progress=lambda done, of: next(pressed))
    assert cut.n_trials == 3
    assert cut.attrs["interrupted"] == 1
    assert replay(trace(), on(), trials=3, seed=5).attrs["interrupted"] == 0


def test_ctrl_c_before_the_first_trial_is_not_swallowed(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pressed(*_: object, **__: object) -> TrialResult:
        raise KeyboardInterrupt

    monkeypatch.setattr("tests.support.trials.run_trial", pressed)
    with pytest.raises(KeyboardInterrupt):
        run_trials([plan], seed=5, trials=6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"warmup_waves": 2}, "warmup_waves must be below the snapshot's 2 waves, got 2"),
        ({"weights": [1, 2]}, "weights must be 24 positive integers"),
    ],
)
def test_options_that_do_not_fit_the_trace_are_refused(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ReplayError, match=message):
        replay(trace(), on(), trials=2, **options)


def test_other_widths_and_empty_traces_are_refused() -> None:
    with pytest.raises(ReplayError, match="sub-groups of 64 and machine made of 32"):
        replay(make_trace([[[(0, [1])]]], subgroup_size=64), on(), trials=2)
    with pytest.raises(ReplayError, match="at least one group"):
        replay(make_trace([]), on(), trials=2)


def test_a_dask_cluster_gives_the_same_numbers(
    plan: Plan, expected: list[TrialResult], tmp_path: Path
) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, dashboard_address=":0"
    ) as cluster:
        where = {"backend": "dask", "scheduler": cluster.scheduler_address, "scratch": tmp_path}
        found, interrupted = run_trials([plan], seed=5, trials=6, **where)
    assert not interrupted
    check_equal(found, expected)
    assert not list(tmp_path.iterdir())


def die(plan: Plan, workspace: object, seed: int, k: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_a_dask_worker_that_dies_ends_with_one_line(plan: Plan) -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as cluster,
        Workers([plan], backend="dask", scheduler=cluster.scheduler_address) as workers,
        pytest.raises(ReplayError, match="a worker process died"),
    ):
        trials_on(workers, seed=5, trials=6, task=die)


@pytest.mark.slow
def test_a_scheduler_that_does_not_answer_is_named() -> None:
    pytest.importorskip("distributed")
    with pytest.raises(ReplayError, match=r"tcp://127\.0\.0\.1:9 does not answer"):
        replay(trace(), on(), trials=2, backend="dask", scheduler="tcp://127.0.0.1:9")
