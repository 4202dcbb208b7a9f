"""Training samples: the inputs of runs and the counts of each block, checked when they are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from memsim.errors import MemsimError

FloatArray = npt.NDArray[np.float64]
Split = Literal["random", "high-low", "mixed"]
SPLITS: tuple[Split, ...] = ("random", "high-low", "mixed")
TRAINED_SHARE = 0.7


class SampleError(MemsimError):
    """Nothing can be learned from these samples."""


@dataclass(frozen=True)
class Samples:
    """Runs of one application.

    names : of the inputs
    inputs : (n, n_input) float64;  counts : (n, n_block) float64, whole numbers
    blocks : a name for each column of counts
    """

    names: tuple[str, ...]
    inputs: FloatArray
    counts: FloatArray
    blocks: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.inputs)

    def rows(self, chosen: Any) -> Samples:
        return Samples(self.names, self.inputs[chosen], self.counts[chosen], self.blocks)


def samples(
    inputs: Mapping[str, Sequence[float]], counts: Mapping[str, Sequence[float]]
) -> Samples:
    """Samples from columns, checked.

    Raises SampleError, which names the column and the row, for counts that are not whole numbers of at
    least 0, inputs that are not positive numbers, an input with a single value, and columns of
    different lengths.
    """
    if not inputs or not counts:
        raise SampleError("samples need at least one input and one block")
    n = len(next(iter(inputs.values())))
    for name, column in (*inputs.items(), *counts.items()):
        if len(column) != n:
            raise SampleError(f"{name} has {len(column)} samples where others have {n}")
    if n < 2:
        raise SampleError(f"at least 2 samples are needed, got {n}")
    for name, column in inputs.items():
        values = np.asarray(column, np.float64)
        _refuse(name, values, ~np.isfinite(values) | (values <= 0), "a positive number")
        if np.ptp(values) == 0:
            raise SampleError(
                f"input {name} is {values[0]:g} in all {n} samples, so its effect cannot be learned:"
                " leave it out, or vary it"
            )
    for name, column in counts.items():
        values = np.asarray(column, np.float64)
        _refuse(f"count of {name}", values, ~np.isfinite(values) | (values < 0), "at least 0")
        _refuse(f"count of {name}", values, values != np.floor(values), "a whole number")
    return Samples(
        tuple(inputs),
        np.stack([np.asarray(c, np.float64) for c in inputs.values()], axis=1),
        np.stack([np.asarray(c, np.float64) for c in counts.values()], axis=1),
        tuple(counts),
    )


def _refuse(name: str, values: FloatArray, wrong: Any, rule: str) -> None:
    if wrong.any():
        row = int(np.argmax(wrong))
        raise SampleError(f"{name} must be {rule}, got {values[row]:g} in sample {row}")


def split(given: Samples, how: Split, seed: int = 0) -> tuple[Samples, Samples]:
    """Training and test samples.

    random : 70 % and 30 %, drawn at random
    high-low : training samples have all inputs in the lower 70 % of their ranges, test samples have all
        inputs above; other samples are left out
    mixed : as high-low, but the other samples are training samples

    Raises SampleError where a part would be empty.
    """
    if how not in SPLITS:
        raise SampleError(f"split must be one of {', '.join(SPLITS)}, got {how!r}")
    n = len(given)
    if how == "random":
        order = np.random.default_rng(seed).permutation(n)
        cut = max(round(TRAINED_SHARE * n), 1)
        trained, tested = order[:cut], order[cut:]
    else:
        least, most = given.inputs.min(axis=0), given.inputs.max(axis=0)
        high = given.inputs > least + TRAINED_SHARE * (most - least)
        tested = np.flatnonzero(high.all(axis=1))
        low = ~high.any(axis=1) if how == "high-low" else ~high.all(axis=1)
        trained = np.flatnonzero(low)
    if len(trained) < 2 or len(tested) < 1:
        raise SampleError(
            f"the {how} split leaves {len(trained)} samples to train on and {len(tested)} to test:"
            " give more samples, with all inputs low in some and high in others"
        )
    return given.rows(trained), given.rows(tested)


def normalised_error(predicted: FloatArray, actual: FloatArray, scale: FloatArray) -> FloatArray:
    """(n_block,) mean squared error of each block's counts divided by `scale`.

    predicted, actual : (n, n_block)
    scale : (n_block,) the largest count of each block in all samples; 0 for blocks that never run
    """
    safe = np.where(scale > 0, scale, 1)
    errors: FloatArray = (((predicted - actual) / safe) ** 2).mean(axis=0)
    return errors
