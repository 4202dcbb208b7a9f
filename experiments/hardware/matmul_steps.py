"""RTX A6000 and H200: predicted rates of a product of matrices, from the naive kernel to blocks in registers.

The kernels do what those do that were measured on the A6000, with the same tiles, but are not the same text; on the
H200 the very machine code ran that is predicted. A thread's loop is shortened, and the time of all of it
extrapolated along a line.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from experiments.data_files import rows, source
from experiments.hardware import drawing
from experiments.hardware.comparison import errors, extrapolated_s
from experiments.kernels.matmul_steps import product
from experiments.reproduction import Case, Figure, each
from memsim.machine import Machine, load_machine

TABLES = {"a6000": "a6000_matmul.csv", "h200": "h200_matmul.csv"}
"""Machine -> its measured rates."""
SIZE = 4096
DEPTHS = 256, 768
NAIVE_DEPTHS = 128, 384
"""The naive kernel's loads touch 32 lines each: of longer loops a trace takes more than 16 GB on an H200."""
TRIALS = 2
QUICK = ("coalesced", "vectors")


def predicted_s(step: str, machine: Machine) -> float:
    """Seconds of one product."""
    depths = NAIVE_DEPTHS if step == "naive" else DEPTHS
    return extrapolated_s(partial(product, step, SIZE), depths, SIZE, machine, TRIALS)


def matmul_steps(out: Path, quick: bool) -> Figure:
    """The rate of each step on each machine; of two steps on the first if quick."""
    operations = 2 * SIZE**3
    machines = {name: load_machine(name) for name in (list(TABLES)[:1] if quick else TABLES)}
    cases = [
        Case(
            figure="matmul-steps",
            case=row["step"],
            quantity=f"{name} rate",
            unit="GFLOP/s",
            reference=float(row["gflops"]),
            ours=operations / predicted_s(row["step"], machine) / 1e9,
            ci95=None,
        )
        for name, machine in machines.items()
        for row in each(f"matmul-steps, {name}", rows(TABLES[name]))
        if not quick or row["step"] in QUICK
    ]
    return Figure(
        reference_name="measured",
        name="matmul-steps",
        title="RTX A6000 and H200, product of 4096 x 4096 matrices: rates from the naive kernel to blocks in registers",
        source="; ".join(map(source, TABLES.values())),
        cases=cases,
        findings=[f"{name}: {errors(cases, f'{name} rate')}" for name in machines],
        pictures=[drawing.scatter(out / "matmul-steps.png", cases, "matrix product: GFLOP/s")],
    )
