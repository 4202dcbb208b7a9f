"""RTX A6000, H200 and RX 7900 XTX: predicted rates of a product of matrices, from the naive kernel to blocks in registers.

The kernels do what those do that were measured on the A6000, with the same tiles, but are not the same text; on the
H200 the very machine code ran that is predicted. A thread's loop is shortened, and the time of all of it
extrapolated along a line.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from experiments.cases import Done, cases_of, run
from experiments.data_files import rows
from experiments.hardware.comparison import extrapolated_s, figure_of
from experiments.kernels.matmul_steps import product
from experiments.reproduction import Case, Figure
from memsim.machine import Machine, load_machine

TABLES = {name: f"{name}_matmul.csv" for name in ("a6000", "h200", "rx7900xtx")}
"""Machine -> its measured rates."""
SIZE = 4096
DEPTHS = 256, 768
NAIVE_DEPTHS = 128, 384
"""The naive kernel's loads touch 32 lines each: of longer loops a trace takes more than 16 GB on an H200."""
TRIALS = 2


def predicted_s(step: str, machine: Machine) -> float:
    """Seconds of one product."""
    depths = NAIVE_DEPTHS if step == "naive" else DEPTHS
    return extrapolated_s(partial(product, step, SIZE), depths, SIZE, machine, TRIALS)


def rate_of(row: Mapping[str, str]) -> Done:
    """The rate of one step.

    row : of a table, with the column `machine` beside
    """
    case = Case(
        row["step"],
        f"{row['machine']} rate",
        "GFLOP/s",
        reference=float(row["gflops"]),
        ours=2 * SIZE**3 / predicted_s(row["step"], load_machine(row["machine"])) / 1e9,
    )
    return Done([case])


def matmul_steps(out: Path, quick: bool) -> Figure:
    """The rate of each step on each machine, or of a sample."""
    steps = {
        f"{name} {row['step']}": {**row, "machine": name}
        for name, table in TABLES.items()
        for row in rows(table)
    }
    done = run("matmul-steps", steps, rate_of, out, quick=quick)
    return figure_of(
        "matmul-steps",
        "RTX A6000, H200 and RX 7900 XTX, product of 4096 x 4096 matrices: rates from the naive kernel to blocks in registers",
        list(TABLES.values()),
        cases_of(done),
        out,
        "matrix product: GFLOP/s",
    )
