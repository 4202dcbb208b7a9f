"""The paper's machine in simulated time: a GPU and three CPU cores with normally distributed times.

The speeds are assumed, so that a run takes about as long as in the paper. The results are the order
of the policies and the course of the errors, which need no hardware and are reproducible from the
seed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calib.history import Running
from experiments.history import lu_kernels
from experiments.history.execution import Draw, Run, simulate
from experiments.history.policies import EarliestFinish, Expected, Greedy
from experiments.history.task_graph import Task, lu_tasks

TILE = 512
WORKERS = ("GPU", "CPU 1", "CPU 2", "CPU 3")
"""The fourth core drives the GPU."""
CPU_GFLOPS = 12.0
"""Assumed speed of a core of the E5410 (at most 18.6: 2.33 GHz and 8 operations a cycle)."""
GPU_SPEED_UP = {
    lu_kernels.GEMM: 8.0,
    lu_kernels.TRSM_LOWER: 4.0,
    lu_kernels.TRSM_UPPER: 4.0,
    lu_kernels.GETRF: 0.5,
}
"""Assumed speed relative to a core: best for products, worse than a core for the factorisation of a
tile."""
VARIATION = {"GPU": 0.001, "CPU": 0.0125}
"""Relative standard deviation of a launch. The mean absolute error of a mean is 0.8 times this,
0.08 % and 1 % as in the paper. So the final errors of the simulation are inputs, and only their
course is a result.
"""


def drawing(seed: int) -> Draw:
    """Times of this machine, drawn from normal distributions."""
    rng = np.random.default_rng(seed)

    def draw(task: Task, worker: int) -> float:
        name = WORKERS[worker]
        rate = CPU_GFLOPS * 1e9 * (GPU_SPEED_UP[task.kind] if name == "GPU" else 1.0)
        mean = lu_kernels.flops(task.kind, TILE) / rate
        return float(mean * max(1 + VARIATION[name[:3]] * rng.standard_normal(), 0.5))

    return draw


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


def runs(n_tiles: int, iterations: int, seed: int) -> tuple[list[Run], list[Run]]:
    """Greedy runs, and runs by a history that is empty at the beginning."""
    groups, tasks, draw = [name[:3] for name in WORKERS], lu_tasks(n_tiles), drawing(seed)
    aside, history = InMemory(groups), InMemory(groups)
    greedy: list[Run] = []
    by_history: list[Run] = []
    n = len(groups)
    for _ in range(iterations):
        greedy.append(simulate(tasks, n, Greedy(aside.ask), draw, when_done=aside.add))
        policy = EarliestFinish(history.ask, n)
        by_history.append(simulate(tasks, n, policy, draw, when_done=history.add))
    return greedy, by_history
