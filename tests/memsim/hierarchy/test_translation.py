"""Misses of a core's translation buffer against hand counts, and the random placement of pages."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from memsim.errors import MachineError
from memsim.hierarchy.cache import HITS
from memsim.hierarchy.translation import N_FRAMES, page_offsets, placement_key
from memsim.machine.file import load_machine, machine_to_json
from memsim.machine.model import Machine
from memsim.machine.parts import Level, Translation
from memsim.montecarlo.one_launch import replay
from memsim.montecarlo.plan import make_plan
from memsim.montecarlo.trial import Workspace, run_trial
from memsim.trace.model import Trace
from tests.support.small_machines import level, machine
from tests.support.traces import loads, make_trace

PAGE_BYTES = 4096
PAGE = PAGE_BYTES // 32
"""Granules of a page."""


def buffered(entries: int, *levels: Level, cores: int = 1, **fields: Any) -> Machine:
    pages = Translation(entries=entries, page_bytes=PAGE_BYTES, miss_cycles=20.0, **fields)
    return machine(*levels, cores=cores).replace(translation=pages)


def missed(trace: Trace, on: Machine) -> list[int]:
    found = replay(trace, on, trials=1).dataset["missed_translations"]
    assert found.dims == ("trial", "site")
    return [int(n) for n in found.values[0]]


@pytest.mark.parametrize(("pages", "expected"), [(3, 3), (4, 4), (5, 5 * 6)])
def test_a_cycle_through_pages(pages: int, expected: int) -> None:
    """With four LRU entries, up to four pages miss once each, and five pages miss always."""
    swept = [(0, [PAGE * p]) for _ in range(6) for p in range(pages)]
    on = buffered(4, level(ways=1, sets=1))  # a line: what comes again misses it
    assert missed(make_trace([[swept]]), on) == [expected]


def test_what_the_first_level_serves_is_not_looked_up() -> None:
    """The lines of five pages stay in a first level of eight lines: each page misses once, not six times."""
    swept = [(0, [PAGE * p]) for _ in range(6) for p in range(5)]
    on = buffered(4, level(ways=-1, sets=8))
    assert missed(make_trace([[swept]]), on) == [5]


def test_each_core_has_its_own_and_stores_look_up_too() -> None:
    """Two cores, a group each, both load page 0 and store to page 1: two misses a core."""
    group = [[(0, [0]), (1, [PAGE])]]
    trace = make_trace([group, group], ("load", "store"))
    assert missed(trace, buffered(4, level(ways=1, sets=1), cores=2)) == [2, 2]


def test_a_gather_misses_as_often_as_it_meets_other_pages() -> None:
    """32 lines in 32 pages, then in reverse order: the 16 entries contain the last 16 pages."""
    there = [PAGE * p for p in range(32)]
    on = buffered(16, level(ways=1, sets=1))
    assert missed(make_trace([[[(0, there)]]]), on) == [32]
    back = [(0, [granule]) for granule in reversed(there)]
    # The last line is still in L1, whose request is not translated; the 15 before it are in the buffer.
    assert missed(make_trace([[[(0, there), *back]]]), on) == [32 + 16]


def test_random_gathers_miss_as_chance_has_it() -> None:
    """Uniform accesses to 64 pages with 16 entries: 3/4 miss, within 4 standard errors."""
    rng = np.random.default_rng(3)
    n = 20_000
    draws = [(0, [int(PAGE * p + i % PAGE)]) for i, p in enumerate(rng.integers(64, size=n))]
    (found,) = missed(make_trace([[draws]]), buffered(16, level(ways=1, sets=1)))
    assert abs(found / n - 0.75) < 4 * math.sqrt(0.75 * 0.25 / n)
    (all_held,) = missed(make_trace([[draws]]), buffered(64, level(ways=1, sets=1)))
    assert all_held == 64


def test_a_machine_without_caches() -> None:
    swept = [(0, [PAGE * p]) for _ in range(6) for p in range(5)]
    assert missed(make_trace([[swept]]), buffered(4)) == [30]


def test_without_translation_nothing_is_said() -> None:
    result = replay(make_trace([[[(0, [0])]]]), machine(level()), trials=1)
    assert "missed_translations" not in result.dataset
    assert load_machine("c2050").translation is None
    assert "translation" not in machine_to_json(load_machine("c2050"))


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"entries": 0}, "entries must be positive, got 0"),
        ({"entries": 5000}, "entries must be at most 4096, got 5000"),
        ({"page_bytes": 3000}, "page_bytes must be a power of two, at least 256, got 3000"),
        ({"page_bytes": 128}, "page_bytes must be a power of two, at least 256, got 128"),
        ({"miss_cycles": -1.0}, "miss_cycles must be positive, got -1.0"),
        ({"placement": "scattered"}, "placement must be one of"),
    ],
)
def test_broken_values(changes: dict[str, Any], rule: str) -> None:
    v100 = load_machine("v100")
    assert v100.translation is not None
    broken = dataclasses.replace(v100.translation, **changes)  # type: ignore[arg-type]
    with pytest.raises(MachineError, match=rule):
        v100.replace(translation=broken)


# Random placement: lines of a page keep their relative sets, and pages collide at random


def placed(placement: str, pages: int) -> Machine:
    """One core; a first level of one line, and a direct-mapped second one of so many pages."""
    shared = level("L2", ways=1, sets=PAGE * pages)
    return buffered(16, level(), shared, placement=placement)


def second_sweep_hits(on: Machine, pages: int, n_trial: int) -> list[int]:
    """Hits of each trial in two sweeps over consecutive pages."""
    plan, _ = make_plan(loads([*range(PAGE * pages)] * 2), on)
    work = Workspace(plan)
    return [int(run_trial(plan, 1, k, workspace=work).counts[1, 0, HITS]) for k in range(n_trial)]


def test_pages_fit_that_are_contiguous_or_alone() -> None:
    assert second_sweep_hits(placed("contiguous", 2), 2, 4) == [2 * PAGE] * 4
    assert second_sweep_hits(placed("random", 1), 1, 16) == [PAGE] * 16


def test_two_pages_collide_in_half_of_the_trials() -> None:
    """Two pages in one frame evict each other completely: within 4 standard errors, and never in part."""
    n = 200
    hits = second_sweep_hits(placed("random", 2), 2, n)
    assert set(hits) == {0, 2 * PAGE}
    fits = hits.count(2 * PAGE) / n
    assert abs(fits - 0.5) < 4 * math.sqrt(0.25 / n)


def test_trials_can_be_repeated() -> None:
    on = placed("random", 4)
    assert second_sweep_hits(on, 4, 8) == second_sweep_hits(on, 4, 8)


def test_places_are_spread_evenly() -> None:
    """Each of 64 equal parts of memory gets its share of 200,000 pages, within 5 standard errors."""
    chunk = np.arange(200_000, dtype=np.int64) * 16
    frame = (chunk + page_offsets(chunk, 4096, placement_key(3, 4))) // 16
    assert frame.min() >= 0
    assert frame.max() < N_FRAMES
    counts = np.bincount(frame * 64 // N_FRAMES, minlength=64)
    mean = len(chunk) / 64
    assert np.abs(counts - mean).max() < 5 * math.sqrt(mean)


def test_what_lies_within_a_page_stays_together() -> None:
    chunk = np.arange(1000, dtype=np.int64)
    off = page_offsets(chunk, 4096, 7)
    for page in range(1000 // 16):
        assert len(set(off[16 * page : 16 * page + 16])) == 1
    assert len(set(off)) > 50
