"""Times of the V100 stencil: all variants of the model, and the effect of missed translations."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping, Sequence
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
    missed_translations,
    predictions,
    replayed_kernel,
    with_translation,
)
from experiments.reproduction import Case, Figure
from memsim.errors import SnapshotWarning
from memsim.machine import load_machine

DEEP = 64
"""Depth of groups that access so many planes, each in a page of its own, that translations miss."""
CALIBRATED: Triple = (8, 1, 128)
"""The shape from which the cycles of a missed translation are estimated; only a finding uses
them."""


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


def translation(out: Path, quick: bool) -> Figure:
    """Times with and without missed translations, and the cycles per miss that one shape
    suggests."""
    machine = load_machine("v100")
    measured = measured_times()
    taken = machine.translation.miss_cycles if machine.translation else 0.0
    fits, others = taken, 0.0
    for _ in range(30):  # until the time of this shape is exact
        seconds = with_translation(_replayed(CALIBRATED), machine, fits)["events"]
        others, fits = fits, fits * measured[CALIBRATED] / seconds
        if abs(fits - others) < 0.01:
            break
    labels = {label(shape): shape for shape in measured}
    work = functools.partial(translated, cycles=(None, taken, fits))
    done = run("translation", labels, work, out, quick=quick)
    cases = cases_of(done)
    missed = {labels[one.cases[0].case]: one.row["missed"] for one in done}
    times: dict[tuple[str, float | None], dict[Triple, float]] = {}
    for shape, one in zip(missed, done, strict=True):
        for solver, cycles, value in one.row["times"]:
            times.setdefault((solver, cycles), {})[shape] = value
    findings = [
        "The translation buffer has 16 entries of 2 MB, from the pointer chase of RRZE-HPC/gpu-benches.",
        f"A miss occupies the translation of a core for {taken:g} cycles, which shapes 64 and 32 deep chose."
        " Random probes of a large hash table, where each request misses another page, allow at most 24.4"
        " (experiments/data/v100_random_probes.csv); why the stencil's misses take longer is not known.",
        f"{label(CALIBRATED)} alone suggests {fits:.1f} cycles, which no prediction uses.",
    ]
    for (solver, cycles), seconds_of in times.items():
        kind = "without translation" if cycles is None else f"{cycles:.1f} cycles a miss"
        findings.append(f"{solver}, {kind}: {_errors_text(seconds_of, measured)}")
    return Figure(
        reference_name="measured",
        title="V100 stencil: group shapes that miss translations",
        source=source("v100_star25_times.csv"),
        cases=cases,
        findings=findings,
        pictures=[
            _draw(out / "v100-translation.png", missed, times["events", None], measured),
        ],
    )


def translated(shape: Triple, cycles: Sequence[float | None]) -> Done:
    """Times of one shape with a miss of so many cycles; the second is the case's."""
    replayed, machine = _replayed(shape), load_machine("v100")
    missed = missed_translations(replayed)
    times = {one: with_translation(replayed, machine, one) for one in cycles}
    case = Case(
        label(shape),
        "with translation",
        "ms",
        reference=1e3 * measured_times()[shape],
        ours=1e3 * times[cycles[1]]["events"],
        note=f"{missed:.1f} missed translations per sub-group; {1e3 * times[None]['events']:.2f} ms without misses",
    )
    of_solver = [(solver, c, value) for c, of in times.items() for solver, value in of.items()]
    return Done([case], {"missed": missed, "times": of_solver})


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


def _draw(
    path: Path,
    missed: Mapping[Triple, float],
    plain: Mapping[Triple, float],
    measured: Mapping[Triple, float],
) -> str:
    """Ratio of measured to predicted time against missed translations."""
    ratios = {shape: measured[shape] / plain[shape] for shape in missed}
    names = [label(shape) * (ratio > 1.2) for shape, ratio in ratios.items()]
    line = drawing.Line(list(missed.values()), list(ratios.values()), "o", names=names)
    panel = drawing.Panel(
        [line],
        "V100 stencil: predictions without missed translations",
        "missed translations of a sub-group (16 entries of 2 MB)",
        "measured / predicted time, without translation",
        levels={"equal": 1.0},
    )
    return drawing.panels(path, panel)


def _errors_text(ours: Mapping[Triple, float], measured: Mapping[Triple, float]) -> str:
    error, rank = errors_of(ours, measured)
    return f"mean absolute error {100 * error:.1f} %, Spearman {rank:.3f}, {len(ours)} shapes"
