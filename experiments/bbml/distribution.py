"""Figure 3: the distribution of the counts of one basic block of bicg over runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.stats

from experiments.bbml import drawing
from experiments.bbml.applications import counted
from experiments.reproduction import Case, Figure


def figure_3(out: Path, quick: bool) -> Figure:
    """The block of bicg that runs most often; the paper shows block 19 of 21."""
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
            f"The density is skewed to the right as in the paper, but its variance is {ratio:.3g} times its mean."
            " It shows how the inputs were drawn. For given inputs the count is a single number without"
            " variance, so the Poisson loss weights the errors and does not model noise.",
        ],
        pictures=[picture],
    )  # fmt: skip
