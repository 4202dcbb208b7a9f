"""The comparisons: each returns a Figure with its cases, what was found, and its pictures."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from experiments.hardware import drawing
from experiments.hardware.affine import Triple
from experiments.hardware.comparison import errors, half_width
from experiments.hardware.l1_sweep import free_running, miss_ratios
from experiments.hardware.laplacian import SNAPSHOT as LAPLACIAN_SNAPSHOT
from experiments.hardware.laplacian import Variant, laplacian, machine_for, waiting
from experiments.hardware.measured import rows, source
from experiments.hardware.pointer_chase import chase_latency
from experiments.hardware.record import write_record
from experiments.hardware.star_stencil import (
    LOADS_IN_FLIGHT,
    SNAPSHOT,
    launched,
    star_kernel,
)
from experiments.hardware.volumes import Snapshot, Volumes, volumes
from experiments.reproduction import Case, Figure, MakeFigure
from memsim.machine import Machine, load_machine

QUANTITIES = ("l2_load", "dram_load", "l2_store", "dram_store")
POSITIONS = (0.31, 0.53, 0.77)
"""Not where a layer of groups begins, as at simple fractions: its first rows load their halo anew, and
a snapshot there counts mostly them."""
STENCIL_POSITIONS = POSITIONS * 2
"""Each twice: where a halo just fits into the L2, the places that pages are drawn move a shape by 10 %."""
QUICK_SHAPES: tuple[Triple, ...] = (
    *((2, 16, 32), (4, 8, 32), (8, 8, 16), (16, 2, 32)),
    *((16, 16, 4), (32, 4, 8), (64, 16, 1), (128, 1, 8)),
)
STUDY_SHAPES: tuple[Triple, ...] = ((4, 4, 64), (8, 8, 16), (32, 1, 32), (64, 8, 2), (128, 2, 4))
STUDY_SIZES = ((4, 2), (8, 4), (24, 16), (48, 40))


def stencil_truth() -> dict[Triple, dict[str, float]]:
    """Measured bytes per update of every shape of group."""
    found: dict[Triple, dict[str, float]] = {}
    for row in rows("v100_star25_volumes.csv"):
        shape = (int(row["block_x"]), int(row["block_y"]), int(row["block_z"]))
        found[shape] = {quantity: float(row[quantity]) for quantity in QUANTITIES}
    return found


def stencil_volumes(
    shape: Triple,
    machine: Machine,
    positions: Sequence[float],
    snapshot: Snapshot = SNAPSHOT,
    loads_in_flight: int = LOADS_IN_FLIGHT,
) -> list[Volumes]:
    """Replays of a shape, one a position; each is also another ordering."""
    kernel = star_kernel(shape, loads_in_flight=loads_in_flight)
    return [
        volumes(kernel, machine, dataclasses.replace(snapshot, position=position), seed=k)
        for k, position in enumerate(positions)
    ]


def stencil(out: Path, quick: bool) -> Figure:
    """V100, 25-point stencil: volumes at both levels, all shapes of group."""
    machine = load_machine("v100")
    truth = stencil_truth()
    shapes = QUICK_SHAPES if quick else tuple(truth)
    positions = POSITIONS[1:2] if quick else STENCIL_POSITIONS
    cases: list[Case] = []
    hit_errors: dict[str, list[float]] = {"L1": [], "L2": []}
    record: list[dict[str, object]] = []
    for shape in shapes:
        runs = stencil_volumes(shape, machine, positions)
        for quantity in QUANTITIES:
            ours = [float(getattr(run, quantity)) for run in runs]
            cases.append(
                Case(
                    figure="v100-stencil",
                    case="x".join(map(str, shape)),
                    quantity=quantity,
                    unit="B/update",
                    reference=truth[shape][quantity],
                    ours=float(np.mean(ours)),
                    ci95=half_width(ours),
                    note=_launched_note(shape),
                )
            )
        points_off = _hit_ratio_errors(runs, truth[shape])
        for level, points in points_off.items():
            hit_errors[level].append(points)
        record.append(
            {
                **dict(zip(("block_x", "block_y", "block_z"), shape, strict=True)),
                **{q: float(np.mean([getattr(run, q) for run in runs])) for q in QUANTITIES},
                **{f"{level}_points": points for level, points in points_off.items()},
            }
        )
    write_record(
        out / "v100_star25_ours.csv",
        f"Ours beside v100_star25_volumes.csv: bytes per update, mean of {len(positions)} snapshots of"
        f" {SNAPSHOT.waves} waves, and points of load hit ratio that they are off.",
        record,
    )
    findings = [f"{quantity}: {errors(cases, quantity)}" for quantity in QUANTITIES]
    findings += [
        f"load hit ratio of {level}: {np.mean(points):.1f} points off in the mean,"
        f" {np.quantile(points, 0.95):.1f} in 95 % of the cases, at most {max(points):.1f}"
        for level, points in hit_errors.items()
    ]
    pictures = [
        drawing.scatter(
            out / f"v100-stencil-{quantity}.png",
            [case for case in cases if case.quantity == quantity],
            f"V100, 25-point stencil: {quantity.replace('_', ' ')}, bytes per update",
        )
        for quantity in QUANTITIES
    ]
    return Figure(
        reference_name="measured",
        name="v100-stencil",
        title="V100, 25-point fp64 star stencil: bytes per update, by shape of group",
        source=source("v100_star25_volumes.csv"),
        cases=cases,
        findings=findings,
        pictures=pictures,
    )


def _launched_note(shape: Triple) -> str:
    if launched(shape) == shape:
        return ""
    return f"launched as {'x'.join(map(str, launched(shape)))}: CUDA's groups are at most 64 deep"


def _hit_ratio_errors(runs: Sequence[Volumes], measured: dict[str, float]) -> dict[str, float]:
    """Points of load hit ratio between ours and what the measured bytes make of our requests.

    What the loads ask a level for is ours in both; the rest of it that was fetched from below is
    measured, or ours.
    """
    found: dict[str, float] = {}
    for level, below in (("L1", "l2_load"), ("L2", "dram_load")):
        ours = float(np.mean([run.load_hit_ratio[level] for run in runs]))
        fetched = float(np.mean([getattr(run, below) for run in runs]))
        other = measured[below]
        if level == "L2":  # its misses are a share of what L1 asked for
            asked = float(np.mean([run.l2_load for run in runs]))
            other, fetched = other / measured["l2_load"], fetched / asked
        found[level] = 100 * abs((1 - ours) * (other / fetched - 1))
    return found


def snapshots(out: Path, quick: bool) -> Figure:
    """How far a snapshot's size and place move the volumes, and loads in flight those of L1."""
    machine = load_machine("v100")
    truth = stencil_truth()
    shapes = STUDY_SHAPES[1:3] if quick else STUDY_SHAPES
    cases: list[Case] = []
    findings = []
    for waves, warmup in STUDY_SIZES[1:3] if quick else STUDY_SIZES:
        spread, off = [], []
        for shape in shapes:
            snapshot = Snapshot(waves=waves, warmup=warmup)
            runs = stencil_volumes(shape, machine, POSITIONS, snapshot)
            loads = [run.dram_load for run in runs]
            spread.append(np.ptp(loads) / np.mean(loads))
            off.append(abs(np.log(np.mean(loads) / truth[shape]["dram_load"])))
            cases.append(
                Case(
                    figure="snapshots",
                    case=f"{'x'.join(map(str, shape))}, {waves} waves",
                    quantity="dram_load",
                    unit="B/update",
                    reference=truth[shape]["dram_load"],
                    ours=float(np.mean(loads)),
                    ci95=half_width(loads),
                )
            )
        findings.append(
            f"{waves} waves, {warmup} of them uncounted: DRAM load {np.exp(np.mean(off)) - 1:.1%}"
            f" off (geometric mean), {np.mean(spread):.1%} between three positions"
        )
    for loads_in_flight in (8,) if quick else (4, 6, 8, 12, 25):
        off = []
        for shape in QUICK_SHAPES[:2] if quick else truth:
            run = stencil_volumes(
                shape, machine, POSITIONS[1:2], Snapshot(waves=4, warmup=1), loads_in_flight
            )[0]
            off.append(abs(np.log(run.l2_load / truth[shape]["l2_load"])))
        findings.append(
            f"{loads_in_flight} loads in flight: L2 load {np.exp(np.mean(off)) - 1:.1%} off"
        )
    return Figure(
        reference_name="measured",
        name="snapshots",
        title="V100 stencil: error of the snapshot, and of the assumed loads in flight",
        source=source("v100_star25_volumes.csv"),
        cases=cases,
        findings=findings,
    )


