"""Figures 5 and 6 in simulated time: on the paper's machine, and on ours without disturbance by
other programs."""

from __future__ import annotations

import functools
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.history import core_time, drawing, lu_kernels, paper_machine
from experiments.history.execution import Run
from experiments.history.predictions import error_by_samples
from experiments.history.simulated_runs import gflops, repeated
from experiments.history.speeds_and_errors import SOURCE, error_cases, overtakes, speed_cases
from experiments.history.task_graph import Task, lu_tasks
from experiments.reproduction import Case, Figure

SAMPLES = (1, 2, 3, 5, 10, 20, 50, 100)
"""Numbers of samples of a prediction, in the picture of our workers' errors."""

Both = tuple[list[Run], list[Run]]
"""Greedy runs, and runs by a history that is empty at the beginning."""


@dataclass(frozen=True, kw_only=True)
class Results:
    """Results of simulated runs; pictures by file name."""

    cases: list[Case]
    findings: list[str]
    pictures: list[str]


def simulation(out: Path, quick: bool) -> Figure:
    """The paper's machine in simulated time: the order of the policies without measurement
    noise."""
    n_tiles, n_seeds, n_runs = (12, 3, 5) if quick else (32, 5, 6)
    results = _results(
        *("simulation", n_tiles, paper_machine.TILE, {"GPU": [0], "CPU cores": [1, 2, 3]}),
        [functools.partial(paper_machine.runs, n_tiles, n_runs, seed) for seed in range(n_seeds)],
        out,
    )
    return Figure(
        name="simulation",
        title="Figures 5 and 6 in simulated time: a GPU and three cores (SimPy)",
        source=f"{SOURCE}, Figures 5 and 6",
        cases=results.cases,
        findings=[
            *results.findings,
            "Speeds and variation of the workers are assumed (paper_machine.py). The order of the policies is a"
            " result; the final errors are an input.",
        ],
        pictures=results.pictures,
    )


def core_times(out: Path, quick: bool) -> Figure:
    """Our two workers: processor times of measured launches, in a simulated schedule."""
    tile, n_launches = (192, 20) if quick else (512, 110)
    n_tiles, n_seeds, n_runs = (8, 3, 5) if quick else (16, 5, 6)
    where, times = core_time.measure(tile, n_launches)
    tasks = lu_tasks(n_tiles)

    def runs(seed: int) -> Both:
        rng = np.random.default_rng(seed)

        def draw(task: Task, worker: int) -> float:
            return float(rng.choice(times[task.kind, worker]))

        return repeated(tasks, [place.name for place in where], draw, n_runs)

    workers = {place.name: [number] for number, place in enumerate(where)}
    n_tasks = Counter(task.kind for task in tasks)
    known = {}
    for number, place in enumerate(where):
        of = {kind: times[kind, number] for kind in lu_kernels.KINDS}
        by_n = error_by_samples(of, n_tasks, SAMPLES)
        known[place.name] = {(n, n): value for n, value in by_n.items()}
    results = _results(
        *("core-time", n_tiles, tile, workers),
        [functools.partial(runs, seed) for seed in range(n_seeds)],
        out,
        known=known,
    )
    cases = [
        Case(
            figure="core-time",
            case=f"{kind} on {where[worker].name}, tiles of {tile}",
            quantity="processor time",
            unit="ms",
            reference=None,
            ours=1e3 * float(seconds.mean()),
            ci95=1.96e3 * float(seconds.std(ddof=1)) / len(seconds) ** 0.5,
            note=f"{len(seconds)} launches, standard deviation"
            f" {100 * seconds.std(ddof=1) / seconds.mean():.3g} %",
        )
        for (kind, worker), seconds in times.items()
    ]
    affinity = ", ".join(
        f"{kind} {times[kind, 1].mean() / times[kind, 0].mean():.2g}" for kind in lu_kernels.KINDS
    )
    return Figure(
        name="core-time",
        title="Figures 5 and 6 on our workers with the processor times of their launches",
        source=f"{SOURCE}, Figures 5 and 6",
        cases=[*cases, *results.cases],
        findings=[
            *results.findings,
            "The processor time of each launch was measured alone, so that other programs on the core do not count,"
            " although they share caches and memory. Schedules are simulated; each task draws one of the"
            " launches of its kind on its worker.",
            f"Time on the slow worker relative to the fast one: {affinity}.",
        ],
        pictures=results.pictures,
    )


def _results(
    figure: str,
    n_tiles: int,
    tile: int,
    workers: Mapping[str, Sequence[int]],
    repetitions: Sequence[Callable[[], Both]],
    out: Path,
    *,
    known: Mapping[str, Mapping[tuple[int, int], float]] | None = None,
) -> Results:
    name = f"{n_tiles} x {n_tiles} tiles"
    both = [make() for make in repetitions]
    greedy = [gflops(n_tiles * tile, first) for first, _ in both]
    by_history = [gflops(n_tiles * tile, second) for _, second in both]
    mean_greedy = [statistics.mean(column) for column in zip(*greedy, strict=True)]
    mean_history = [statistics.mean(column) for column in zip(*by_history, strict=True)]
    errors, sentences, picture = error_cases(
        figure,
        name,
        [second for _, second in both],
        workers,
        out / f"{figure}-error.png",
        known=known,
    )
    speeds = drawing.iterations(out / f"{figure}-speed.png", name, mean_greedy, mean_history)
    return Results(
        cases=[*speed_cases(figure, name, "16k", greedy, by_history), *errors],
        findings=[f"mean of {len(both)} seeds: {overtakes(mean_greedy, mean_history)}", *sentences],
        pictures=[speeds, picture],
    )
