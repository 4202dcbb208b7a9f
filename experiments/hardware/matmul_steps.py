"""RTX A6000: predicted rates of a product of matrices, from the naive kernel to blocks in registers.

The kernels do what those do that were measured, with the same tiles, but are not the same text. A thread's
loop is shortened, and the time of all of it extrapolated along a line: what a kernel does before and after
the loop counts once.
"""

from __future__ import annotations

from pathlib import Path

from calib.prediction import PredictOptions, predict
from experiments.data_files import rows, source
from experiments.hardware import drawing
from experiments.hardware.comparison import errors
from experiments.kernels.matmul_steps import product
from experiments.reproduction import Case, Figure
from memsim.machine import Machine, load_machine
from tracegen import trace_snapshots

TABLE = "a6000_matmul.csv"
SIZE = 4096
DEPTHS = 256, 768
TRIALS = 2
QUICK = ("coalesced", "vectors")


def predicted_s(step: str, machine: Machine) -> float:
    """Seconds of one product."""
    seconds = []
    for depth in DEPTHS:
        workload = product(step, SIZE, depth)
        traces = trace_snapshots(workload, machine, snapshots=1)
        timing = predict(workload, traces, machine, PredictOptions(trials=TRIALS)).timing
        seconds.append(timing.estimate.mean)
    slope = (seconds[1] - seconds[0]) / (DEPTHS[1] - DEPTHS[0])
    return seconds[0] + slope * (SIZE - DEPTHS[0])


def matmul_steps(out: Path, quick: bool) -> Figure:
    """The rate of each step; of two if quick."""
    machine = load_machine("a6000")
    operations = 2 * SIZE**3
    cases = [
        Case(
            figure="matmul-steps",
            case=row["step"],
            quantity="rate",
            unit="GFLOP/s",
            reference=float(row["gflops"]),
            ours=operations / predicted_s(row["step"], machine) / 1e9,
            ci95=None,
        )
        for row in rows(TABLE)
        if not quick or row["step"] in QUICK
    ]
    return Figure(
        reference_name="measured",
        name="matmul-steps",
        title="RTX A6000, product of 4096 x 4096 matrices: rates from the naive kernel to blocks in registers",
        source=source(TABLE),
        cases=cases,
        findings=[f"rate: {errors(cases, 'rate')}"],
        pictures=[drawing.scatter(out / "matmul-steps.png", cases, "matrix product: GFLOP/s")],
    )
