"""MI250X (one die), 7-point fp64 Laplacian: bytes fetched from memory by the variants of the
kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import memsim
import tracegen
from experiments.cases import Done, cases_of, run
from experiments.data_files import rows, write_results
from experiments.hardware.comparison import figure_of, half_width
from experiments.hardware.stencil_volumes import group_shape, label
from experiments.hardware.volumes import Triple, bytes_per_update
from experiments.kernels.laplacian import laplacian
from experiments.reproduction import Case, Figure
from memsim.machine import Machine, load_machine
from tracegen import OpenCLWorkload

SNAPSHOTS = 3


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A kernel of the notes; `rows` is their tiling factor m. See experiments.kernels.laplacian."""

    kernel: int
    n: int = 512
    rows: int = 1
    group: Triple = (256, 1, 1)
    nontemporal: bool = False

    @property
    def name(self) -> str:
        stores = " nt" if self.nontemporal else ""
        return f"kernel{self.kernel} m={self.rows} {label(self.group)} {self.n}^3{stores}"

    def workload(self) -> OpenCLWorkload:
        """The variant without values."""
        return laplacian(
            self.kernel,
            self.n,
            self.rows,
            *self.group,
            filled=False,
            nontemporal=self.nontemporal,
        )


def mi250x_laplacian(out: Path, quick: bool) -> Figure:
    """Fetched volume of every variant; also writes mi250x_laplacian_ours.csv."""
    variants = {_variant(row).name: row for row in rows("mi250x_laplacian_fetch.csv")}
    done = run("mi250x-laplacian", variants, fetch_of, out, quick=quick)
    write_results(
        out / "mi250x_laplacian_ours.csv",
        "Replays for comparison with mi250x_laplacian_fetch.csv: fetched volume in multiples of n^3 x 8"
        " bytes, and error of L2's load hit ratio in points, if L1s load as much from it as in the replays.",
        [one.row for one in done],
    )
    return figure_of(
        "mi250x-laplacian",
        "MI250X (one die), 7-point fp64 Laplacian: bytes fetched from memory",
        ["mi250x_laplacian_fetch.csv"],
        cases_of(done),
        out,
        "MI250X: fetched volume",
    )


def fetch_of(row: Mapping[str, str]) -> Done:
    """Fetched volume of one variant, a row of the table."""
    variant = _variant(row)
    fetches, missed = _fetches(variant, load_machine("mi250x"), SNAPSHOTS)
    ours, measured = float(np.mean(fetches)), float(row["fetch"])
    case = Case(
        variant.name,
        "fetch",
        "of n^3 x 8 B",
        reference=measured,
        ours=ours,
        ci95=half_width(fetches),
    )
    result = {
        **{key: row[key] for key in ("kernel", "n", "rows", "nontemporal")},
        "group": label(variant.group),
        "fetch": ours,
        "L2_points": 100 * abs(missed * (measured / ours - 1)),
    }
    return Done([case], result)


def _variant(row: Mapping[str, str]) -> Variant:
    return Variant(
        kernel=int(row["kernel"]),
        n=int(row["n"]),
        rows=int(row["rows"]),
        group=group_shape(row),
        nontemporal=row["nontemporal"] == "1",
    )


def _fetches(variant: Variant, machine: Machine, seeds: int) -> tuple[list[float], float]:
    """Fetched volume in multiples of n^3 x 8 bytes, of one snapshot for each seed; mean miss ratio of L2's loads."""
    traces = tracegen.trace_snapshots(variant.workload(), machine, snapshots=seeds)
    interior = (1 - 2 / variant.n) ** 3
    replays = [
        memsim.replay(trace, machine, trials=1, seed=k, miss_kinds=False, jobs=1)
        for k, trace in enumerate(traces)
    ]
    fetches = [bytes_per_update(run, machine)["dram_load"] / 8 * interior for run in replays]
    return fetches, 1 - float(np.mean([run.load_hit_ratio("L2") for run in replays]))
