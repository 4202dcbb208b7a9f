"""Speeds by row of the paper's Figure 5, and prediction errors by the number of samples, beside the
paper's."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from calib.history import Key, Record, Store
from experiments import drawing
from experiments.history.execution import Done, Run
from experiments.history.policies import Expected
from experiments.history.task_graph import Task
from experiments.reproduction import Case

SOURCE = "Augonnet, Thibault and Namyst, Automatic Calibration of Performance Models, HPPC 2009"
SETTLED = 4
"""The paper averages over the iterations from this one on."""
PAPER_SPEEDS: Mapping[str, Mapping[str, float]] = {
    "16k": {"greedy": 89.98, "1st": 48.31, "2nd": 103.62, "3rd": 103.11, "from 4th": 103.92},
    "30k": {"greedy": 130.68, "1st": 96.63, "2nd": 130.23, "3rd": 133.50, "from 4th": 135.90},
}
PAPER_SPREADS: Mapping[str, Mapping[str, float]] = {
    "16k": {"greedy": 2.97, "from 4th": 0.46},
    "30k": {"greedy": 1.66, "from 4th": 0.64},
}
PAPER_ERRORS = {"CPU": 0.01, "GPU": 0.001}
BINS = ((1, 2), (3, 5), (6, 9), (10, 19), (20, 49), (50, 199), (200, 10**9))
"""Ranges of the number of samples of a prediction, both ends included."""


def rows(
    greedy: Sequence[Sequence[float]], by_history: Sequence[Sequence[float]]
) -> dict[str, list[float]]:
    """Row of Figure 5 -> the speeds over which it averages.

    greedy, by_history : (n_repetition, n_iteration) speeds
    """
    speeds = {"greedy": [speed for series in greedy for speed in series]}
    for index, name in enumerate(("1st", "2nd", "3rd")):
        speeds[name] = [series[index] for series in by_history if len(series) > index]
    speeds["from 4th"] = [speed for series in by_history for speed in series[SETTLED - 1 :]]
    return speeds


def speed_cases(
    case: str,
    column: str,
    greedy: Sequence[Sequence[float]],
    by_history: Sequence[Sequence[float]],
) -> list[Case]:
    """GFlop/s and their standard deviation, beside one column of the paper's table."""
    cases = []
    for row, values in rows(greedy, by_history).items():
        if not values:
            continue
        mean = statistics.mean(values)
        cases.append(
            Case(
                f"{case}, {row}",
                "speed",
                "GFlop/s",
                reference=PAPER_SPEEDS[column][row],
                ours=mean,
                note=f"the paper's machine, {column}",
            )
        )
        if row in PAPER_SPREADS[column] and len(values) > 1:
            cases.append(
                Case(
                    f"{case}, {row}",
                    "standard deviation",
                    "%",
                    reference=100 * PAPER_SPREADS[column][row] / PAPER_SPEEDS[column][row],
                    ours=100 * statistics.stdev(values) / mean,
                )
            )
    return cases


def overtakes(greedy: Sequence[float], by_history: Sequence[float]) -> str:
    """The iteration from which on every run by history is faster than the mean of the greedy
    runs."""
    level = statistics.mean(greedy)
    slower = [i for i, speed in enumerate(by_history, start=1) if speed <= level]
    gain = statistics.mean(by_history[SETTLED - 1 :]) / level - 1
    begin = (slower[-1] if slower else 0) + 1
    if begin > len(by_history):
        return (
            "the last run by history is not faster than the mean of the greedy runs; from the 4th iteration on"
            f" the mean by history is {100 * gain:+.1f} %"
        )
    return (
        f"every run by history from iteration {begin} on is faster than the mean of the greedy runs; from"
        f" the 4th on the gain is {100 * gain:+.1f} %"
    )


def by_samples(done: Sequence[Done]) -> dict[tuple[int, int], float]:
    """Prediction error by number of samples, for ranges with at least five predictions."""
    errors = {}
    for low, high in BINS:
        chosen = [d for d in done if low <= d.n_samples <= high]
        if len(chosen) >= 5:
            errors[low, high] = error(chosen)
    return errors


