"""H200: predicted times of kernels in Triton that somebody profiled with Nsight Compute."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import calib
from experiments.cases import Done, cases_of, run
from experiments.data_files import rows
from experiments.hardware.comparison import figure_of
from experiments.hardware.textbook import settings_of
from experiments.kernels.triton_launches import launches
from experiments.reproduction import Case, Figure
from memsim.errors import MemsimError

TABLE = "h200_triton.csv"
TRIALS = 2


def time_of(row: Mapping[str, str]) -> Done:
    """The time of one row of the table; of products that of the fastest tiles, as the autotuner chose."""
    times, reasons = [], []
    for launch in launches(row["kernel"], settings_of(row)):
        try:
            times.append(calib.predict(launch, row["machine"], trials=TRIALS).seconds.mean)
        except MemsimError as reason:  # too much local memory for a core
            reasons.append(reason)
    if not times:
        raise reasons[0]
    quantity = "time_contradicted" if row["contradicted"] else "time"
    case = Case(
        f"{row['kernel']} {row['settings']}",
        f"{row['machine'].partition('@')[0]} {quantity}",
        "ms",
        reference=float(row["ms"]),
        ours=1e3 * min(times),
    )
    return Done([case])


def triton_launches(out: Path, quick: bool) -> Figure:
    """The time of each row, or of a sample."""
    listed = {f"{row['kernel']} {row['settings']} {row['ms']}": row for row in rows(TABLE)}
    done = run("triton-launches", listed, time_of, out, quick=quick)
    return figure_of(
        "triton-launches",
        "H200: times of sums, rows of softmax and products in Triton",
        [TABLE],
        cases_of(done),
        out,
        "kernels in Triton: ms",
    )
