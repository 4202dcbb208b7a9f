"""How many places of a launch are traced, and how long each snapshot is."""

from __future__ import annotations

import pytest

import tracegen
from memsim import load_machine
from memsim.montecarlo import resident_groups
from tests.support import loopy_kernels as kernels
from tracegen.options import TraceOptions
from tracegen.recording import snapshot

GRANULES_OF_GROUP = 2 * 64 * 4 // 32
"""A group of 64 work-items copies as many floats."""


@pytest.mark.parametrize(
    ("waves_of_budget", "expected"),
    [
        (100, [12, 12, 12, 12]),  # three places and the start
        (2 * 10, [10, 10, 10, 10]),  # they share the budget of two
        (2 * 7, [9, 9, 9]),  # of each 7 waves would fit: without the start, 9 do
        (2 * 5, [10, 10]),  # without the start, 6 would
        (7, [12]),  # of each of two, 7 would fit, so there is one, with the budget of two
        (4, [8]),
    ],
)
def test_fewer_snapshots_replace_several_short_ones(
    waves_of_budget: int, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = load_machine("v100")
    workload = kernels.copy(1 << 23, group=64)
    launch = tracegen.trace(workload, machine, groups=1).launch
    wave = machine.n_cores * resident_groups(machine, launch).groups_per_core
    budget = waves_of_budget * wave * GRANULES_OF_GROUP
    monkeypatch.setattr(snapshot, "BUDGET_GRANULES", budget)
    traces = tracegen.trace_snapshots(
        workload, machine, snapshots=3, options=TraceOptions(start=True, earlier=False)
    )
    assert [trace.n_groups // wave for trace in traces] == expected
    if len(traces) == 4:
        assert traces[-1].workgroup[0] == 0
