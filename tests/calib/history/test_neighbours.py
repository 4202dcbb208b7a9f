"""Times between recorded sizes: closed forms, what intervals cover, and which model an answer takes."""

import math
import re

import numpy as np
import pytest
from scipy import stats

from calib.history.answers import Prior, answer
from calib.history.errors import HistoryError
from calib.history.key import Key
from calib.history.model_kinds import verdicts
from calib.history.neighbours import NORMAL_95, neighbours
from calib.history.records import Sample
from calib.history.regression import Question
from tests.support.histories import record_of

SIZES = 1000 * 2 ** np.arange(9)


def records_of(law, sizes, n=3, noise=0.0, rng=None):
    return [
        record_of(
            size, law(size) * np.exp(noise * rng.standard_normal(n) if noise else np.zeros(n))
        )
        for size in sizes.tolist()
    ]


@pytest.mark.parametrize("exponent", [0.0, 2.7, -1.0])
def test_a_power_law_is_recovered(exponent):
    """A straight line in logarithms: every size left out lies on it, so the interval is a point."""

    def law(size):
        return 3e-9 * float(size) ** exponent

    model = neighbours(records_of(law, SIZES))
    for size in (1000, 1001, 12_000, 127_999, 256_000):
        time_s, low_s, high_s = model.predict(Question(size_bytes=size))
        assert time_s == pytest.approx(law(size), rel=1e-12)
        assert (low_s, high_s) == (pytest.approx(time_s, rel=1e-5), pytest.approx(time_s, rel=1e-5))
    assert model.misfit == 0.0


def test_between_two_sizes_by_hand():
    """1 ms at 8000 bytes and 8 ms at 16000: (12000 / 8000)^3 ms, and an interval of their distance."""
    model = neighbours([record_of(8000, [1e-3] * 4), record_of(16000, [8e-3] * 4)])
    time_s, low_s, high_s = model.predict(Question(size_bytes=12_000))
    assert time_s == pytest.approx(3.375e-3, rel=1e-12)
    part = math.log2(1.5)
    half = NORMAL_95 * math.log(8) * math.sqrt(part * (1 - part))
    assert math.log(high_s / time_s) == pytest.approx(half, rel=1e-9)
    assert math.log(time_s / low_s) == pytest.approx(half, rel=1e-9)
    assert math.isnan(model.misfit)


def test_a_size_left_out_by_hand():
    """The middle one of three sizes is twice its neighbours' mean: the only error there is, ln 2 over a
    bridge of ln 2 / 2; but no wider than the times themselves lie apart, ln 2 over each gap of ln 2."""
    model = neighbours(records_of(lambda size: 2e-3 if size == 2000 else 1e-3, SIZES[:3]))
    time_s, _, high_s = model.predict(Question(size_bytes=1414))
    x = math.log(1.414)
    bridge = x * (math.log(2) - x) / math.log(2)
    left_out = stats.t.ppf(0.975, 1) * math.sqrt(math.log(2) ** 2 / (math.log(2) / 2))
    apart = NORMAL_95 * math.sqrt(math.log(2) ** 2 / math.log(2))
    assert left_out > apart
    assert math.log(high_s / time_s) == pytest.approx(apart * math.sqrt(bridge), rel=1e-9)


def test_layouts_of_one_size_are_one_point():
    same = [record_of(1000, [1e-3 * k] * 3, layout=k) for k in (1, 2)]
    model = neighbours([*same, record_of(2000, [4e-3] * 6)])
    assert model.predict(Question(size_bytes=1000))[0] == pytest.approx(math.sqrt(2) * 1e-3)
    assert (model.n_samples, model.n_keys) == (12, 3)
    assert model.deviation == pytest.approx(math.sqrt(6 * (math.log(2) / 2) ** 2 / 10))


def test_what_needs_two_sizes():
    assert neighbours([]) is None
    assert neighbours([record_of(1000, [1e-3] * 12)]) is None
    assert neighbours([record_of(0, [1e-3] * 12), record_of(1000, [1e-3] * 12)]) is None
    model = neighbours(records_of(lambda size: 1e-9 * size, SIZES[:2], n=6))
    for size in (0, 999, 2001):
        assert not model.covers(Question(size_bytes=size))
        with pytest.raises(HistoryError, match="need a size between 1000 and 2000 bytes"):
            model.predict(Question(size_bytes=size))


def covered(make, n_trials=200):
    """How many of the next launches at a new size lie in the interval, and in that of launches alone."""
    inside = alone = 0
    for trial in range(n_trials):
        rng = np.random.default_rng(trial)
        law, noise = make(rng)
        model = neighbours(records_of(law, SIZES, n=4, noise=noise, rng=rng))
        size = int(rng.integers(SIZES[0] + 1, SIZES[-1]))
        next_s = law(size) * math.exp(noise * rng.standard_normal())
        time_s, low_s, high_s = model.predict(Question(size_bytes=size))
        inside += low_s <= next_s <= high_s
        alone += abs(math.log(next_s / time_s)) <= NORMAL_95 * model.deviation * math.sqrt(1.25)
    return inside, alone


