"""Worker processes after a run that stopped early, was interrupted, or lost one of them."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor
from contextlib import AbstractContextManager
from typing import Any

import pytest

from memsim.errors import WorkerDied
from memsim.montecarlo import processes
from memsim.montecarlo.processes import in_order, submit_locally
from memsim.montecarlo.workers import Workers
from tests.support.trials import trials_on
from tests.support.worker_tasks import die_at_5, nap, nap_pid

pytestmark = pytest.mark.timeout(120)


def run(jobs: int, task: Callable[[int], int]) -> AbstractContextManager[Iterator[int]]:
    submit = functools.partial(submit_locally, jobs)
    return in_order(submit, [(task, k) for k in range(40)], 2 * jobs)


def test_a_run_that_stops_early_keeps_its_workers() -> None:
    """Starting others takes seconds."""
    with run(2, nap_pid) as results:
        before = {next(results) for _ in range(8)}
    with run(2, nap_pid) as results:
        after = set(results)
    assert os.getpid() not in after
    assert len(before | after) <= 2


@pytest.mark.parametrize(("n", "jobs"), [(0, 2), (0, 3), (1, 2), (5, 3)])
def test_nothing_is_left_over_of_a_run_that_was_interrupted(n: int, jobs: int) -> None:
    """Whatever number of processes runs next."""
    with contextlib.suppress(KeyboardInterrupt), run(2, nap) as results:
        assert [next(results) for _ in range(n)] == list(range(n))
        raise KeyboardInterrupt
    with run(jobs, nap) as results:
        assert list(results) == list(range(40))


def test_a_worker_that_dies_ends_one_run() -> None:
    with pytest.raises(BrokenExecutor), run(2, die_at_5) as results:
        list(results)
    with run(2, nap_pid) as results:
        pid = next(results)
    os.kill(pid, signal.SIGKILL)
    while not processes._executors[2]._flags.broken:
        time.sleep(0.01)
    with run(2, nap) as results:
        assert list(results) == list(range(40))


PROGRAM = """
import time
from memsim.montecarlo.workers import Workers
from tests.support.trials import trials_on

def long(seconds, workspace, seed, k):
    time.sleep(seconds)
    return k

with Workers([0, 60], jobs=2, prepare=lambda plan, memory: None) as workers:
    def progress(done, of):
        print(done, flush=True)
    print(trials_on(workers, seed=0, trials=40, task=long, progress=progress), flush=True)
"""


def test_ctrl_c_in_a_terminal() -> None:
    """It reaches the worker processes too; the command ends without waiting for their trials."""
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert child.stdout.readline() == "1\n"
    os.killpg(child.pid, signal.SIGINT)
    out, errors = child.communicate(timeout=30)
    assert (child.returncode, out, errors) == (0, "([0], True)\n", "")


# Trials on workers that die


def _no_workspace(plan: Any, memory: Any) -> None:
    return None


def die_at(plan: int, workspace: None, seed: int, trial: int) -> int:
    """The number of the trial; the process is killed at trial `plan`, as it is where memory runs out."""
    if trial == plan:
        os.kill(os.getpid(), signal.SIGKILL)
    return trial


def test_finished_trials_are_kept_and_the_next_run_has_other_workers() -> None:
    with Workers([12], jobs=2, prepare=_no_workspace) as workers:
        kept = r"a worker process died.*; \d+ complete trials are kept"
        with pytest.warns(UserWarning, match=kept):
            done, interrupted = trials_on(workers, seed=0, trials=40, task=die_at)
        assert interrupted
        assert done == list(range(len(done)))
        assert 1 <= len(done) <= 12
        assert trials_on(workers, seed=0, trials=6, task=die_at) == (list(range(6)), False)


def test_without_a_finished_trial_it_is_an_error() -> None:
    message = "^a worker process died: it was killed, perhaps because memory ran out$"
    with (
        Workers([0], jobs=2, prepare=_no_workspace) as workers,
        pytest.raises(WorkerDied, match=message),
    ):
        trials_on(workers, seed=0, trials=4, task=die_at)
