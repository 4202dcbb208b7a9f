"""Predicted rates of kernels that mostly compute: n-body simulations, and prices of options.

Of the n-body simulations, other people published rates. Each body is attracted by all, so a step takes n^2
interactions; a launch in which fewer bodies attract is predicted, and its time extrapolated along a line. Of
Black-Scholes, the reference is a roof: how long its five arrays take at the highest bandwidth that was measured.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from calib.prediction import predict
from experiments.cases import Done, cases_of, run
from experiments.data_files import rows
from experiments.hardware.comparison import extrapolated_s, figure_of
from experiments.kernels.black_scholes import black_scholes
from experiments.kernels.n_body import n_body
from experiments.reproduction import Case, Figure
from memsim.machine import load_machine
from tracegen import CudaWorkload, trace_snapshots

TABLE = "nbody_rates.csv"
SOURCES = 512, 1024
TRIALS = 2
OPTIONS = 64_000_000
OPTION_BYTES = 20


def predicted_step_s(machine_name: str, bodies: int, dtype: str) -> float:
    """Seconds of a step in which all bodies attract."""

    def workload(attracting: int) -> CudaWorkload:
        return n_body(bodies, attracting, dtype)  # type: ignore[arg-type]

    return extrapolated_s(workload, SOURCES, bodies, load_machine(machine_name), TRIALS)


def rate_of(row: Mapping[str, str]) -> Done:
    """The rate of one simulation, a row of the table."""
    bodies = int(row["bodies"])
    case = Case(
        _name(row),
        "n-body",
        "interactions/ns",
        reference=10 * bodies**2 / float(row["ten_steps_ms"]) / 1e6,
        ours=bodies**2 / predicted_step_s(row["machine"], bodies, row["dtype"]) / 1e9,
    )
    return Done([case])


def _name(row: Mapping[str, str]) -> str:
    return f"n-body, {row['board']}, {row['dtype']}"


def _black_scholes_case() -> Case:
    machine = load_machine("v100")
    bandwidth = machine.dram.sustained_bandwidth_bytes_per_cycle
    assert bandwidth is not None
    workload = black_scholes(n=OPTIONS, groups=0)
    timing = predict(trace_snapshots(workload, machine, snapshots=1), machine).timing
    return Case(
        "Black-Scholes, V100, 64 M options",
        "roof",
        "ms",
        reference=OPTION_BYTES * OPTIONS / (bandwidth * machine.clock_hz) * 1e3,
        ours=timing.estimate.mean * 1e3,
    )


def arithmetic(out: Path, quick: bool) -> Figure:
    """Each published rate and the roof; a sample of the rates if quick."""
    done = run("arithmetic", {_name(row): row for row in rows(TABLE)}, rate_of, out, quick=quick)
    rates = figure_of(
        "arithmetic",
        "Kernels that mostly compute: published rates of an n-body simulation, and the roof of Black-Scholes",
        [TABLE],
        cases_of(done),
        out,
        "n-body: interactions a nanosecond",
    )
    if quick:
        return rates
    roof = _black_scholes_case()
    assert roof.ours is not None
    assert roof.reference is not None
    longer = (
        f"Black-Scholes takes {roof.ours / roof.reference - 1:.1%} longer than its bytes need at the bandwidth of a"
        " triad."
    )
    return dataclasses.replace(
        rates, cases=[*rates.cases, roof], findings=[*rates.findings, longer]
    )
