"""RTX PRO 6000, H100 and B200: predicted times of products of 16-bit matrices on tensor cores, from loads of single numbers to warps
with tiles in registers and copies ahead, and on the B200 with sums in tensor memory and tiles that its copying unit brings.

The kernels have the tiles, warps and stages of those that were measured, but are not the same text. Where n is large, the loop
is shortened, and the time of all of it extrapolated along a line.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import calib
from experiments.cases import Done, cases_of, run
from experiments.data_files import rows
from experiments.hardware.comparison import extrapolated_s, figure_of
from experiments.kernels import tensor_memory_steps
from experiments.kernels.tensor_steps import product
from experiments.reproduction import Case, Figure
from memsim.machine import load_machine

TABLES = "tensor_steps.csv", "tensor_memory_steps.csv"
WHOLE = 2048
"""The largest n whose loop is run whole; in tensor memory every one, for little is executed."""
DEPTHS = 512, 1024
TRIALS = 2


def time_of(row: Mapping[str, str]) -> Done:
    """The time of one row of the table."""
    machine = load_machine(f"{row['machine']}@{row['clock_mhz']}MHz")
    n, step = int(row["n"]), row["step"]
    if step in tensor_memory_steps.STEPS:
        seconds = calib.predict(
            tensor_memory_steps.product(step, n), machine, trials=TRIALS
        ).seconds.mean
    elif n > WHOLE:
        made = partial(product, step, n)
        seconds = extrapolated_s(made, DEPTHS, n, machine, TRIALS)
    else:
        seconds = calib.predict(product(step, n), machine).seconds.mean
    case = Case(
        f"{row['step']} {n} at {row['clock_mhz']} MHz",
        f"{row['machine']} time",
        "ms",
        reference=float(row["ms"]),
        ours=1e3 * seconds,
    )
    return Done([case])


def tensor_steps(out: Path, quick: bool) -> Figure:
    """The time of each step on each machine, or of a sample."""
    listed = {
        f"{row['machine']} {row['step']} {row['n']} {row['clock_mhz']}": row
        for table in TABLES
        for row in rows(table)
    }
    done = run("tensor-steps", listed, time_of, out, quick=quick)
    return figure_of(
        "tensor-steps",
        "RTX PRO 6000, H100 and B200, products of 16-bit matrices on tensor cores: times of the steps by which they are made fast",
        list(TABLES),
        cases_of(done),
        out,
        "product on tensor cores: ms",
    )
