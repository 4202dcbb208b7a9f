"""Figures 5 and 6, on real queues and in simulated time: speeds and errors, run by run."""

from __future__ import annotations

import statistics
from pathlib import Path

from calib.history import running
from experiments.history import drawing, lu_kernels
from experiments.history.measured_runs import all_sizes
from experiments.history.speeds_and_errors import (
    PAPER_SPEEDS,
    SETTLED,
    SOURCE,
    error_cases,
    overtakes,
    speed_cases,
)
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
