"""Runs a task graph under a policy in simulated time (SimPy), with drawn task times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from experiments.history.execution import Done, Run
from experiments.history.policies import Policy
from experiments.history.task_graph import Task

Draw = Callable[[Task, int], float]
"""(task, worker) -> seconds of the task on the worker."""


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
    import simpy

    environment = simpy.Environment()
    waiting = {task.number: task.n_before for task in tasks}
    done: list[Done] = []
    idle: list[Any] = []

    def worker(number: int) -> Any:
        while len(done) < len(tasks):
            task = policy.pop(number, environment.now)
            if task is None:
                change = environment.event()
                idle.append(change)
                yield change
                continue
            time_s = draw(task, number)
            yield environment.timeout(time_s)
            policy.done(task, number, environment.now)
            when_done(task, number, time_s)
            expected = policy.expected[task.number]
            done.append(
                Done(
                    kind=task.kind,
                    worker=number,
                    measured_s=time_s,
                    expected_s=expected.time_s,
                    n_samples=expected.n_samples,
                )
            )
            for later in task.successors:
                waiting[later] -= 1
                if waiting[later] == 0:
                    policy.push(tasks[later], environment.now)
            for change in idle:
                change.succeed()
            idle.clear()

    for task in tasks:
        if task.n_before == 0:
            policy.push(task, 0.0)
    for number in range(n_workers):
        environment.process(worker(number))
    environment.run()
    return Run(seconds=float(environment.now), done=done)
