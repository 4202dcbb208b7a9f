"""Regressions, kinds and answers: known laws recovered, thresholds on both sides, blends by hand."""

import math
import time

import numpy as np
import pytest
from scipy import stats

from calib.history.answers import Prior, answer, blend, fresh_time
from calib.history.errors import HistoryError
from calib.history.key import Key
from calib.history.model_kinds import relative_speed_ups, verdicts
from calib.history.records import Sample
from calib.history.regression import Question, linear, power_law, power_law_with_offset
from tests.support.histories import record_of


def key(layout, device="cpu", driver="1", kernel="k"):
    return Key(kernel=kernel, device=device, driver=driver, layout=layout)


def feed(store, law, sizes, *, n=10, noise=0.0, seed=0, device="cpu", kernel="k", terms=None):
    rng = np.random.default_rng(seed)
    store.add_many(
        Sample(
            key=key(int(size), device=device, kernel=kernel),
            time_s=law(size) * math.exp(noise * rng.standard_normal()),
            size_bytes=int(size),
            terms=terms(size) if terms else {},
        )
        for size in sizes
        for _ in range(n)
    )


SIZES = 4096 * 2 ** np.arange(7)


def test_the_power_law_of_a_store_is_what_polyfit_gives_of_its_samples(store):
    sizes = np.random.default_rng(4).integers(1000, 10**7, 40)
    feed(store, lambda n: 2e-9 * n**1.3, sizes, n=4, noise=0.1)
    law = power_law(store.records())
    x = np.log(np.repeat([record.size_bytes for record in store.records()], 4))
    y = np.log(np.concatenate([store.samples(record.key) for record in store.records()]))
    slope, intercept = np.polyfit(x, y, 1)
    assert (law.b, math.log(law.a)) == pytest.approx((slope, intercept), rel=1e-9)
    left = y - intercept - slope * x
    assert law.deviation == pytest.approx(math.sqrt(np.sum(left**2) / 158), rel=1e-6)
    assert (law.n_samples, law.sums.min_x, law.sums.max_x) == (160, sizes.min(), sizes.max())


def test_calibrated_from_ten_samples_on_where_sizes_spread():
    for n_samples, calibrated in (
        ({1000: 3, 2000: 3, 3000: 3}, False),
        ({1000: 4, 2000: 3, 3000: 3}, True),
        ({900: 6, 1000: 6}, False),  # 0.9 of the largest is not below it
        ({899: 1, 900: 6, 1000: 6}, True),
    ):
        records = [record_of(size, [1e-9 * size] * n) for size, n in n_samples.items()]
        assert (power_law(records) is not None) == calibrated, n_samples


def test_an_offset_is_found_where_there_is_one(store):
    feed(store, lambda n: 3e-10 * n**1.25 + 2e-5, SIZES, n=2)
    assert power_law_with_offset(store.records()).coefficients == pytest.approx(
        (3e-10, 1.25, 2e-5), rel=1e-4
    )


def test_a_line_over_terms_is_found_exactly(store):
    def terms(size):
        return {"n": float(size), "n*m": float(size) * (1 + size % 5)}

    def law(size):
        return 1e-6 + 2e-9 * size + 3e-10 * size * (1 + size % 5)

    feed(store, law, [1000, 2001, 3002, 5003, 9004, 12006, 17001], n=2, terms=terms)
    model = linear(store.records())
    assert dict(zip(model.names, model.coefficients, strict=True)) == pytest.approx(
        {"1": 1e-6, "n": 2e-9, "n*m": 3e-10}, rel=1e-9
    )
    got, low, high = model.predict(Question(terms=terms(7777)))
    assert got == pytest.approx(law(7777), rel=1e-9)
    assert low <= got <= high
    with pytest.raises(HistoryError, match=r"needs the terms n\*m"):
        model.predict(Question(terms={"n": 1.0}))
    together = [
        record_of(n, [1e-9 * n] * 10, {"n": 1.0 * n, "twice": 2.0 * n}) for n in range(1, 8)
    ]
    assert linear(together) is None, "terms that go together do not calibrate"


