"""MI250X (one die): times of second derivatives along one axis, and bytes that L2 and DRAM deliver for them, against measured
ones. Nothing was chosen on them.

The kernels (`kernels/derivatives.cu`) have the sizes, groups and loads of those that were measured, but are not the same text.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import calib
from experiments.cases import Done, cases_of, run
from experiments.data_files import rows
from experiments.hardware.comparison import figure_of
from experiments.kernels.derivatives import derivatives
from experiments.reproduction import Case, Figure

TABLE = "mi250x_derivatives.csv"
N = 512
FLOAT_BYTES = 4
TRIALS = 4


def measured_ms(row: Mapping[str, str]) -> float:
    """The time of a row of the table."""
    return (2 * N + 2 * int(row["radius"])) * N**2 * FLOAT_BYTES / float(row["gbs"]) / 1e6


def name_of(row: Mapping[str, str]) -> str:
    """`y radius 4 lanes 2 aligned`, for example."""
    words = [row["axis"], f"radius {row['radius']} lanes {row['lanes']}"]
    if row["depth"] != "0":
        words.append(f"depth {row['depth']}")
    words += [flag.replace("_", " ") for flag in ("aligned", "wide_groups") if row[flag] == "1"]
    return " ".join(words)


def compared(row: Mapping[str, str]) -> Done:
    """Time and bytes of a row of the table."""
    workload = derivatives(
        row["axis"],
        radius=int(row["radius"]),
        lanes=int(row["lanes"]),
        aligned=row["aligned"] == "1",
        wide_groups=row["wide_groups"] == "1",
        depth=int(row["depth"]),
        n=N,
        filled=False,
    )
    prediction = calib.predict(workload, "mi250x", trials=TRIALS)
    assert prediction.replay is not None
    moved, note = prediction.replay.launch.moved, f"bound by {prediction.limited_by}"
    dram = moved.read_bytes["DRAM"].mean + moved.write_bytes["DRAM"].mean
    found = (
        ("time", "ms", measured_ms(row), 1e3 * prediction.seconds.mean),
        ("L2 reads", "MB", float(row["l2_read_mb"] or 0), moved.read_bytes["L2"].mean / 1e6),
        ("DRAM", "MB", float(row["dram_mb"] or 0), dram / 1e6),
    )
    return Done(
        [
            Case(name_of(row), quantity, unit, reference=measured, ours=ours, note=note)
            for quantity, unit, measured, ours in found
            if measured
        ]
    )


def derivative_times(out: Path, quick: bool) -> Figure:
    """Every row of the table, or a sample."""
    of = {name_of(row): row for row in rows(TABLE)}
    return figure_of(
        "derivatives",
        "MI250X, second derivatives of 512^3 floats along one axis",
        [TABLE],
        cases_of(run("derivatives", of, compared, out, quick=quick)),
        out,
        "MI250X, derivatives",
        apart=True,
    )
