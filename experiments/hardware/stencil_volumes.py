"""V100, 25-point fp64 stencil: bytes moved per update at L2 and DRAM, for every group shape.

The L2's loads were measured by a counter of all reads of the L2 (`lts__t_sectors_op_read`, without a
unit that asks; gpu-benches, measure_metric), not only of L1's. Where two groups fill a sector, in the six
shapes of width 2, it counts about 16 bytes an update more than L1 can have missed: one sector for each
store of a part of one. So a replay's misses of L1 are compared with that many bytes added. That the L2
reads a sector to merge a store into it is inferred from these six shapes; on an H100, where only L1's
reads were counted (h100_stencil), nothing is to be added. The authors count L1's reads since 2023.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from experiments.cases import Done, cases_of, run
from experiments.data_files import rows, write_results
from experiments.hardware.comparison import errors, figure_of, half_width
from experiments.hardware.star_stencil import SNAPSHOT, compiled_star, launched
from experiments.hardware.volumes import Snapshot, Triple, Volumes, hit_ratio_errors, volumes
from experiments.reproduction import Case, Figure
from memsim.machine import Machine, load_machine

QUANTITIES = ("l2_load", "dram_load", "l2_store", "dram_store")
"""Columns of the tables, and fields of Volumes."""
POSITIONS = (0.31, 0.53, 0.77)
"""Positions of the snapshot in the launch. They avoid simple fractions, where a layer of groups
begins: its first rows load their whole halo, and a snapshot there would consist mostly of them."""
ORDERINGS = 4
"""Orderings of each snapshot; each has its own placement of pages, which decides how planes meet in L2."""


def label(shape: Triple) -> str:
    """A group shape as text, `16x2x32`."""
    return "x".join(map(str, shape))


def group_shape(row: Mapping[str, str]) -> Triple:
    """The group shape of a row of a table."""
    return (int(row["block_x"]), int(row["block_y"]), int(row["block_z"]))


def measured_volumes() -> dict[Triple, dict[str, float]]:
    """Measured bytes per update: group shape -> quantity -> value."""
    return {
        group_shape(row): {quantity: float(row[quantity]) for quantity in QUANTITIES}
        for row in rows("v100_star25_volumes.csv")
    }


def counted(run: Volumes, quantity: str) -> float:
    """What the counter for a quantity shows of a replay; see the head of this module."""
    value = float(getattr(run, quantity))
    return value + run.partly_stored if quantity == "l2_load" else value


def replayed_volumes(
    shape: Triple,
    machine: Machine,
    positions: Sequence[float],
    snapshot: Snapshot = SNAPSHOT,
    orderings: int = 1,
) -> list[Volumes]:
    """Replay one group shape, with one snapshot for each position and some random orderings of each."""
    traced = compiled_star(shape, machine)
    return [
        one
        for k, position in enumerate(positions)
        for one in volumes(
            traced,
            machine,
            dataclasses.replace(snapshot, position=position),
            seeds=range(k * orderings, (k + 1) * orderings),
        )
    ]


def v100_stencil(out: Path, quick: bool) -> Figure:
    """Volumes and load hit ratios of all group shapes; also writes v100_star25_ours.csv."""
    done = run(
        "v100-stencil",
        {label(shape): shape for shape in measured_volumes()},
        volumes_of,
        out,
        quick=quick,
    )
    cases, results = cases_of(done), [one.row for one in done]
    points = {level: [row[f"{level}_points"] for row in results] for level in ("L1", "L2")}
    write_results(
        out / "v100_star25_ours.csv",
        "Replays for comparison with v100_star25_volumes.csv: bytes per update, mean of"
        f" {ORDERINGS} replays of {SNAPSHOT.waves} waves at each of {len(POSITIONS)} positions, and error of the load hit ratios in points.",
        results,
    )
    return figure_of(
        "v100-stencil",
        "V100, 25-point fp64 star stencil: bytes per update, by group shape",
        ["v100_star25_volumes.csv"],
        cases,
        out,
        "V100, 25-point stencil, bytes per update",
        apart=True,
        findings=[
            *(f"{quantity}: {errors(cases, quantity)}" for quantity in QUANTITIES),
            *(
                f"Load hit ratio of {level}: mean error {np.mean(values):.1f} points; 95 % of the shapes"
                f" within {np.quantile(values, 0.95):.1f} points; largest error {max(values):.1f} points"
                for level, values in points.items()
            ),
        ],
    )


def volumes_of(shape: Triple) -> Done:
    """Volumes and errors of the load hit ratios of one group shape."""
    measured = measured_volumes()[shape]
    replays = replayed_volumes(shape, load_machine("v100"), POSITIONS, orderings=ORDERINGS)
    error_points = hit_ratio_errors(
        replays,
        l2_load=measured["l2_load"] - replays[0].partly_stored,
        dram_load=measured["dram_load"],
    )
    row = {
        **dict(zip(("block_x", "block_y", "block_z"), shape, strict=True)),
        **{q: float(np.mean([counted(one, q) for one in replays])) for q in QUANTITIES},
        **{f"{level}_points": value for level, value in error_points.items()},
    }
    return Done([_case(shape, quantity, replays, measured) for quantity in QUANTITIES], row)


def _case(
    shape: Triple, quantity: str, replays: Sequence[Volumes], measured: Mapping[str, float]
) -> Case:
    ours = [counted(run, quantity) for run in replays]
    note = ""
    if launched(shape) != shape:
        note = f"launched as {label(launched(shape))}: a CUDA group is at most 64 deep"
    return Case(
        label(shape),
        quantity,
        "B/update",
        reference=measured[quantity],
        ours=float(np.mean(ours)),
        ci95=half_width(ours),
        note=note,
    )
