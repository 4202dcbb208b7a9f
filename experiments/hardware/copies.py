"""B200: what DRAM delivers to copies that wait for one another, by threads and by the unit for bulk copies."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import calib
from experiments.cases import Done, cases_of, run
from experiments.data_files import rows
from experiments.hardware.comparison import figure_of
from experiments.hardware.textbook import settings_of
from experiments.kernels import copies as kernels
from experiments.reproduction import Case, Figure
from memsim.machine import load_machine

TABLE = "b200_copies.csv"
TOTAL_BYTES = {"by_threads": 1 << 30, "of_tiles": 1 << 27}


def rate_of(row: Mapping[str, str]) -> Done:
    """GB/s of one row of the table, without the launch; what the machine file took is apart."""
    machine = dataclasses.replace(load_machine(row["machine"]), launch_us=0.0)
    total = TOTAL_BYTES[row["kernel"]]
    launch = getattr(kernels, row["kernel"])(**settings_of(row), total=total)
    seconds = calib.predict(launch, machine).seconds.mean
    quantity = "chosen" if row["chosen"] else row["kernel"]
    case = Case(
        f"{row['kernel']} {row['settings']}",
        quantity,
        "GB/s",
        reference=float(row["gb_per_s"]),
        ours=total / seconds / 1e9,
    )
    return Done([case])


def b200_copies(out: Path, quick: bool) -> Figure:
    """The rate of each row, or of a sample."""
    listed = {f"{row['kernel']} {row['settings']}": row for row in rows(TABLE)}
    done = run("b200-copies", listed, rate_of, out, quick=quick)
    return figure_of(
        "b200-copies",
        "B200: rates of copies from DRAM to shared memory that wait for one another",
        [TABLE],
        cases_of(done),
        out,
        "copies to shared memory: GB/s",
    )
