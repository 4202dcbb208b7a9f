"""V100 and MI250X: how `memsim tune` ranks the group shapes of a stencil and the variants of a Laplacian.

Everything is as in the command: compiled code, short snapshots first, whatever may be the fastest looked at
again.
"""

from __future__ import annotations

from pathlib import Path

from experiments.data_files import rows
from experiments.hardware.comparison import figure_of
from experiments.hardware.star_stencil import Grid, launched
from experiments.hardware.stencil_volumes import group_shape
from experiments.hardware.tuning_runs import TuningRun, compared, predicted
from experiments.kernels import laplacian, star
from experiments.reproduction import Figure
from tracegen.commands import KernelSpec

SHAPES, VARIANTS = "v100_star25_times.csv", "mi250x_laplacian_times.csv"


def stencil_run() -> TuningRun:
    """The 25-point stencil in 43 group shapes on a V100."""
    nx, ny, nz = Grid().interior
    settings = {"nx": str(nx), "ny": str(ny), "nz": str(nz), "pitch": str(Grid().pitch)}
    folder = Path(star.__file__).parent
    return TuningRun(
        machine="v100",
        kernel=KernelSpec(
            f"{folder}/star.cu:star", {**settings, "filled": "False"}, f"{folder}/star.py:star"
        ),
        configurations=[
            {
                f"block_{axis}": str(n)
                for axis, n in zip("xyz", launched(group_shape(row)), strict=True)
            }
            for row in rows(SHAPES)
        ],
        times_ms=[nx * ny * nz / float(row["glups"]) / 1e6 for row in rows(SHAPES)],
    )


def laplacian_run() -> TuningRun:
    """The 7-point Laplacian in 14 variants on an MI250X; those with non-temporal stores are other kernels."""
    plain = [row for row in rows(VARIANTS) if row["nontemporal"] == "0"]
    return TuningRun(
        machine="mi250x",
        kernel=KernelSpec(f"{laplacian.__file__}:laplacian", {"n": "512", "filled": "False"}, None),
        configurations=[{"kernel": row["kernel"], "rows": row["rows"]} for row in plain],
        times_ms=[float(row["time_ms"]) for row in plain],
    )


def tuned_stencils(out: Path, quick: bool) -> Figure:
    """Predicted and measured times of all shapes and variants, and how good their rankings are."""
    cases, findings = [], []
    for run, found in predicted("tuned-stencils", (stencil_run(), laplacian_run()), out, quick):
        of_run, finding = compared(run, found)
        cases += of_run
        findings.append(finding)
    return figure_of(
        "tuned-stencils",
        "V100 stencil and MI250X Laplacian: times that tuning predicts",
        [SHAPES, VARIANTS],
        cases,
        out,
        "tuned stencils: time in ms",
        findings=findings,
    )
