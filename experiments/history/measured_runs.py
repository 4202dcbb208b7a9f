"""Repeated factorisations on real queues, greedy and by history, with the times of runs and
launches."""

from __future__ import annotations

import contextlib
import functools
import os
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from calib.history import Key, Record, Store
from experiments.history import lu_kernels
from experiments.history.execution import Run, execute, simulate
from experiments.history.policies import EarliestFinish, Expected, Greedy
from experiments.history.speeds_and_errors import FromHistory
from experiments.history.task_graph import Task, lu_tasks
from experiments.history.workers import Worker, dominant, worker_devices, workers

TILE = 512
"""Width of a tile, as in the paper's Figure 8."""
SIZES = (8, 12)
"""Tiles along a side; the paper's matrices of 16k and 30k have 32 and 59 tiles of this width."""
ITERATIONS = 8
QUICK_TILE, QUICK_SIZES, QUICK_ITERATIONS = 192, (6,), 5


@dataclass(frozen=True, kw_only=True)
class Measured:
    """All runs of one size.

    simulated_s : time of a run by history in simulated time, with the recorded times; None if a
        kind of task never ran on a worker
    samples : (kind, worker) -> (n,) seconds, of all runs by history
    load : load average of the machine before and after
    """

    n: int
    tile: int
    workers: Sequence[str]
    devices: Sequence[str]
    greedy: Sequence[Run]
    by_history: Sequence[Run]
    simulated_s: float | None
    records: Sequence[Record]
    samples: Mapping[tuple[str, int], npt.NDArray[np.float64]]
    load: tuple[float, float]

    def gflops(self, run: Run) -> float:
        """Speed of a run with 2/3 n^3 operations."""
        return 2 / 3 * self.n**3 / run.seconds / 1e9

    @property
    def conditions(self) -> str:
        """The devices and the load of the machine, as a sentence."""
        return (
            f"n = {self.n}: tiles of {self.tile};"
            f" {'; '.join(f'{w}: {d}' for w, d in zip(self.workers, self.devices, strict=True))};"
            f" load average {self.load[0]:.1f} before and {self.load[1]:.1f} after, on"
            f" {os.cpu_count()} cores (a load above {len(self.workers)} comes from other programs and lengthens"
            " these times)"
        )


@functools.cache
def measured(n_tiles: int, tile: int, iterations: int) -> Measured:
    """Greedy runs and runs by history, alternating, so that other programs disturb both alike."""
    tasks = lu_tasks(n_tiles)
    before = os.getloadavg()[0]
    greedy, by_history = [], []
    where = worker_devices()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        apart = stack.enter_context(Store(folder / "greedy.db"))
        store = stack.enter_context(Store(folder / "history.db", keep_samples=True))
        first = stack.enter_context(workers(where, tile, apart))
        second = stack.enter_context(workers(where, tile, store))
        aside, history = (
            FromHistory(place, functools.partial(_key, of))
            for place, of in ((apart, first), (store, second))
        )
        for _ in range(iterations):
            greedy.append(_once(tasks, first, Greedy(aside), n_tiles, tile))
            policy = EarliestFinish(history, len(second))
            by_history.append(_once(tasks, second, policy, n_tiles, tile))
            for worker in second:
                worker.queue.recorder.flush()
        samples = {
            (kind, number): store.samples(worker.key(kind))
            for number, worker in enumerate(second)
            for kind in lu_kernels.KINDS
        }
        records = store.records()
    return Measured(
        n=n_tiles * tile,
        tile=tile,
        workers=[place.name for place in where],
        devices=[place.title for place in where],
        greedy=greedy,
        by_history=by_history,
        simulated_s=_simulated(tasks, samples, len(where)),
        records=records,
        samples=samples,
        load=(before, os.getloadavg()[0]),
    )


def _key(at: Sequence[Worker], kind: str, number: int) -> Key:
    return at[number].key(kind)


def _once(
    tasks: Sequence[Task],
    at: Sequence[Worker],
    policy: Greedy | EarliestFinish,
    n_tiles: int,
    tile: int,
) -> Run:
    for worker in at:
        worker.forget()
    return execute(tasks, at, policy, dominant(n_tiles, tile))


def _simulated(
    tasks: Sequence[Task],
    samples: Mapping[tuple[str, int], npt.NDArray[np.float64]],
    n_workers: int,
) -> float | None:
    """Median of 9 simulated runs with times drawn from those recorded for the kind of task and
    worker."""
    rng = np.random.default_rng(0)
    if any(len(samples[task.kind, worker]) == 0 for task in tasks for worker in range(n_workers)):
        return None

    def ask(task: Task, worker: int) -> Expected:
        times = samples[task.kind, worker]
        return Expected(time_s=float(times.mean()), n_samples=len(times))

    def draw(task: Task, worker: int) -> float:
        return float(rng.choice(samples[task.kind, worker]))

    return statistics.median(
        simulate(tasks, n_workers, EarliestFinish(ask, n_workers), draw).seconds for _ in range(9)
    )


def all_sizes(quick: bool) -> list[Measured]:
    """The runs of every size. They are cached, because several figures use them."""
    if quick:
        return [measured(n, QUICK_TILE, QUICK_ITERATIONS) for n in QUICK_SIZES]
    return [measured(n, TILE, ITERATIONS) for n in SIZES]
