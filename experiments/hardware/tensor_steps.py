"""RTX PRO 6000, H100, H200 and B200: predicted times of products of 16-bit matrices on tensor cores, from loads of single numbers to warps
with tiles in registers and copies ahead, and on Hopper and the B200 with tiles that the copying unit brings, and products of warp groups or
with sums in tensor memory.

The kernels have the tiles, warps and stages of those that were measured, but are not the same text; where these were chosen by measurement,
ours are the fastest of a few. Where n is large, the loop is shortened, and the time of all of it extrapolated along a line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import calib
from experiments.cases import Done, cases_of, run
from experiments.data_files import rows
from experiments.hardware.comparison import extrapolated_s, figure_of
from experiments.kernels import tensor_memory_steps, warp_group_steps
from experiments.kernels.tensor_steps import STEPS, product
from experiments.reproduction import Case, Figure
from memsim.machine import load_machine
from tracegen import CudaWorkload

TABLES = "tensor_steps.csv", "tensor_memory_steps.csv", "warp_group_steps.csv"
WHOLE, WHOLE_COPIED = 2048, 8192
"""The largest n whose loop is run whole; larger where the copying unit brings the tiles, for little is executed."""
DEPTHS = 512, 1024
TRIALS = 2


def time_of(row: Mapping[str, str]) -> Done:
    """The time of one row of the table; of several numbers of slabs the shortest."""
    machine = load_machine(f"{row['machine']}@{row['clock_mhz']}MHz")
    n, step = int(row["n"]), row["step"]
    whole, launches = _launches(step, n)
    if n > whole:
        times = [extrapolated_s(launch, DEPTHS, n, machine, TRIALS) for launch in launches]
    else:
        times = [
            calib.predict(launch(n), machine, trials=TRIALS).seconds.mean for launch in launches
        ]
    case = Case(
        f"{row['step']} {n} at {row['clock_mhz']} MHz",
        f"{row['machine']} {'warp groups' if step in warp_group_steps.STEPS else 'time'}",
        "ms",
        reference=float(row["ms"]),
        ours=1e3 * min(times),
    )
    return Done([case])


def _launches(step: str, n: int) -> tuple[int, list[Callable[[int], CudaWorkload]]]:
    """The largest n whose loop is run whole, and the launches among which somebody chose, each of so many columns of a."""
    if step in STEPS:
        return WHOLE, [partial(product, step, n)]
    if step in tensor_memory_steps.STEPS:
        return WHOLE_COPIED, [partial(tensor_memory_steps.product, step, n)]
    several = warp_group_steps.STEPS[step][-1]
    return WHOLE_COPIED, [
        partial(warp_group_steps.product, step, n, slabs=slabs) for slabs in several
    ]


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
        "RTX PRO 6000, H100, H200 and B200, products of 16-bit matrices on tensor cores: times of the steps by which they are made fast",
        list(TABLES),
        cases_of(done),
        out,
        "product on tensor cores: ms",
    )
