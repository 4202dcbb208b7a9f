"""H100: predicted and measured times of the 25-point stencil in 59 group shapes. Nothing was chosen on them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from calib.prediction import simulated_inputs, time_of
from experiments.cases import Done, run
from experiments.data_files import rows, source
from experiments.hardware import drawing
from experiments.hardware.comparison import errors
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
        figure="h100-times",
        case=label(shape),
        quantity="time",
        unit="ms",
        reference=measured_ms()[shape],
        ours=predicted_ms(shape, load_machine("h100")),
    )
    return Done([case])


def h100_times(out: Path, quick: bool) -> Figure:
    """Every group shape with one point a work-item, or a sample."""
    done = run(
        "h100-times",
        {label(shape): shape for shape in measured_ms()},
        time_of_shape,
        out,
        quick=quick,
    )
    cases = [case for one in done for case in one.cases]
    return Figure(
        reference_name="measured",
        name="h100-times",
        title="H100, 25-point fp64 stencil: predicted times by group shape",
        source=source(TABLE),
        cases=cases,
        findings=[f"time: {errors(cases, 'time')}"],
        pictures=[
            drawing.scatter(out / "h100-times.png", cases, "H100, 25-point stencil: time in ms")
        ],
    )
