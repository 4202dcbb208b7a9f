"""MI250X (one die): predicted and measured times of the 7-point fp64 Laplacian of
amd/amd-lab-notes."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path

import tracegen
from calib.prediction import Timing, simulated_inputs, time_of
from experiments.cases import Done, cases_of, run
from experiments.data_files import rows
from experiments.hardware.comparison import figure_of, half_width
from experiments.hardware.laplacian_fetch import Variant
from experiments.hardware.volumes import Snapshot
from experiments.lhf.replay_costs import replay_costs
from experiments.reproduction import Case, Figure
from memsim.errors import SnapshotWarning
from memsim.machine import load_machine

POSITION = 0.53
SNAPSHOT = Snapshot(waves=9, warmup=6)
OPERATIONS = {"fp64_fma": 1.0}
"""Operations per loaded value: it is multiplied by a constant and added to a sum."""
TRIALS = 3


def predicted(variant: Variant) -> Timing:
    """Predicted time of one launch. Its basic blocks are the bulk sequences of its loads."""
    machine = load_machine("mi250x")
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
        _variant(row).name,
        "time",
        "ms",
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
    return figure_of(
        "mi250x-times",
        "MI250X, 7-point fp64 Laplacian at 512^3: predicted times, without any fit",
        ["mi250x_laplacian_times.csv"],
        cases_of(run("mi250x-times", variants, time_of_variant, out, quick=quick)),
        out,
        "MI250X, 7-point fp64 Laplacian at 512^3: time in ms",
    )
