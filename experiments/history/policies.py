"""Scheduling policies: greedy, and earliest finish by history (Figure 2 of the paper).

A policy keeps the ready tasks. The executor, threads or a simulation, pushes tasks that become
ready, pops a task for a free worker, and reports finished tasks. Policies are not thread-safe: the
executor uses a lock.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from experiments.history.task_graph import Task

CALIBRATED = 10
"""With fewer samples of a kind of task on a worker, tasks are sent there to collect samples, as in
StarPU."""


@dataclass(frozen=True, kw_only=True)
class Expected:
    """Predicted time of a task on a worker, and its number of samples; time_s is None before the
    first one."""

    time_s: float | None
    n_samples: int


Predict = Callable[[Task, int], Expected]
"""(task, worker) -> prediction."""


class Policy(Protocol):
    """A scheduling policy.

    expected : task number -> the prediction when the task was assigned to its worker
    """

    expected: dict[int, Expected]

    def push(self, task: Task, now_s: float) -> None: ...
    def pop(self, worker: int, now_s: float) -> Task | None: ...
    def done(self, task: Task, worker: int, now_s: float) -> None: ...


class Greedy:
    """Any free worker takes the ready task with the highest priority."""

    def __init__(self, predict: Predict) -> None:
        self._predict = predict
        self._ready: list[tuple[int, int, Task]] = []
        self.expected: dict[int, Expected] = {}

    def push(self, task: Task, now_s: float) -> None:
        heapq.heappush(self._ready, (-task.priority, task.number, task))

    def pop(self, worker: int, now_s: float) -> Task | None:
        if not self._ready:
            return None
        task = heapq.heappop(self._ready)[2]
        self.expected[task.number] = self._predict(task, worker)
        return task

    def done(self, task: Task, worker: int, now_s: float) -> None:
        pass


class EarliestFinish:
    """A ready task goes to the queue of the worker on which it is predicted to finish first.

    If some worker has fewer than CALIBRATED samples of a kind of task, the worker with the fewest
    gets the task.
    """

    def __init__(self, predict: Predict, n_workers: int) -> None:
        self._predict = predict
        self._queues: list[deque[tuple[Task, float]]] = [deque() for _ in range(n_workers)]
        self._running_until: list[float] = [0.0] * n_workers
        self._assigned: dict[tuple[str, int], int] = {}
        self._at_start: dict[tuple[str, int], int] = {}
        self.expected: dict[int, Expected] = {}

    def push(self, task: Task, now_s: float) -> None:
        predictions = [self._predict(task, worker) for worker in range(len(self._queues))]
        samples = [self._samples(task.kind, worker, e) for worker, e in enumerate(predictions)]
        if min(samples) < CALIBRATED or any(e.time_s is None for e in predictions):
            worker = samples.index(min(samples))
        else:
            ends = [
                self._free_at(worker, now_s) + (e.time_s or 0.0)
                for worker, e in enumerate(predictions)
            ]
            worker = ends.index(min(ends))
        chosen = predictions[worker]
        place = (task.kind, worker)
        self._assigned[place] = self._assigned.get(place, 0) + 1
        self.expected[task.number] = chosen
        self._queues[worker].append((task, chosen.time_s or 0.0))

    def _samples(self, kind: str, worker: int, expected: Expected) -> int:
        """Samples that the history has, or will have when all tasks assigned to this worker are
        recorded.

        Without the tasks that are queued, running or not yet recorded, one worker would get all
        tasks.
        """
        place = (kind, worker)
        at_start = self._at_start.setdefault(place, expected.n_samples)
        return max(expected.n_samples, at_start + self._assigned.get(place, 0))

    def _free_at(self, worker: int, now_s: float) -> float:
        waiting = sum(time_s for _, time_s in self._queues[worker])
        return max(now_s, self._running_until[worker]) + waiting

    def pop(self, worker: int, now_s: float) -> Task | None:
        if not self._queues[worker]:
            return None
        task, time_s = self._queues[worker].popleft()
        self._running_until[worker] = now_s + time_s
        return task

    def done(self, task: Task, worker: int, now_s: float) -> None:
        self._running_until[worker] = now_s
