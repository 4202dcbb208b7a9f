"""The sixteen applications of BB-ML: their inputs, and the counts of the basic blocks of their machine code."""

from __future__ import annotations

import csv
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from calib.block_counts import (
    TRAINED_SHARE,
    Executions,
    Samples,
    block_report,
    samples,
)
from experiments.bbml.network import NetworkOptions
from experiments.kernels.polybench import factorisations, moments, products, vectors
from experiments.kernels.rodinia import elimination, paths
from memsim.machine import load_machine

MACHINE = "v100"
TABLES = Path(__file__).parents[1] / "data" / "bbml_tables.csv"
MOST_SAMPLES = 300
"""The paper has up to 10 862 inputs for an application. More inputs than this change only the run
time."""
ROOM = 1.15
"""Samples beyond those of which the low part of a split has as many as the network has parameters."""
ALL_LOW, ALL_HIGH = 0.35, 0.25
"""Share of the runs with all inputs in the lower 70 % of their ranges, and with all inputs
above."""

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Application:
    """One of the sixteen applications.

    ranges : smallest and largest value of each input
    step : between the values of an input; 1 where counts are executed, else a period of which the counts are polynomials
    """

    name: str
    make: Callable[..., Any]
    ranges: Mapping[str, tuple[int, int]]
    step: int = 1

    @property
    def least(self) -> dict[str, int]:
        """The smallest inputs."""
        return {name: least for name, (least, _) in self.ranges.items()}


def _up(step: int, times: int, **least: int) -> dict[str, Any]:
    """Inputs from the smallest on in steps."""
    return {"step": step, "ranges": {name: (n, n + step * times) for name, n in least.items()}}


APPLICATIONS = {
    application.name: application
    for application in (
        Application("2mm", products.two_mm, **_up(32, 60, ni=200, nj=270, nk=181, nl=235)),
        Application("atax", vectors.atax, **_up(256, 24, nx=1900, ny=1501)),
        Application("bicg", vectors.bicg, **_up(256, 24, nx=1900, ny=1501)),
        Application("covariance", moments.covariance, **_up(256, 24, m=1403, n=1501)),
        Application("correlation", moments.correlation, {"m": (32, 96), "n": (32, 96)}),
        Application("doitgen", products.doitgen, **_up(32, 16, nr=163, nq=201, np_=262)),
        Application("gemm", products.gemm, **_up(32, 60, ni=200, nj=270, nk=301)),
        Application("gesummv", vectors.gesummv, **_up(256, 24, n=1502)),
        Application("lu", factorisations.lu, {"n": (16, 64)}),
        Application("gramschmidt", factorisations.gramschmidt, {"n": (16, 64)}),
        Application("syrk", products.syrk, **_up(32, 60, n=270, m=301)),
        Application("mvt", vectors.mvt, **_up(256, 24, n=1502)),
        Application("gaussian", elimination.gaussian, {"n": (16, 64)}),
        Application("lud", elimination.lud, **_up(32, 120, n=304)),
        Application("nw", paths.nw, **_up(32, 120, n=304)),
        # The height of a pyramid, the third input, is a constant in the code: other heights are other blocks.
        Application(
            "pathfinder",
            lambda **size: paths.pathfinder(height=8, **size),
            {"rows": (20, 60), "cols": (500, 5000)},
        ),
    )
}  # fmt: skip


@dataclass(frozen=True)
class Paper:
    """The numbers of Tables 1 to 3 for one application."""

    samples: int
    blocks: int
    random: Mapping[str, float]
    high: Mapping[str, float]


@functools.cache
def paper() -> dict[str, Paper]:
    """The numbers of the paper by application."""
    with TABLES.open(encoding="utf-8") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return {
            row["application"]: Paper(
                int(row["samples"]),
                int(row["blocks"]),
                *(
                    {name: float(row[f"{part}_{name}"]) for name in ("mse", "pearson", "spearman")}
                    for part in ("random", "high")
                ),
            )
            for row in rows
        }


@functools.cache
def executions(name: str) -> Executions:
    """The application's counts at sizes, each executed once."""
    make = APPLICATIONS[name].make
    return Executions(
        lambda size: make(**{key: int(value) for key, value in size.items()}), load_machine(MACHINE)
    )


def n_samples(name: str, quick: bool) -> int:
    """Number of inputs: the paper's (samples of blocks divided by blocks), within bounds; in quick runs the fewest."""
    least = least_samples(len(APPLICATIONS[name].ranges))
    in_paper = paper()[name]
    return least if quick else min(max(in_paper.samples // in_paper.blocks, least), MOST_SAMPLES)


def least_samples(n_input: int) -> int:
    """Samples of which the low part of a split has enough for the paper's network."""
    low = ALL_LOW + (1 - ALL_LOW - ALL_HIGH) * TRAINED_SHARE**n_input
    return round(ROOM * NetworkOptions().n_parameters(n_input) / low)


@functools.cache
def counted(name: str, quick: bool) -> Samples:
    """Counts by sub-group of every block at the drawn inputs."""
    application = APPLICATIONS[name]
    drawn = draw(application, n_samples(name, quick))
    if application.step == 1:
        return execute(name, drawn)
    rows = [{key: str(value) for key, value in row.items()} for row in _rows(drawn)]
    report = block_report(executions(name), rows, lambda _: {})
    return _samples(drawn, {row.block.name: row.by_subgroups for row in report.rows})


def execute(name: str, drawn: Mapping[str, Integers]) -> Samples:
    """Counts by sub-group of every block at inputs, executed."""
    runs = executions(name)
    counts = np.array([runs.counts(row).by_subgroups for row in _rows(drawn)])
    return _samples(drawn, {block.name: counts[:, block.number] for block in runs.blocks})


def _rows(drawn: Mapping[str, Integers]) -> list[dict[str, int]]:
    columns = (column.tolist() for column in drawn.values())
    return [dict(zip(drawn, size, strict=True)) for size in zip(*columns, strict=True)]


def _samples(drawn: Mapping[str, Integers], counts: Mapping[str, Any]) -> Samples:
    return samples(
        {name: column.tolist() for name, column in drawn.items()},
        {block: list(column) for block, column in counts.items()},
    )


def draw(application: Application, n: int) -> dict[str, Integers]:
    """Inputs of n runs: some with all inputs low, some with all inputs high, the others
    anywhere."""
    rng = np.random.default_rng(sum(map(ord, application.name)))
    kind = rng.random(n)
    drawn: dict[str, Integers] = {}
    for name, (least, most) in application.ranges.items():
        place = rng.random(n)
        place = np.where(kind < ALL_LOW, 0.7 * place, place)
        place = np.where(kind >= 1 - ALL_HIGH, 0.7 + 0.3 * place, place)
        values = least + np.round(place * (most - least))
        # Both ends of the range are included, so that all splits divide the same range.
        values[:2] = least, most
        values = least + np.round((values - least) / application.step) * application.step
        drawn[name] = values.astype(np.int64)
    return drawn
