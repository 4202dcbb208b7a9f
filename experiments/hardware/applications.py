"""MI300A: predicted times of plain kernels of applications, launched again and again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import calib
from experiments.cases import Done, cases_of, run
from experiments.data_files import rows
from experiments.hardware.comparison import figure_of
from experiments.hardware.textbook import settings_of
from experiments.kernels import applications as kernels
from experiments.reproduction import Case, Figure
from tracegen import CudaWorkload

TABLE = "mi300a_applications.csv"
MACHINE = "mi300a"


def workload(row: Mapping[str, str], **others: Any) -> CudaWorkload:
    """The kernel of a row of the table. others : settings to replace"""
    made: CudaWorkload = getattr(kernels, row["kernel"])(**{**settings_of(row), **others})
    return made


def time_of(row: Mapping[str, str]) -> Done:
    """The time of one row of the table; what the machine file took is apart."""
    seconds = calib.predict(workload(row), MACHINE, warm=True).seconds.mean
    return Done(
        [
            Case(
                f"{row['kernel']} {row['settings']}",
                "time_chosen" if row["chosen"] else "time",
                "us",
                reference=float(row["us"]),
                ours=1e6 * seconds,
            )
        ]
    )


def applications(out: Path, quick: bool) -> Figure:
    """The time of each row, or of a sample."""
    listed = {f"{row['kernel']} {row['settings']}": row for row in rows(TABLE)}
    done = run("applications", listed, time_of, out, quick=quick)
    return figure_of(
        "applications",
        "MI300A: times of kernels of applications with warm caches",
        [TABLE],
        cases_of(done),
        out,
        "kernels of applications: us",
    )