@pytest.mark.parametrize(
    ("fit", "law"),
    [
        (power_law, lambda n: 1e-9 * n**1.1),
        (power_law_with_offset, lambda n: 1e-9 * n**1.1 + 2e-5),
        (linear, lambda n: 1e-9 * n + 2e-5),
    ],
)
def test_intervals_hold_what_they_say(fit, law):
    """Of 200 new launches at new sizes, about 95 % lie in the interval: a binomial bound."""
    covered, trials = 0, 200
    for trial in range(trials):
        rng = np.random.default_rng(trial)
        records = [
            record_of(n, law(n) * np.exp(0.08 * rng.standard_normal(4)), {"n": float(n)})
            for n in SIZES.tolist()
        ]
        size = int(rng.integers(SIZES[0], SIZES[-1]))
        got = fit(records).predict(Question(size_bytes=size, terms={"n": float(size)}))
        covered += got[1] <= law(size) * math.exp(0.08 * rng.standard_normal()) <= got[2]
    low, high = stats.binom.interval(1 - 1e-5, trials, 0.95)
    assert low <= covered <= high


def test_the_interval_of_a_history_holds_the_next_launch(store):
    rng = np.random.default_rng(9)
    covered, trials = 0, 200
    for trial in range(trials):
        times = 1e-3 * (1 + 0.05 * rng.standard_normal(11))
        store.add_many(Sample(key=key(trial), time_s=t) for t in times[:10])
        got = answer(store, key(trial))
        assert got.time_s == pytest.approx(times[:10].mean())
        covered += got.low_s <= times[10] <= got.high_s
    low, high = stats.binom.interval(1 - 1e-5, trials, 0.95)
    assert low <= covered <= high


def test_kinds_and_layouts_that_do_not_fit_say_so_and_name_the_better(store):
    feed(store, lambda n: 3e-10 * n**1.25 + 2e-5, SIZES, noise=0.01)
    got = answer(store, key(1), size_bytes=10_000, kind="power law")
    assert not got.fits
    assert "power law with offset is the better kind" in got.note
    assert answer(store, key(1), size_bytes=10_000, kind="power law with offset").fits
    store.add_many(
        Sample(key=key(5), time_s=1e-3 if number % 3 else 2.5e-3) for number in range(40)
    )
    got = answer(store, key(5))
    assert (got.kind, got.calibrated, got.fits) == ("history", True, False)
    assert "bimodal" in got.note
    assert "is the better kind" in got.note


def test_layouts_that_never_return_are_for_a_regression(store):
    """An irregular application: layout 1024 x 512 has run, 1026 x 510 is new."""
    rng = np.random.default_rng(5)
    sizes = np.unique(rng.integers(10**4, 10**6, 40))
    feed(store, lambda n: 1e-9 * n, sizes, n=1, noise=0.02)
    best = verdicts(store.records())[0]
    assert best.kind.startswith("power law")
    assert best.fits
    with pytest.raises(HistoryError, match=r"no history of this layout: power law.* better kind"):
        answer(store, key(77), size_bytes=50_000, kind="history")
    got = answer(store, key(77), size_bytes=50_000)
    assert got.kind == best.kind
    assert got.low_s < 5e-5 < got.high_s
    assert "beyond the measured range" in answer(store, key(77), size_bytes=10**9).note
    # It goes before a model.
    assert answer(store, key(77), size_bytes=50_000, prior=prior_of(1.0, 0.2)) == got
    with pytest.raises(HistoryError, match="a prior needs"):
        Prior(time_s=0.0, deviation=0.1, kind="m")


def prior_of(time_s, deviation, kind="calibrated model"):
    return lambda key, question: Prior(
        time_s=time_s,
        deviation=deviation,
        kind=kind,
        calibrated=not kind.startswith("uncalibrated"),
    )


