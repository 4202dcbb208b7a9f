"""Requests of a 64-lane wavefront to AMD's caches: 64 or 128 bytes each; and a third level."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from memsim.hierarchy.cache import ACCESSES, HITS, PENDING, READ_GRANULES
from memsim.machine.file import load_machine
from memsim.montecarlo.plan import make_plan
from memsim.montecarlo.trial import run_trial
from memsim.trace.model import Trace
from tests.support.traces import make_trace


def waves(n: int, rounds: int = 1) -> Trace:
    """One wavefront that loads n x 512 consecutive bytes: 8 a lane, 16 lanes coalesced together."""
    accesses = [(0, range(16 * k, 16 * k + 16)) for k in range(n)] * rounds
    trace = make_trace([[accesses]], subgroup_size=64)
    # Bit b of lane_groups: lanes 8 b to 8 b + 7, whose 64 bytes are two granules.
    lane_groups = np.tile(1 << (np.arange(16) // 2), n * rounds).astype(np.uint8)
    return trace.replace(lane_groups=lane_groups)


@pytest.mark.parametrize(
    ("name", "request_bytes"), [("mi210", 64), ("mi250x", 64), ("mi300x", 128)]
)
def test_requests_of_a_wavefront(name: str, request_bytes: int) -> None:
    """Four groups of 16 lanes load 128 bytes each, in two requests of 64 bytes, or in one."""
    machine, n = load_machine(name), 50
    assert (machine.subgroup_size, machine.coalesce_lanes) == (64, 16)
    plan, _ = make_plan(waves(n), machine, groups_per_core=1)
    counts = run_trial(plan, 0, 0).counts[:, 0]
    for level in counts[:2]:
        assert list(level[[ACCESSES, HITS, PENDING]]) == [n * 512 // request_bytes, 0, 0]
        assert level[READ_GRANULES] * 32 == n * 512


def test_half_a_line_is_asked_for_and_fetched_alone() -> None:
    """An MI210's L2 has lines of 128 bytes, and reads memory in halves of them."""
    machine = load_machine("mi210")
    trace = make_trace([[[(0, [8 * k]) for k in range(40)]]], subgroup_size=64)  # every 256 bytes
    plan, _ = make_plan(trace, machine, groups_per_core=1)
    result = run_trial(plan, 0, 0)
    assert result.dram_read_bytes == 40 * 64
    whole = dataclasses.replace(machine.levels[1], fill_bytes=128)
    machine = machine.replace(levels=(machine.levels[0], whole))
    plan, _ = make_plan(trace, machine, groups_per_core=1)
    assert run_trial(plan, 0, 0).dram_read_bytes == 40 * 128


def test_infinity_cache_serves_what_a_die_of_l2_lost() -> None:
    """Eight dies of 38 cores sweep twice the size of an L2: every sweep misses the L2, and from the second
    on it hits the third level, which all dies share."""
    shipped = load_machine("mi300x")
    small = tuple(
        dataclasses.replace(level, size_bytes=level.size_bytes // 64, ways=level.ways, n_slices=n)
        for level, n in zip(shipped.levels, (1, 1, 2), strict=True)
        if level.size_bytes // 64 % (level.line_bytes * level.ways * n) == 0
    )
    # The first level is too small for that: its loads pass by.
    passing = dataclasses.replace(shipped.levels[0], caches_loads=False)
    machine = shipped.replace(levels=(passing, *small[-2:]))
    assert [level.name for level in machine.levels] == ["L1", "L2", "L3"]
    l2 = machine.levels[1].size_bytes
    n, rounds = 2 * l2 // 512, 3
    one = waves(n, rounds)
    plan, _ = make_plan(one, machine, groups_per_core=1)
    counts = run_trial(plan, 0, 0).counts[:, 0]
    accesses = n * 512 // 128 * rounds
    assert list(counts[1, [ACCESSES, HITS, PENDING]]) == [accesses, 0, 0]
    # Its lines have 64 bytes: each L2 miss asks for two.
    assert counts[2, ACCESSES] == 2 * accesses
    assert counts[2, HITS] + counts[2, PENDING] == 2 * accesses * (rounds - 1) // rounds
