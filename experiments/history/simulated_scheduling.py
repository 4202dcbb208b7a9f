"""Figures 5 and 6 in simulated time, on the paper's machine."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from experiments.history import paper_machine
from experiments.history.execution import Run
from experiments.history.speeds_and_errors import (
    SOURCE,
    draw_speeds,
    error_cases,
    overtakes,
    speed_cases,
)
from experiments.reproduction import Figure


def simulation(out: Path, quick: bool) -> Figure:
    """The paper's machine in simulated time: the order of the policies without measurement
    noise."""
    n_tiles, n_seeds, n_runs = (12, 3, 5) if quick else (32, 5, 6)
    name, n = f"{n_tiles} x {n_tiles} tiles", n_tiles * paper_machine.TILE
    both = [paper_machine.runs(n_tiles, n_runs, seed) for seed in range(n_seeds)]
    greedy, by_history = ([gflops(n, pair[k]) for pair in both] for k in (0, 1))
    means = [[statistics.mean(c) for c in zip(*of, strict=True)] for of in (greedy, by_history)]
    errors, sentences, picture = error_cases(
        name,
        [second for _, second in both],
        {"GPU": [0], "CPU cores": [1, 2, 3]},
        out / "simulation-error.png",
    )
    return Figure(
        title="Figures 5 and 6 in simulated time: a GPU and three cores",
        source=f"{SOURCE}, Figures 5 and 6",
        cases=[*speed_cases(name, "16k", greedy, by_history), *errors],
        findings=[
            f"mean of {n_seeds} seeds: {overtakes(*means)}",
            *sentences,
            "Speeds and variation of the workers are assumed (paper_machine.py). The order of the policies is a"
            " result; the final errors are an input.",
        ],
        pictures=[draw_speeds(out / "simulation-speed.png", name, *means), picture],
    )


def gflops(n: int, runs: Sequence[Run]) -> list[float]:
    """Speed of runs that factorise an n x n matrix with 2/3 n^3 operations."""
    return [2 / 3 * n**3 / run.seconds / 1e9 for run in runs]
