"""Runs a task graph under a policy: on real queues with a thread for each worker, or in simulated time."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from experiments.history.policies import Policy
from experiments.history.task_graph import Task
from experiments.history.workers import Matrix, Worker

Draw = Callable[[Task, int], float]
"""(task, worker) -> seconds of the task on the worker."""


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


class _Progress:
    """The tasks that are done, and those that still wait for others; it gives ready ones to the policy."""

    def __init__(self, tasks: Sequence[Task], policy: Policy) -> None:
        self.tasks, self.policy = tasks, policy
        self.done: list[Done] = []
        self._waiting = {task.number: task.n_before for task in tasks}
        for task in tasks:
            if task.n_before == 0:
                policy.push(task, 0.0)

    @property
    def is_complete(self) -> bool:
        return len(self.done) == len(self.tasks)

    def finish(self, task: Task, worker: int, measured_s: float, now_s: float) -> None:
        self.policy.done(task, worker, now_s)
        expected = self.policy.expected[task.number]
        self.done.append(
            Done(
                kind=task.kind,
                worker=worker,
                measured_s=measured_s,
                expected_s=expected.time_s,
                n_samples=expected.n_samples,
            )
        )
        for later in task.successors:
            self._waiting[later] -= 1
            if self._waiting[later] == 0:
                self.policy.push(self.tasks[later], now_s)


def execute(
    tasks: Sequence[Task], workers: Sequence[Worker], policy: Policy, matrix: Matrix
) -> Run:
    """Run all tasks, each after its predecessors; raises the first exception of a worker."""
    condition = threading.Condition()
    progress = _Progress(tasks, policy)
    problems: list[BaseException] = []
    start = time.perf_counter()

    def now() -> float:
        return time.perf_counter() - start

    def next_task(number: int) -> Task | None:
        with condition:
            while not progress.is_complete and not problems:
                task = policy.pop(number, now())
                if task is not None:
                    return task
                condition.wait()
        return None

    def work(number: int) -> None:
        while (task := next_task(number)) is not None:
            try:
                measured_s = workers[number].run(task, matrix)
            except BaseException as error:
                with condition:
                    problems.append(error)
                    condition.notify_all()
                return
            with condition:
                progress.finish(task, number, measured_s, now())
                condition.notify_all()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(len(workers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]
    return Run(seconds=now(), done=progress.done)


def simulate(
    tasks: Sequence[Task],
    n_workers: int,
    policy: Policy,
    draw: Draw,
    *,
    when_done: Callable[[Task, int, float], None] = lambda *_: None,
) -> Run:
    """Run all tasks in simulated seconds.

    when_done : called with each finished task, its worker and its time
    """
    progress = _Progress(tasks, policy)
    running: list[tuple[float, int, int, float]] = []  # end, number of the task, worker, time
    idle, now_s = list(range(n_workers)), 0.0
    while True:
        waiting = []
        for worker in idle:
            task = policy.pop(worker, now_s)
            if task is None:
                waiting.append(worker)
            else:
                time_s = draw(task, worker)
                heapq.heappush(running, (now_s + time_s, task.number, worker, time_s))
        if not running:
            return Run(seconds=now_s, done=progress.done)
        now_s, number, worker, time_s = heapq.heappop(running)
        progress.finish(tasks[number], worker, time_s, now_s)
        when_done(tasks[number], worker, time_s)
        idle = [worker, *waiting]
