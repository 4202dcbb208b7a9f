"""Kernels that change their arrays in place: each trace is of the data from before the launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import loopy as lp
import numpy as np
import pytest

import tracegen
from memsim.errors import PathsWarning
from tests.support import loopy_kernels, random_launches
from tests.support.cuda_kernels import needs_clang
from tests.support.instrumented_runs import prepared_of
from tracegen import cuda
from tracegen.options import TraceOptions
from tracegen.record import AnyWorkload
from tracegen.recording.device_run import DeviceRun
from tracegen.recording.passes import LaunchRun

N_GROUPS, GROUP_ITEMS = 256, 64
N = N_GROUPS * GROUP_ITEMS
OPENCL = """\
__kernel void halve(__global int *data)
{
  const int i = get_global_id(0);
  const int value = data[i];
  if (value & 1) data[i] = value >> 1;
}
"""
CUDA = """\
__global__ void halve(int *data)
{
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int value = data[i];
  if (value & 1) data[i] = value >> 1;
}
__global__ void chain(int *data, int *out)
{
  const int n = data[blockIdx.x];
  for (int k = 0; k < n; ++k) out[blockIdx.x * blockDim.x + threadIdx.x] += k;
  if (threadIdx.x == 0) data[blockIdx.x + 1] = n % 7 + 1;
}
"""
HALVE = """
    <> value = data[i] {id=load, dep=*}
    <> odd = value % 2 {id=odd, dep=load, inames=i}
    data[i] = value // 2 {id=halve, dep=odd, if=odd}
"""
ON = random_launches.small_machine(0)
OPTIONS = TraceOptions(compiler="none", waves=3, start=True, tracer="instrumented")


def in_opencl(data: Any) -> tracegen.OpenCLWorkload:
    return tracegen.OpenCLWorkload(
        source=OPENCL,
        kernel="halve",
        arguments=[data],
        global_size=N,
        local_size=GROUP_ITEMS,
    )


def in_cuda(data: Any, *others: Any, kernel: str = "halve") -> tracegen.CudaWorkload:
    return tracegen.CudaWorkload(
        source=CUDA, kernel=kernel, arguments=[data, *others], grid=N_GROUPS, block=GROUP_ITEMS
    )


def in_loopy(data: Any) -> tracegen.Workload:
    kernel = loopy_kernels.make(
        "{[i]: 0 <= i < n}",
        HALVE,
        [lp.GlobalArg("data", np.int32, shape="n"), lp.ValueArg("n", np.int32)],
    )
    return tracegen.Workload(loopy_kernels.groups_of(kernel, GROUP_ITEMS), {"data": data})


Written = Callable[[Any], AnyWorkload]
LANGUAGES = [in_opencl, in_loopy, pytest.param(in_cuda, marks=needs_clang)]


def numbers() -> Any:
    """Halved, an odd number is as often odd as even: no run leaves what another would have found."""
    return np.random.default_rng(0).integers(0, 1 << 12, N, dtype=np.int32)


def stored_and_expected(written: Written, data: Any) -> tuple[list[int], list[int]]:
    """The stores of each snapshot, and the odd numbers of its groups."""
    odd = (data % 2).reshape(N_GROUPS, GROUP_ITEMS).sum(axis=1)
    traces = tracegen.trace_snapshots(written(data), ON, snapshots=4, options=OPTIONS)
    assert len(traces) >= 4
    assert any(trace.earlier_groups for trace in traces)
    stored = []
    for trace in traces:
        is_store = np.array([site.direction == "store" for site in trace.sites])
        stored.append(int(trace.lanes[is_store[trace.site]].sum(dtype=np.int64)))
    return stored, [int(odd[np.unique(trace.workgroup)].sum()) for trace in traces]


@pytest.mark.parametrize("written", LANGUAGES)
def test_each_snapshot_is_of_the_data_from_before_the_launch(written: Written) -> None:
    """It takes the paths that were counted, so that nobody is warned of a data race."""
    stored, expected = stored_and_expected(written, numbers())
    assert stored == expected


def test_without_restoring_it_is_of_other_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DeviceRun, "_paste", lambda *_: None)
    with pytest.warns(PathsWarning, match="it has a data race"):
        stored, expected = stored_and_expected(in_opencl, numbers())
    assert max(stored[1:]) < 0.8 * min(expected)


@pytest.mark.parametrize("n_snapshots", [1, 4])
@pytest.mark.parametrize("written", LANGUAGES)
def test_a_traced_launch_leaves_what_it_leaves_untraced(written: Written, n_snapshots: int) -> None:
    data = numbers()
    workload = written(data)
    is_cuda = isinstance(workload, tracegen.CudaWorkload)
    prepared: Any = cuda.prepare(workload, 32) if is_cuda else prepared_of(workload)
    kind: type[LaunchRun] = cuda.CudaRun if is_cuda else DeviceRun

    def observer(launch: Any) -> None:
        run = kind(prepared, launch, OPTIONS, ON)
        run.traces(n_snapshots)
        assert not run.ran_all
        run.complete()

    outputs = prepared.run(observer)
    np.testing.assert_array_equal(outputs["data"], np.where(data % 2, data // 2, data))


def test_a_launch_finds_what_the_one_before_it_left() -> None:
    data = numbers()
    kernel = loopy_kernels.make(
        "{[i, j]: 0 <= i < n and 0 <= j < n}",
        HALVE + "\n... gbarrier {id=meet, dep=halve}\n out[j] = table[data[j]] {dep=meet}",
        [
            lp.GlobalArg("data", np.int32, shape="n"),
            lp.GlobalArg("table", np.float32, shape="4096"),
            lp.GlobalArg("out", np.float32, shape="n", is_input=False),
            lp.ValueArg("n", np.int32),
        ],
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
    copied, pasted, runs = [], [], []
    copies, paste, run = DeviceRun._copies, DeviceRun._paste, DeviceRun._run
    monkeypatch.setattr(DeviceRun, "_copies", lambda r, n: copied.append(n) or copies(r, n))
    monkeypatch.setattr(DeviceRun, "_paste", lambda r, c: pasted.append(1) or paste(r, c))
    monkeypatch.setattr(DeviceRun, "_run", lambda r, *a: runs.append(1) or run(r, *a))
    tracegen.trace(in_opencl(numbers()), options=OPTIONS)
    assert (copied, len(runs), len(pasted)) == (["saved"], 2, 1)


@needs_clang
def test_a_data_race_is_reported() -> None:
    """Each group takes as many turns as the group before it says, if that has run."""
    workload = in_cuda(np.ones(N_GROUPS + 1, np.int32), np.zeros(N, np.int32), kernel="chain")
    with pytest.warns(PathsWarning, match="took other paths .*: it has a data race"):
        traces = tracegen.trace_snapshots(workload, ON, snapshots=2, options=OPTIONS)
    assert all("data race" in trace.provenance["one_of_many"] for trace in traces)
