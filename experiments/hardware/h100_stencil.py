"""H100, 25-point fp64 stencil: traffic per update against Nsight Compute's counters, by group shape.

Nothing in the machine file or in the replay was chosen with these volumes in view. Variants whose work-items
compute several points are compared at L1 alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.data_files import rows, source, write_results
from experiments.hardware import drawing
from experiments.hardware.affine import Triple
from experiments.hardware.comparison import errors
from experiments.hardware.star_stencil import compiled_star, points_workload
from experiments.hardware.stencil_volumes import QUICK_SHAPES, group_shape, label
from experiments.hardware.volumes import Snapshot, Volumes, hit_ratio_errors, volumes
from experiments.reproduction import Case, Figure, each
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
QUICK_VARIANTS: tuple[tuple[Triple, tuple[int, int]], ...] = (
    *(((16, 2, 16), (2, 1)), ((32, 4, 4), (4, 1))),
    *(((16, 8, 4), (1, 4)), ((32, 16, 1), (2, 2))),
)


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
    """Every group shape with one point a work-item, eight of them if quick; also writes h100_star25_ours.csv.

    One ordering of one snapshot each.
    """
    machine = load_machine("h100")
    table = measured()
    cases = []
    results: list[dict[str, object]] = []
    for shape in each("h100-stencil", [s for s in QUICK_SHAPES if s in table] if quick else table):
        (run,) = volumes(compiled_star(shape, machine, points_workload()), machine, SNAPSHOT)
        ours = quantities(run)
        l2_load, dram_load = table[shape]["l2_load"], table[shape]["dram_load"]
        points = hit_ratio_errors([run], l2_load=l2_load, dram_load=dram_load)
        results.append(
            {
                **dict(zip(("block_x", "block_y", "block_z"), shape, strict=True)),
                **{quantity: ours[quantity] for quantity in WRITTEN},
                **{f"{level}_points": value for level, value in points.items()},
            }
        )
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
    write_results(
        out / "h100_star25_ours.csv",
        f"Replays for comparison with {TABLE}: bytes per update of one snapshot of {SNAPSHOT.waves} waves, and"
        " error of the load hit ratios in points.",
        results,
    )
    return _figure(out, "h100-stencil", "traffic per update, by group shape", cases, list(UNITS))


def h100_points(out: Path, quick: bool) -> Figure:
    """L1 misses of the variants with several points a work-item; four of them if quick."""
    machine = load_machine("h100")
    cases = []
    for row in each("h100-points", rows(TABLE)):
        shape, points = group_shape(row), points_of(row)
        if points == ONE_POINT or (quick and (shape, points) not in QUICK_VARIANTS):
            continue
        (run,) = volumes(
            compiled_star(shape, machine, points_workload(points)),
            machine,
            POINTS_SNAPSHOT,
        )
        cases.append(
            Case(
                figure="h100-points",
                case=f"{label(shape)}, {points[0]} x {points[1]} points",
                quantity="l1_misses",
                unit=UNITS["l1_misses"],
                reference=counted(row)["l1_misses"],
                ours=run.l2_load,
            )
        )
    return _figure(
        out, "h100-points", "several points a work-item, L1 misses", cases, ["l1_misses"]
    )


def _figure(
    out: Path, name: str, title: str, cases: list[Case], quantities: Sequence[str]
) -> Figure:
    return Figure(
        reference_name="measured",
        name=name,
        title=f"H100, 25-point fp64 star stencil: {title}",
        source=source(TABLE),
        cases=cases,
        findings=[f"{quantity}: {errors(cases, quantity)}" for quantity in quantities],
        pictures=[
            drawing.scatter(
                out / f"{name}-{quantity}.png",
                [case for case in cases if case.quantity == quantity],
                f"H100, 25-point stencil: {quantity.replace('_', ' ')}, {UNITS[quantity]}",
            )
            for quantity in quantities
        ],
    )
