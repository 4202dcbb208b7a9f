"""Figure 3: how the counts of one block of bicg are distributed over runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.stats

from experiments.bbml import drawing
from experiments.bbml.applications import counted
from experiments.reproduction import Case, Figure


def figure_3(out: Path, quick: bool) -> Figure:
    """The loop body of bicg's second product; the paper's is its 19th of 21 blocks of machine code."""
    given = counted("bicg", quick)
    column = int(np.argmax(given.counts.mean(axis=0)))
    counts = given.counts[:, column]
    ratio = float(counts.var() / counts.mean())
    density = scipy.stats.gaussian_kde(counts)
    picture = drawing.distribution(
        out / "figure-3.png", f"bicg, block {given.blocks[column]}", counts, density,
        float(np.sqrt(counts.mean())),
    )  # fmt: skip
    return Figure(
        name="figure-3",
        title="Figure 3: the distribution of a block's counts over inputs",
        source="BB-ML, Figure 3: the counts of block 19 of bicg, 'Poisson-like'",
        cases=[
            Case(
                figure="figure-3", case=given.blocks[column], quantity="variance / mean", unit="",
                reference=1.0, ours=ratio, note="1 for a Poisson variable",
            ),
            Case(
                figure="figure-3", case=given.blocks[column], quantity="skewness", unit="",
                reference=None, ours=float(scipy.stats.skew(counts)),
            ),
        ],
        findings=[
            f"The density leans to the right as the paper's does, but its variance is {ratio:.3g} times"
            " its mean: it shows how inputs were drawn. Given the inputs the count is one number, with"
            " no variance at all, so the Poisson loss is a weighting of errors and no model of noise.",
        ],
        pictures=[picture],
    )  # fmt: skip
