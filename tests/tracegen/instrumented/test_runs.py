"""Kernels that change their arrays in place, and whose paths differ from run to run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracegen
from memsim.errors import KernelError, PathsWarning
from memsim.trace.model import COLUMN_DTYPES
from tests.support import loopy_kernels, random_launches
from tests.support.instrumented_runs import prepared_of
from tracegen.instrumented.run import DeviceRun
from tracegen.options import TraceOptions

N_GROUPS, GROUP_ITEMS = 256, 64
N = N_GROUPS * GROUP_ITEMS
HALVE = """
    <> value = data[i] {id=load, dep=*}
    <> odd = value % 2 {id=odd, dep=load, inames=i}
    data[i] = value // 2 {id=halve, dep=odd, if=odd}
"""
ON = random_launches.small_machine(0)
OPTIONS = TraceOptions(waves=3, start=True, tracer="instrumented")


def halve(data: Any) -> tracegen.Workload:
    kernel = loopy_kernels.make("{[i]: 0 <= i < n}", HALVE, "data: i4[n]; n: i4")
    return tracegen.Workload(loopy_kernels.groups_of(kernel, GROUP_ITEMS), {"data": data})


def numbers() -> Any:
    """Halved, an odd number is as often odd as even: no run leaves what another would have found."""
    return np.random.default_rng(0).integers(0, 1 << 12, N, dtype=np.int32)


def stored_and_expected(data: Any) -> tuple[list[int], list[int]]:
    """The stores of each snapshot, and the odd numbers of its groups."""
    odd = (data % 2).reshape(N_GROUPS, GROUP_ITEMS).sum(axis=1)
    traces = tracegen.trace_snapshots(halve(data), ON, snapshots=4, options=OPTIONS)
    assert len(traces) >= 4
    assert any(trace.earlier_groups for trace in traces)
    stored = []
    for trace in traces:
        is_store = np.array([site.direction == "store" for site in trace.sites])
        stored.append(int(trace.lanes[is_store[trace.site]].sum(dtype=np.int64)))
    return stored, [int(odd[np.unique(trace.workgroup)].sum()) for trace in traces]


def test_each_snapshot_is_of_the_data_from_before_the_launch() -> None:
    """It takes the paths that were counted, so that nobody is warned of a data race."""
    stored, expected = stored_and_expected(numbers())
    assert stored == expected


def test_without_restoring_it_is_of_other_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DeviceRun, "_paste", lambda *_: None)
    with pytest.warns(PathsWarning, match="it has a data race"):
        stored, expected = stored_and_expected(numbers())
    assert max(stored[1:]) < 0.8 * min(expected)


def test_a_traced_launch_leaves_what_it_leaves_untraced() -> None:
    data = numbers()
    prepared = prepared_of(halve(data))

    def observer(launch: Any) -> None:
        run = DeviceRun(prepared, launch, OPTIONS, ON)
        run.traces(4)
        assert not run.ran_all
        run.complete()

    outputs = prepared.run(observer)
    np.testing.assert_array_equal(outputs["data"], np.where(data % 2, data // 2, data))


def test_a_launch_finds_what_the_one_before_it_left() -> None:
    data = numbers()
    kernel = loopy_kernels.make(
        "{[i, j]: 0 <= i < n and 0 <= j < n}",
        HALVE + "\n... gbarrier {id=meet, dep=halve}\n out[j] = table[data[j]] {dep=meet}",
        "data: i4[n]; table: f4[4096]; out: f4[n] out; n: i4",
    )
    for iname in "ij":
        kernel = loopy_kernels.groups_of(kernel, GROUP_ITEMS, iname)
    workload = tracegen.Workload(kernel, {"data": data, "table": np.zeros(4096, np.float32)})
    _, trace = tracegen.trace_launches(workload, ON, options=OPTIONS)
    halved = np.where(data % 2, data // 2, data).reshape(N_GROUPS, GROUP_ITEMS)
    base_granule = next(a.base_bytes for a in trace.arrays if a.name == "table") // 32
    of_site = next(k for k, site in enumerate(trace.sites) if site.array == "table")
    loaded = np.repeat(trace.site == of_site, np.diff(trace.granule_offset))
    expected = np.unique(halved[np.unique(trace.workgroup)] * 4 // 32)
    np.testing.assert_array_equal(np.unique(trace.granule[loaded]) - base_granule, expected)


def test_nothing_is_restored_that_nothing_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A count and a record of each set of groups: what was there is copied once, and back before each run but
    the first."""
    called: list[str] = []

    def counted(name: str) -> Any:
        method = getattr(DeviceRun, name)

        def call(run: DeviceRun, *arguments: Any) -> Any:
            called.append(name)
            return method(run, *arguments)

        return call

    for name in ("_copies", "_paste", "_run"):
        monkeypatch.setattr(DeviceRun, name, counted(name))
    tracegen.trace(halve(numbers()), options=OPTIONS)
    assert called == ["_copies", "_run", "_paste", "_run"]


@pytest.mark.parametrize(
    ("workload", "why"),
    [
        (loopy_kernels.histogram(64), "order of its atomic operations"),
        (halve(numbers()), "it has a data race"),
    ],
)
def test_other_paths_are_recorded_again(
    workload: Any, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = tracegen.trace(workload, options=OPTIONS)
    assert "one_of_many" not in exact.provenance
    run = DeviceRun._run
    for change in (lambda n: n // 8, lambda n: n + 3):

        def other(one: DeviceRun, groups: Any, room: Any = None, by: Any = change) -> Any:
            return by(run(one, groups)) if room is None else run(one, groups, room)

        with monkeypatch.context() as patched:
            patched.setattr(DeviceRun, "_run", other)
            with pytest.warns(PathsWarning, match=f"took other paths .*{why}"):
                trace = tracegen.trace(workload, options=OPTIONS)
        assert why in trace.provenance["one_of_many"]
        for name in COLUMN_DTYPES:
            np.testing.assert_array_equal(getattr(trace, name), getattr(exact, name))


def test_paths_that_grow_with_each_run(monkeypatch: pytest.MonkeyPatch) -> None:
    run = DeviceRun._run

    def longer(one: DeviceRun, groups: Any, room: Any = None) -> Any:
        return run(one, groups) if room is None else 2 * room + 100

    monkeypatch.setattr(DeviceRun, "_run", longer)
    with pytest.raises(KernelError, match="longer paths each of the 8 times that it was run"):
        tracegen.trace(halve(numbers()), options=OPTIONS)
