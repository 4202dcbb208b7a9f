"""The paper's machine in simulated time: a GPU and three cores, with regular times.

Speeds are assumed, so that a run takes about as long as the paper's; what is tested is the policies'
order and the course of the errors, which need no hardware and repeat in the seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from calib.history.statistics import Running
from experiments.history import lu_kernels
from experiments.history.execution import Run
from experiments.history.policies import EarliestFinish, Expected, Greedy
from experiments.history.simulation import simulate
from experiments.history.task_graph import Task, lu_tasks

TILE = 512
WORKERS = ("GPU", "CPU 1", "CPU 2", "CPU 3")
"""One of the four cores drives the GPU."""
CPU_GFLOPS = 12.0
"""Assumed, of a core of the E5410 (2.33 GHz, 8 operations a cycle: 18.6 at most)."""
GPU_SPEED_UP = {
    lu_kernels.GEMM: 8.0,
    lu_kernels.TRSM_LOWER: 4.0,
    lu_kernels.TRSM_UPPER: 4.0,
    lu_kernels.GETRF: 0.5,
}
"""Assumed: the GPU is best at products, and worse than a core at the factorisation of a tile."""
VARIATION = {"GPU": 0.001, "CPU": 0.0125}
"""Relative deviation of a launch. The mean absolute error of a mean is 0.8 of it: 0.08 % and 1 %, the
paper's; so the errors that the simulation ends at are put in, and only their course comes out.
"""


class InMemory:
    """A history that lives as long as a simulation."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], Running] = {}

    def ask(self, task: Task, worker: int) -> Expected:
        held = self.known.get((task.kind, WORKERS[worker][:3]), Running())
        return Expected(time_s=held.mean if held.n else None, n_samples=held.n)

    def add(self, task: Task, worker: int, time_s: float) -> None:
        place = (task.kind, WORKERS[worker][:3])
        self.known[place] = self.known.get(place, Running()).add(time_s)


def drawing(seed: int) -> Callable[[Task, int], float]:
    """Times of this machine, normally scattered."""
    rng = np.random.default_rng(seed)

    def draw(task: Task, worker: int) -> float:
        name = WORKERS[worker]
        rate = CPU_GFLOPS * 1e9 * (GPU_SPEED_UP[task.kind] if name == "GPU" else 1.0)
        mean = lu_kernels.flops(task.kind, TILE) / rate
        return float(mean * max(1 + VARIATION[name[:3]] * rng.standard_normal(), 0.5))

    return draw


def runs(n_tiles: int, iterations: int, seed: int) -> tuple[list[Run], list[Run]]:
    """Greedy runs, and runs by a history that begins empty."""
    tasks = lu_tasks(n_tiles)
    draw = drawing(seed)
    aside, history = InMemory(), InMemory()
    greedy: list[Run] = []
    by_history: list[Run] = []
    n = len(WORKERS)
    for _ in range(iterations):
        greedy.append(simulate(tasks, n, Greedy(aside.ask), draw, when_done=aside.add))
        policy = EarliestFinish(history.ask, n)
        by_history.append(simulate(tasks, n, policy, draw, when_done=history.add))
    return greedy, by_history


def gflops(n_tiles: int, seconds: Sequence[float]) -> list[float]:
    """Of runs of this many tiles."""
    return [2 / 3 * (n_tiles * TILE) ** 3 / s / 1e9 for s in seconds]
