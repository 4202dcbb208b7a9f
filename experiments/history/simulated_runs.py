"""Repeated simulated runs: greedy ones, and ones by a history that is empty at the beginning."""

from __future__ import annotations

from collections.abc import Sequence

from calib.history import Running
from experiments.history.execution import Run
from experiments.history.policies import EarliestFinish, Expected, Greedy
from experiments.history.schedule_simulation import Draw, simulate
from experiments.history.task_graph import Task


class InMemory:
    """A history in memory, for one simulation.

    groups : a name for each worker; workers with the same name share their samples
    """

    def __init__(self, groups: Sequence[str]) -> None:
        self._groups = groups
        self._known: dict[tuple[str, str], Running] = {}

    def ask(self, task: Task, worker: int) -> Expected:
        samples = self._known.get((task.kind, self._groups[worker]), Running())
        return Expected(time_s=samples.mean if samples.n else None, n_samples=samples.n)

    def add(self, task: Task, worker: int, time_s: float) -> None:
        place = (task.kind, self._groups[worker])
        self._known[place] = self._known.get(place, Running()).add(time_s)


def repeated(
    tasks: Sequence[Task], groups: Sequence[str], draw: Draw, iterations: int
) -> tuple[list[Run], list[Run]]:
    """Greedy runs, and runs by a history that is empty at the beginning."""
    aside, history = InMemory(groups), InMemory(groups)
    greedy: list[Run] = []
    by_history: list[Run] = []
    n = len(groups)
    for _ in range(iterations):
        greedy.append(simulate(tasks, n, Greedy(aside.ask), draw, when_done=aside.add))
        policy = EarliestFinish(history.ask, n)
        by_history.append(simulate(tasks, n, policy, draw, when_done=history.add))
    return greedy, by_history


def gflops(n: int, runs: Sequence[Run]) -> list[float]:
    """Speed of runs that factorise an n x n matrix with 2/3 n^3 operations."""
    return [2 / 3 * n**3 / run.seconds / 1e9 for run in runs]
