"""V100, 13-point fp64 stencil with 1 and 2 points a thread: bytes per update, for every group shape.

Nothing was chosen with these volumes in view: neither machine file nor replay.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

from experiments.cases import Done, cases_of, run
from experiments.data_files import rows
from experiments.hardware.comparison import figure_of
from experiments.hardware.star_stencil import SNAPSHOT, compiled_star
from experiments.hardware.stencil_volumes import group_shape, label
from experiments.hardware.volumes import Triple, volumes
from experiments.kernels.star import star
from experiments.reproduction import Case, Figure
from memsim.machine import load_machine
from tracegen import CudaWorkload

TABLE = "v100_star13_volumes.csv"
QUANTITIES = ("l2_load", "dram_load")
INTERIOR, PITCH, RADIUS = (596, 596, 508), 600, 2


def v100_points(out: Path, quick: bool) -> Figure:
    """All 60 variants, one snapshot each, or a sample."""
    variants = {_name(row): row for row in rows(TABLE)}
    return figure_of(
        "v100-points",
        "V100, 13-point fp64 star stencil: traffic per update, by group shape and points of a thread",
        [TABLE],
        cases_of(run("v100-points", variants, volumes_of, out, quick=quick)),
        out,
        "V100, 13-point stencil, B/update",
        apart=True,
    )


def volumes_of(row: Mapping[str, str]) -> Done:
    """Volumes of one variant, a row of the table."""
    machine = load_machine("v100")
    traced = compiled_star(group_shape(row), machine, functools.partial(_workload, row))
    (ours,) = volumes(traced, machine, SNAPSHOT)
    return Done(
        [
            Case(
                _name(row),
                f"{quantity}_{row['points']}",
                "B/update",
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
