"""Figures 5 and 6, on real queues and in simulated time: speeds and errors, run by run."""

from __future__ import annotations

import statistics
from pathlib import Path

from calib.history.statistics import running
from experiments.history import drawing, lu_kernels, paper_machine
from experiments.history.execution import Run
from experiments.history.findings import (
    PAPER_SPEEDS,
    SETTLED,
    SOURCE,
    error_cases,
    overtakes,
    speed_cases,
)
from experiments.history.runs import all_sizes
from experiments.reproduction import Case, Figure


def figure5(out: Path, quick: bool) -> Figure:
    """Greedy against earliest finish by history, run by run, on real queues."""
    cases, findings, pictures = [], [], []
    for found, column in zip(all_sizes(quick), PAPER_SPEEDS, strict=False):
        name = f"n = {found.n}"
        greedy = [found.gflops(run) for run in found.greedy]
        by_history = [found.gflops(run) for run in found.by_history]
        cases += speed_cases("figure5", name, column, [greedy], [by_history])
        findings.append(f"{name}: {overtakes(greedy, by_history)}")
        pairs = [h / g for g, h in zip(greedy, by_history, strict=True)]
        findings.append(
            f"{name}: runs alternate; by history over the greedy one just before, median from the 4th on:"
            f" {statistics.median(pairs[SETTLED - 1 :]):.2f}"
        )
        settled = statistics.median(run.seconds for run in found.by_history[SETTLED - 1 :])
        cases.append(
            Case(
                figure="figure5",
                case=f"{name}, from 4th",
                quantity="simulated time over measured",
                unit="",
                reference=None,
                ours=None if found.simulated_s is None else found.simulated_s / settled,
                note="the same policy in SimPy, times drawn from the recorded ones; no copies in it",
            )
        )
        findings.append(found.conditions)
        pictures.append(
            drawing.iterations(out / f"figure5-{found.n}.png", name, greedy, by_history)
        )
    return Figure(
        name="figure5",
        title="Figure 5: greedy and history-based scheduling of a tiled LU, by iteration",
        source=f"{SOURCE}, Figure 5; a Quadro FX4600 and three Xeon E5410 cores there",
        cases=cases,
        findings=findings,
        pictures=pictures,
    )


def figure6(out: Path, quick: bool) -> Figure:
    """Error of the predictions, run by run."""
    cases, findings, pictures = [], [], []
    for found in all_sizes(quick):
        name = f"n = {found.n}"
        workers = {title: [number] for number, title in enumerate(found.workers)}
        path = out / f"figure6-{found.n}.png"
        made, said, picture = error_cases("figure6", name, [found.by_history], workers, path)
        cases += made
        findings += said
        pictures.append(picture)
        for title, (number,) in workers.items():
            times = [found.samples[kind, number] for kind in lu_kernels.KINDS]
            still = statistics.median(running(t).variation for t in times if len(t) > 1)
            findings.append(
                f"{name}, {title}: a launch itself deviates {100 * still:.0f} % (median over the kinds of"
                " task); were that normal, no mean could err less than 0.8 of it"
            )
        findings.append(found.conditions)
    return Figure(
        name="figure6",
        title="Figure 6: prediction error, sum |predicted - measured| / sum measured",
        source=f"{SOURCE}, Figure 6 and section 4.1: of an order of 1 % on CPUs, below 0.1 % on the GPU",
        cases=cases,
        findings=findings,
        pictures=pictures,
    )


def simulation(out: Path, quick: bool) -> Figure:
    """The paper's machine simulated: the policies' order without a machine's noise."""
    cases, findings, pictures = [], [], []
    n_tiles, n_seeds, n_runs = (12, 3, 5) if quick else (32, 5, 6)
    name = f"{n_tiles} x {n_tiles} tiles"
    greedy: list[list[float]] = []
    by_history: list[list[float]] = []
    repetitions: list[list[Run]] = []
    for seed in range(n_seeds):
        first, second = paper_machine.runs(n_tiles, n_runs, seed)
        repetitions.append(second)
        greedy.append(paper_machine.gflops(n_tiles, [run.seconds for run in first]))
        by_history.append(paper_machine.gflops(n_tiles, [run.seconds for run in second]))
    mean_greedy = [statistics.mean(column) for column in zip(*greedy, strict=True)]
    mean_history = [statistics.mean(column) for column in zip(*by_history, strict=True)]
    cases += speed_cases("simulation", name, "16k", greedy, by_history)
    made, said, picture = error_cases(
        *("simulation", name, repetitions, {"GPU": [0], "CPU cores": [1, 2, 3]}),
        out / "simulation-error.png",
    )
    cases += made
    findings.append(f"mean of {n_seeds} seeds: {overtakes(mean_greedy, mean_history)}")
    findings += said
    findings.append(
        "speeds and scatter of the workers are assumed (paper_machine.py): the order of the policies is"
        " found, the errors' final size is put in"
    )
    pictures.append(
        drawing.iterations(out / "simulation-speed.png", name, mean_greedy, mean_history)
    )
    pictures.append(picture)
    return Figure(
        name="simulation",
        title="Figures 5 and 6 in simulated time: a GPU and three cores (SimPy)",
        source=f"{SOURCE}, Figures 5 and 6",
        cases=cases,
        findings=findings,
        pictures=pictures,
    )
