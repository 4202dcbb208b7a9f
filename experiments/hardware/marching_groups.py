"""MI250X (one die), derivatives of float fields by groups that march along z: DRAM bytes and times, by how many planes a group passes.

The model and the machine file may be chosen on CHOOSING alone: all other lengths, and the kernel that is fused over the three axes, are
independent of both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import calib
import tracegen
from experiments.cases import Done, cases_of, run
from experiments.data_files import rows
from experiments.hardware.comparison import figure_of
from experiments.kernels import marching
from experiments.reproduction import Case, Figure
from memsim.montecarlo import ReplayOptions
from tracegen import CudaWorkload

TABLE = "mi250x_marching.csv"
CHOOSING = (1, 4, 16, 48, 112, 288)
"""Windows of march_z."""
WINDOWS = {
    "march_z": (*CHOOSING, 2, 8, 32, 64, 160, 224, 512),
    "march_xyz": (1, 4, 16, 64, 160, 288, 512),
}
"""Those that are compared, of twice as many."""
TIMED = {"march_z": (1, 4, 16, 112), "march_xyz": (1, 4, 16, 64, 288, 512)}
"""Those whose times are compared."""
BUDGET_S = 10.0
KERNELS = {"march_z": marching.march_z, "march_xyz": marching.march_xyz}


def mi250x_marching(out: Path, quick: bool) -> Figure:
    """Bytes of all windows, or of a sample."""
    return _figure("mi250x-marching", "DRAM, MB", WINDOWS, bytes_of, out, quick)


def marching_times(out: Path, quick: bool) -> Figure:
    """Times of some windows, or of a sample of these."""
    return _figure("marching-times", "time, ms", TIMED, time_of, out, quick)


def _figure(
    name: str,
    what: str,
    windows: Mapping[str, tuple[int, ...]],
    compared: Callable[[Mapping[str, str]], Done],
    out: Path,
    quick: bool,
) -> Figure:
    table = {
        f"{row['kernel']} {row['window']}": row
        for row in rows(TABLE)
        if int(row["window"]) in windows[row["kernel"]]
    }
    return figure_of(
        name,
        f"MI250X (one die), derivatives by groups that march along z: {what}",
        [TABLE],
        cases_of(run(name, table, compared, out, quick=quick)),
        out,
        f"MI250X, marching groups: {what}",
        apart=True,
    )


def measured_ms(row: Mapping[str, str]) -> float:
    """The time of a row of the table: the rate is of fields that are written, and read with the halos of the kernel's axes, once."""
    n, axes = 512, {"march_z": 1, "march_xyz": 3}[row["kernel"]]
    floats = 2 * n**3 + 2 * marching.RADIUS * axes * n**2
    return 4 * floats / float(row["effective_gbs"]) / 1e6


def time_of(row: Mapping[str, str]) -> Done:
    """The time of one window, a row of the table; as `memsim predict`."""
    prediction = calib.predict(KERNELS[row["kernel"]](window=int(row["window"])), "mi250x")
    case = Case(
        f"{row['kernel']} {row['window']}",
        "time",
        "ms",
        reference=measured_ms(row),
        ours=1e3 * prediction.seconds.mean,
        note=f"bound by {prediction.limited_by}",
    )
    return Done([case])


def bytes_of(row: Mapping[str, str]) -> Done:
    """What one window reads and writes together, a row of the table; as `memsim profile --budget 10`."""
    kernel, window = row["kernel"], int(row["window"])
    workload: CudaWorkload = KERNELS[kernel](window=window)
    options = ReplayOptions(miss_kinds=False, jobs=1, budget=BUDGET_S)
    replay = tracegen.profile(workload, "mi250x", options)
    moved = replay.launch.moved
    chosen = kernel == "march_z" and window in CHOOSING
    case = Case(
        f"{kernel} {window}",
        f"{kernel}_chosen" if chosen else kernel,
        "MB",
        reference=float(row["read_mb"]) + float(row["write_mb"]),
        ours=(moved.read_bytes["DRAM"].mean + moved.write_bytes["DRAM"].mean) / 1e6,
        ci95=moved.read_bytes["DRAM"].half_width / 1e6,
    )
    return Done([case])
