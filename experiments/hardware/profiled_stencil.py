"""V100, 25-point fp64 stencil: the totals of `memsim profile` with its default options, by group shape.

The figure `v100-stencil` shows the error of the model, from long snapshots. This one shows what a user gets:
few and short snapshots, scaled to the launch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tracegen
from experiments.cases import Done, cases_of, run
from experiments.data_files import write_results
from experiments.hardware.comparison import errors, figure_of
from experiments.hardware.star_stencil import Grid, star_workload
from experiments.hardware.stencil_volumes import label, measured_volumes
from experiments.hardware.volumes import Triple
from experiments.reproduction import Case, Figure
from memsim import Estimate, Replay, ReplayOptions
from memsim.machine import Machine, load_machine
from memsim.trace import GRANULE_BYTES

QUANTITIES = ("l2_load", "dram_load", "dram_store")


def v100_profile(out: Path, quick: bool) -> Figure:
    """All group shapes, or eight of them; also writes v100_star25_profile_ours.csv."""
    done = run(
        "v100-profile",
        {label(shape): shape for shape in measured_volumes()},
        totals_of,
        out,
        quick=quick,
    )
    cases, results = cases_of(done), [one.row for one in done]
    write_results(
        out / "v100_star25_profile_ours.csv",
        "Totals of memsim profile with default options for comparison with v100_star25_volumes.csv: bytes per"
        " update, half-widths of their 95 % intervals, and what the model's validated error adds.",
        results,
    )
    return figure_of(
        "v100-profile",
        "V100, 25-point fp64 star stencil: bytes per update by memsim profile with default options",
        ["v100_star25_volumes.csv"],
        cases,
        out,
        "V100, 25-point stencil, default options, bytes per update",
        apart=True,
        findings=[f"{q}: {errors(cases, q)}; {_inside(cases, q, results)}" for q in QUANTITIES],
    )


def totals_of(shape: Triple) -> Done:
    """The totals of one group shape beside the measured ones."""
    moved, model = profiled(shape, load_machine("v100"))
    cases = [
        Case(
            label(shape),
            quantity,
            "B/update",
            reference=measured_volumes()[shape][quantity],
            ours=moved[quantity].mean,
            ci95=moved[quantity].half_width,
        )
        for quantity in QUANTITIES
    ]
    row = {
        **dict(zip(("block_x", "block_y", "block_z"), shape, strict=True)),
        **{q: moved[q].mean for q in QUANTITIES},
        **{f"{q}_half_width": moved[q].half_width for q in QUANTITIES},
        **{f"{q}_model": error for q, error in model.items()},
    }
    return Done(cases, row)


def profiled(shape: Triple, machine: Machine) -> tuple[Mapping[str, Estimate], Mapping[str, float]]:
    """Bytes per update of the launch, as the counters show them (see stencil_volumes), and of what is read what the
    model's validated error leaves open."""
    replay = tracegen.profile(
        star_workload(shape), machine, ReplayOptions(miss_kinds=False, jobs=1)
    )
    totals, updates = replay.launch, int(np.prod(Grid().interior))
    moved, partly_stored = totals.moved, _partly_stored(replay) * updates
    model = {
        "l2_load": totals.model_error_bytes["L2"] / updates,
        "dram_load": totals.model_error_bytes["DRAM"] / updates,
    }
    return {
        "l2_load": moved.read_bytes["L2"].shifted(partly_stored).scaled(1 / updates),
        "dram_load": moved.read_bytes["DRAM"].scaled(1 / updates),
        "dram_store": moved.write_bytes["DRAM"].scaled(1 / updates),
    }, model


def _partly_stored(replay: Replay) -> float:
    """Bytes per update of the sectors that a store fills by half, in this kernel all that it fills in part."""
    stores = replay.dataset.isel(site=np.flatnonzero(replay.dataset["direction"].values == "store"))
    sector_bytes = GRANULE_BYTES * int(stores["site_sectors"].sum())
    unfilled = sector_bytes - int(stores["site_useful_bytes"].sum())
    return 2 * unfilled / int(stores["site_lanes"].sum())


def _inside(cases: list[Case], quantity: str, results: Sequence[Mapping[str, Any]]) -> str:
    chosen = [case for case in cases if case.quantity == quantity]
    values = np.array([(case.ours, case.reference, case.ci95) for case in chosen], np.float64)
    off, half = np.abs(values[:, 0] - values[:, 1]), values[:, 2]
    text = (
        "the measured value is inside the interval, which does not cover the model's error, in"
        f" {(off <= half).sum()} of {len(chosen)} shapes"
    )
    if f"{quantity}_model" not in results[0]:
        return text
    half = half + np.array([row[f"{quantity}_model"] for row in results], np.float64)
    return f"{text}, and in {(off <= half).sum()} with that error"
