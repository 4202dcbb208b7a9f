"""Edges in curves: against brute force, hand-made curves, and the binomial law of random pages."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from scipy.stats import binom

from calib.probes.bench import WORD_BYTES, Bench
from calib.probes.capacity import is_sharp
from calib.probes.change_points import edge, pieces, plateaus, with_shelves
from calib.probes.execution import MOST_OFF, staircase
from calib.probes.outcome import Curve, Unclear, lower_end, resampled
from calib.probes.page import chart
from calib.probes.random_pages import PAGE_BYTES, half_rise, roundest
from calib.probes.replacement import PASSES, POLICIES, misses
from calib.probes.traffic import missing_part
from memsim.hierarchy.rng import Stream
from memsim.machine.file import load_machine
from memsim.machine.parts import Replacement
from tests.support.random_machines import cpu
from tests.support.simulated_device import SimulatedDevice
from tests.twins.replay.sets import Line, empty_set

X = np.geomspace(4096, 64 << 20, 85)
AROUND = np.linspace(80, 180, 48)
"""Sizes around one edge."""
ROUNDS = 9


def noisy(curve: np.ndarray, rng: np.random.Generator, rounds: int = ROUNDS) -> np.ndarray:
    """Rounds of a curve: noise only ever adds."""
    return curve[:, None] * (1 + rng.exponential(0.03, (len(curve), rounds)))


def alone(full: np.ndarray) -> np.ndarray:
    """Latencies of full pages, beside sparse ones that cost nothing."""
    return np.stack([full, np.zeros_like(full)])


def steps(x: np.ndarray, *parts: tuple[float, float]) -> np.ndarray:
    """(end, level) of each; the last one goes on."""
    curve = np.full(len(x), parts[-1][1])
    for end, level in reversed(parts[:-1]):
        curve[x <= end] = level
    return curve


@pytest.mark.parametrize("seed", range(3))
def test_pieces_cost_as_little_as_the_best_of_all_cuts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    y = np.repeat(rng.normal(size=4), 3) + 0.2 * rng.normal(size=12)

    def cost(cuts: tuple[int, ...]) -> float:
        ends = [0, *cuts, len(y)]
        parts = [y[a:b] for a, b in itertools.pairwise(ends)]
        if any(len(part) < 2 for part in parts):
            return np.inf
        return float(sum(((part - part.mean()) ** 2).sum() for part in parts) + 0.3 * len(parts))

    everything = (c for n in range(6) for c in itertools.combinations(range(1, 12), n))
    result = pieces(y, 0.3)
    assert result[0][0] == 0
    assert result[-1][1] == len(y) - 1
    best = min(cost(c) for c in everything)
    assert cost(tuple(first for first, _ in result[1:])) == pytest.approx(best)


def test_plateaus_of_three_levels_and_of_a_flat_curve() -> None:
    """The negative control: no edge is detected where there is none."""
    rng = np.random.default_rng(1)
    curve = steps(X, (32 << 10, 1.4), (1 << 20, 4.1), (np.inf, 90.0))
    result = plateaus(X, noisy(curve, rng).min(axis=1))
    assert [round(p.level, 0) for p in result] == [1, 4, 90]
    assert X[result[0].last] <= 32 << 10 < X[result[1].first]
    assert len(plateaus(X, noisy(np.full(len(X), 3.0), rng).min(axis=1))) == 1
    assert edge(AROUND, noisy(np.full(48, 3.0), rng), 3.0, 9.0, n_flat=6) is None


@pytest.mark.parametrize("seed", range(20))
def test_the_interval_of_an_edge_contains_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    true = rng.uniform(90, 130)
    curve = 2.0 + 4.0 * np.clip((AROUND - true) / (true / 8), 0, 1)  # eight ways
    result = edge(AROUND, noisy(curve, rng, 12), 2.0, 6.0, n_flat=6)
    assert is_sharp(result)
    assert result.low <= true + 2 * (AROUND[1] - AROUND[0])
    assert result.high >= true


def test_slow_rises_and_scattered_points_are_no_sharp_edge() -> None:
    """A neighbour's traffic in a last level makes points of both plateaus side by side, or points anywhere
    between 14 and 130 ns before all are slow."""
    rng = np.random.default_rng(4)
    slow = 2.0 + 4.0 * np.clip((AROUND - 90) / 80, 0, 1)
    scattered = np.where((rng.random(48) < 0.4) & (np.arange(48) >= 6), 6.0, 2.0)
    for curve in (slow, scattered):
        result = edge(AROUND, noisy(curve, rng, 12), 2.0, 6.0, n_flat=6)
        assert result is None or not is_sharp(result)
    filled = rng.uniform(115, 140, (48, 12))
    filled[AROUND < 120] = rng.uniform(18, 130, (int(np.sum(AROUND < 120)), 12))
    assert edge(AROUND, filled, 14.0, 130.0, n_flat=6) is None


def tall(x: np.ndarray, ends: tuple[float, float, float]) -> np.ndarray:
    """Latency of three levels and memory, whose ends lie so many octaves behind their capacities."""
    sizes, levels = (32 << 10, 512 << 10, 6 << 20), (1.4, 4.1, 14.0, 140.0)
    log = np.full(len(x), np.log(levels[0]))
    for size, width, low, high in zip(sizes, ends, levels, levels[1:], strict=False):
        part = np.clip(np.log2(x / size) / width, 0, 1) if width else x > size
        log += part * np.log(high / low)
    return np.exp(log)


def test_a_shelf_is_a_level_without_a_flat_stretch() -> None:
    """The second level ends over three octaves, and the third begins to before it is reached."""
    rng = np.random.default_rng(13)
    curve = tall(X, (0.0, 2.5, 0.6)) * (X / X[0]) ** 0.03
    least = noisy(curve, rng).min(axis=1)
    flat = plateaus(X, least, least_octaves=2.0)
    filled = with_shelves(X, least, flat)
    assert [round(p.level) for p in flat if 8 < p.level < 30] == []
    (shelf,) = [p for p in filled if p not in flat]
    assert 11 < shelf.level < 19
    assert 2 << 20 < X[shelf.first] < X[shelf.last] < 9 << 20


@pytest.mark.parametrize("slope", [0.3, 0.9, 2.0])
def test_a_straight_rise_has_no_shelf(slope: float) -> None:
    """The negative control."""
    rng = np.random.default_rng(14)
    rise = np.clip(np.log2(X / (32 << 10)) * slope, 0, np.log2(100))
    least = noisy(1.4 * 2**rise, rng).min(axis=1)
    result = plateaus(X, least)
    assert with_shelves(X, least, result) == result


@pytest.mark.parametrize(("ways", "colours"), [(4, 64), (8, 32), (16, 16), (8, 128), (16, 64)])
def test_capacity_of_random_pages_follows_the_binomial_law(ways: int, colours: int) -> None:
    rng = np.random.default_rng(ways * colours)
    capacity = ways * colours * PAGE_BYTES
    sizes = np.round(np.geomspace(0.3 * capacity, 4 * capacity, 32) / PAGE_BYTES) * PAGE_BYTES
    pages = sizes / PAGE_BYTES
    extra = 10.0 * binom.sf(ways - 1, pages - 1, 1 / colours)
    draws = extra[:, None] + rng.exponential(0.3, (len(sizes), 24))
    result = half_rise(sizes, alone(draws), expected_ns=10.0)
    assert result.low_bytes <= capacity <= result.high_bytes
    assert result.roundest_bytes == capacity


@pytest.mark.parametrize("shape", ["flat", "slope", "noise"])
@pytest.mark.parametrize("expected_ns", [10.0, 150.0])
def test_random_pages_without_a_step_give_no_result(shape: str, expected_ns: float) -> None:
    rng = np.random.default_rng(5)
    sizes = np.geomspace(1e5, 1.4e6, 32)
    curve = {
        "flat": np.zeros(32),
        "slope": 10 * sizes / sizes[-1],
        "noise": rng.exponential(5.0, 32),
    }[shape]
    with pytest.raises(Unclear):
        half_rise(
            sizes, alone(curve[:, None] + rng.exponential(0.1, (32, 24))), expected_ns=expected_ns
        )


def test_of_two_rises_the_expected_one_counts() -> None:
    """A level's rise to 14 ns, and then the next one's to 95, behind which the curve is flatter."""
    rng = np.random.default_rng(6)
    sizes = np.round(np.geomspace(0.6, 8.0, 32) * 128) * PAGE_BYTES
    pages = sizes / PAGE_BYTES
    first = 14.0 * binom.sf(7, pages - 1, 1 / 16)
    extra = first + 81.0 * binom.sf(15, pages - 1, 1 / 32)
    draws = extra[:, None] + rng.exponential(0.1, (len(sizes), 24))
    result = half_rise(sizes, alone(draws), expected_ns=14.0)
    assert result.roundest_bytes == 512 << 10
    assert half_rise(sizes, alone(draws), expected_ns=95.0).at_bytes > 1.5 * result.at_bytes


def test_which_round_size_it_is_can_depend_on_the_pages() -> None:
    """A level of 8 ways and 1 MB: quiet draws agree; of very noisy ones some would have another size."""
    rng = np.random.default_rng(7)
    sizes = np.round(np.geomspace(0.3, 5.0, 32) * 256) * PAGE_BYTES
    risen = 10.0 * binom.sf(7, sizes / PAGE_BYTES - 1, 1 / 32)[:, None]
    quiet = half_rise(
        sizes, alone(risen + rng.exponential(0.1, (len(sizes), 24))), expected_ns=10.0
    )
    assert quiet.roundest_bytes == 1 << 20
    assert quiet.agreeing > 0.95
    shifted = [np.interp(sizes * scale, sizes, risen[:, 0]) for scale in np.geomspace(0.5, 2.2, 24)]
    unsure = half_rise(sizes, alone(np.stack(shifted, axis=1)), expected_ns=10.0)
    assert unsure.agreeing < quiet.agreeing


def test_roundest_by_hand() -> None:
    assert roundest(30 << 10, 33 << 10, 31 << 10) == 32 << 10
    assert roundest(47 << 10, 49 << 10, 48 << 10) == 48 << 10
    assert roundest(760 << 10, 790 << 10, 770 << 10) == 768 << 10
    assert roundest(1000, 1010, 1005) == 1024  # nothing round inside: the nearest


@pytest.mark.parametrize("ways", [2, 4, 8])
def test_misses_of_cycles_in_closed_form(ways: int) -> None:
    for policy in ("lru", "fifo", "plru", "random"):
        assert misses(list(range(ways)), ways, policy) == 0.0
    for policy in ("lru", "fifo"):
        assert misses(list(range(ways + 1)), ways, policy) == 1.0
    # Between every two visits of the first line one other comes by: LRU keeps it, FIFO cannot.
    between = [v for k in range(1, ways + 1) for v in (0, k)]
    assert misses(between, ways, "lru") == 0.5
    assert misses(between, ways, "fifo") > 0.5
    assert 0 < misses(list(range(ways + 1)), ways, "random") < 1


@pytest.mark.parametrize("policy", POLICIES)
def test_misses_are_those_of_the_twin_of_the_replay(policy: Replacement) -> None:
    level = dataclasses.replace(
        load_machine("v100").levels[0], size_bytes=8 * 128, ways=8, replacement=policy
    )
    twin, lines = empty_set(level, Stream(1)), [Line(number) for number in range(11)]
    visits = np.random.default_rng(4).integers(0, len(lines), 40).tolist()
    resident: set[int] = set()
    missed = 0
    for turn, number in itertools.product(range(PASSES), visits):
        if number in resident:
            twin.used(lines[number])
            continue
        missed += turn >= PASSES // 3
        victim = twin.admit(lines[number], 0)
        resident.add(number)
        resident -= {victim.number} if victim else set()
    assert misses(visits, 8, policy) == missed / (len(visits) * (PASSES - PASSES // 3))


@pytest.mark.parametrize("n", [4, 9, 12, 25])
def test_the_interval_of_the_undisturbed_time_has_its_nominal_coverage(n: int) -> None:
    """Exact for exponential noise; and the negative control: resampled least times cover it never."""
    rng = np.random.default_rng(n)
    n_draw = 4000
    times = 5.0 + rng.exponential(0.1, (n_draw, n))
    ends = np.array([lower_end(row) for row in times])
    covered = int(np.sum((ends[:, 0] <= 5.0) & (ends[:, 1] >= 5.0)))
    assert binom.ppf(1e-4, n_draw, 0.95) <= covered <= binom.isf(1e-4, n_draw, 0.95)
    assert (resampled(times[:50]).min(axis=-1) > 5.0).all()
    assert lower_end(np.full(n, 3.0)) == (3.0, 3.0)


COUNTS = np.array(
    [1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 16, 17, 24, 25, 32, 33, 48, 49, 64, 65, 128, 129]
)


@pytest.mark.parametrize("at_once", [1, 2, 7, 16, 48])
def test_a_staircase_determines_the_concurrent_groups(at_once: int) -> None:
    """Noisy, with a point that took twice as long: the first step alone would mislead."""
    rng = np.random.default_rng(at_once)
    spent = -(-COUNTS // at_once) * 1e-4 * (1 + rng.exponential(0.01, len(COUNTS)))
    spent[1] *= 2
    first, last, off = staircase(COUNTS, spent)
    assert first <= at_once <= last
    assert last - first <= at_once // 8
    assert off < MOST_OFF


def test_times_that_rise_slowly_are_no_staircase() -> None:
    """The negative control: units that are full long before no more groups fit."""
    spent = 1e-4 * np.sqrt(COUNTS)
    assert staircase(COUNTS, spent)[2] > MOST_OFF


@pytest.mark.parametrize("times_held", [2, 3, 4])
def test_what_misses_at_random_agrees_with_a_set_that_replaces_at_random(times_held: int) -> None:
    ways = 256
    rate = misses(list(range(times_held * ways)), ways, "random")
    assert missing_part(times_held) == pytest.approx(rate, abs=0.01)


@pytest.mark.parametrize("n", [4, 5, 9, 100, 4096])
def test_no_line_follows_the_one_before_it(n: int) -> None:
    bench = Bench(SimulatedDevice(*cpu(0), 1 << 20, 0), n)
    ring = bench.lines(64 * n) * WORD_BYTES // 64
    ring = ring - ring.min()
    assert sorted(ring) == list(range(n))
    assert not (ring == np.roll(ring, 1) + 1).any()


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([], []),
        ([4096.0], [1.0]),
        ([1.0, 2.0], [3.0, 3.0]),
        ([1.0, 2.0, 3.0], [0.0, np.nan, 5.0]),
        ([0.0, 1e9], [1e-9, 1e9]),
        ([4096.0, 1 << 28], [1.0, 300.0]),
    ],
)
def test_any_curve_can_be_drawn(x: list[float], y: list[float]) -> None:
    given = {"title": "<t>", "y_label": "ns", "x": np.array(x), "y": np.array(y)}
    given["edges"] = ((x[0], "<edge>"),) if x else ()
    for label, log in itertools.product(("bytes", "lines"), (True, False)):
        drawn = str(chart(Curve(**given, x_label=label, log_x=log, log_y=log)))
        assert "nan" not in drawn
        assert "<edge>" not in drawn
        assert drawn.count("<circle") == int(np.isfinite(y).sum())
