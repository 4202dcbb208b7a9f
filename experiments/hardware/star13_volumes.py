"""V100, 13-point fp64 stencil with 1 and 2 points a thread: bytes per update, for every group shape.

Nothing was chosen with these volumes in view: neither machine file nor replay.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

from experiments.cases import Done, run
from experiments.data_files import rows, source
from experiments.hardware import drawing
from experiments.hardware.comparison import errors
from experiments.hardware.star_stencil import SNAPSHOT, compiled_star
from experiments.hardware.stencil_volumes import group_shape, label
from experiments.hardware.volumes import Triple, volumes
from experiments.kernels.star import star
from experiments.reproduction import Case, Figure
from memsim.machine import load_machine
from tracegen import CudaWorkload

TABLE = "v100_star13_volumes.csv"
QUANTITIES = ("l2_load", "dram_load")
POINTS = ("1", "2")
INTERIOR, PITCH, RADIUS = (596, 596, 508), 600, 2


def v100_points(out: Path, quick: bool) -> Figure:
    """All 60 variants, one snapshot each, or a sample."""
    variants = {_name(row): row for row in rows(TABLE)}
    cases = [
        case
        for one in run("v100-points", variants, volumes_of, out, quick=quick)
        for case in one.cases
    ]
    names = [f"{quantity}_{points}" for points in POINTS for quantity in QUANTITIES]
    return Figure(
        reference_name="measured",
        name="v100-points",
        title="V100, 13-point fp64 star stencil: traffic per update, by group shape and points of a thread",
        source=source(TABLE),
        cases=cases,
        findings=[f"{name}: {errors(cases, name)}" for name in names],
        pictures=[
            drawing.scatter(
                out / f"v100-points-{quantity}.png",
                [case for case in cases if case.quantity.startswith(quantity)],
                f"V100, 13-point stencil: {quantity.replace('_', ' ')}, B/update",
            )
            for quantity in QUANTITIES
        ],
    )


def volumes_of(row: Mapping[str, str]) -> Done:
    """Volumes of one variant, a row of the table."""
    machine = load_machine("v100")
    traced = compiled_star(group_shape(row), machine, functools.partial(_workload, row))
    (ours,) = volumes(traced, machine, SNAPSHOT)
    return Done(
        [
            Case(
                figure="v100-points",
                case=_name(row),
                quantity=f"{quantity}_{row['points']}",
                unit="B/update",
                reference=float(row[quantity]),
                ours=getattr(ours, quantity),
            )
            for quantity in QUANTITIES
        ]
    )


def _name(row: Mapping[str, str]) -> str:
    return f"{label(group_shape(row))}, points: {row['points']}"


def _workload(row: Mapping[str, str], shape: Triple) -> CudaWorkload:
    nx, ny, nz = INTERIOR
    x, y, z = shape
    return star(
        radius=RADIUS,
        points=int(row["points"]),
        nx=nx,
        ny=ny,
        nz=nz,
        block_x=x,
        block_y=y,
        block_z=z,
        pitch=PITCH,
        filled=False,
    )
