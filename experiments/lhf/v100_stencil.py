"""V100: the 25-point stencil in 43 shapes of group, predicted times beside measured ones.

Nothing is fitted. Baselines are made from *measured* volumes: the slower of DRAM and L2, and that with
the cycles of L1's lines on top.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import get_args

import numpy as np
import numpy.typing as npt

from calib.prediction import (
    Inputs,
    Program,
    Residents,
    Solver,
    blocks_from_kernel,
    paper_inputs,
    simulated_inputs,
    site_name,
    time_of,
)
from experiments.data_files import rows
from experiments.hardware.affine import Triple
from experiments.hardware.star_stencil import LOADS_IN_FLIGHT, SNAPSHOT, Grid, star_kernel
from experiments.hardware.stencil_volumes import measured_volumes
from experiments.kernels.stencil import star25
from experiments.lhf.replay_costs import Fed, feed
from memsim.machine import Machine
from tracegen.instrumented import prepare

UPDATES = 632 * 504 * 504
L2_BYTES_PER_S, DRAM_BYTES_PER_S = 2.3e12, 790e9
"""Of the V100 in the device table of te42kyfo/warpspeed, for the baselines."""
VARIANTS = {
    "paper print": "paper's equation as printed, one latency and bandwidth",
    "paper": "paper's equation corrected, one latency and bandwidth, hits ignored",
    "equation X": "fed by the replay, equation, largest expected latency of the accesses",
    "equation": "fed by the replay, equation, slowest of the accesses",
    "events": "fed by the replay, sub-groups in turn (what predict does)",
}


def measured_times() -> dict[Triple, float]:
    """Seconds of one sweep, by shape."""
    found = {}
    for row in rows("v100_star25_times.csv"):
        shape = (int(row["block_x"]), int(row["block_y"]), int(row["block_z"]))
        found[shape] = UPDATES / (float(row["glups"]) * 1e9)
    return found


def baselines(machine: Machine) -> dict[str, dict[Triple, float]]:
    """Seconds from measured volumes: max(DRAM, L2), and L1's lines + max(DRAM, L2)."""
    volumes = measured_volumes()
    found: dict[str, dict[Triple, float]] = {"max(DRAM, L2)": {}, "L1 lines + max(DRAM, L2)": {}}
    for row in rows("v100_star25_times.csv"):
        shape = (int(row["block_x"]), int(row["block_y"]), int(row["block_z"]))
        moved = volumes[shape]
        l2 = (moved["l2_load"] + moved["l2_store"]) / L2_BYTES_PER_S
        dram = (moved["dram_load"] + moved["dram_store"]) / DRAM_BYTES_PER_S
        # The table's cycles are those of the loads and the store of one sub-group of 32 updates.
        lines = float(row["l1_line_cycles"]) / 32 / (machine.n_cores * machine.clock_hz)
        found["max(DRAM, L2)"][shape] = UPDATES * max(l2, dram)
        found["L1 lines + max(DRAM, L2)"][shape] = UPDATES * (lines + max(l2, dram))
    return found


def stencil_program(loads_in_flight: int = LOADS_IN_FLIGHT) -> Program:
    """The sub-group's program; its blocks are the same for every shape and size."""
    kernel = prepare(star25(nx=64, ny=16, nz=8), None).kernel
    return blocks_from_kernel(
        kernel,
        name_of=lambda instruction, touch: (
            "dst" if touch.direction == "store" else site_name(instruction, touch)
        ),
        loads_in_flight=loads_in_flight,
    )


def fed(shape: Triple, machine: Machine, positions: Sequence[float], trials: int) -> Fed:
    """Replays of a shape at several places of the launch, trials taking turns."""
    return feed(star_kernel(shape, Grid()), machine, positions, trials, SNAPSHOT)


def predictions(
    found: Fed, program: Program, machine: Machine
) -> dict[str, npt.NDArray[np.float64]]:
    """Seconds by variant, (n_trial,) each."""
    slow = simulated_inputs(program, found.costs, machine)
    mean = simulated_inputs(program, found.costs, machine, latency="expected")
    printed = paper_inputs(program, machine)
    resident = found.resident
    return {
        "paper print": time_of(printed, resident, machine, mode="paper").seconds,
        "paper": corrected_paper(printed, resident, machine),
        "equation X": time_of(mean, resident, machine, solver="equation").seconds,
        "equation": time_of(slow, resident, machine, solver="equation").seconds,
        "events": time_of(slow, resident, machine).seconds,
    }


def corrected_paper(
    inputs: Inputs, resident: Residents, machine: Machine
) -> npt.NDArray[np.float64]:
    """The paper's inputs in the corrected equation."""
    return time_of(inputs, resident, machine, solver="equation").seconds


def with_translation(
    found: Fed, program: Program, machine: Machine, cycles: float | None
) -> dict[str, float]:
    """Seconds by solver where each missed translation keeps a core's busy for so long; None for not at all."""
    costs = dataclasses.replace(found.costs, translation_cycles=cycles)
    inputs = simulated_inputs(program, costs, machine)
    return {
        solver: float(time_of(inputs, found.resident, machine, solver=solver).seconds.mean())
        for solver in get_args(Solver)
    }


def missed_translations(found: Fed) -> float:
    """Of one sub-group."""
    costs = found.costs
    return float((costs.missed_translations.mean(axis=0) * costs.per_subgroup).sum())


def errors_of(
    ours: Mapping[Triple, float], measured: Mapping[Triple, float]
) -> tuple[float, float]:
    """Mean absolute relative error, and Spearman's rank correlation."""
    from scipy.stats import spearmanr

    shapes = list(ours)
    mine = np.array([ours[shape] for shape in shapes])
    theirs = np.array([measured[shape] for shape in shapes])
    rank = float(spearmanr(mine, theirs).statistic)
    return float(np.abs(mine / theirs - 1).mean()), rank
