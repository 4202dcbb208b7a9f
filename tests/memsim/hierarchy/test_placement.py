"""Random placement of pages: lines of a page keep their relative sets, and pages collide at random."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from memsim.errors import MachineError
from memsim.hierarchy.cache import HITS
from memsim.hierarchy.translation import N_FRAMES, page_offsets, placement_key
from memsim.machine.file import load_machine, machine_from_json, machine_to_json
from memsim.machine.model import Machine
from memsim.machine.parts import Translation
from memsim.montecarlo.plan import make_plan
from memsim.montecarlo.trial import Workspace, run_trial
from tests.support.small_machines import level, machine
from tests.support.traces import make_trace

PAGE = 128
"""Granules of a page of 4 KB."""


def placed(placement: str, pages: int) -> Machine:
    """One core; a first level of one line, and a direct-mapped second one of so many pages."""
    translation = Translation(entries=16, page_bytes=4096, miss_cycles=1.0, placement=placement)  # type: ignore[arg-type]
    shared = level("L2", ways=1, sets=PAGE * pages)
    return machine(level(), shared).replace(translation=translation)


def second_sweep_hits(on: Machine, pages: int, n_trial: int) -> list[int]:
    """Hits of each trial in two sweeps over consecutive pages."""
    trace = make_trace([[[(0, [i]) for _ in range(2) for i in range(PAGE * pages)]]])
    plan, _ = make_plan(trace, on)
    work = Workspace(plan)
    return [int(run_trial(plan, 1, k, workspace=work).counts[1, 0, HITS]) for k in range(n_trial)]


def test_contiguous_pages_fit() -> None:
    assert second_sweep_hits(placed("contiguous", 2), 2, 4) == [2 * PAGE] * 4


def test_a_page_never_collides_with_itself() -> None:
    assert second_sweep_hits(placed("random", 1), 1, 16) == [PAGE] * 16


def test_two_pages_collide_in_half_of_the_trials() -> None:
    """Two pages in one frame evict each other completely: within 4 standard errors, and never in part."""
    n = 400
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


def test_a_machine_keeps_it() -> None:
    v100 = load_machine("v100")
    assert v100.translation.placement == "random"
    assert v100.standing("translation.placement") == "fitted"
    assert machine_from_json(machine_to_json(v100)) == v100
    broken = dataclasses.replace(v100.translation, placement="scattered")  # type: ignore[arg-type]
    with pytest.raises(MachineError, match=r"translation\.placement|placement must be one of"):
        v100.replace(translation=broken)
