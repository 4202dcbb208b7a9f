"""Figures 5 and 6 on real queues, and in simulated time on the paper's machine: speeds and prediction errors by iteration."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from calib.history import running
from experiments.history import lu_kernels, paper_machine
from experiments.history.execution import Run
from experiments.history.measured_runs import all_sizes
from experiments.history.speeds_and_errors import (
    PAPER_SPEEDS,
    SETTLED,
    SOURCE,
    draw_speeds,
    error_cases,
    overtakes,
    speed_cases,
)
from experiments.reproduction import Case, Figure


def figure_5(out: Path, quick: bool) -> Figure:
    """Speed of greedy runs and of runs by history, by iteration."""
    cases, findings, pictures = [], [], []
    for runs, column in zip(all_sizes(quick), PAPER_SPEEDS, strict=False):
        name = f"n = {runs.n}"
        greedy = [runs.gflops(run) for run in runs.greedy]
        by_history = [runs.gflops(run) for run in runs.by_history]
        cases += speed_cases(name, column, [greedy], [by_history])
        findings.append(f"{name}: {overtakes(greedy, by_history)}")
        pairs = [h / g for g, h in zip(greedy, by_history, strict=True)]
        findings.append(
            f"{name}: median speed of a run by history relative to the greedy run before it, from the 4th on:"
            f" {statistics.median(pairs[SETTLED - 1 :]):.2f}"
        )
        settled = statistics.median(run.seconds for run in runs.by_history[SETTLED - 1 :])
        cases.append(
            Case(
                f"{name}, from 4th",
                "simulated time relative to measured",
                "",
                ours=None if runs.simulated_s is None else runs.simulated_s / settled,
                note="the same policy in simulated time, with times drawn from the recorded ones and without copies",
            )
        )
        findings.append(runs.conditions)
        pictures.append(draw_speeds(out / f"figure-5-{runs.n}.png", name, greedy, by_history))
    return Figure(
        title="Figure 5: greedy and history-based scheduling of a tiled LU, by iteration",
        source=f"{SOURCE}, Figure 5; the paper used a Quadro FX4600 and three cores of a Xeon E5410",
        cases=cases,
        findings=findings,
        pictures=pictures,
    )


def figure_6(out: Path, quick: bool) -> Figure:
    """Error of the predictions by iteration."""
    cases, findings, pictures = [], [], []
    for runs in all_sizes(quick):
        name = f"n = {runs.n}"
        workers = {title: [number] for number, title in enumerate(runs.workers)}
        path = out / f"figure-6-{runs.n}.png"
        of_size, sentences, picture = error_cases(name, [runs.by_history], workers, path)
        cases += of_size
        findings += sentences
        pictures.append(picture)
        for title, (number,) in workers.items():
            times = [runs.samples[kind, number] for kind in lu_kernels.KINDS]
            variation = statistics.median(running(t).variation for t in times if len(t) > 1)
            findings.append(
                f"{name}, {title}: the standard deviation of a launch is {100 * variation:.0f} % (median over the kinds"
                " of task). With normal times, the error of a mean cannot be less than 0.8 times this"
            )
        findings.append(runs.conditions)
    return Figure(
        title="Figure 6: prediction error, sum |predicted - measured| / sum measured",
        source=f"{SOURCE}, Figure 6 and section 4.1: of an order of 1 % on CPUs, below 0.1 % on the GPU",
        cases=cases,
        findings=findings,
        pictures=pictures,
    )


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