def error_cases(
    name: str,
    repetitions: Sequence[Sequence[Run]],
    workers: Mapping[str, Sequence[int]],
    out: Path,
) -> tuple[list[Case], list[str], str]:
    """Cases and findings on the prediction errors, and the name of their picture.

    repetitions : series of runs, each of which begins without a history; an iteration's error is
        over all series
    """
    cases, findings = [], []
    curves: dict[str, list[float]] = {}
    by_range: dict[str, Mapping[tuple[int, int], float]] = {}
    for title, numbers in workers.items():
        curve = [
            error([d for run in iteration for d in run.done if d.worker in numbers])
            for iteration in zip(*repetitions, strict=True)
        ]
        curves[title] = curve
        kind = "GPU" if title.startswith("GPU") else "CPU"
        for label, value, reference in (
            ("1st", curve[0], None),
            ("last", curve[-1], PAPER_ERRORS[kind]),
        ):
            cases.append(
                Case(
                    f"{name}, {title}, {label} iteration",
                    "error",
                    "%",
                    reference=None if reference is None else 100 * reference,
                    ours=None if math.isnan(value) else 100 * value,
                    note=(
                        "all tasks were queued before the first sample" if math.isnan(value) else ""
                    ),
                )
            )
        everything = [d for runs in repetitions for run in runs for d in run.done]
        bins = by_samples([d for d in everything if d.worker in numbers])
        by_range[title] = bins
        text = ", ".join(
            f"{100 * v:.3g} % on {_span(low, high)}" for (low, high), v in bins.items()
        )
        findings.append(f"{name}, {title}: error by number of samples: {text}")
    return cases, findings, _draw_errors(out, name, curves, by_range)


def draw_speeds(path: Path, title: str, greedy: Sequence[float], history: Sequence[float]) -> str:
    """GFlop/s of each run, and the mean of the greedy runs as a line."""
    number = range(1, len(greedy) + 1)
    panel = drawing.Panel(
        [
            drawing.Line(number, history, "o-", "earliest finish by history"),
            drawing.Line(number, greedy, "s", "greedy", 1),
        ],
        f"Tiled LU, {title}",
        "iteration",
        "GFlop/s",
        ticks=list(number),
        levels={"mean of greedy": statistics.mean(greedy)},
    )
    return drawing.panels(path, panel)


def _draw_errors(
    path: Path,
    title: str,
    curves: Mapping[str, Sequence[float]],
    by_samples: Mapping[str, Mapping[tuple[int, int], float]],
) -> str:
    """Prediction error in percent by iteration and by the number of samples; one curve for each worker."""
    paper = {f"the paper, {kind}": 100 * error for kind, error in PAPER_ERRORS.items()}
    left, right = [], []
    for k, (worker, values) in enumerate(curves.items()):
        number = range(1, len(values) + 1)
        left.append(drawing.Line(number, [100 * v for v in values], label=worker, colour=k))
        bins = by_samples[worker]
        least, of_bins = [low for low, _ in bins], [100 * v for v in bins.values()]
        right.append(drawing.Line(least, of_bins, label=worker, colour=k))
    return drawing.panels(
        path,
        drawing.Panel(
            left, f"Prediction error, {title}", "iteration", "error (%)", "y", list(number), paper
        ),
        drawing.Panel(
            right,
            "over all iterations",
            "samples per prediction (lower end of the range)",
            log="xy",
            levels=paper,
        ),
        size=(10, 4.4),
    )


def _span(low: int, high: int) -> str:
    if low == high:
        return str(low)
    return f"{low} or more" if high > 10**8 else f"{low} to {high}"


FRESH_S = 0.1
"""Seconds for which a record from the store is reused; the recorder writes every 50 ms."""


class FromHistory:
    """Mean times by kind of task and worker, each read from a store at most every FRESH_S
    seconds."""

    def __init__(self, store: Store, key_of: Callable[[str, int], Key]) -> None:
        self._store = store
        self._key_of = key_of
        self._known: dict[tuple[str, int], tuple[float, Record | None]] = {}

    def __call__(self, task: Task, worker: int) -> Expected:
        place = (task.kind, worker)
        now = time.monotonic()
        read_at, record = self._known.get(place, (-FRESH_S, None))
        if now - read_at >= FRESH_S:
            record = self._store.get(self._key_of(*place))
            self._known[place] = (now, record)
        if record is None or record.accepted.n == 0:
            return Expected(time_s=None, n_samples=0)
        return Expected(time_s=record.accepted.mean, n_samples=record.accepted.n)


def error(done: Sequence[Done]) -> float:
    """The paper's error: sum of |predicted - measured| / sum of measured; NaN without
    predictions."""
    predicted = [(d.expected_s, d.measured_s) for d in done if d.expected_s is not None]
    if not predicted:
        return float("nan")
    return sum(abs(e - m) for e, m in predicted) / sum(m for _, m in predicted)
