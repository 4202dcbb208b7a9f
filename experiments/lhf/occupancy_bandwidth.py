"""DRAM bandwidth against occupancy, predicted and measured, for kernels with one element a
work-item.

Each group starts, loads, stores and ends. At low occupancy the time is therefore the start of a
group and one memory latency; at high occupancy it is the bandwidth. The kernels are read, scale and
triad of RRZE-HPC/gpu-benches. The bandwidth of triad at full occupancy, and the row hits of its replay, stand in
the machine files; scale chose how long loads wait for writes beside them (`turnaround_cycles`). Read chose nothing, nor did
triad at lower occupancies.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

import loopy as lp
import numpy as np
import numpy.typing as npt

import tracegen
from calib.prediction import simulated_inputs, time_of
from experiments import drawing
from experiments.cases import Done, cases_of, run
from experiments.data_files import rows, source
from experiments.hardware.volumes import Snapshot, Traced
from experiments.lhf.replay_costs import replay_costs
from experiments.reproduction import Case, Figure
from memsim.machine import Machine, load_machine
from memsim.montecarlo import replay
from memsim.trace import Trace
from tracegen import Workload

ELEMENTS = 1 << 28
SNAPSHOT = Snapshot(waves=4, warmup=2)
"""A short snapshot is enough: no element is used twice."""
KERNELS = {
    "read": ("b", "<> value = b[i]"),
    "scale": ("ba", "a[i] = 0.5 * b[i]"),
    "triad": ("bcda", "a[i] = b[i] + c[i] * d[i]"),
}
"""The arrays, in their order in memory, and the statement. Each is accessed once an element."""
GPUS = {"v100": "v100", "a100_80": "a100", "gh200": "h200", "mi210": "mi210"}
"""Measured GPU -> our machine."""
KNEE = 0.9
"""Share of the largest bandwidth at the knee of a curve."""
LOW = 10.0
"""Occupancy in percent below which the bandwidth depends on latency alone."""
STEP = 3.125
"""Distance of two measured points, in percent of occupancy."""


def stream_kernel(name: str, block_size: int) -> Workload:
    """One element for each work-item; arrays follow one another in memory, and their values do not matter."""
    arrays, statement = KERNELS[name]
    kernel = lp.make_kernel(
        f"{{[i]: 0 <= i < {ELEMENTS}}}",
        statement,
        [lp.GlobalArg(", ".join(arrays), np.float64, shape=(ELEMENTS,))],
        name=name,
        lang_version=(2018, 2),
    )
    kernel = lp.split_iname(kernel, "i", block_size, inner_tag="l.0", outer_tag="g.0")
    return Workload(kernel, {array: np.zeros(ELEMENTS) for array in arrays})


def _traced(name: str, machine: Machine, block_size: int) -> Traced:
    """Nothing is run: the addresses follow from the schedule.

    The store begins a bulk sequence, and so waits for all loads. The machine files' rates were derived so: with a store
    that waits for the last load, the V100's triad has 52 % row hits instead of 55.
    """
    workload = stream_kernel(name, block_size)

    def traced(groups: npt.NDArray[np.int64]) -> Trace:
        trace = tracegen.trace(
            workload, machine, groups=groups.tolist(), tracer="polyhedral", earlier=False
        )
        starts = trace.starts_sequence | (trace.waits >= 0)
        return trace.replace(starts_sequence=starts, waits=np.full(trace.n_access, -1, np.int32))

    return traced


def bandwidth_gbs(name: str, machine: Machine, block_size: int, groups_per_core: int) -> float:
    """Predicted bandwidth: bytes of the arrays per second, in 1e9."""
    replayed = replay_costs(
        _traced(name, machine, block_size),
        machine,
        [0.5],
        2,
        SNAPSHOT,
        groups_per_core=groups_per_core,
        deviation=False,
        per_load=lambda _: [{"fp64_fma": 1.0}],
    )
    inputs = simulated_inputs(replayed.program, replayed.costs, machine, replayed.resident)
    timing = time_of(inputs, replayed.resident, machine)
    moved = len(KERNELS[name][0]) * 8 * ELEMENTS
    return moved / float(timing.seconds.mean()) / 1e9


def row_hit_percent(name: str, machine: Machine) -> float:
    """Row-buffer hits of a replay of the kernel in groups of 1024, as sustained_row_hits_percent of machine files."""
    n = machine.n_cores * (machine.residency.max_items // 1024)
    groups = ELEMENTS // 1024 // 2 // n * n + np.arange(4 * n)
    replayed = replay([_traced(name, machine, 1024)(groups)], machine, trials=2, warmup_waves=1)
    return 100 * float(replayed.dataset["dram_row_hit_ratio"].mean())


def knee(bandwidth: list[float]) -> int:
    """Index of the first point that reaches KNEE of the largest bandwidth."""
    reached = np.array(bandwidth) >= KNEE * max(bandwidth)
    return int(reached.argmax())


def meeting(occupancy: list[float], bandwidth: list[float]) -> float:
    """Occupancy at which the line through the low occupancies would reach the largest bandwidth."""
    x, y = np.array(occupancy), np.array(bandwidth)
    slope = float(np.median((y / x)[x < LOW]))
    return max(bandwidth) / slope


def table(gpu: str) -> list[dict[str, str]]:
    """The measured occupancies of a GPU."""
    return [row for row in rows("stream_occupancy.csv") if row["gpu"] == gpu]


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Bandwidth of one kernel on one GPU in GB/s, (n_occupancy,) each."""

    gpu: str
    kernel: str
    occupancy_pct: list[float]
    measured: list[float]
    ours: list[float]