def laplacians(out: Path, quick: bool) -> Figure:
    """MI250X, 7-point Laplacian: fetched volume of the variants."""
    machine = load_machine("mi250x")
    cases = []
    record: list[dict[str, object]] = []
    for row in rows("mi250x_laplacian_fetch.csv"):
        variant = Variant(
            kernel=int(row["kernel"]),
            n=int(row["n"]),
            rows=int(row["rows"]),
            group=(int(row["block_x"]), int(row["block_y"]), int(row["block_z"])),
            nontemporal=row["nontemporal"] == "1",
        )
        if quick and (variant.n, variant.rows) != (512, 1):
            continue
        # Its sets are drawn, so that where a snapshot lies moves it by some points, by chance.
        runs = [
            volumes(
                waiting(laplacian(variant), machine),
                machine_for(variant, machine),
                dataclasses.replace(LAPLACIAN_SNAPSHOT, position=position),
                seed=k,
                staggered=True,
            )
            for k, position in enumerate(POSITIONS[1:2] if quick else POSITIONS)
        ]
        fetches = [run.dram_load / 8 * (1 - 2 / variant.n) ** 3 for run in runs]
        cases.append(
            Case(
                figure="mi250x-laplacian",
                case=variant.name,
                quantity="fetch",
                unit="of n^3 x 8 B",
                reference=float(row["fetch"]),
                ours=float(np.mean(fetches)),
                ci95=half_width(fetches),
            )
        )
        fetch, measured = cases[-1].ours or 0.0, float(row["fetch"])
        missed = 1 - np.mean([run.load_hit_ratio[machine.levels[-1].name] for run in runs])
        record.append(
            {
                **{key: row[key] for key in ("kernel", "n", "rows", "nontemporal")},
                "group": "x".join(map(str, variant.group)),
                "fetch": fetch,
                "L2_points": 100 * missed * abs(measured / fetch - 1),
            }
        )
    write_record(
        out / "mi250x_laplacian_ours.csv",
        "Ours beside mi250x_laplacian_fetch.csv: multiples of n^3 x 8 bytes, and points of load hit ratio"
        " that they are off.",
        record,
    )
    return Figure(
        reference_name="measured",
        name="mi250x-laplacian",
        title="MI250X (one die), 7-point fp64 Laplacian: fetched volume",
        source=source("mi250x_laplacian_fetch.csv"),
        cases=cases,
        findings=[f"fetch: {errors(cases, 'fetch')}"],
        pictures=[drawing.scatter(out / "mi250x-laplacian.png", cases, "MI250X: fetched volume")],
    )


