"""What the groups before a snapshot have touched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracegen
from memsim import load_machine
from tests.support import loopy_kernels as kernels
from tracegen.recording import earlier
from tracegen.recording.earlier import Granules, touched_before

EVERYTHING = 1 << 40


def two_of_each(ids: Granules) -> Granules:
    """Group g touches the granules 10 g, 10 g + 1 and 5, the first of them twice."""
    return np.concatenate([10 * ids, 10 * ids, 10 * ids + 1, np.full(len(ids), 5)])


def test_all_groups_before() -> None:
    touched = touched_before(4, 1, EVERYTHING, two_of_each)
    assert touched.n_groups == 4
    assert touched.ranges.tolist() == [[0, 2], [5, 6], [10, 12], [20, 22], [30, 32]]


def test_before_the_first_group_there_is_nothing() -> None:
    touched = touched_before(0, 4, EVERYTHING, two_of_each)
    assert touched.n_groups == 0
    assert touched.ranges.shape == (0, 2)


def test_ends_where_the_latest_groups_touched_enough() -> None:
    """A wave of 2 groups touches 5 granules, the 4 groups before these 8 more."""
    assert touched_before(100, 2, 5 * 32, two_of_each).n_groups == 2
    assert touched_before(100, 2, 5 * 32 + 1, two_of_each).n_groups == 2 + 4


def test_ends_with_its_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four granules a group are looked at: 2 + 4 + 8 groups are 56, the next 16 would be 64 more."""
    monkeypatch.setattr(earlier, "BUDGET_GRANULES", 100)
    assert touched_before(1000, 2, EVERYTHING, two_of_each).n_groups == 14


@pytest.mark.parametrize("tracer", ["polyhedral", "instrumented"])
def test_a_snapshot_says_what_earlier_groups_touched(tracer: Any) -> None:
    """Against a trace of these groups."""
    machine = load_machine("v100")
    workload = kernels.copy(1 << 23)
    trace = tracegen.trace(workload, machine, tracer=tracer)
    assert trace.earlier is not None
    first = int(trace.workgroup[0])
    ids = range(first - trace.earlier_groups, first)
    others = tracegen.trace(workload, machine, tracer=tracer, groups=list(ids), earlier=False)
    assert others.earlier is None
    touched = np.concatenate([np.arange(*run) for run in trace.earlier])
    np.testing.assert_array_equal(touched, np.unique(others.granule))
    assert len(touched) * 32 >= 2 * machine.levels[-1].size_bytes
