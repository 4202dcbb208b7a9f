"""H100: predicted and measured times of the 25-point stencil in 59 group shapes. Nothing was chosen on them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from calib.prediction import simulated_inputs, time_of
from experiments.cases import Done, cases_of, run
from experiments.data_files import rows
from experiments.hardware.comparison import figure_of
from experiments.hardware.h100_stencil import TABLE
from experiments.hardware.star_stencil import compiled_star, points_workload
from experiments.hardware.stencil_volumes import group_shape, label
from experiments.hardware.volumes import Snapshot, Triple
from experiments.lhf.replay_costs import replay_costs
from experiments.reproduction import Case, Figure
from memsim.machine import Machine, load_machine

POSITION = 0.5
SNAPSHOT = Snapshot(waves=12, warmup=8)


def measured_ms() -> Mapping[Triple, float]:
    """Group shape -> time of a launch, of the variants with one point a work-item."""
    return {
        group_shape(row): float(row["time_ms"])
        for row in rows(TABLE)
        if (row["points_y"], row["points_z"]) == ("1", "1")
    }


def predicted_ms(shape: Triple, machine: Machine) -> float:
    """From one ordering of one snapshot."""
    replayed = replay_costs(
        compiled_star(shape, machine, points_workload()), machine, [POSITION], 1, SNAPSHOT
    )
    inputs = simulated_inputs(replayed.program, replayed.costs, machine, replayed.resident)
    return 1e3 * time_of(inputs, replayed.resident, machine).estimate.mean


def time_of_shape(shape: Triple) -> Done:
    """The time of one group shape."""
    case = Case(
        label(shape),
        "time",
        "ms",
        reference=measured_ms()[shape],
        ours=predicted_ms(shape, load_machine("h100")),
    )
    return Done([case])


def h100_times(out: Path, quick: bool) -> Figure:
    """Every group shape with one point a work-item, or a sample."""
    shapes = {label(shape): shape for shape in measured_ms()}
    return figure_of(
        "h100-times",
        "H100, 25-point fp64 stencil: predicted times by group shape",
        [TABLE],
        cases_of(run("h100-times", shapes, time_of_shape, out, quick=quick)),
        out,
        "H100, 25-point stencil: time in ms",
    )
