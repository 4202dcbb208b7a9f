"""How well counts are learned: errors and correlations over all blocks of an application."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.stats

from calib.block_counts import (
    FloatArray,
    Kind,
    Purpose,
    Samples,
    Split,
    fit_network,
    learn,
    normalised_error,
    split,
)
from experiments.bbml.applications import counted

How = Literal["network", "chosen"]


@dataclass(frozen=True)
class Scores:
    """Of one application, split and way of learning.

    mse : mean over blocks of the normalised squared error
    pearson, spearman : over all blocks' normalised counts together; nan where nothing varies
    predicted, actual : (n_test, n_block), normalised by each block's largest count
    kinds : the chosen kinds, and for how many blocks
    """

    mse: float
    pearson: float
    spearman: float
    predicted: FloatArray
    actual: FloatArray
    kinds: dict[Kind, int]

    @property
    def accuracy(self) -> float:
        return 1 - self.mse


@functools.cache
def scores(name: str, how: Split, way: How, quick: bool) -> Scores:
    """Trains on one part of an application's samples and scores the other."""
    given = counted(name, quick)
    trained, tested = split(given, how)
    return score(trained, tested, given.counts.max(axis=0), way, _purpose(how))


def _purpose(how: Split) -> Purpose:
    return "within" if how == "random" else "beyond"


def score(
    trained: Samples, tested: Samples, scale: FloatArray, way: How, purpose: Purpose
) -> Scores:
    """scale : the largest count of each block, which errors are relative to."""
    predicted = np.zeros_like(tested.counts)
    kinds: dict[Kind, int] = {}
    known: dict[bytes, tuple[FloatArray, Kind]] = {}
    for column in range(tested.counts.shape[1]):
        key = trained.counts[:, column].tobytes()
        if key not in known:  # many blocks run as often as another
            known[key] = _predicted(trained, tested, column, way, purpose)
        predicted[:, column], kind = known[key]
        kinds[kind] = kinds.get(kind, 0) + 1
    safe = np.where(scale > 0, scale, 1)
    mse = float(normalised_error(predicted, tested.counts, scale).mean())
    flat, actual = (predicted / safe), (tested.counts / safe)
    return Scores(
        mse, _correlation(scipy.stats.pearsonr, flat, actual),
        _correlation(scipy.stats.spearmanr, flat, actual), flat, actual, kinds,
    )  # fmt: skip


def _correlation(function: Any, predicted: FloatArray, actual: FloatArray) -> float:
    if np.ptp(predicted) == 0 or np.ptp(actual) == 0:
        return float("nan")
    return float(function(predicted.ravel(), actual.ravel())[0])


def _predicted(
    trained: Samples, tested: Samples, column: int, way: How, purpose: Purpose
) -> tuple[FloatArray, Kind]:
    counts = trained.counts[:, column]
    if np.ptp(counts) == 0:
        return np.full(len(tested), counts[0]), "constant"
    if way == "network":
        return fit_network(trained.inputs, counts).predict(tested.inputs), "network"
    found = learn(trained, column, purpose, ensemble=False)
    return found.model.predict(tested.inputs), found.kind