def stream_occupancy(out: Path, quick: bool) -> Figure:
    """Measured and predicted curves, or a sample of them, and where their two regimes meet."""
    of = {f"{gpu} {kernel}": (gpu, kernel) for gpu in GPUS for kernel in KERNELS}
    done = run("stream-occupancy", of, compared_curve, out, quick=quick)
    curves = [Curve(**one.row["curve"]) for one in done]
    by_gpu = {gpu: [curve for curve in curves if curve.gpu == gpu] for gpu in GPUS}
    return Figure(
        reference_name="measured",
        title="DRAM bandwidth against occupancy",
        source=source("stream_occupancy.csv"),
        cases=cases_of(done),
        findings=[one.row["finding"] for one in done],
        pictures=[_draw(out / f"stream-{gpu}.png", some) for gpu, some in by_gpu.items() if some],
    )


def compared_curve(of: tuple[str, str]) -> Done:
    """A curve of one kernel on one GPU: the knees, the meeting points and the largest bandwidths, and the error of the whole."""
    gpu, kernel = of
    measured, machine = table(gpu), load_machine(GPUS[gpu])
    curve = Curve(
        gpu=gpu,
        kernel=kernel,
        occupancy_pct=[float(row["occupancy_pct"]) for row in measured],
        measured=[float(row[kernel]) for row in measured],
        ours=[
            bandwidth_gbs(kernel, machine, int(row["block_size"]), int(row["groups_per_core"]))
            for row in measured
        ],
    )
    cases, finding = _compared(curve)
    return Done(cases, {"curve": dataclasses.asdict(curve), "finding": finding})


def _compared(curve: Curve) -> tuple[list[Case], str]:
    """The knees, the meeting points and the largest bandwidths; and the error of the whole
    curve."""
    occupancy = curve.occupancy_pct
    knees = knee(curve.measured), knee(curve.ours)
    knee_steps = abs(knees[0] - knees[1])
    meetings = meeting(occupancy, curve.measured), meeting(occupancy, curve.ours)
    meeting_steps = abs(meetings[0] - meetings[1]) / STEP
    name = f"{curve.gpu} {curve.kernel}"
    values = (
        (
            "knee",
            "% occupancy",
            (occupancy[knees[0]], occupancy[knees[1]]),
            f"{knee_steps} steps apart; the first occupancy with"
            f" {100 * KNEE:.0f} % of the largest bandwidth",
        ),
        (
            "lines meet",
            "% occupancy",
            meetings,
            f"{meeting_steps:.1f} steps apart; the line of the low occupancies reaches the largest"
            " bandwidth here",
        ),
        ("largest", "GB/s", (max(curve.measured), max(curve.ours)), ""),
    )
    cases = [
        Case(name, quantity, unit, reference=reference, ours=ours, note=note)
        for quantity, unit, (reference, ours), note in values
    ]
    logarithms = np.abs(np.log(np.array(curve.ours) / curve.measured))
    return cases, (
        f"{name}: error {100 * (np.exp(logarithms.mean()) - 1):.0f} %"
        f" (geometric mean over {len(occupancy)}"
        f" occupancies); the knees are {knee_steps} steps apart, the meeting points {meeting_steps:.1f}"
    )


def _draw(path: Path, curves: list[Curve]) -> str:
    lines = []
    for k, curve in enumerate(curves):
        lines += [
            drawing.Line(curve.occupancy_pct, curve.measured, "o-", curve.kernel, k),
            drawing.Line(curve.occupancy_pct, curve.ours, "s--", f"{curve.kernel}, ours", k),
        ]
    title = f"{curves[0].gpu}: bandwidth against occupancy"
    return drawing.panels(path, drawing.Panel(lines, title, "occupancy, %", "GB/s"))
