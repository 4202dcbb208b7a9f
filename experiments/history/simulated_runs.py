"""Simulated runs, one after another, greedily and by a history that begins empty."""

from __future__ import annotations

from collections.abc import Sequence

from calib.history import Running
from experiments.history.execution import Run
from experiments.history.policies import EarliestFinish, Expected, Greedy
from experiments.history.schedule_simulation import Draw, simulate
from experiments.history.task_graph import Task


class InMemory:
    """A history that lives as long as a simulation.

    groups : a name for each worker; workers of one name share what is known
    """

    def __init__(self, groups: Sequence[str]) -> None:
        self._groups = groups
        self._known: dict[tuple[str, str], Running] = {}

    def ask(self, task: Task, worker: int) -> Expected:
        held = self._known.get((task.kind, self._groups[worker]), Running())
        return Expected(time_s=held.mean if held.n else None, n_samples=held.n)

    def add(self, task: Task, worker: int, time_s: float) -> None:
        place = (task.kind, self._groups[worker])
        self._known[place] = self._known.get(place, Running()).add(time_s)


def repeated(
    tasks: Sequence[Task], groups: Sequence[str], draw: Draw, iterations: int
) -> tuple[list[Run], list[Run]]:
    """Greedy runs, and runs by a history that begins empty."""
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
    """Of runs that factorise an n x n matrix: 2/3 n^3 operations."""
    return [2 / 3 * n**3 / run.seconds / 1e9 for run in runs]
