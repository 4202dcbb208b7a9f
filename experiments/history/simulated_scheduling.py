"""Figures 5 and 6 in simulated time, on the paper's machine."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.history import drawing, paper_machine
from experiments.history.execution import Run
from experiments.history.speeds_and_errors import SOURCE, error_cases, overtakes, speed_cases
from experiments.reproduction import Case, Figure

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


def _results(
    figure: str,
    n_tiles: int,
    tile: int,
    workers: Mapping[str, Sequence[int]],
    repetitions: Sequence[Callable[[], Both]],
    out: Path,
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
    )
    speeds = drawing.iterations(out / f"{figure}-speed.png", name, mean_greedy, mean_history)
    return Results(
        cases=[*speed_cases(figure, name, "16k", greedy, by_history), *errors],
        findings=[f"mean of {len(both)} seeds: {overtakes(mean_greedy, mean_history)}", *sentences],
        pictures=[speeds, picture],
    )


def gflops(n: int, runs: Sequence[Run]) -> list[float]:
    """Speed of runs that factorise an n x n matrix with 2/3 n^3 operations."""
    return [2 / 3 * n**3 / run.seconds / 1e9 for run in runs]
