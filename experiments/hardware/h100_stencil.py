"""H100, 25-point fp64 stencil: traffic per update against Nsight Compute's counters, by group shape.

Nothing in the machine file or in the replay was chosen with these measurements in view. The counters of
variants that compute several points a work-item are in the same table; they are not compared here, because
what the compiler makes of them differs from the source's order of loads.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from experiments.data_files import rows, source
from experiments.hardware import drawing
from experiments.hardware.affine import Triple
from experiments.hardware.comparison import errors
from experiments.hardware.star_stencil import compiled_star
from experiments.hardware.stencil_volumes import QUICK_SHAPES, group_shape, label
from experiments.hardware.volumes import Snapshot, Volumes, volumes
from experiments.reproduction import Case, Figure
from memsim.machine import Machine, load_machine

TABLE = "h100_star25_counters.csv"
SNAPSHOT = Snapshot(waves=24, warmup=16)
"""Twice as long as on the V100, for the L2 is eight times as large."""
UPDATES = 632 * 504 * 504
SECTOR_BYTES = 32
UNITS = {"l2_load": "B/update", "dram_load": "B/update", "dram_store": "B/update", "l1_hits": "%"}


def counted(row: Mapping[str, str]) -> dict[str, float]:
    """Bytes per update and the L1 hit ratio of loads in percent, from a row of counters.

    A load counts as a hit if it caused no read of L2. The counter of hits is lower by up to 3 points: it
    leaves out loads of sectors that are on their way, which our hits include.
    """
    return {
        "l2_load": int(row["l2_read_sectors"]) * SECTOR_BYTES / UPDATES,
        "dram_load": int(row["dram_read_bytes"]) / UPDATES,
        "dram_store": int(row["dram_write_bytes"]) / UPDATES,
        "l1_hits": 100 * (1 - int(row["l2_read_sectors"]) / int(row["l1_load_sectors"])),
    }


def measured() -> dict[Triple, dict[str, float]]:
    """Group shape -> quantity -> measured value, of the variants with one point a work-item."""
    return {
        group_shape(row): counted(row)
        for row in rows(TABLE)
        if (row["points_y"], row["points_z"]) == ("1", "1")
    }


def replayed(shape: Triple, machine: Machine) -> dict[str, float]:
    """The same quantities from one ordering of one snapshot."""
    run: Volumes = volumes(compiled_star(shape, machine), machine, SNAPSHOT)
    return {
        "l2_load": run.l2_load,
        "dram_load": run.dram_load,
        "dram_store": run.dram_store,
        "l1_hits": 100 * run.load_hit_ratio["L1"],
    }


def h100_stencil(out: Path, quick: bool) -> Figure:
    """Every group shape with one point a work-item; eight of them if quick."""
    machine = load_machine("h100")
    table = measured()
    cases = []
    for shape in [s for s in QUICK_SHAPES if s in table] if quick else table:
        ours = replayed(shape, machine)
        cases += [
            Case(
                figure="h100-stencil",
                case=label(shape),
                quantity=quantity,
                unit=unit,
                reference=table[shape][quantity],
                ours=ours[quantity],
            )
            for quantity, unit in UNITS.items()
        ]
    return Figure(
        reference_name="measured",
        name="h100-stencil",
        title="H100, 25-point fp64 star stencil: traffic per update, by group shape",
        source=source(TABLE),
        cases=cases,
        findings=[f"{quantity}: {errors(cases, quantity)}" for quantity in UNITS],
        pictures=[
            drawing.scatter(
                out / f"h100-stencil-{quantity}.png",
                [case for case in cases if case.quantity == quantity],
                f"H100, 25-point stencil: {quantity.replace('_', ' ')}, {unit}",
            )
            for quantity, unit in UNITS.items()
        ],
    )
