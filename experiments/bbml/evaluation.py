"""Errors and correlations of learned counts over all basic blocks of an application."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.stats

from calib.block_counts import (
    FloatArray,
    Purpose,
    Samples,
    Split,
    learn,
    normalised_error,
    split,
)
from experiments.bbml.applications import counted
from experiments.bbml.network import KINDS, fit_network

Method = Literal["network", "chosen"]
"""The paper's network, or the model that cross-validation selects."""


@dataclass(frozen=True)
class Scores:
    """Scores of one application, split and method.

    mse : mean over blocks of the normalised squared error
    pearson, spearman : over all blocks' normalised counts together; NaN if nothing varies
    predicted, actual : (n_test, n_block), normalised by each block's largest count
    kinds : kind of model -> number of blocks
    """

    mse: float
    pearson: float
    spearman: float
    predicted: FloatArray
    actual: FloatArray
    kinds: dict[str, int]

    @property
    def accuracy(self) -> float:
        """1 - mse."""
        return 1 - self.mse


@functools.cache
def scores(name: str, how: Split, method: Method, quick: bool) -> Scores:
    """Train on one part of an application's samples and score the predictions of the other part."""
    given = counted(name, quick)
    trained, tested = split(given, how)
    return score(trained, tested, given.counts.max(axis=0), method, _purpose(how))


def _purpose(how: Split) -> Purpose:
    return "within" if how == "random" else "beyond"


def score(
    trained: Samples, tested: Samples, scale: FloatArray, method: Method, purpose: Purpose
) -> Scores:
    """Train on some samples and score the predictions of others; errors are relative to `scale`."""
    predicted = np.zeros_like(tested.counts)
    kinds: dict[str, int] = {}
    known: dict[bytes, tuple[FloatArray, str]] = {}
    for column in range(tested.counts.shape[1]):
        key = trained.counts[:, column].tobytes()
        if key not in known:  # many blocks have the same counts
            known[key] = _predicted(trained, tested, column, method, purpose)
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
    trained: Samples, tested: Samples, column: int, method: Method, purpose: Purpose
) -> tuple[FloatArray, str]:
    counts = trained.counts[:, column]
    if np.ptp(counts) == 0:
        return np.full(len(tested), counts[0]), "constant"
    if method == "network":
        return fit_network(trained.inputs, counts).predict(tested.inputs), "network"
    learned = learn(trained, column, purpose, KINDS, ensemble=False)
    return learned.model.predict(tested.inputs), learned.kind
