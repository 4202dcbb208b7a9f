"""H100: predicted and measured times of the 25-point stencil in 59 group shapes. Nothing was chosen on them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from calib.prediction import simulated_inputs, time_of
from experiments.data_files import rows, source
from experiments.hardware import drawing
from experiments.hardware.affine import Triple
from experiments.hardware.comparison import errors
from experiments.hardware.h100_stencil import TABLE
from experiments.hardware.star_stencil import compiled_star, points_workload
from experiments.hardware.stencil_volumes import QUICK_SHAPES, group_shape, label
from experiments.hardware.volumes import Snapshot
from experiments.lhf.replay_costs import replay_costs
from experiments.reproduction import Case, Figure, each
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


def h100_times(out: Path, quick: bool) -> Figure:
    """Every group shape with one point a work-item; eight of them if quick."""
    machine = load_machine("h100")
    measured = measured_ms()
    cases = [
        Case(
            figure="h100-times",
            case=label(shape),
            quantity="time",
            unit="ms",
            reference=measured[shape],
            ours=predicted_ms(shape, machine),
            ci95=None,
        )
        for shape in each(
            "h100-times", [s for s in QUICK_SHAPES if s in measured] if quick else measured
        )
    ]
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
