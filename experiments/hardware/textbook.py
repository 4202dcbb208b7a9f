"""H100, RTX 3080, A100, V100: predicted times of copies, transposes and sums as textbooks make them faster step by step."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import calib
from experiments.cases import Done, cases_of, run
from experiments.data_files import rows
from experiments.hardware.comparison import figure_of
from experiments.kernels import textbook as kernels
from experiments.reproduction import Case, Figure
from memsim.machine import load_machine
from tracegen import CudaWorkload

TABLE = "textbook.csv"


def settings_of(row: Mapping[str, str]) -> dict[str, int | str]:
    """The settings of a row, numbers where they are."""
    words = (word.partition("=") for word in row["settings"].split())
    return {name: int(value) if value.isdigit() else value for name, _, value in words}


def workload(row: Mapping[str, str], **others: Any) -> CudaWorkload:
    """The kernel of a row of the table. others : settings to replace"""
    given = {**settings_of(row), **others}
    made: CudaWorkload = getattr(kernels, row["kernel"])(row["step"], **given)
    return made


def time_of(row: Mapping[str, str]) -> Done:
    """The time of one row of the table."""
    machine = load_machine(row["machine"])
    seconds = calib.predict(workload(row), machine).seconds.mean
    return Done(
        [
            Case(
                f"{row['step']} {row['settings']}",
                f"{row['machine'].partition('@')[0]} time",
                "ms",
                reference=float(row["ms"]),
                ours=1e3 * seconds,
            )
        ]
    )


def textbook(out: Path, quick: bool) -> Figure:
    """The time of each row, or of a sample."""
    listed = {f"{row['machine']} {row['step']} {row['settings']}": row for row in rows(TABLE)}
    done = run("textbook", listed, time_of, out, quick=quick)
    return figure_of(
        "textbook",
        "H100, RTX 3080, A100 and V100: times of copies, transposes and sums, step by step",
        [TABLE],
        cases_of(done),
        out,
        "copies, transposes, sums: ms",
    )
