"""V100: predicted and measured times of the 25-point stencil in 43 group shapes, without any fit.

Two baselines are computed from *measured* volumes: the slower one of DRAM and L2, and the same with
the cycles of L1 added to the time of DRAM.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from scipy.stats import spearmanr

from calib.prediction import (
    Block,
    Inputs,
    Program,
    Residents,
    Touched,
    paper_inputs,
    pipe_cycles,
    simulated_inputs,
    time_of,
)
from experiments.data_files import rows
from experiments.hardware.star_stencil import SNAPSHOT, compiled_star
from experiments.hardware.stencil_volumes import group_shape, measured_volumes
from experiments.hardware.volumes import Triple
from experiments.lhf.replay_costs import ReplayedKernel, replay_costs
from memsim.machine import Machine

UPDATES = 632 * 504 * 504
L2_BYTES_PER_S, DRAM_BYTES_PER_S = 2.3e12, 790e9
"""Bandwidths of the V100 in the device table of te42kyfo/warpspeed, for the baselines."""
VARIANTS = {
    "paper print": "equation of the paper as printed, with one latency and one bandwidth",
    "paper": "corrected equation, with one latency and one bandwidth, without cache hits",
    "equation X": "equation with costs from the replay, largest expected latency of the accesses",
    "equation": "equation with costs from the replay, slowest access",
    "events": "event simulation with costs from the replay (the default of memsim predict)",
}


def measured_times() -> dict[Triple, float]:
    """Seconds of one sweep, by group shape."""
    return {
        group_shape(row): UPDATES / (float(row["glups"]) * 1e9)
        for row in rows("v100_star25_times.csv")
    }


def baselines(machine: Machine) -> dict[str, dict[Triple, float]]:
    """Seconds computed from measured volumes: max(DRAM, L2), and max(L1 + DRAM, L2)."""
    volumes = measured_volumes()
    seconds: dict[str, dict[Triple, float]] = {"max(DRAM, L2)": {}, "max(L1 + DRAM, L2)": {}}
    for row in rows("v100_star25_times.csv"):
        shape = group_shape(row)
        moved = volumes[shape]
        l2 = (moved["l2_load"] + moved["l2_store"]) / L2_BYTES_PER_S
        dram = (moved["dram_load"] + moved["dram_store"]) / DRAM_BYTES_PER_S
        l1 = _l1_cycles(shape, machine) / 32 / (machine.n_cores * machine.clock_hz)
        seconds["max(DRAM, L2)"][shape] = UPDATES * max(l2, dram)
        seconds["max(L1 + DRAM, L2)"][shape] = UPDATES * max(l1 + dram, l2)
    return seconds


def _l1_cycles(shape: Triple, machine: Machine) -> float:
    """Cycles of L1 for the loads and the store of one sub-group of 32 updates."""
    traced = compiled_star(shape, machine)
    trace = traced(np.array([traced(np.zeros(1, np.int64)).launch.n_groups // 2]))
    touched = Touched(trace.granule_offset, trace.granule, trace.byte_mask, trace.lane_groups)
    itemsize_bytes = np.array([site.itemsize_bytes for site in trace.sites])[trace.site]
    return float(pipe_cycles(machine, touched, itemsize_bytes).sum()) / trace.n_subgroup


def source_program() -> Program:
    """The program of a sub-group as the paper counts it: 25 additions or products of 64 bits in the source."""
    loads = tuple(f"src {point}" for point in range(25))
    moves = Block(accesses=(*loads, "dst"), waits_for=loads, bytes_per_item=26 * 8)
    sums = Block(operations={"fp64_fma": 25.0}, barrier=True)
    return Program(blocks=(moves, sums), steps=(0, 1))


def replayed_kernel(
    shape: Triple, machine: Machine, positions: Sequence[float], trials: int
) -> ReplayedKernel:
    """Replays of one group shape at several positions of the launch."""
    return replay_costs(compiled_star(shape, machine), machine, positions, trials, SNAPSHOT)


def predictions(replayed: ReplayedKernel, machine: Machine) -> dict[str, npt.NDArray[np.float64]]:
    """Variant of the model -> (n_trial,) seconds."""
    program = replayed.program
    slow = simulated_inputs(program, replayed.costs, machine, replayed.resident)
    mean = simulated_inputs(program, replayed.costs, machine, replayed.resident, latency="expected")
    printed = paper_inputs(source_program(), machine)
    resident = replayed.resident
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
    """Seconds from the paper's inputs in the corrected equation."""
    return time_of(inputs, resident, machine, solver="equation").seconds


def errors_of(
    ours: Mapping[Triple, float], measured: Mapping[Triple, float]
) -> tuple[float, float]:
    """Mean absolute relative error, and Spearman's rank correlation."""
    shapes = list(ours)
    predicted = np.array([ours[shape] for shape in shapes])
    reference = np.array([measured[shape] for shape in shapes])
    rank = float(spearmanr(predicted, reference).statistic)
    return float(np.abs(predicted / reference - 1).mean()), rank
