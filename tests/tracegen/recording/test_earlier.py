"""What the groups before a snapshot have touched."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import tracegen
from memsim import load_machine
from tests.support import loopy_kernels as kernels
from tests.support.compilers import needs_nvidia
from tests.support.cuda_kernels import workload
from tracegen.recording import earlier
from tracegen.recording.earlier import Granules, Moved, TouchedGranules, touched_before

EVERYTHING = 1 << 40


def two_of_each(ids: Granules) -> list[Moved]:
    """Group g touches the granules 10 g, 10 g + 1 and 5, the first of them twice."""
    return [Moved(np.concatenate([10 * ids, 10 * ids, 10 * ids + 1, np.full(len(ids), 5)]))]


def test_what_is_moved_is_touched_at_all_places() -> None:
    """By 15 shifts granules are looked at nearly twice."""
    found, shifts = TouchedGranules(), np.array([0, 100, 101])
    found.add(Moved(np.array([7, 3, 7]), shifts))
    assert found.ranges.tolist() == [[3, 4], [7, 8], [103, 105], [107, 109]]
    assert found.n_bytes == 6 * 32
    assert Moved(np.arange(16), np.arange(16)).cost == 16 + 15


def test_all_groups_before() -> None:
    touched = touched_before(4, 1, EVERYTHING, two_of_each)
    assert touched.n_groups == 4
    assert touched.ranges.tolist() == [[0, 2], [5, 6], [10, 12], [20, 22], [30, 32]]
    nothing = touched_before(0, 4, EVERYTHING, two_of_each)
    assert (nothing.n_groups, nothing.ranges.shape) == (0, (0, 2))


def test_ends_where_the_latest_groups_touched_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wave of 2 groups touches 5 granules, the 4 groups before these 8 more. Of a budget of 100, at four granules a group that are
    looked at, 2 + 4 + 8 groups take 56; the next 16 would take 64 more."""
    assert touched_before(100, 2, 5 * 32, two_of_each).n_groups == 2
    assert touched_before(100, 2, 5 * 32 + 1, two_of_each).n_groups == 2 + 4
    monkeypatch.setattr(earlier, "BUDGET_GRANULES", 100)
    assert touched_before(1000, 2, EVERYTHING, two_of_each).n_groups == 14


@pytest.mark.parametrize("tracer", ["polyhedral", "instrumented", "machine"])
def test_a_snapshot_says_what_earlier_groups_touched(tracer: Any) -> None:
    """Against a trace of these groups."""
    full, workload = load_machine("v100"), kernels.copy(1 << 20)
    first, second = full.levels
    second = dataclasses.replace(second.resized(second.size_bytes // 8), cores_per_instance=10)
    machine = full.replace(n_cores=10, levels=(first, second))
    trace = tracegen.trace(workload, machine, tracer=tracer)
    assert trace.earlier is not None
    begin = int(trace.workgroup[0])
    ids = list(range(begin - trace.earlier_groups, begin))
    others = tracegen.trace(workload, machine, tracer=tracer, groups=ids, earlier=False)
    assert others.earlier is None
    touched = np.concatenate([np.arange(*run) for run in trace.earlier])
    np.testing.assert_array_equal(touched, np.unique(others.granule))
    assert len(touched) * 32 >= 2 * machine.levels[-1].size_bytes


@needs_nvidia
@pytest.mark.parametrize("rows", [1, 3])
def test_groups_that_are_copied_touch_what_they_would_if_they_ran(rows: int) -> None:
    """Each group stages a part of x and of a table that several share in private memory, whose place is that of its sub-group among
    those that are resident."""
    source = """__global__ void k(const float *x, const float *table, float *y, int rows) {
      float own[64];
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      for (int k = 0; k < 64; ++k) own[(k * rows) & 63] = x[i] + table[blockIdx.x / 4 * 8 + (k & 7)];
      float sum = 0;
      for (int k = 0; k < 64; ++k) sum += own[(k + threadIdx.x) & 63];
      y[i] = sum;
    }"""
    x, table = np.ones(64 * 4000, np.float32), np.ones(8 * 1000, np.float32)
    made = workload(source, x, table, np.zeros_like(x), rows, grid=4000, block=64)
    full = load_machine("a100")
    levels = (
        dataclasses.replace(one, cores_per_instance=min(one.cores_per_instance, 4))
        for one in full.levels
    )
    machine = full.replace(n_cores=4, levels=tuple(levels))
    trace = tracegen.trace(made, machine)
    assert trace.earlier is not None
    begin = int(trace.workgroup[0])
    ids = list(range(begin - trace.earlier_groups, begin))
    assert ids
    others = tracegen.trace(made, machine, groups=ids, earlier=False)
    assert {site.array for site in others.sites} > {"private memory"}
    touched = np.concatenate([np.arange(*run) for run in trace.earlier])
    np.testing.assert_array_equal(touched, np.unique(others.granule))
