"""Misses of a core's translation buffer against hand counts; another test compares with the twin."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from memsim.errors import MachineError
from memsim.machine.file import load_machine, machine_from_json, machine_to_json
from memsim.machine.model import Machine
from memsim.machine.parts import Translation
from memsim.montecarlo.one_launch import replay
from tests.support.small_machines import level, machine
from tests.support.traces import make_trace

PAGE_BYTES = 4096
PAGE = PAGE_BYTES // 32
"""Granules of a page."""


def buffered(entries: int, *levels: object, cores: int = 1) -> Machine:
    translation = Translation(entries=entries, page_bytes=PAGE_BYTES, miss_cycles=20.0)
    return machine(*levels, cores=cores).replace(translation=translation)  # type: ignore[arg-type]


def missed(trace: object, on: Machine) -> list[int]:
    found = replay(trace, on, trials=1).dataset["missed_translations"]  # type: ignore[arg-type]
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


def test_a_machine_keeps_its_translation() -> None:
    v100 = load_machine("v100")
    assert v100.translation == Translation(
        entries=16, page_bytes=1 << 21, miss_cycles=32.0, placement="random", under_way=16
    )
    assert machine_from_json(machine_to_json(v100)) == v100
    assert v100.standing("translation.miss_cycles") == "fitted"
    assert v100.standing("translation.entries") == ""


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"entries": 0}, "entries must be positive, got 0"),
        ({"entries": 5000}, "entries must be at most 4096, got 5000"),
        ({"page_bytes": 3000}, "page_bytes must be a power of two, at least 256, got 3000"),
        ({"page_bytes": 128}, "page_bytes must be a power of two, at least 256, got 128"),
        ({"miss_cycles": -1.0}, "miss_cycles must be positive, got -1.0"),
    ],
)
def test_broken_values(changes: dict[str, float], rule: str) -> None:
    v100 = load_machine("v100")
    assert v100.translation is not None
    broken = dataclasses.replace(v100.translation, **changes)  # type: ignore[arg-type]
    with pytest.raises(MachineError, match=rule):
        v100.replace(translation=broken)
