"""MI250X (one die): predicted and measured times of the 7-point fp64 Laplacian of
amd/amd-lab-notes."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

import tracegen
from calib.prediction import Timing, simulated_inputs, time_of
from experiments.cases import Done, run
from experiments.data_files import rows, source
from experiments.hardware.comparison import errors, half_width
from experiments.hardware.laplacian_fetch import Variant
from experiments.hardware.volumes import Snapshot
from experiments.lhf.replay_costs import replay_costs
from experiments.reproduction import Case, Figure
from memsim.errors import SnapshotWarning
from memsim.files import write_picture
from memsim.machine import load_machine

POSITION = 0.53
SNAPSHOT = Snapshot(waves=9, warmup=6)
OPERATIONS = {"fp64_fma": 1.0}
"""Operations per loaded value: it is multiplied by a constant and added to a sum."""
TRIALS = 3


def predicted(variant: Variant) -> Timing:
    """Predicted time of one launch. Its basic blocks are the bulk sequences of its loads."""
    machine = variant.on(load_machine("mi250x"))
    workload = variant.workload()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SnapshotWarning)
        replayed = replay_costs(
            lambda groups: tracegen.trace(workload, machine, groups=groups, earlier=False),
            machine,
            [POSITION],
            TRIALS,
            SNAPSHOT,
            per_load=lambda _: [OPERATIONS],
        )
    inputs = simulated_inputs(replayed.program, replayed.costs, machine, replayed.resident)
    return time_of(inputs, replayed.resident, machine)


def time_of_variant(row: Mapping[str, str]) -> Done:
    """The time of one variant, a row of the table."""
    timing = predicted(_variant(row))
    case = Case(
        figure="mi250x-times",
        case=_variant(row).name,
        quantity="time",
        unit="ms",
        reference=float(row["time_ms"]),
        ours=1e3 * timing.estimate.mean,
        ci95=half_width((1e3 * timing.seconds).tolist()),
        note=f"limited by {timing.binds}",
    )
    return Done([case])


def _variant(row: Mapping[str, str]) -> Variant:
    return Variant(
        kernel=int(row["kernel"]), rows=int(row["rows"]), nontemporal=row["nontemporal"] == "1"
    )


def laplacian_times(out: Path, quick: bool) -> Figure:
    """Predicted times, and those that follow from the speed-ups in the notes."""
    variants = {_variant(row).name: row for row in rows("mi250x_laplacian_times.csv")}
    done = run("mi250x-times", variants, time_of_variant, out, quick=quick)
    cases = [case for one in done for case in one.cases]
    return Figure(
        reference_name="measured",
        name="mi250x-times",
        title="MI250X, 7-point fp64 Laplacian at 512^3: predicted times, without any fit",
        source=source("mi250x_laplacian_times.csv"),
        cases=cases,
        findings=[f"time: {errors(cases, 'time')}"],
        pictures=[_draw(out / "mi250x-times.png", cases)],
    )


def _draw(path: Path, cases: Sequence[Case]) -> str:
    from matplotlib.figure import Figure as Picture

    picture = Picture(figsize=(7, 1 + 0.35 * len(cases)), layout="constrained")
    axes = picture.add_subplot()
    rows_of = np.arange(len(cases))
    axes.barh(rows_of - 0.2, [case.reference or 0 for case in cases], 0.38, label="measured")
    axes.barh(
        rows_of + 0.2,
        [case.ours or 0 for case in cases],
        0.38,
        xerr=[case.ci95 or 0 for case in cases],
        label="ours",
    )
    axes.set_yticks(rows_of, [case.case for case in cases], fontsize=7)
    axes.invert_yaxis()
    axes.set(xlabel="ms", title="MI250X, 7-point fp64 Laplacian at 512^3")
    axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))
    return write_picture(path, picture, 150).name
