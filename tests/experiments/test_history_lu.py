"""The scheduling experiment: task graph, numerical results, policies, and figures."""

import numpy as np
import pytest

from calib.history import Store
from experiments.history import FIGURES, lu_kernels, measured_runs, paper_machine
from experiments.history.execution import Done, execute, simulate
from experiments.history.policies import EarliestFinish, Expected, Greedy
from experiments.history.speeds_and_errors import FromHistory, by_samples, error, overtakes, rows
from experiments.history.task_graph import Task, lu_tasks
from experiments.history.workers import dominant, worker_devices, workers
from memsim.errors import OpenCLError


@pytest.mark.parametrize("n", [1, 2, 8])
def test_a_graph_has_the_tasks_and_operations_of_the_closed_form(n):
    kinds = [task.kind for task in lu_tasks(n)]
    assert kinds.count(lu_kernels.GETRF) == n
    assert (
        kinds.count(lu_kernels.TRSM_LOWER) == kinds.count(lu_kernels.TRSM_UPPER) == n * (n - 1) // 2
    )
    assert kinds.count(lu_kernels.GEMM) == n * (n - 1) * (2 * n - 1) // 6
    operations = sum(lu_kernels.flops(kind, 10_000) for kind in kinds)
    assert operations == pytest.approx(2 / 3 * (n * 10_000) ** 3, rel=1e-3)


def test_a_graph_of_four_tiles_by_hand():
    tasks = lu_tasks(2)
    assert [(t.kind, t.tiles, t.successors, t.n_before, t.priority) for t in tasks] == [
        ("getrf", ((0, 0),), [1, 2], 0, 4),
        ("trsm_lower", ((0, 0), (0, 1)), [3], 1, 3),
        ("trsm_upper", ((0, 0), (1, 0)), [3], 1, 3),
        ("gemm", ((1, 0), (0, 1), (1, 1)), [4], 2, 2),
        ("getrf", ((1, 1),), [], 1, 1),
    ]


def task(number, kind="gemm", priority=1):
    return Task(number=number, kind=kind, tiles=(), successors=(), n_before=0, priority=priority)


def known(times, n=100):
    return lambda task, worker: Expected(time_s=times[worker], n_samples=n)


def test_greedy_gives_the_highest_priority_to_any_free_worker():
    policy = Greedy(known([1.0, 9.0]))
    for number, priority in ((0, 1), (1, 3), (2, 2)):
        policy.push(task(number, priority=priority), 0.0)
    assert [policy.pop(1, 0.0).number, policy.pop(0, 0.0).number, policy.pop(1, 0.0).number] == [
        1,
        2,
        0,
    ]
    assert policy.pop(0, 0.0) is None
    assert policy.expected[1].time_s == 9.0


def test_earliest_finish_by_hand():
    """Worker 0 takes 1 s a task, worker 1 takes 3: ends 1, 2, then 3 against 3 (the first), 4
    against 3. What runs counts, too."""
    policy = EarliestFinish(known([1.0, 3.0]), 2)
    for number in range(5):
        policy.push(task(number), 0.0)
    assert [policy.pop(0, 0.0).number for _ in range(4)] == [0, 1, 2, 4]
    assert policy.pop(0, 0.0) is None
    assert policy.pop(1, 0.0).number == 3
    policy = EarliestFinish(known([1.0, 1.5]), 2)
    policy.push(task(0), 0.0)
    policy.pop(0, 0.0)
    policy.push(task(1), 0.4)  # worker 0 is busy until 1: ends 2 there, 1.9 on the other
    assert policy.pop(1, 0.4).number == 1
    policy.done(task(0), 0, 0.6)  # earlier than expected
    policy.push(task(2), 0.6)
    assert policy.pop(0, 0.6).number == 2


def test_tasks_without_calibration_go_to_the_worker_with_fewest_samples():
    counts = {0: 9, 1: 4}
    policy = EarliestFinish(
        lambda t, worker: Expected(time_s=1.0 if worker else 100.0, n_samples=counts[worker]), 2
    )
    for number in range(7):
        policy.push(task(number), 0.0)
    # Five to worker 1 make nine each; the next goes to the first, the last to the other again.
    assert [policy.pop(1, 0.0).number for _ in range(6)] == [0, 1, 2, 3, 4, 6]
    assert policy.pop(0, 0.0).number == 5


def test_simulated_time_by_hand():
    """One worker takes the sum of the tasks; two equal ones on four tiles take the longest path, 4
    tasks."""
    tasks = lu_tasks(2)
    alone = simulate(tasks, 1, Greedy(known([1.0])), lambda t, w: 1.0)
    assert (alone.seconds, len(alone.done)) == (5.0, 5)
    both = simulate(tasks, 2, Greedy(known([1.0, 1.0])), lambda t, w: 1.0)
    assert both.seconds == 4.0


