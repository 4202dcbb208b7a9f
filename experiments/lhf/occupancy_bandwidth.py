"""DRAM bandwidth against occupancy: groups that handle one element a work-item, measured on GPUs.

Each group starts, loads, stores and ends, so at low occupancy the time is the start of a group and one
latency; where bandwidth takes over is the knee. Read, scale and triad of RRZE-HPC/gpu-benches.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from calib.prediction import blocks_from_trace, simulated_inputs, time_of
from experiments.data_files import rows, source
from experiments.hardware.affine import AffineAccess, AffineKernel
from experiments.hardware.volumes import Snapshot
from experiments.lhf.replay_costs import feed
from experiments.reproduction import Case, Figure
from memsim.machine import Machine, load_machine

ELEMENTS = 1 << 28
SNAPSHOT = Snapshot(waves=4, warmup=2)
"""Nothing is used twice; a short snapshot's stores are written back as a whole launch's are."""
KERNELS = {"read": (1, 0), "scale": (1, 1), "triad": (3, 1)}
"""Loads and stores of an element."""
GPUS = {"v100": "v100", "a100_80": "a100", "mi210": "mi210"}
"""Measured GPU -> our machine."""
KNEE = 0.9
LOW = 10.0
"""Percent of occupancy below which latency alone makes the bandwidth."""
STEP = 3.125
"""Percent of occupancy from one measured point to the next."""
QUICK = 6


def stream_kernel(name: str, block_size: int) -> AffineKernel:
    """One element a work-item, arrays one behind the other."""
    loads, stores = KERNELS[name]
    accesses = [
        AffineAccess(name=array, array=array, direction="load", first=0)
        for array in ("b", "c", "d")[:loads]
    ]
    accesses += [
        AffineAccess(name="a", array="a", direction="store", first=0, starts_sequence=True)
    ] * stores
    return AffineKernel(
        name=name,
        accesses=tuple(accesses),
        elements={access.array: ELEMENTS for access in accesses},
        strides=(1, 0, 0),
        low=(0, 0, 0),
        high=(ELEMENTS - 1, 0, 0),
        grid=(ELEMENTS // block_size, 1, 1),
        group=(block_size, 1, 1),
    )


def bandwidth_gbs(name: str, machine: Machine, block_size: int, groups_per_core: int) -> float:
    """Predicted bytes a second of the arrays, in 1e9."""
    kernel = stream_kernel(name, block_size)
    found = feed(
        kernel, machine, [0.5], 2, SNAPSHOT, groups_per_core=groups_per_core, deviation=False
    )
    program = blocks_from_trace(found.trace, per_load={"fp64_fma": 1.0})
    timing = time_of(simulated_inputs(program, found.costs, machine), found.resident, machine)
    moved = sum(KERNELS[name]) * 8 * kernel.n_groups * block_size
    return moved / float(timing.seconds.mean()) / 1e9


def knee(occupancy: list[float], bandwidth: list[float]) -> int:
    """The first place where the bandwidth reaches KNEE of its largest."""
    reached = np.array(bandwidth) >= KNEE * max(bandwidth)
    return int(reached.argmax())


def meeting(occupancy: list[float], bandwidth: list[float]) -> float:
    """Where the line of low occupancy, which latency makes, would reach the largest bandwidth."""
    x, y = np.array(occupancy), np.array(bandwidth)
    slope = float(np.median((y / x)[x < LOW]))
    return max(bandwidth) / slope


def table(gpu: str) -> list[dict[str, str]]:
    return [row for row in rows("stream_occupancy.csv") if row["gpu"] == gpu]


def stream_occupancy(out: Path, quick: bool) -> Figure:
    """Measured and predicted curves, and their knees."""
    from matplotlib.figure import Figure as Picture

    cases, findings, pictures = [], [], []
    for gpu, machine_name in GPUS.items():
        machine = load_machine(machine_name)
        listed = table(gpu)
        if quick:
            listed = listed[::QUICK]
        picture = Picture(figsize=(6, 4), layout="constrained")
        axes = picture.add_subplot()
        for k, name in enumerate(KERNELS):
            occupancy = [float(row["occupancy_pct"]) for row in listed]
            measured = [float(row[name]) for row in listed]
            ours = [
                bandwidth_gbs(name, machine, int(row["block_size"]), int(row["groups_per_core"]))
                for row in listed
            ]
            axes.plot(occupancy, measured, "o-", color=f"C{k}", markersize=3, label=name)
            axes.plot(occupancy, ours, "s--", color=f"C{k}", markersize=3, label=f"{name}, ours")
            at, mine = knee(occupancy, measured), knee(occupancy, ours)
            off = np.abs(np.log(np.array(ours) / measured))
            cases.append(
                Case(
                    figure="stream-occupancy",
                    case=f"{gpu} {name}",
                    quantity="knee",
                    unit="% occupancy",
                    reference=occupancy[at],
                    ours=occupancy[mine],
                    note=f"{abs(at - mine)} steps apart; where 90 % of the largest are reached",
                )
            )
            lines = meeting(occupancy, measured), meeting(occupancy, ours)
            apart = abs(lines[0] - lines[1]) / STEP
            cases.append(
                Case(
                    figure="stream-occupancy",
                    case=f"{gpu} {name}",
                    quantity="lines meet",
                    unit="% occupancy",
                    reference=lines[0],
                    ours=lines[1],
                    note=f"{apart:.1f} steps apart; latency's line and the largest bandwidth",
                )
            )
            cases.append(
                Case(
                    figure="stream-occupancy",
                    case=f"{gpu} {name}",
                    quantity="largest",
                    unit="GB/s",
                    reference=max(measured),
                    ours=max(ours),
                )
            )
            findings.append(
                f"{gpu} {name}: {np.exp(off.mean()) - 1:.0%} off in the geometric mean over"
                f" {len(listed)} occupancies; knee {abs(at - mine)} steps apart, lines' meeting {apart:.1f}"
            )
        axes.set(xlabel="occupancy, %", ylabel="GB/s", title=f"{gpu}: bandwidth against occupancy")
        axes.legend(fontsize=7, loc="lower right")
        path = out / f"stream-{gpu}.png"
        picture.savefig(path, dpi=150)
        pictures.append(path.name)
    return Figure(
        reference_name="measured",
        name="stream-occupancy",
        title="DRAM bandwidth against occupancy",
        source=source("stream_occupancy.csv"),
        cases=cases,
        findings=findings,
        pictures=pictures,
    )
