"""The sixteen applications of BB-ML: their inputs, and the counts of their basic blocks."""

from __future__ import annotations

import csv
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from calib.block_counts import BlockForm, Samples, block_forms, samples
from experiments.kernels.polybench import factorisations, moments, products, vectors
from experiments.kernels.rodinia import elimination, paths
from tracegen.blocks import BlockCounter

TABLES = Path(__file__).parents[1] / "data" / "bbml_tables.csv"
MOST_SAMPLES = 500
"""The paper has up to 10 862 inputs for an application. More inputs than this change only the run
time."""
LEAST_SAMPLES = 150
"""With fewer inputs the low part of a split has fewer samples than the network has parameters."""
QUICK_SAMPLES = 200
ALL_LOW, ALL_HIGH = 0.35, 0.25
"""Share of the runs with all inputs in the lower 70 % of their ranges, and with all inputs
above."""

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Application:
    """One of the sixteen applications.

    ranges : smallest and largest value of each input
    small : inputs of a small run
    step : inputs are multiples of this
    baked : an input that is a constant in the kernel's text, and its values
    """

    name: str
    make: Callable[..., Any]
    ranges: Mapping[str, tuple[int, int]]
    small: Mapping[str, int]
    step: int = 1
    baked: tuple[str, tuple[int, ...]] | None = None


def _square(*names: str, most: int = 2048) -> dict[str, tuple[int, int]]:
    return dict.fromkeys(names, (32, most))


APPLICATIONS = {
    application.name: application
    for application in (
        Application("2mm", products.two_mm, _square("ni", "nj", "nk", "nl"), {"ni": 50, "nj": 70, "nk": 40, "nl": 60}),
        Application("atax", vectors.atax, _square("nx", "ny", most=8192), {"nx": 300, "ny": 500}),
        Application("bicg", vectors.bicg, _square("nx", "ny", most=8192), {"nx": 300, "ny": 500}),
        Application("covariance", moments.covariance, _square("m", "n"), {"m": 70, "n": 90}),
        Application("correlation", moments.correlation, _square("m", "n"), {"m": 70, "n": 90}),
        Application("doitgen", products.doitgen, {"nr": (4, 128), "nq": (16, 512), "np_": (16, 512)}, {"nr": 7, "nq": 30, "np_": 50}),
        Application("gemm", products.gemm, _square("ni", "nj", "nk"), {"ni": 50, "nj": 70, "nk": 90}),
        Application("gesummv", vectors.gesummv, _square("n", most=8192), {"n": 400}),
        Application("lu", factorisations.lu, _square("n", most=1024), {"n": 60}),
        Application("gramschmidt", factorisations.gramschmidt, _square("n", most=1024), {"n": 50}),
        Application("syrk", products.syrk, _square("n", "m"), {"n": 70, "m": 50}),
        Application("mvt", vectors.mvt, _square("n", most=8192), {"n": 400}),
        Application("gaussian", elimination.gaussian, _square("n", most=1024), {"n": 60}),
        Application("lud", elimination.lud, {"n": (32, 4096)}, {"n": 96}, step=16),
        Application("nw", paths.nw, {"n": (32, 4096)}, {"n": 160}, step=16),
        Application(
            "pathfinder",
            paths.pathfinder,
            {"rows": (20, 1000), "cols": (500, 100_000), "height": (2, 32)},
            {"rows": 60, "cols": 900, "height": 8},
            baked=("height", (2, 4, 8, 16, 32)),
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
def counter(name: str, baked: int | None = None) -> BlockCounter:
    """The application's kernels with counters, built once for each value of a baked input."""
    application = APPLICATIONS[name]
    settings = dict(application.small)
    if application.baked is not None and baked is not None:
        settings[application.baked[0]] = baked
    return BlockCounter(application.make(**settings))


@functools.cache
def forms(name: str, baked: int | None = None) -> tuple[BlockForm, ...]:
    """The closed forms of the counts of all blocks."""
    return block_forms(counter(name, baked))


def n_samples(name: str, quick: bool) -> int:
    """Number of inputs: the paper's (samples of blocks divided by blocks), within bounds."""
    in_paper = paper()[name]
    most = QUICK_SAMPLES if quick else MOST_SAMPLES
    return min(max(in_paper.samples // in_paper.blocks, LEAST_SAMPLES), most)


@functools.cache
def counted(name: str, quick: bool) -> Samples:
    """Counts by sub-group of every block at the drawn inputs, from the closed forms.

    The only block without a closed form (correlation's column without variance) never runs with the
    data used here, so its count is 0.
    """
    application = APPLICATIONS[name]
    drawn = draw(application, n_samples(name, quick))
    if application.baked is None:
        columns = _columns(forms(name), drawn)
    else:
        baked, values = application.baked
        parts = {value: drawn[baked] == value for value in values}
        n = len(drawn[baked])
        columns = {form.block.name: np.zeros(n) for form in forms(name, values[0])}
        for value, rows in parts.items():
            part = _columns(forms(name, value), {k: v[rows] for k, v in drawn.items()})
            for block, column in part.items():
                columns[block][rows] = column
    return samples(
        {k: v.tolist() for k, v in drawn.items()}, {k: v.tolist() for k, v in columns.items()}
    )


def _columns(forms: tuple[BlockForm, ...], drawn: Mapping[str, Integers]) -> dict[str, Any]:
    n = len(next(iter(drawn.values())))
    known: dict[tuple[int, ...], Any] = {}
    columns = {}
    for form in forms:
        exact = form.by_subgroups
        # Many blocks share the parts of their closed forms, which are solved once.
        key = () if exact is None else tuple(id(part) for part in exact.parts)
        if key not in known:
            counts = 0 if exact is None else exact.at_many(drawn)
            known[key] = np.broadcast_to(np.asarray(counts, np.float64), n)
        columns[form.block.name] = known[key].copy()
    return columns


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
        if application.baked is not None and name == application.baked[0]:
            allowed = np.array(application.baked[1])
            values = allowed[np.abs(values[:, None] - allowed).argmin(axis=1)]
        else:
            values = np.maximum(np.round(values / application.step), 1) * application.step
        drawn[name] = values.astype(np.int64)
    return drawn
