"""Times of the V100 stencil by all variants of the model."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from experiments import drawing
from experiments.cases import Done, cases_of, run
from experiments.data_files import source
from experiments.hardware.comparison import half_width
from experiments.hardware.stencil_volumes import POSITIONS, label
from experiments.hardware.volumes import Triple
from experiments.lhf.replay_costs import ReplayedKernel
from experiments.lhf.v100_stencil import (
    VARIANTS,
    baselines,
    errors_of,
    measured_times,
    predictions,
    replayed_kernel,
)
from experiments.reproduction import Case, Figure
from memsim.errors import SnapshotWarning
from memsim.machine import load_machine

DEEP = 64
"""Depth of groups that access so many planes, each in a page of its own, that translations miss."""


@cache
def _replayed(shape: Triple) -> ReplayedKernel:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SnapshotWarning)
        return replayed_kernel(shape, load_machine("v100"), POSITIONS, 3)


def times_of(shape: Triple) -> Done:
    """The time of one shape by every variant of the model."""
    return Done(
        [
            Case(
                label(shape),
                name,
                "ms",
                reference=1e3 * measured_times()[shape],
                ours=1e3 * float(seconds.mean()),
                ci95=1e3 * (half_width(seconds.tolist()) or 0.0),
            )
            for name, seconds in predictions(_replayed(shape), load_machine("v100")).items()
        ]
    )


def v100_times(out: Path, quick: bool) -> Figure:
    """Predicted time of every shape by every variant of the model, and baselines from measured
    volumes."""
    machine = load_machine("v100")
    measured = measured_times()
    labels = {label(shape): shape for shape in measured}
    done = run("v100-times", labels, times_of, out, quick=quick)
    cases = cases_of(done)
    ours: dict[str, dict[Triple, float]] = {name: {} for name in VARIANTS}
    for case in cases:
        ours[case.quantity][labels[case.case]] = 1e-3 * (case.ours or 0.0)
    findings = [
        f"{name} ({VARIANTS[name]}): {_errors_text(ours[name], measured)}" for name in VARIANTS
    ]
    for name, seconds_of in baselines(machine).items():
        kept = {shape: seconds_of[shape] for shape in ours["events"]}
        findings.append(f"baseline from measured volumes, {name}: {_errors_text(kept, measured)}")
    for name in ("equation", "events"):
        kept = {shape: value for shape, value in ours[name].items() if shape[2] < DEEP}
        findings.append(
            f"{name}, the {len(kept)} shapes less than {DEEP} deep: {_errors_text(kept, measured)}"
        )
    pictures = [_draw_times(out / "v100-times.png", ours, measured)]
    return Figure(
        reference_name="measured",
        title="V100, 25-point fp64 stencil: predicted times by group shape, without any fit",
        source=source("v100_star25_times.csv"),
        cases=cases,
        findings=findings,
        pictures=pictures,
    )


def _draw_times(
    path: Path, ours: Mapping[str, Mapping[Triple, float]], measured: Mapping[Triple, float]
) -> str:
    """Ratio of predicted to measured time against the measured one, by both solvers."""
    lines = []
    for name, marker in (("events", "o"), ("equation", "x")):
        for deep in (False, True):
            shapes = [shape for shape in ours[name] if (shape[2] >= DEEP) == deep]
            ratios = [ours[name][shape] / measured[shape] for shape in shapes]
            far = [name == "events" and abs(ratio - 1) > 0.15 for ratio in ratios]
            lines.append(
                drawing.Line(
                    [1e3 * measured[shape] for shape in shapes],
                    ratios,
                    marker,
                    f"{name}, {'at least' if deep else 'below'} {DEEP} deep",
                    int(deep),
                    [label(shape) * is_far for shape, is_far in zip(shapes, far, strict=True)],
                )
            )
    panel = drawing.Panel(
        lines,
        "V100, 25-point fp64 stencil, 43 group shapes",
        "measured, ms per sweep",
        "predicted / measured",
        log="x",
        ticks=[6, 8, 10, 15, 20, 25, 35],
        levels={"equal": 1.0},
    )
    return drawing.panels(path, panel, size=(9, 5))


def _errors_text(ours: Mapping[Triple, float], measured: Mapping[Triple, float]) -> str:
    error, rank = errors_of(ours, measured)
    return f"mean absolute error {100 * error:.1f} %, Spearman {rank:.3f}, {len(ours)} shapes"