def test_an_unseen_key_is_answered_by_the_model_and_shifts_over_with_its_samples(store):
    got = answer(store, key(1), prior=prior_of(1e-3, 0.5, "uncalibrated model"))
    assert (got.kind, got.calibrated) == ("uncalibrated model", False)
    assert got.high_s == pytest.approx(1e-3 * math.exp(1.959964 * 0.5), rel=1e-6)
    times_s = []
    for n in range(10):
        got = answer(store, key(1), prior=prior_of(1e-3, 0.5))
        assert (got.kind, got.n_samples) == ("blend" if n else "calibrated model", n)
        assert got.calibrated == (n == 0)
        times_s.append(got.time_s)
        store.add(key(1), 2e-3)
    assert times_s == sorted(times_s)
    assert times_s[0] == 1e-3
    assert times_s[1] > 1.9e-3

    def never(key, question):
        raise AssertionError("the model was asked")

    got = answer(store, key(1), prior=never)
    assert (got.kind, got.time_s, got.n_samples) == ("history", pytest.approx(2e-3), 10)


def test_the_blend_is_the_normal_posterior(store):
    for t in (1.9e-3, 2.0e-3, 2.1e-3):
        store.add(key(1), t)
    got = blend(store.get(key(1)), Prior(time_s=1e-3, deviation=0.2, kind="m"), 0.1)
    s2 = (2 * (0.1e-3 / 2e-3) ** 2 + 2 * 0.1**2) / 4
    precision = [3 / s2, 1 / 0.2**2]
    mean = (precision[0] * math.log(2e-3) + precision[1] * math.log(1e-3)) / sum(precision)
    assert got.time_s == pytest.approx(math.exp(mean), rel=1e-12)
    half = 1.959963984540054 * math.sqrt(1 / sum(precision) + s2)
    assert math.log(got.high_s / got.time_s) == pytest.approx(half, rel=1e-9)
    assert f"the weight {precision[0] / sum(precision):.2f}" in got.note
    assert "3 samples" in got.note
    assert "the m predicts 1.000 ms" in got.note


def test_nothing_known_is_said_with_what_is_kept_aside(store):
    for _ in range(12):
        store.add(key(1, driver="old"), 1e-3)
    with pytest.raises(HistoryError, match=r"12 samples under other drivers \(old\) are not used"):
        answer(store, key(1, driver="new"))
    got = answer(store, key(1, driver="new"), prior=prior_of(1e-3, 0.2))
    assert "12 samples under other drivers (old) are not used" in got.note


def test_fresh_time(store):
    now = time.time()
    store.add_many(Sample(key=key(1), time_s=1e-3, at=now - 100 + n) for n in range(9))
    assert fresh_time(store, key(1), 1000) is None, "nine are not calibrated"
    store.add_many([Sample(key=key(1), time_s=1e-3, at=now - 50)])
    assert fresh_time(store, key(1), 1000) == pytest.approx(1e-3)
    assert fresh_time(store, key(1), 40) is None, "too old"
    assert fresh_time(store, key(2), 1000) is None
    store.add_many(Sample(key=key(3), time_s=1e-3 if n % 2 else 3e-3) for n in range(30))
    assert fresh_time(store, key(3), 1000) is None, "does not repeat"


def test_speed_ups_are_geometric_means_over_layouts_both_ran(store):
    feed(store, lambda n: 1e-9 * n, SIZES[:2])
    feed(store, lambda n: 1e-9 * n / (2 if n == SIZES[0] else 8), SIZES[:2], device="gpu")
    feed(store, lambda n: 1e-9 * n, SIZES[3:4], device="gpu")  # the CPU never ran this
    found = relative_speed_ups(store.records(), "cpu")
    assert found["gpu"].factor == pytest.approx(4.0)
    assert (found["gpu"].low, found["gpu"].high) == (pytest.approx(2.0), pytest.approx(8.0))
    assert (found["gpu"].n_layouts, found["cpu"].factor) == (2, pytest.approx(1.0))
    with pytest.raises(HistoryError, match="reference device tpu"):
        relative_speed_ups(store.records(), "tpu")
