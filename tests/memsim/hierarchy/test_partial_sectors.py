"""Sectors that stores of several cores fill: counted by hand, and as chance has it."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from memsim.errors import MachineError
from memsim.hierarchy.cache import HITS, READ_GRANULES, WRITE_GRANULES
from memsim.machine.model import Machine
from memsim.montecarlo.plan import make_plan
from memsim.montecarlo.trial import run_trial
from memsim.trace.model import Trace
from tests.support.small_machines import level, machine
from tests.support.traces import make_trace

LOW, HIGH = 0x0000FFFF, 0xFFFF0000
LINES = 4096


def of_cores(percent: float, *, sets: int = LINES, cores: int = 2) -> Machine:
    """A direct-mapped cache that keeps written bytes under a mask, behind two cores' first levels."""
    shared = level(
        "L2",
        sets=sets,
        cores_per_instance=cores,
        write_policy="write_back",
        write_allocate="lazy_fetch_on_read",
        partial_write_back_percent=percent,
    )
    return machine(level(), shared, cores=cores)


def halves(n: int, first: int = LOW, second: int = HIGH) -> Trace:
    """Two groups, one a core: one stores a part of n sectors, the other another part."""
    return make_trace(
        [[[(0, [i], True, [mask]) for i in range(n)]] for mask in (first, second)], ("store",)
    )


def of_l2(trace: Trace, on: Machine, trial: int = 0) -> npt.NDArray[np.int64]:
    """Hits, granules read and granules written of the stores, in the shared level."""
    plan, _ = make_plan(trace, on)
    result = run_trial(plan, 1, trial)
    counts = result.counts[1, 0, [HITS, READ_GRANULES, WRITE_GRANULES]]
    assert result.dram_read_bytes == 32 * counts[1]
    assert result.dram_write_bytes == 32 * counts[2]
    return np.asarray(counts, np.int64)


def test_what_two_cores_fill_is_completed_meanwhile() -> None:
    """All of them: each is read once and written back once, and then dirty anew."""
    assert list(of_l2(halves(100), of_cores(100.0))) == [100, 100, 100]
    assert list(of_l2(halves(100), of_cores(0.0))) == [100, 0, 0]


def test_of_many_so_many_as_is_said() -> None:
    """38 of 100, within 4 standard errors; 30 would be seen."""
    n = LINES
    _, read, written = of_l2(halves(n), of_cores(38.0))
    error = math.sqrt(0.38 * 0.62 / n)
    assert read == written
    assert abs(read / n - 0.38) < 4 * error
    assert abs(read / n - 0.30) > 4 * error


def test_what_one_core_fills_is_left_alone() -> None:
    """Both halves by one sub-group, or by two groups of one core."""
    both = make_trace([[[(0, [0], True, [LOW]), (0, [0], True, [HIGH])]]], ("store",))
    assert list(of_l2(both, of_cores(100.0))) == [1, 0, 0]
    assert list(of_l2(halves(100), of_cores(100.0, cores=1))) == [100, 0, 0]


def test_whole_sectors_are_left_alone() -> None:
    assert list(of_l2(halves(100, 0xFFFFFFFF, 0xFFFFFFFF), of_cores(100.0))) == [100, 0, 0]


def test_what_is_evicted_in_part_is_completed() -> None:
    """A level of one line: of ten halves nine have to go, each read and written once. Under its mask,
    where nothing is said, it is not read."""
    trace = make_trace([[[(0, [i], True, [LOW]) for i in range(10)]]], ("store",))
    assert list(of_l2(trace, of_cores(38.0, sets=1))) == [0, 9, 9]
    assert list(of_l2(trace, of_cores(0.0, sets=1))) == [0, 0, 9]


def test_a_completed_sector_serves_loads() -> None:
    """One core stores a half of a sector, the other its other half; who loads it later finds it, whether it
    was completed (read once) or both halves were there."""
    groups = [
        [[(0, [0], True, [LOW]), *[(1, [i]) for i in range(1, 40)], (1, [0])]],
        [[(0, [0], True, [HIGH])]],
    ]
    trace = make_trace(groups, ("store", "load"))
    for percent, read in ((100.0, 1), (0.0, 0)):
        plan, _ = make_plan(trace, of_cores(percent))
        stores, loads = run_trial(plan, 1, 0).counts[1]
        assert stores[READ_GRANULES] == read
        assert loads[READ_GRANULES] == 39
        assert loads[HITS] == 1


@pytest.mark.parametrize(
    ("position", "changes", "message"),
    [
        (1, {"partial_write_back_percent": 101.0}, "be at most 100, got 101.0 (level 'L2')"),
        (1, {"partial_write_back_percent": -1.0}, "partial_write_back_percent must"),
        (1, {"write_allocate": "no_fetch"}, "only with write_back and lazy_fetch_on_read"),
        (1, {"write_policy": "write_through"}, "only with write_back and lazy_fetch_on_read"),
        (
            0,
            {
                "partial_write_back_percent": 38.0,
                "write_policy": "write_back",
                "write_allocate": "lazy_fetch_on_read",
            },
            "partial_write_back_percent must be 0 in the first level, which",
        ),
    ],
)
def test_rules(position: int, changes: dict[str, Any], message: str) -> None:
    on = of_cores(38.0)
    levels = list(on.levels)
    levels[position] = dataclasses.replace(levels[position], **changes)
    with pytest.raises(MachineError, match=re.escape(message)):
        on.replace(levels=tuple(levels))
