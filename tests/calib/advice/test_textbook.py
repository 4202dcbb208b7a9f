"""Textbook cases: the textbook's remedy comes first, and gains what the kernel written by hand gains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from calib.advice import AdviseOptions, advise
from calib.advice import search as searching
from calib.advice.results import Advice
from calib.advice.trial import outputs_of, predicted
from calib.advice.variants import Variant
from calib.prediction import PredictOptions
from memsim import load_machine
from tests.calib.advice import textbook

V100 = load_machine("v100")
TRIALS = 8
AGREES = 0.1
"""Relative difference between the gains of the remedy and of the kernel written by hand: their code differs
in the order of instructions and in conditions at the edges."""
OPTIONS = AdviseOptions(budget=600.0, best=3, trials=TRIALS, first_trials=2, depth=1, jobs=1)

STAGED = "stage a in local memory, and let lanes run along i_inner"
FIELDS_APART = "p from an array of structures to a structure of arrays"
CASES: list[Any] = [
    (textbook.transpose, "stage", STAGED),
    (textbook.product, "tile", "tile k by 16 and stage a and b in local memory"),
    (textbook.particles, "axis order", FIELDS_APART),
    (textbook.flat_particles, "axis order", FIELDS_APART),
    (textbook.update, "vectorise", "vectors of 4 elements along i_inner, in fewer groups"),
    (textbook.sweep, "other lanes", "let lanes run along j, and groups along i_inner"),
    (textbook.csr, "share a sum", "32 lanes for each sum over j, 1 sum in a group"),
]


def gain_by_hand(case: Callable[..., Any]) -> float:
    options = PredictOptions(trials=TRIALS, jobs=1)
    before, after = (
        predicted(case(by_hand=by_hand), V100, options)[0].timing.seconds.mean()
        for by_hand in (False, True)
    )
    return float(before / after)


def shown(advice: Advice) -> str:
    return "\n".join(
        f"{advice.gain(one).mean:.3f} {one.kind} {one.what}"
        for one in advice.ranked("kernel", "layout", "launch")
    )


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize(("case", "remedy", "what"), CASES)
def test_the_textbooks_remedy_comes_first(case: Callable[..., Any], remedy: str, what: str) -> None:
    advice = advise(case(), V100, OPTIONS)
    assert not advice.untried
    first = advice.ranked("kernel", "layout", "launch")[0]
    assert (first.remedies, first.what) == ((remedy,), what), shown(advice)
    gain = advice.gain(first)
    assert gain.low > 1.1
    assert gain.mean == pytest.approx(gain_by_hand(case), rel=AGREES)


def test_a_transpose_is_staged_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fast guard of the case above: few remedies, small, few trials. Without its padding, the tile
    makes the kernel slower (0.89)."""
    few = ("stage", "swap lanes", "other lanes")
    monkeypatch.setattr(searching, "REMEDIES", {name: searching.REMEDIES[name] for name in few})
    options = AdviseOptions(budget=600.0, best=1, trials=2, first_trials=2, depth=1, jobs=1)
    advice = advise(textbook.transpose(256), V100, options)
    first = advice.ranked("kernel", "layout", "launch")[0]
    assert first.what == STAGED, shown(advice)
    assert advice.gain(first).mean > 1.5


@pytest.mark.weekly(4)
@pytest.mark.parametrize(("case", "remedy"), [case[:2] for case in CASES])
def test_the_kernel_written_by_hand_computes_the_same(
    case: Callable[..., Any], remedy: str
) -> None:
    size = {"rows": 256} if case is textbook.csr else {"n": 256}
    plain, by_hand = (
        outputs_of(Variant(workload=case(**size, by_hand=one))) for one in (False, True)
    )
    for name, values in plain.items():
        other = by_hand[name]
        if remedy == "axis order":
            other = other.reshape(8, -1).T
        np.testing.assert_allclose(other.reshape(values.shape), values, rtol=1e-4)
