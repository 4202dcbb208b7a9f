"""The paper's machine in simulated time: a GPU and three cores, with regular times.

Speeds are assumed, so that a run takes about as long as the paper's; what is tested is the policies'
order and the course of the errors, which need no hardware and repeat in the seed.
"""

from __future__ import annotations

import numpy as np

from experiments.history import lu_kernels
from experiments.history.execution import Run
from experiments.history.schedule_simulation import Draw
from experiments.history.simulated_runs import repeated
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


def drawing(seed: int) -> Draw:
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
    groups = [name[:3] for name in WORKERS]
    return repeated(lu_tasks(n_tiles), groups, drawing(seed), iterations)
