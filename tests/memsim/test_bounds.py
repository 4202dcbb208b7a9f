"""Bounds of a snapshot: what is shown if none, half or all of its open misses are hits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import xarray as xr

from memsim.bounds import Hits, disagreement, is_open, places_of, widened, with_open_hits
from memsim.latency import load_hit_ratio
from memsim.montecarlo.result import Replay
from memsim.report.summary import summarise
from memsim.report.verdict import judge
from memsim.statistics import ORDERING, PAST, PHASE, PLACE, Places, describe, student_t
from tests.support.fake_replay import fake_dataset


def opened(share: float, level: str = "L2", likely: float = 1.0, **changes: Any) -> xr.Dataset:
    """A result in which a share of the misses of loads at one level is open, a part of that likely."""
    dataset = fake_dataset(n_trials=12, **changes)
    misses = dataset["accesses"] - dataset["hits"] - dataset["pending"]
    loads = dataset["direction"] == "load"
    chosen = (dataset["level"] == level) & loads
    dataset["open"] = xr.where(chosen, (misses * share).astype(np.int64), 0).transpose(*misses.dims)
    dataset["likely"] = (dataset["open"] * likely).astype(np.int64)
    return dataset


def with_options(dataset: xr.Dataset, **options: Any) -> xr.Dataset:
    return dataset.assign_attrs(options=options)


def test_without_open_misses_a_result_stays_as_it_is() -> None:
    dataset = fake_dataset(n_trials=3)
    assert with_open_hits(dataset) is dataset
    assert not is_open(opened(0.0))


def test_intervals_of_accesses_in_python_are_those_of_the_report() -> None:
    """What is open of the snapshot and of where it lies widens them; before, only orderings did."""
    dataset = with_options(opened(0.4, likely=0.5), snapshots=2, phases=True)
    found = Replay(dataset).sites["val[jj]"].hit_ratio("L2")
    assert set(found.parts) >= {ORDERING, PHASE, PAST}
    # Half of the likely ones are hits in the middle: 10 of 100 misses, and 40 at most.
    assert found.parts[PAST] == pytest.approx(0.3 / 0.9 * (1 - found.mean), rel=0.01)
    reported = {site.name: site for site in summarise(dataset).sites}
    assert Replay(dataset).sites == reported


@pytest.mark.parametrize(("hits", "share"), [("none", 0.0), ("likely", 0.25), ("every", 1.0)])
def test_open_misses_become_hits(hits: Hits, share: float) -> None:
    """By hand: of 40 % open misses, half of them likely, so many are hits, and read bytes go down with the
    misses."""
    dataset = opened(0.4, likely=0.5)
    changed = with_open_hits(dataset, hits)
    ratio, before = load_hit_ratio(changed, "L2"), load_hit_ratio(dataset, "L2")
    np.testing.assert_allclose(ratio, before + share * 0.4 * (1 - before), atol=2e-4)
    loads = dataset["direction"] == "load"
    read = [one["read_bytes"].sel(level="L2", site=loads).sum() for one in (changed, dataset)]
    assert float(read[0] / read[1]) == pytest.approx(1 - share * 0.4, rel=1e-3)
    np.testing.assert_allclose(
        changed["dram_read_bytes"] / dataset["dram_read_bytes"], 1 - share * 0.4, rtol=1e-3
    )
    assert not is_open(changed)


def test_a_hit_of_the_first_level_is_no_request_to_the_second() -> None:
    dataset = opened(0.5, "L1")
    changed = with_open_hits(dataset, "every")
    loads = dataset["direction"] == "load"
    for name in ("accesses", "hits", "read_bytes"):
        below = [one[name].sel(level="L2", site=loads).sum() for one in (changed, dataset)]
        assert float(below[0] / below[1]) == pytest.approx(0.5, rel=1e-3)
    # The stores' requests stay.
    xr.testing.assert_equal(
        changed["accesses"].isel(site=~loads), dataset["accesses"].isel(site=~loads).astype(float)
    )


def doubted(share: float, level: str = "L2", **changes: Any) -> xr.Dataset:
    """A result in which a share of the hits of loads at one level is doubtful."""
    dataset = fake_dataset(n_trials=12, **changes)
    hits = dataset["hits"] + dataset["pending"]
    chosen = (dataset["level"] == level) & (dataset["direction"] == "load")
    dataset["doubtful"] = xr.where(chosen, (hits * share).astype(np.int64), 0).transpose(*hits.dims)
    return dataset


def test_doubtful_hits_miss_in_the_lower_bound_alone() -> None:
    """By hand: their level and DRAM serve what it fetches for each."""
    dataset = doubted(0.4)
    assert is_open(dataset)
    low, middle, high = (with_open_hits(dataset, hits) for hits in ("none", "likely", "every"))
    before = load_hit_ratio(dataset, "L2")
    for same in (middle, high):
        xr.testing.assert_equal(load_hit_ratio(same, "L2"), before)
        assert not is_open(same)
    np.testing.assert_allclose(load_hit_ratio(low, "L2"), 0.6 * before, rtol=1e-3)
    # A miss of the V100's L2 fetches two sectors.
    more = 64 * dataset["doubtful"].sum(["level", "site"])
    xr.testing.assert_equal(low["dram_read_bytes"], dataset["dram_read_bytes"] + more)
    xr.testing.assert_equal(
        low["read_bytes"].sel(level="L2").sum("site"),
        dataset["read_bytes"].sel(level="L2").sum("site") + more,
    )
    assert not is_open(low)


def test_a_doubtful_hit_of_the_first_level_misses_in_all() -> None:
    dataset = doubted(0.4, "L1")
    low = with_open_hits(dataset, "none")
    n = dataset["doubtful"].sel(level="L1", drop=True)
    for name, times in {"accesses": 1, "hits": 0, "pending": 0, "read_bytes": 64}.items():
        xr.testing.assert_equal(
            low[name].sel(level="L2"), dataset[name].sel(level="L2") + float(times) * n
        )


@pytest.mark.parametrize(
    ("dataset", "place"),
    [
        (opened(0.4), 0.5),
        (
            opened(0.4, likely=0.0),
            0.0,
        ),  # where nothing is known of earlier groups, misses stay misses
        (doubted(0.4), 1.0),
    ],
)
def test_intervals_reach_both_bounds(dataset: xr.Dataset, place: float) -> None:
    """place : of the mean between the bounds"""
    ratio = summarise(dataset).totals["L2", "read"].hit_ratio
    low, high = (
        describe(load_hit_ratio(with_open_hits(dataset, hits), "L2").values).mean
        for hits in ("none", "every")
    )
    assert ratio.mean == pytest.approx(low + place * (high - low))
    assert ratio.parts[PAST] == pytest.approx(max(place, 1 - place) * (high - low))
    assert ratio.half_width == pytest.approx(ratio.parts[ORDERING] + ratio.parts[PAST])


def test_the_verdict_says_what_a_latency_is_over() -> None:
    over = "The ± of its latency is the 95 % interval over random orderings"
    sentences = " ".join(judge(summarise(opened(0.4))).findings[0].certainty)
    assert (
        f"{over} and what earlier groups have left in the caches; that of its share is" in sentences
    )
    plain = " ".join(judge(summarise(opened(0.0))).findings[0].certainty)
    assert f"{over}; that of its share is" in plain


def test_the_verdict_says_where_a_share_does_not_vary() -> None:
    """The only load has the whole latency in every ordering."""
    dataset = opened(0.4)
    loads = dataset["site"].values[dataset["direction"].values == "load"]
    alone = dataset.sel(site=[name for name in dataset["site"].values if name not in loads[1:]])
    (finding,) = judge(summarise(alone)).findings
    assert "; its share is the same in all of them." in " ".join(finding.certainty)


def test_widened_reaches_whatever_is_inside() -> None:
    low, middle, high = (describe([value, value]) for value in (1.0, 4.0, 5.0))
    ((inner, text),) = (widened(({"a": middle}, "x"), ({"a": low}, "y"), ({"a": high}, "z")),)
    assert (inner["a"].low, inner["a"].high, text) == (1.0, 7.0, "x")


class TestPlaces:
    def test_are_read_from_the_options(self) -> None:
        dataset = fake_dataset(n_trials=4, traced_groups=300, of_groups=1200)
        assert places_of(dataset) == Places(1, 0.25)
        several = with_options(dataset, snapshots=4, own_weights=[0.2, 0.1], has_start=True)
        assert places_of(several) == Places(4, 0.25, (0.2, 0.1), has_start=True)
        for wrong in (0.1, [0.1, "x"], [0.0], [0.6, 0.5], [0.1] * 4, [math.nan], [[0.1]]):
            broken = with_options(dataset, snapshots=4, own_weights=wrong, has_start=True)
            assert places_of(broken) == Places(4, 0.25)
        assert places_of(with_options(dataset, snapshots=2, phases=True)).phases
        for unsound in ("[", [], {"snapshots": "x"}, {"snapshots": -1}, {"snapshots": 10**9}):
            assert places_of(dataset.assign_attrs(options=unsound)).n == 1

    def test_the_interval_of_places_is_students(self) -> None:
        """Three places of 1, 2 and 3, without any difference between orderings."""
        found = describe([1.0, 2.0, 3.0] * 4, Places(3, traced_share=0.75))
        half = student_t(3) * 1 / math.sqrt(3) * math.sqrt(0.25)
        assert found.mean == 2
        assert found.parts == {ORDERING: 0.0, PLACE: pytest.approx(half)}
        assert found.sigma == 0

    @pytest.mark.parametrize(
        ("values", "own_weights", "mean", "sampled"),
        [
            # Two samples of 1 and 3 for 90 % of the launch, a start of 7 for the rest.
            ([1.0, 3.0, 7.0], (0.1,), 0.9 * 2 + 0.1 * 7, 0.9),
            # The same for 70 %, 5 for 20 % and 7 for 10 %.
            ([1.0, 3.0, 5.0, 7.0], (0.2, 0.1), 0.7 * 2 + 0.2 * 5 + 0.1 * 7, 0.7),
        ],
    )
    def test_the_starts_of_the_launch_and_of_a_layer_stand_for_themselves(
        self, values: list[float], own_weights: tuple[float, ...], mean: float, sampled: float
    ) -> None:
        places = Places(len(values), 0.0, own_weights, has_start=True)
        found = describe(values * 4, places)
        assert found.mean == pytest.approx(mean)
        assert found.parts[PLACE] == pytest.approx(student_t(2) * math.sqrt(2 / 2) * sampled)

    def test_one_trial_of_each_is_weighed_too(self) -> None:
        places = Places(4, 0.0, (0.2, 0.1), has_start=True)
        found = describe([1.0, 3.0, 5.0, 7.0], places)
        assert found.mean == pytest.approx(0.7 * 2 + 0.2 * 5 + 0.1 * 7)
        own = math.sqrt(2) * math.hypot(0.2, 0.1)
        assert found.half_width == pytest.approx(
            student_t(2) * math.hypot(0.7 * math.sqrt(2 / 2), own)
        )
        assert found.n_trials == 4
        assert math.isnan(describe([1.0, 5.0], Places(2, 0.0, (0.2,))).half_width)

    def test_one_trial_of_each_covers(self) -> None:
        """Three samples of 80 % of a launch and a place of its own, all of which vary alike."""
        rng = np.random.default_rng(0)
        inside = 0
        for _ in range(1000):
            found = describe(rng.normal([0, 0, 0, 5]), Places(4, 0.0, (0.2,)))
            inside += abs(found.mean - 1) <= found.half_width
        assert inside >= 930

    def test_a_ratio_weighs_the_start_by_its_denominators(self) -> None:
        """The start asks for four times as much as the rest: 0.1 * 4 of 0.1 * 4 + 0.9."""
        places = Places(2, 0.0, (0.1,), has_start=True).of_ratio([1.0, 4.0] * 3)
        assert places.own_weights == (pytest.approx(0.4 / 1.3),)
        assert Places(2).of_ratio([1.0, 4.0] * 3) == Places(2)

    def test_two_assumptions_are_both_covered(self) -> None:
        found = describe([1.0, 2.0] * 4, Places(2, phases=True))
        assert (found.low, found.high) == (1.0, 2.0)
        assert found.parts == {ORDERING: 0.0, PHASE: 0.5}

    def test_two_assumptions_are_covered_with_what_each_leaves_open(self) -> None:
        """Means of 1 and of 2, of which the second varies: its interval has four times the other's width."""
        first, second = [0.9, 1.1] * 4, [1.6, 2.4] * 4
        found = describe(np.stack([first, second], axis=1), Places(2, phases=True))
        alone = describe(second)
        assert alone.half_width == pytest.approx(4 * describe(first).half_width)
        assert found.high == pytest.approx(alone.high)
        assert found.low < describe(first).low
        # A replay stops by the same rule: the wider one has to be narrow, and not the mean of both.
        widths = [[describe(first).half_width], [alone.half_width]]
        assert Places(2, phases=True).ordering(widths) == [found.parts[ORDERING]]
        assert Places(2).ordering(widths) < 0.6 * alone.half_width

    def test_intervals_over_places_cover_the_mean_of_all_places(self) -> None:
        """Of a launch of 1000 places with normal differences, four are sampled, with two noisy
        orderings each: 95 % of 1000 intervals, within 4 standard errors; without the part that is due
        to the place, far fewer."""
        rng, n, repetitions = np.random.default_rng(5), 4, 1000
        inside = without = 0
        for _ in range(repetitions):
            launch = rng.normal(0, 1, 1000)
            places = launch[rng.choice(1000, n, replace=False)]
            values = np.tile(places, 2) + rng.normal(0, 0.3, 2 * n)
            found = describe(values, Places(n, n / 1000))
            off = abs(found.mean - launch.mean())
            inside += off <= found.half_width
            without += off <= found.parts[ORDERING]
        tolerance = 4 * math.sqrt(0.05 * 0.95 / repetitions)
        assert inside / repetitions >= 0.95 - tolerance
        assert without / repetitions < 0.8


def test_places_disagree_in_points_or_in_bytes() -> None:
    """Places whose L1 hit ratios differ by 10 points have an interval of more than a point."""
    dataset = fake_dataset(n_trials=12, spread=0.0)
    agreeing = with_options(dataset, snapshots=3)
    assert disagreement(agreeing)[PLACE] < 1
    places = [fake_dataset(n_trials=12, spread=0.0, l1_shift=0.05 * k) for k in range(3)]
    mixed = xr.concat([places[i % 3].isel(trial=i) for i in range(12)], "trial")
    mixed = with_options(mixed.assign_attrs(dataset.attrs), snapshots=3)
    for name in dataset.data_vars:  # concat gives a trial to everything
        if "trial" not in dataset[name].dims:
            mixed[name] = dataset[name]
    assert disagreement(mixed)[PLACE] > 1
    assert disagreement(mixed)[PAST] == 0
    assert disagreement(opened(0.4))[PAST] > 1