def l1_curve(out: Path, quick: bool) -> Figure:
    """V100: L1 miss ratio of a cyclic sweep."""
    machine = load_machine("v100")
    cases, between = [], []
    table = rows("v100_l1_miss_ratio.csv")
    for row in table[24::4] if quick else table:
        buffer_kb = float(row["buffer_kb"])
        found = miss_ratios(machine, buffer_kb, 4 if quick else 32)
        cases.append(
            Case(
                figure="v100-l1",
                case=f"{buffer_kb:g} kB",
                quantity="miss_ratio",
                unit="%",
                reference=100 * float(row["miss_ratio"]),
                ours=100 * float(np.mean(found)),
                ci95=100 * (half_width(found) or 0.0),
            )
        )
        if 128 < buffer_kb < 236:
            free, step = (free_running(buffer_kb, in_step=held) for held in (False, True))
            between.append(
                f"{buffer_kb:g} kB: {row['miss_ratio']} measured; a fully associative LRU cache"
                f" of 128 kB misses {step:.2f} with the sub-groups in step and {free:.2f} where"
                f" the oldest that has its data goes on"
            )
    worst = max(l1_curve_errors(cases), default=0.0)
    findings = [f"up to 128 kB and from 236 kB on: at most {worst:.1f} points off", *between]
    picture = drawing.curve(out / "v100-l1.png", cases, "V100: L1 misses of a cyclic sweep", "%")
    return Figure(
        reference_name="measured",
        name="v100-l1",
        title="V100: L1 miss ratio of a cyclic sweep",
        source=source("v100_l1_miss_ratio.csv"),
        cases=cases,
        findings=findings,
        pictures=[picture],
    )


