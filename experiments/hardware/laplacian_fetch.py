"""MI250X (one die), 7-point fp64 Laplacian: bytes fetched from memory by the variants of the
kernel."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from experiments.data_files import rows, source, write_results
from experiments.hardware import drawing
from experiments.hardware.comparison import errors, half_width
from experiments.hardware.laplacian import SNAPSHOT, Variant, laplacian, machine_for, waiting
from experiments.hardware.stencil_volumes import POSITIONS, group_shape, label
from experiments.hardware.volumes import Volumes, volumes
from experiments.reproduction import Case, Figure
from memsim.machine import Machine, load_machine


def mi250x_laplacian(out: Path, quick: bool) -> Figure:
    """Fetched volume of every variant; also writes mi250x_laplacian_ours.csv."""
    machine = load_machine("mi250x")
    cases: list[Case] = []
    results: list[dict[str, object]] = []
    for row in rows("mi250x_laplacian_fetch.csv"):
        variant = _variant(row)
        if quick and (variant.n, variant.rows) != (512, 1):
            continue
        replays = _replays(variant, machine, POSITIONS[1:2] if quick else POSITIONS)
        fetches = [run.dram_load / 8 * (1 - 2 / variant.n) ** 3 for run in replays]
        ours, measured = float(np.mean(fetches)), float(row["fetch"])
        cases.append(
            Case(
                figure="mi250x-laplacian",
                case=variant.name,
                quantity="fetch",
                unit="of n^3 x 8 B",
                reference=measured,
                ours=ours,
                ci95=half_width(fetches),
            )
        )
        miss_ratio = 1 - np.mean([run.load_hit_ratio[machine.levels[-1].name] for run in replays])
        results.append(
            {
                **{key: row[key] for key in ("kernel", "n", "rows", "nontemporal")},
                "group": label(variant.group),
                "fetch": ours,
                "L2_points": 100 * miss_ratio * abs(measured / ours - 1),
            }
        )
    write_results(
        out / "mi250x_laplacian_ours.csv",
        "Replays for comparison with mi250x_laplacian_fetch.csv: fetched volume in multiples of n^3 x 8"
        " bytes, and error of the load hit ratio in points.",
        results,
    )
    return Figure(
        reference_name="measured",
        name="mi250x-laplacian",
        title="MI250X (one die), 7-point fp64 Laplacian: bytes fetched from memory",
        source=source("mi250x_laplacian_fetch.csv"),
        cases=cases,
        findings=[f"fetch: {errors(cases, 'fetch')}"],
        pictures=[drawing.scatter(out / "mi250x-laplacian.png", cases, "MI250X: fetched volume")],
    )


def _variant(row: Mapping[str, str]) -> Variant:
    return Variant(
        kernel=int(row["kernel"]),
        n=int(row["n"]),
        rows=int(row["rows"]),
        group=group_shape(row),
        nontemporal=row["nontemporal"] == "1",
    )


def _replays(variant: Variant, machine: Machine, positions: Sequence[float]) -> list[Volumes]:
    """One snapshot for each position: the L2's sets are drawn at random, so a position moves the
    result."""
    return [
        volumes(
            waiting(laplacian(variant), machine),
            machine_for(variant, machine),
            dataclasses.replace(SNAPSHOT, position=position),
            seed=k,
            staggered=True,
        )
        for k, position in enumerate(positions)
    ]
