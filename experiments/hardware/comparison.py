"""Errors of our values relative to measured ones, figures of them, and predicted times of loops that are extrapolated."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.stats import spearmanr

from calib.prediction import PredictOptions, predict, run_replay
from experiments import drawing
from experiments.data_files import source
from experiments.reproduction import Case, Figure
from memsim.machine import Machine
from memsim.statistics import student_t
from tracegen import CudaWorkload, trace_snapshots


@dataclass(frozen=True, kw_only=True)
class Errors:
    """Relative errors of some cases.

    geometric_mean : exp(mean |ln(ours / measured)|) - 1
    worst : the largest relative error with its sign, of the case `worst_case`
    spearman : rank correlation, NaN if the measured values differ by less than 1 %
    """

    geometric_mean: float
    worst: float
    worst_case: str
    spearman: float
    n: int

    def __str__(self) -> str:
        ranks = "" if math.isnan(self.spearman) else f", Spearman {self.spearman:.3f}"
        return (
            f"geometric mean {100 * self.geometric_mean:.1f} %, worst {100 * self.worst:+.1f} %"
            f" ({self.worst_case}){ranks}, {self.n} cases"
        )


def errors(cases: Iterable[Case], quantity: str) -> Errors:
    """Errors of one quantity, over the cases that have a measured value."""
    chosen = [c for c in cases if c.quantity == quantity and c.reference is not None]
    ours = np.array([c.ours for c in chosen])
    measured: npt.NDArray[np.float64] = np.array([c.reference for c in chosen], np.float64)
    relative = ours / measured - 1
    worst = int(np.abs(relative).argmax())
    ranks = math.nan
    if np.ptp(measured) > 0.01 * measured.mean() and np.ptp(ours) > 0:
        ranks = float(spearmanr(ours, measured).statistic)
    return Errors(
        geometric_mean=float(np.exp(np.abs(np.log(ours / measured)).mean()) - 1),
        worst=float(relative[worst]),
        worst_case=chosen[worst].case,
        spearman=ranks,
        n=len(chosen),
    )


def figure_of(
    name: str,
    title: str,
    tables: Sequence[str],
    cases: Sequence[Case],
    out: Path,
    picture: str,
    *,
    apart: bool = False,
    findings: Sequence[str] | None = None,
) -> Figure:
    """The figure of a comparison with hardware: the errors of each quantity, and a picture of ours against measured values.

    tables : that the measured values are from
    picture : its title;  apart : whether each quantity has its own
    findings : by default the errors
    """
    quantities = list(dict.fromkeys(case.quantity for case in cases))
    if findings is None:
        findings = [f"{quantity}: {errors(cases, quantity)}" for quantity in quantities]
    drawn = {name: (picture, cases)}
    if apart:
        drawn = {
            f"{name}-{quantity}": (
                f"{picture}: {quantity.replace('_', ' ')}",
                [case for case in cases if case.quantity == quantity],
            )
            for quantity in quantities
        }
    return Figure(
        reference_name="measured",
        title=title,
        source="; ".join(map(source, tables)),
        cases=cases,
        findings=findings,
        pictures=[drawing.scatter(out / f"{n}.png", of, words) for n, (words, of) in drawn.items()],
    )


def half_width(values: Sequence[float]) -> float | None:
    """Half-width of the 95 % confidence interval of the mean (Student); None for fewer than two
    values."""
    n = len(values)
    if n < 2:
        return None
    return float(student_t(n) * np.std(values, ddof=1) / math.sqrt(n))


def extrapolated_s(
    workload: Callable[[int], CudaWorkload],
    lengths: tuple[int, int],
    whole: int,
    machine: Machine,
    trials: int,
) -> float:
    """Predicted seconds of a launch whose threads run a loop of `whole` turns, along the line through those of two shorter loops:
    what is done before and after the loop counts once.

    workload : turns of the loop -> the launch
    """
    options, seconds = PredictOptions(trials=trials), []
    for length in lengths:
        traces = trace_snapshots(workload(length), machine, snapshots=1)
        replay = run_replay(traces, machine, options, miss_kinds=False)
        seconds.append(predict(traces, machine, options, replay=replay).timing.estimate.mean)
    slope = (seconds[1] - seconds[0]) / (lengths[1] - lengths[0])
    return seconds[0] + slope * (whole - lengths[0])
