"""V100 stencil: how the size and position of a snapshot change the volumes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from experiments.data_files import source
from experiments.hardware.affine import Triple
from experiments.hardware.comparison import half_width
from experiments.hardware.stencil_volumes import (
    POSITIONS,
    label,
    measured_volumes,
    replayed_volumes,
)
from experiments.hardware.volumes import Snapshot
from experiments.reproduction import Case, Figure
from memsim.machine import Machine, load_machine

SHAPES: tuple[Triple, ...] = ((4, 4, 64), (8, 8, 16), (32, 1, 32), (64, 8, 2), (128, 2, 4))
SIZES = (
    Snapshot(waves=2, warmup=1),
    Snapshot(waves=4, warmup=2),
    Snapshot(waves=12, warmup=8),
    Snapshot(waves=24, warmup=20),
)

Measured = Mapping[Triple, Mapping[str, float]]


def snapshots(out: Path, quick: bool) -> Figure:
    """DRAM load volume against snapshot size."""
    machine = load_machine("v100")
    measured = measured_volumes()
    cases: list[Case] = []
    findings = []
    for snapshot in SIZES[1:3] if quick else SIZES:
        of_size, finding = _at_size(snapshot, SHAPES[1:3] if quick else SHAPES, machine, measured)
        cases += of_size
        findings.append(finding)
    return Figure(
        reference_name="measured",
        name="snapshots",
        title="V100 stencil: errors from the snapshot",
        source=source("v100_star25_volumes.csv"),
        cases=cases,
        findings=findings,
    )


def _at_size(
    snapshot: Snapshot, shapes: tuple[Triple, ...], machine: Machine, measured: Measured
) -> tuple[list[Case], str]:
    cases, spreads, logarithms = [], [], []
    for shape in shapes:
        replays = replayed_volumes(shape, machine, POSITIONS, snapshot)
        loads = [run.dram_load for run in replays]
        reference = measured[shape]["dram_load"]
        spreads.append(np.ptp(loads) / np.mean(loads))
        logarithms.append(abs(np.log(np.mean(loads) / reference)))
        cases.append(
            Case(
                figure="snapshots",
                case=f"{label(shape)}, {snapshot.waves} waves",
                quantity="dram_load",
                unit="B/update",
                reference=reference,
                ours=float(np.mean(loads)),
                ci95=half_width(loads),
            )
        )
    return cases, (
        f"{snapshot.waves} waves, the first {snapshot.warmup} for warming the caches: the error of the"
        f" DRAM load volume is {100 * (np.exp(np.mean(logarithms)) - 1):.1f} % (geometric mean);"
        f" three positions of the snapshot differ by {100 * np.mean(spreads):.1f} %"
    )
