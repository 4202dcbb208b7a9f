"""H100, 25-point fp64 stencil: traffic per update against Nsight Compute's counters, by group shape.

Nothing in the machine file or in the replay was chosen with these volumes in view. Variants whose work-items
compute several points are compared at L1 alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.cases import Done, cases_of, run
from experiments.data_files import rows, write_results
from experiments.hardware.comparison import figure_of
from experiments.hardware.star_stencil import compiled_star, points_workload
from experiments.hardware.stencil_volumes import group_shape, label
from experiments.hardware.volumes import Snapshot, Triple, Volumes, hit_ratio_errors, volumes
from experiments.reproduction import Case, Figure
from memsim.machine import load_machine

TABLE = "h100_star25_counters.csv"
SNAPSHOT = Snapshot(waves=24, warmup=16)
"""Twice as long as on the V100, for the L2 is eight times as large."""
UPDATES = 632 * 504 * 504
ONE_POINT = (1, 1)
SECTOR_BYTES = 32
UNITS = {
    "l1_misses": "B/update",
    "l2_load": "B/update",
    "dram_load": "B/update",
    "dram_store": "B/update",
    "l1_hits": "%",
}
WRITTEN = ("l2_load", "dram_load", "dram_store")
POINTS_SNAPSHOT = Snapshot(waves=6, warmup=3)
"""Enough for L1, of which each core has its own."""


def counted(row: Mapping[str, str]) -> dict[str, float]:
    """Bytes per update and the L1 hit ratio of loads in percent, from a row of counters.

    A load counts as a hit if it caused no read of L2. L1's own counter of misses is up to 7 % higher than the
    reads of L2, most where a group is one row high: in 32x1x32 groups L1 misses are as many as the sectors of
    which each core must miss a first load (75.1 of 76.0 bytes an update), and reads of L2 are fewer (71.1). So
    requests of several cores for one sector are merged on their way. The replay has no such merging.
    """
    missed = int(row["l1_load_sectors"]) - int(row["l1_load_hit_sectors"])
    return {
        "l1_misses": missed * SECTOR_BYTES / UPDATES,
        "l2_load": int(row["l2_read_sectors"]) * SECTOR_BYTES / UPDATES,
        "dram_load": int(row["dram_read_bytes"]) / UPDATES,
        "dram_store": int(row["dram_write_bytes"]) / UPDATES,
        "l1_hits": 100 * (1 - int(row["l2_read_sectors"]) / int(row["l1_load_sectors"])),
    }


def measured() -> dict[Triple, dict[str, float]]:
    """Group shape -> quantity -> measured value, of the variants with one point a work-item."""
    return {group_shape(row): counted(row) for row in rows(TABLE) if points_of(row) == ONE_POINT}


def points_of(row: Mapping[str, str]) -> tuple[int, int]:
    """Points of a work-item along y and z."""
    return int(row["points_y"]), int(row["points_z"])


def quantities(run: Volumes) -> dict[str, float]:
    """The same quantities from a replay."""
    return {
        "l1_misses": run.l2_load,
        "l2_load": run.l2_load,
        "dram_load": run.dram_load,
        "dram_store": run.dram_store,
        "l1_hits": 100 * run.load_hit_ratio["L1"],
    }


def h100_stencil(out: Path, quick: bool) -> Figure:
    """Every group shape with one point a work-item, or a sample; also writes h100_star25_ours.csv.

    One ordering of one snapshot each.
    """
    done = run(
        "h100-stencil", {label(shape): shape for shape in measured()}, volumes_of, out, quick=quick
    )
    write_results(
        out / "h100_star25_ours.csv",
        f"Replays for comparison with {TABLE}: bytes per update of one snapshot of {SNAPSHOT.waves} waves, and"
        " error of the load hit ratios in points.",
        [one.row for one in done],
    )
    return _figure(out, "h100-stencil", "traffic per update, by group shape", done)


def volumes_of(shape: Triple) -> Done:
    """Volumes of one group shape with one point a work-item, and errors of its load hit ratios."""
    machine, counters = load_machine("h100"), measured()[shape]
    (replayed,) = volumes(compiled_star(shape, machine, points_workload()), machine, SNAPSHOT)
    ours = quantities(replayed)
    points = hit_ratio_errors(
        [replayed], l2_load=counters["l2_load"], dram_load=counters["dram_load"]
    )
    row = {
        **dict(zip(("block_x", "block_y", "block_z"), shape, strict=True)),
        **{quantity: ours[quantity] for quantity in WRITTEN},
        **{f"{level}_points": value for level, value in points.items()},
    }
    cases = [
        Case(label(shape), quantity, unit, reference=counters[quantity], ours=ours[quantity])
        for quantity, unit in UNITS.items()
    ]
    return Done(cases, row)


def h100_points(out: Path, quick: bool) -> Figure:
    """L1 misses of the variants with several points a work-item, or of a sample."""
    variants = {_name(row): row for row in rows(TABLE) if points_of(row) != ONE_POINT}
    done = run("h100-points", variants, misses_of, out, quick=quick)
    return _figure(out, "h100-points", "several points a work-item, L1 misses", done)


def misses_of(row: Mapping[str, str]) -> Done:
    """L1 misses of one variant, a row of the table."""
    machine = load_machine("h100")
    traced = compiled_star(group_shape(row), machine, points_workload(points_of(row)))
    (replayed,) = volumes(traced, machine, POINTS_SNAPSHOT)
    case = Case(
        _name(row),
        "l1_misses",
        UNITS["l1_misses"],
        reference=counted(row)["l1_misses"],
        ours=replayed.l2_load,
    )
    return Done([case])


def _name(row: Mapping[str, str]) -> str:
    y, z = points_of(row)
    return f"{label(group_shape(row))}, {y} x {z} points"


def _figure(out: Path, name: str, title: str, done: Sequence[Done]) -> Figure:
    return figure_of(
        name,
        f"H100, 25-point fp64 star stencil: {title}",
        [TABLE],
        cases_of(done),
        out,
        "H100, 25-point stencil",
        apart=True,
    )