def l1_curve_errors(cases: Sequence[Case]) -> list[float]:
    """Points of miss ratio at the sizes up to 128 kB and from 236 kB on."""
    sizes = [float(case.case.split()[0]) for case in cases]
    return [
        abs(case.ours - case.reference)
        for case, size in zip(cases, sizes, strict=True)
        if case.ours is not None and case.reference is not None and not 128 < size < 236
    ]


PLATEAU_MACHINES = ("v100", "a100", "h100", "mi210", "mi300x")


CHASES = (("a100_80", "a100"), ("gh200", "h200"), ("mi210", "mi210"))
"""GPU of the measurement and our machine; the H200's L2 has the GH200's size."""


def latencies(out: Path, quick: bool) -> Figure:
    """Plateaus of a simulated pointer chase against the machine files; V100's curve, measured."""
    cases = []
    for name in PLATEAU_MACHINES[:1] if quick else PLATEAU_MACHINES:
        machine = load_machine(name)
        above = 0.0
        for level in machine.levels:
            size_kb = max(level.size_bytes / level.n_partitions / 1024 * 0.4, above * 1.4)
            cases.append(_plateau(machine, level.name, size_kb, level.latency_cycles))
            above = level.size_bytes / 1024
        idle = machine.dram.latency_cycles + machine.dram.row_conflict_cycles
        cases.append(_plateau(machine, "DRAM", above * 2, idle))
    curve = []
    table = rows("v100_pointer_chase.csv")
    v100 = load_machine("v100")
    for row in table[::8] if quick else table:
        buffer_kb = float(row["buffer_kb"])
        curve.append(
            Case(
                figure="latency",
                case=f"{buffer_kb:g} kB",
                quantity="v100_chase",
                unit="cycles",
                reference=float(row["cycles"]),
                ours=chase_latency(v100, buffer_kb),
            )
        )
    pictures = [drawing.curve(out / "v100-chase.png", curve, "V100: pointer chase", "cycles")]
    findings = [
        f"plateaus against the machine files: {errors(cases, 'plateau')}",
        f"V100's curve: {errors(curve, 'v100_chase')}",
    ]
    for gpu, name in CHASES:
        machine = load_machine(name)
        chased = [row for row in rows("pointer_chases.csv") if row["gpu"] == gpu]
        made = [
            Case(
                figure="latency",
                case=f"{float(row['buffer_kb']):g} kB",
                quantity=f"{gpu}_chase",
                unit="cycles",
                reference=float(row["cycles"]),
                ours=chase_latency(machine, float(row["buffer_kb"])),
            )
            for row in (chased[3::5] if quick else chased)
        ]
        curve += made
        title = f"{gpu} against machine {name}: pointer chase"
        pictures.append(drawing.curve(out / f"{name}-chase.png", made, title, "cycles"))
        findings.append(f"{gpu} against machine {name}: {errors(made, f'{gpu}_chase')}")
    return Figure(
        reference_name="measured",
        name="latency",
        title="Pointer chase: plateaus against machine files, and V100's curve against measured",
        source=source("v100_pointer_chase.csv") + " " + source("pointer_chases.csv"),
        cases=[*cases, *curve],
        findings=findings,
        pictures=pictures,
    )


def _plateau(machine: Machine, level: str, buffer_kb: float, latency: float) -> Case:
    return Case(
        figure="latency",
        case=f"{machine.name} {level}",
        quantity="plateau",
        unit="cycles",
        reference=latency,
        ours=chase_latency(machine, buffer_kb),
        note=f"{buffer_kb:.0f} kB; compared with the machine file",
    )


TITLE = "memsim against measured hardware"
FIGURES: dict[str, MakeFigure] = {
    "v100-stencil": stencil,
    "snapshots": snapshots,
    "mi250x-laplacian": laplacians,
    "v100-l1": l1_curve,
    "latency": latencies,
}
"""Every comparison by the name that --only takes."""
