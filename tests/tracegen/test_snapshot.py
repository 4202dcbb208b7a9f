"""Which groups are traced."""

from __future__ import annotations

from typing import Any

import kernels
import numpy as np
import pytest

import tracegen
from memsim.machine_file import load_machine
from memsim.occupancy import resident_groups
from tracegen import snapshot


def test_without_a_machine_everything() -> None:
    (groups,) = snapshot.choose(10, None)
    assert groups.tolist() == list(range(10))


def test_eight_waves_from_the_middle_aligned_to_waves() -> None:
    (groups,) = snapshot.choose(1000, 20)
    assert len(groups) == 8 * 20
    assert groups[0] == 420
    assert np.all(np.diff(groups) == 1)


def test_small_launch_is_taken_whole() -> None:
    assert len(snapshot.choose(159, 20)[0]) == 159
    assert len(snapshot.choose(160, 20)[0]) == 160
    assert len(snapshot.choose(161, 20)[0]) == 160


def test_several_snapshots_spread_over_the_launch() -> None:
    starts = [groups[0] for groups in snapshot.choose(1000, 10, snapshots=3)]
    assert starts == [230, 460, 690]


def test_number_of_groups_overrides() -> None:
    assert len(snapshot.choose(1000, 20, 7)[0]) == 7
    assert len(snapshot.choose(5, 20, 7)[0]) == 5


def test_budget_keeps_two_waves(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = np.arange(100, 180)
    accesses = np.full(80, 10)
    monkeypatch.setattr(snapshot, "BUDGET_ACCESSES", 505)
    assert len(snapshot.within_budget(groups, accesses, 20)) == 50
    assert len(snapshot.within_budget(groups, accesses, 30)) == 60
    assert len(snapshot.within_budget(groups, accesses, None)) == 80


def test_on_a_machine(context: Any) -> None:
    machine = load_machine("v100")
    traces = tracegen.trace_snapshots(
        kernels.copy(1 << 21, group=64), machine, snapshots=2, context=context
    )
    wave = machine.n_cores * resident_groups(machine, traces[0].launch).groups_per_core
    for trace in traces:
        assert trace.n_groups == 8 * wave
        assert trace.workgroup[0] % wave == 0
        assert not trace.whole
        assert trace.subgroup_size == machine.subgroup_size
    assert traces[0].workgroup[0] < traces[1].workgroup[0]
