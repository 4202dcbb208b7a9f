"""Runs a task graph on real queues under a policy, with one thread for each worker."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from experiments.history.policies import Policy
from experiments.history.task_graph import Task
from experiments.history.workers import Matrix, Worker


@dataclass(frozen=True, kw_only=True)
class Done:
    """One finished task.

    expected_s : the time that was predicted when the worker was chosen; None before the first
        sample
    n_samples : number of samples of that prediction
    """

    kind: str
    worker: int
    measured_s: float
    expected_s: float | None
    n_samples: int


@dataclass(frozen=True, kw_only=True)
class Run:
    """One factorisation: its time and its tasks in the order in which they finished."""

    seconds: float
    done: Sequence[Done]


def execute(
    tasks: Sequence[Task], workers: Sequence[Worker], policy: Policy, matrix: Matrix
) -> Run:
    """Run all tasks, each after its predecessors; raises the first exception of a worker."""
    condition = threading.Condition()
    waiting = {task.number: task.n_before for task in tasks}
    done: list[Done] = []
    problems: list[BaseException] = []
    start = time.perf_counter()

    def now() -> float:
        return time.perf_counter() - start

    def work(number: int) -> None:
        worker = workers[number]
        while True:
            with condition:
                while True:
                    if len(done) == len(tasks) or problems:
                        return
                    task = policy.pop(number, now())
                    if task is not None:
                        break
                    condition.wait()
            try:
                measured_s = worker.run(task, matrix)
            except BaseException as error:
                with condition:
                    problems.append(error)
                    condition.notify_all()
                return
            with condition:
                policy.done(task, number, now())
                expected = policy.expected[task.number]
                done.append(
                    Done(
                        kind=task.kind,
                        worker=number,
                        measured_s=measured_s,
                        expected_s=expected.time_s,
                        n_samples=expected.n_samples,
                    )
                )
                for later in task.successors:
                    waiting[later] -= 1
                    if waiting[later] == 0:
                        policy.push(tasks[later], now())
                condition.notify_all()

    for task in tasks:
        if task.n_before == 0:
            policy.push(task, 0.0)
    threads = [threading.Thread(target=work, args=(n,)) for n in range(len(workers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]
    return Run(seconds=now(), done=done)