def test_in_simulation_the_history_overtakes_greedy_after_its_first_run():
    for seed in range(3):
        greedy, by_history = paper_machine.runs(10, 5, seed)
        level = np.mean([run.seconds for run in greedy])
        assert by_history[0].seconds > level, "calibrating costs"
        assert all(run.seconds < level for run in by_history[1:])
        gpu = error([d for d in by_history[-1].done if d.worker == 0])
        # Normal scatter s about a known mean has a mean absolute error of s*sqrt(2/pi).
        assert gpu == pytest.approx(0.001 * np.sqrt(2 / np.pi), rel=0.25)
    again = paper_machine.runs(10, 5, seed)[1]
    assert [run.seconds for run in again] == [run.seconds for run in by_history]


def done(expected, measured, n=1):
    return Done(kind="gemm", worker=0, measured_s=measured, expected_s=expected, n_samples=n)


def test_the_papers_error_by_hand():
    assert error([done(1.0, 2.0), done(5.0, 4.0), done(None, 9.0)]) == pytest.approx(2 / 6)
    assert np.isnan(error([done(None, 1.0)]))
    assert by_samples(
        [done(1.0, 2.0, n=1)] * 5 + [done(1.0, 1.0, n=12)] * 5 + [done(1.0, 3.0, n=4)]
    ) == {(1, 2): 0.5, (10, 19): 0.0}


def test_rows_and_the_overtaking():
    names = ("greedy", "1st", "2nd", "3rd", "from 4th")
    times = ([1.0, 2.0], [3.0], [4.0], [5.0], [6.0, 7.0])
    found = rows([[1.0, 2.0]], [[3.0, 4.0, 5.0, 6.0, 7.0]])
    assert found == dict(zip(names, times, strict=True))
    said = "from iteration 2 on is faster than the mean of the greedy runs; from the 4th on the gain is +50.0 %"
    assert said in overtakes([2.0], [1.0, 3.0, 3.0, 3.0])
    assert "the last run by history is not faster" in overtakes([2.0], [3.0, 3.0, 3.0, 1.0])


@pytest.fixture(scope="module")
def two_devices():
    try:
        return worker_devices()
    except OpenCLError as error:  # a machine of one core
        pytest.skip(str(error))


def test_both_workers_factorise_and_one_that_fails_ends_the_run(two_devices, tmp_path):
    n_tiles, tile = 4, 64
    with Store(tmp_path / "h.db") as store:
        with workers(two_devices, tile, store) as at:
            equal = EarliestFinish(known([1.0, 1.0]), 2)
            for policy in (
                Greedy(known([1.0, 1.0])),
                equal,
                EarliestFinish(FromHistory(store, lambda kind, n: at[n].key(kind)), 2),
            ):
                matrix = dominant(n_tiles, tile, seed=3)
                before = matrix.whole().astype(np.float64)
                for worker in at:
                    worker.forget()
                run = execute(lu_tasks(n_tiles), at, policy, matrix)
                assert len(run.done) == len(lu_tasks(n_tiles))
                # The others go by time: a busy machine may leave all tasks to one worker.
                if policy is equal:
                    assert {d.worker for d in run.done} == {0, 1}
                packed = matrix.whole().astype(np.float64)
                lower = np.tril(packed, -1) + np.eye(len(packed))
                missed = np.abs(lower @ np.triu(packed) - before).max() / np.abs(before).max()
                assert missed < len(before) * np.finfo(np.float32).eps
        # Each launch of three factorisations is in the history, under its own key.
        assert sum(r.seen for r in store.records()) == 3 * len(lu_tasks(n_tiles))
        assert {r.key for r in store.records()} <= {w.key(k) for w in at for k in lu_kernels.KINDS}

        def broken(*_):
            raise ZeroDivisionError

        with workers(two_devices, tile, store) as at:
            at[1].run = broken
            with pytest.raises(ZeroDivisionError):
                execute(lu_tasks(3), at, EarliestFinish(known([1.0, 1.0]), 2), dominant(3, tile))


def test_the_figures_of_real_runs(tmp_path, monkeypatch, two_devices):
    monkeypatch.setattr(measured_runs, "QUICK_TILE", 64)
    monkeypatch.setattr(measured_runs, "QUICK_SIZES", (4,))
    monkeypatch.setattr("experiments.history.size_sweep.QUICK_WIDTHS", (32, 48, 64, 96))
    made = {name: FIGURES[name](tmp_path, True) for name in FIGURES if name != "simulation"}
    for figure in made.values():
        assert all((tmp_path / picture).stat().st_size > 1000 for picture in figure.pictures)
        assert figure.cases
    speeds = {c.case: c.ours for c in made["figure-5"].cases if c.quantity == "speed"}
    assert {name.rpartition(", ")[2] for name in speeds} == set(rows([[1.0]], [[1.0] * 4]))
    assert all(speed > 0 for speed in speeds.values())
    assert all(c.ours is not None for c in made["figure-7"].cases)
