"""H200: predicted times, and parts of DRAM's rate, of kernels in Triton that somebody profiled with Nsight Compute."""

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
DRAM_BYTES_PER_S = 4.915e12
"""Of which the table's percentages are."""


def time_of(row: Mapping[str, str]) -> Done:
    """The time of one row of the table, and the part of DRAM's rate; of products those of the fastest tiles, as the autotuner chose."""
    found, reasons = [], []
    for launch in launches(row["kernel"], settings_of(row)):
        try:
            predicted = calib.predict(launch, row["machine"], trials=TRIALS)
        except MemsimError as reason:  # too much local memory for a core
            reasons.append(reason)
        else:
            assert predicted.replay is not None
            total = predicted.replay.launch
            moved = total.read_bytes("DRAM").mean + total.write_bytes("DRAM").mean
            found.append((predicted.seconds.mean, moved))
    if not found:
        raise reasons[0]
    seconds, moved = min(found)
    name, machine = f"{row['kernel']} {row['settings']}", row["machine"].partition("@")[0]
    if row["contradicted"]:
        quantities = [("time_contradicted", "ms", "ms", 1e3 * seconds)]
    else:
        percent = 100 * moved / seconds / DRAM_BYTES_PER_S
        quantities = [
            ("time", "ms", "ms", 1e3 * seconds),
            ("dram", "%", "dram_percent", percent),
        ]
    return Done(
        [
            Case(name, f"{machine} {quantity}", unit, reference=float(row[column]), ours=ours)
            for quantity, unit, column, ours in quantities
        ]
    )


def triton_launches(out: Path, quick: bool) -> Figure:
    """The time of each row, or of a sample, and the part of DRAM's rate."""
    listed = {f"{row['kernel']} {row['settings']} {row['ms']}": row for row in rows(TABLE)}
    done = run("triton-launches", listed, time_of, out, quick=quick)
    return figure_of(
        "triton-launches",
        "H200: times of sums, rows of softmax and products in Triton",
        [TABLE],
        cases_of(done),
        out,
        "kernels in Triton",
    )