def test_intervals_cover_the_next_launch_of_a_power_law():
    inside, _ = covered(lambda rng: (lambda size: 2e-9 * size**1.2, 0.08))
    low, high = stats.binom.interval(1 - 1e-5, 200, 0.95)
    assert low <= inside <= high


def brownian(rng):
    """ln t as a random walk over ln n in 2048 steps, with a slope of its own."""
    x = np.linspace(math.log(SIZES[0]), math.log(SIZES[-1]), 2049)
    steps = 0.35 * math.sqrt(x[1] - x[0]) * rng.standard_normal(2048)
    y = np.concatenate([[0.0], np.cumsum(steps)]) + rng.uniform(0.5, 2.0) * x
    return (lambda size: 1e-9 * math.exp(np.interp(math.log(size), x, y))), 0.02


def test_intervals_cover_times_that_follow_no_law():
    """And without what the sizes left out contribute, they would not."""
    inside, alone = covered(brownian)
    low, high = stats.binom.interval(1 - 1e-5, 200, 0.95)
    assert low <= inside <= high
    assert alone < low


def feed(store, times, n):
    store.add_many(
        Sample(key=Key(kernel="k", device="d", layout=size), time_s=time_s, size_bytes=size)
        for size, time_s in times.items()
        for _ in range(n)
    )


ASKED = Key(kernel="k", device="d", layout=12_000)
TIMES = {4000: 1.0e-4, 8000: 2.1e-4, 16000: 1.9e-3, 32000: 4.1e-3, 64000: 8.0e-3}
"""A kernel whose data leave a cache between 8000 and 16000 bytes: no law fits within 10 %."""


def model_of(time_s, deviation, *, calibrated):
    kind = "calibrated model" if calibrated else "uncalibrated model of v100"
    prior = Prior(time_s=time_s, deviation=deviation, kind=kind, calibrated=calibrated)
    return lambda key, question: prior


@pytest.mark.parametrize(("factor", "n", "argument"), [(12, 3, "prior"), (270, 20, "last")])
def test_between_8000_and_16000(store, factor, n, argument):
    """An uncalibrated model, 12 to 270 times off, is not preferred to the sizes on either side."""
    feed(store, TIMES, n)
    wrong = {argument: model_of(7e-4 * factor, math.log(2), calibrated=False)}
    found = answer(store, ASKED, size_bytes=12_000, **wrong)
    assert found.kind == "neighbours in size"
    assert found.note.endswith("210.0 us at 8,000 bytes and 1.900 ms at 16,000 bytes")
    words = r"[\d.]+ us \(95 % interval: [\d.]+ us to [\d.]+ [mu]s\) by neighbours in size: this layout was never"
    assert re.match(words, str(found))
    assert found.time_s == pytest.approx(2.1e-4 * (1.9e-3 / 2.1e-4) ** math.log2(1.5))
    assert found.low_s < 2.1e-4 < 1.9e-3 < found.high_s
    assert found.high_s < 7e-4 * factor
    # Beyond the recorded sizes only the model is left.
    far = answer(store, ASKED, size_bytes=128_000, **wrong)
    assert far.kind == "uncalibrated model of v100"


def test_the_more_certain_model_answers_and_first_samples_are_blended_with_it(store):
    feed(store, TIMES, 3)
    for deviation, kind in ((0.1, "calibrated model"), (3.0, "neighbours in size")):
        model = model_of(6e-4, deviation, calibrated=True)
        assert answer(store, ASKED, size_bytes=12_000, prior=model).kind == kind
    store.add(ASKED, 1.5e-3, size_bytes=12_000)
    found = answer(store, ASKED)
    assert found.kind == "blend"
    assert "the neighbours in size predicts" in found.note


def test_they_are_a_kind_of_model(store):
    feed(store, TIMES, 3)
    smooth = records_of(lambda size: 1e-9 * size + 2e-8 * size**0.5, SIZES)
    few, two = (records_of(lambda size: 1e-9 * size, SIZES[:k], n=n) for k, n in ((3, 3), (2, 6)))
    for records, calibrated, fits, reason in (
        (store.records(), True, False, ""),  # the cache's edge is left out
        (smooth, True, True, "between 9 sizes"),
        (few, False, False, "9 samples of the 10 it needs"),
        (two, True, False, "2 sizes; there are too few layouts to know its error"),
    ):
        verdict = next(v for v in verdicts(records) if v.kind == "neighbours in size")
        assert (verdict.calibrated, verdict.fits) == (calibrated, fits)
        assert reason in verdict.reason
    found = answer(store, ASKED, size_bytes=12_000, kind="neighbours in size")
    assert (found.kind, found.fits, found.n_samples) == ("neighbours in size", False, 15)
