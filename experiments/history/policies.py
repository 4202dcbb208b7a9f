"""Who runs what: greedily, or where the history says that it finishes first (the paper's Figure 2).

A policy holds the ready tasks; whoever executes them, threads or a simulation, pushes tasks as they
get ready, pops for a worker that is free, and tells when one is done. Not for several threads at
once: the executor holds its lock.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from experiments.history.task_graph import Task

CALIBRATED = 10
"""Samples of a kind of task on a worker below which it is sent where it lacks them, as StarPU does."""


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What the history says of a task on a worker; time_s is None before the first sample."""

    time_s: float | None
    n_samples: int


Ask = Callable[[Task, int], Expected]
"""(task, worker) -> what is expected."""


class Policy(Protocol):
    """expected : what was expected when a task was given to its worker, by task number."""

    expected: dict[int, Expected]

    def push(self, task: Task, now_s: float) -> None: ...
    def pop(self, worker: int, now_s: float) -> Task | None: ...
    def done(self, task: Task, worker: int, now_s: float) -> None: ...


class Greedy:
    """A free worker takes the ready task of highest priority, whoever it is."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._ready: list[tuple[int, int, Task]] = []
        self.expected: dict[int, Expected] = {}

    def push(self, task: Task, now_s: float) -> None:
        heapq.heappush(self._ready, (-task.priority, task.number, task))

    def pop(self, worker: int, now_s: float) -> Task | None:
        if not self._ready:
            return None
        task = heapq.heappop(self._ready)[2]
        self.expected[task.number] = self._ask(task, worker)
        return task

    def done(self, task: Task, worker: int, now_s: float) -> None:
        pass


class EarliestFinish:
    """A ready task goes to the queue of the worker on which it is expected to finish first.

    Where a worker has fewer than CALIBRATED samples of a kind of task, the one with the fewest gets
    it: the price of calibrating, paid once.
    """

    def __init__(self, ask: Ask, n_workers: int) -> None:
        self._ask = ask
        self._queues: list[deque[tuple[Task, float]]] = [deque() for _ in range(n_workers)]
        self._running_until: list[float] = [0.0] * n_workers
        self._given: dict[tuple[str, int], int] = {}
        self._at_start: dict[tuple[str, int], int] = {}
        self.expected: dict[int, Expected] = {}

    def push(self, task: Task, now_s: float) -> None:
        asked = [self._ask(task, worker) for worker in range(len(self._queues))]
        samples = [self._samples(task.kind, worker, e) for worker, e in enumerate(asked)]
        if min(samples) < CALIBRATED or any(e.time_s is None for e in asked):
            worker = samples.index(min(samples))
        else:
            ends = [
                self._free_at(worker, now_s) + (e.time_s or 0.0) for worker, e in enumerate(asked)
            ]
            worker = ends.index(min(ends))
        chosen = asked[worker]
        place = (task.kind, worker)
        self._given[place] = self._given.get(place, 0) + 1
        self.expected[task.number] = chosen
        self._queues[worker].append((task, chosen.time_s or 0.0))

    def _samples(self, kind: str, worker: int, expected: Expected) -> int:
        """What the history has, or will have once it knows all that was given to this worker.

        Else tasks in its queue, running, or not yet written would not count, and it would get them all.
        """
        place = (kind, worker)
        at_start = self._at_start.setdefault(place, expected.n_samples)
        return max(expected.n_samples, at_start + self._given.get(place, 0))

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
