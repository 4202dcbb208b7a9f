"""H200: predicted times and bytes of 31 ordinary kernels against measured ones. Nothing was chosen on them.

Their times are compared with those of Nsight Compute, which begin and end with the kernel and whose caches are empty
before, as in the prediction; times by events contain 1 to 3 us of the launch (`time_cold_us`). The L2's reads are what it
sent to L1s: the counter of all its reads (`l2_read_sectors`) also has what one partition reads of the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

import tracegen
from calib.prediction import Prediction, PredictOptions, predict, run_replay
from experiments.cases import Done, cases_of, run
from experiments.data_files import rows, write_results
from experiments.hardware.comparison import errors, figure_of
from experiments.kernels.common_kernels import KERNELS
from experiments.reproduction import Case, Figure
from memsim import Replay, ReplayOptions
from memsim.machine import Machine, load_machine
from memsim.montecarlo import Grows
from memsim.trace import Trace
from tracegen import CudaWorkload
from tracegen.growing import replay_grown
from tracegen.options import TraceOptions

TABLE = "h200_common_kernels.csv"
COUNTERS: Mapping[str, Callable[[Mapping[str, str]], int]] = {
    "l2_read": lambda row: 32 * int(row["l2_to_l1_sectors"]),
    "dram_read": lambda row: int(row["dram_read_bytes"]),
    "dram_write": lambda row: int(row["dram_write_bytes"]),
}
"""Quantity -> bytes that were counted."""
LEAST_BYTES = 10_000_000
"""Fewer counted bytes are not compared: what little a launch writes itself, or reads of its arguments."""


def measured() -> Mapping[str, Mapping[str, str]]:
    """Kernel -> its row of the table."""
    return {row["kernel"]: row for row in rows(TABLE)}


def predicted(workload: CudaWorkload, machine: Machine) -> Prediction:
    """As `memsim predict` with default options."""
    options = PredictOptions(jobs=1)
    traces: list[Trace] = []

    def trace_at(tracing: TraceOptions, places: int) -> list[Trace]:
        traces[:] = tracegen.trace_snapshots(workload, machine, snapshots=places, options=tracing)
        return traces

    def replay_all(traced: list[Trace], grows: Grows) -> Replay:
        return run_replay(traced, machine, options, miss_kinds=False, grows=grows)

    replay = replay_grown(trace_at, replay_all, TraceOptions())
    return predict(traces, machine, options, replay=replay)


def common_times(out: Path, quick: bool) -> Figure:
    """The time of each kernel, or of a sample; also writes h200_common_kernels_ours.csv."""
    done = run("common-kernels", measured(), time_of, out, quick=quick)
    cases = cases_of(done)
    write_results(
        out / "h200_common_kernels_ours.csv",
        "Times in us by memsim predict with default options for comparison with h200_common_kernels.csv, and what binds"
        " them.",
        [one.row for one in done],
    )
    return figure_of(
        "common-kernels",
        "H200, 31 ordinary kernels: time",
        [TABLE],
        cases,
        out,
        "H200, ordinary kernels: time in us",
        findings=[time_finding(cases)],
    )


def time_of(row: Mapping[str, str]) -> Done:
    """The time of one kernel, a row of the table."""
    timing = predicted(KERNELS[row["kernel"]](), load_machine("h200")).timing
    time = timing.estimate.scaled(1e6)
    case = Case(
        row["kernel"],
        "time",
        "us",
        reference=float(row["time_cold_us"]),
        ours=time.mean,
        ci95=None if math.isnan(time.half_width) else time.half_width,
        note=f"bound by {timing.binds}",
    )
    return Done([case], {"kernel": row["kernel"], "time_us": time.mean, "binds": timing.binds})


def time_finding(cases: Sequence[Case]) -> str:
    """The errors of the times, and how many are within 20 %."""
    off = np.array(
        [abs(case.ours / case.reference - 1) for case in cases if case.ours and case.reference]
    )
    return f"time: {errors(cases, 'time')}; {np.count_nonzero(off <= 0.2)} within 20 %"


def profiled(workload: CudaWorkload, machine: Machine) -> dict[str, float]:
    """Quantity -> bytes of a launch, as `memsim profile` with default options."""
    replay = tracegen.profile(workload, machine, ReplayOptions(miss_kinds=False, jobs=1))
    moved = replay.launch.moved
    return {
        "l2_read": moved.read_bytes["L2"].mean,
        "dram_read": moved.read_bytes["DRAM"].mean,
        "dram_write": moved.write_bytes["DRAM"].mean,
    }


def common_traffic(out: Path, quick: bool) -> Figure:
    """What each kernel moves, or a sample of them; also writes h200_common_traffic_ours.csv."""
    done = run("common-traffic", measured(), traffic_of, out, quick=quick)
    cases = cases_of(done)
    write_results(
        out / "h200_common_traffic_ours.csv",
        "Bytes by memsim profile with default options for comparison with h200_common_kernels.csv.",
        [one.row for one in done],
    )
    return figure_of(
        "common-traffic",
        "H200, 31 ordinary kernels: bytes that L2 and DRAM deliver, and that DRAM takes",
        [TABLE],
        cases,
        out,
        "H200, ordinary kernels, MB",
        apart=True,
        findings=[traffic_finding(cases, quantity) for quantity in COUNTERS],
    )


def traffic_of(row: Mapping[str, str]) -> Done:
    """What one kernel moves, a row of the table."""
    moved = {"kernel": row["kernel"], **profiled(KERNELS[row["kernel"]](), load_machine("h200"))}
    return Done(traffic_cases([row], [moved]), moved)


def traffic_cases(
    table: Sequence[Mapping[str, str]], results: Sequence[Mapping[str, object]]
) -> list[Case]:
    """A case for each quantity of which a kernel moves enough to be compared."""
    return [
        Case(
            row["kernel"],
            quantity,
            "MB",
            reference=count(row) / 1e6,
            ours=float(str(result[quantity])) / 1e6,
        )
        for row, result in zip(table, results, strict=True)
        for quantity, count in COUNTERS.items()
        if count(row) >= LEAST_BYTES
    ]


def traffic_finding(cases: Sequence[Case], quantity: str) -> str:
    """The errors of a quantity, and how many kernels are within 10 %."""
    off = [
        abs(case.ours / case.reference - 1)
        for case in cases
        if case.quantity == quantity and case.ours is not None and case.reference
    ]
    within = int(np.count_nonzero(np.array(off) <= 0.1))
    return f"{quantity}: {errors(cases, quantity)}; {within} within 10 %"
