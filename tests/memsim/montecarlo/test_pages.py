"""How much a result depends on where the pages of arrays lie in memory."""

from __future__ import annotations

import math

import numpy as np
import pytest

import memsim
from memsim.bounds import pages_of
from memsim.hierarchy.cache import ACCESSES, HITS, N_COUNTS
from memsim.machine.model import Machine
from memsim.machine.parts import Translation
from memsim.montecarlo.besides import (
    FEWEST_PAIRS,
    MOST_PAIRS,
    SIGNIFICANCE,
    page_calls,
    page_shares,
)
from memsim.report.launch_totals import launch_totals
from memsim.report.summary import summarise
from memsim.statistics import PAGES, Places, describe, student_t
from memsim.trace.model import Trace
from tests.support.small_machines import level, machine
from tests.support.traces import make_trace

PAGE_BYTES = 1 << 12


def two_pages() -> Trace:
    """Each of 40 groups loads the same two runs of 32 lines, which lie in different pages."""
    lines = [*range(32), *(PAGE_BYTES // 32 + k for k in range(32))]
    return make_trace([[[(0, [line]) for line in lines]] for _ in range(40)])


def placed(placement: str = "random") -> Machine:
    """An L2 of 128 sets of one line, as large as a page: two runs of lines meet in its sets or do not."""
    second = level("L2", ways=1, sets=256, cores_per_instance=2)
    on = machine(level("L1", ways=1), second, cores=2, max_groups=1)
    pages = {"page_bytes": PAGE_BYTES, "placement": placement}
    return on.replace(translation=Translation(entries=16, miss_cycles=40.0, **pages))


def counts_of(ratios: np.ndarray) -> list[np.ndarray]:
    """Counts of one level and one site with these hit ratios."""
    made = []
    for ratio in ratios:
        counts = np.zeros((1, 1, N_COUNTS), np.int64)
        counts[..., ACCESSES], counts[..., HITS] = 10**9, round(ratio * 10**9)
        made.append(counts)
    return made


def drawn(
    rng: np.random.Generator, pages: float, ordering: float, n_pairs: int = MOST_PAIRS
) -> list[float]:
    """The share that is found in 32 trials with these standard deviations."""
    of_page = rng.normal(0.5, pages, 32)
    trials = of_page + rng.normal(0, ordering, 32)
    again = of_page[:n_pairs] + rng.normal(0, ordering, n_pairs)
    others = {("pages", k): counts for k, counts in enumerate(counts_of(again))}
    return page_shares(counts_of(trials), others, np.array([True]), 1)


def test_the_share_is_that_of_the_variance() -> None:
    rng = np.random.default_rng(1)
    shares = [drawn(rng, 0.03, 0.005)[0] for _ in range(100)]
    assert np.median(shares) == pytest.approx(36 / 37, abs=0.01)


@pytest.mark.parametrize("n_pairs", [FEWEST_PAIRS, MOST_PAIRS])
def test_orderings_alone_are_rarely_taken_for_pages(n_pairs: int) -> None:
    """In 5 % of the cases, within 4 standard errors."""
    rng, n = np.random.default_rng(2), 700
    found = np.mean([drawn(rng, 0.0, 0.01, n_pairs)[0] > 0 for _ in range(n)])
    assert abs(found - (1 - SIGNIFICANCE)) < 4 * math.sqrt(0.05 * 0.95 / n)


@pytest.mark.parametrize(("n_pairs", "n_trials"), [(FEWEST_PAIRS - 1, 32), (MOST_PAIRS, 3)])
def test_too_few_say_nothing(n_pairs: int, n_trials: int) -> None:
    others = {("pages", k): counts_of(np.array([0.5]))[0] for k in range(n_pairs)}
    trials = counts_of(np.linspace(0.1, 0.9, n_trials))
    assert page_shares(trials, others, np.array([True]), 2) == [0.0]


def test_only_where_pages_are_placed_at_random() -> None:
    assert len(page_calls(placed(), 0, 32, 3)) == MOST_PAIRS
    assert len(page_calls(placed(), 0, 8, 3)) == FEWEST_PAIRS
    assert not page_calls(placed(), 0, 7, 3)
    assert not page_calls(placed("contiguous"), 0, 32, 1)
    assert not page_calls(machine(level()), 0, 32, 1)


def test_the_interval_covers_a_single_run() -> None:
    """Of 150 further trials, 95 % lie within the interval of 32; the mean's own covers far fewer. The launch
    reads more from DRAM where the pages meet."""
    replay = memsim.replay(two_pages(), placed(), trials=32, seed=5, deviation=False)
    assert pages_of(replay.dataset).get("L2", 0) > 0.9
    assert "L1" not in pages_of(replay.dataset)
    ratio = summarise(replay.dataset).totals["L2", "read"].hit_ratio
    others = memsim.replay(two_pages(), placed(), trials=150, seed=6, deviation=False)
    single = others.load_hit_ratio("L2").values
    inside = np.mean((single >= ratio.low) & (single <= ratio.high))
    assert inside > 0.9
    narrow = ratio.half_width - ratio.parts[PAGES]
    assert np.mean(abs(single - ratio.mean) <= narrow) < 0.5
    read = launch_totals(replay.dataset).moved.read_bytes["DRAM"]
    assert read.parts[PAGES] > 0
    assert PAGES not in launch_totals(replay.dataset).moved.read_bytes["L2"].parts


def test_the_part_is_that_share_of_sigma() -> None:
    values = np.random.default_rng(3).normal(size=24)
    plain, found = (describe(values, Places(3, pages_share=share)) for share in (0.0, 0.25))
    assert found.parts[PAGES] == pytest.approx(student_t(22) * 0.5 * plain.sigma)
    assert found.half_width == pytest.approx(plain.half_width + found.parts[PAGES])
    assert PAGES not in describe([1.0] * 8, Places(pages_share=0.5)).parts


def test_any_number_of_workers_finds_the_same_and_files_may_say_anything() -> None:
    one, two = (
        memsim.replay(two_pages(), placed(), trials=12, seed=5, deviation=False, jobs=jobs).dataset
        for jobs in (1, 2)
    )
    assert pages_of(one) == pages_of(two) != {}
    for pages in ("[", [1], {"L2": "x"}, {"L2": 2.0}, {"L2": -1.0}, {"L2": math.nan}):
        assert not pages_of(one.assign_attrs(pages=pages))
