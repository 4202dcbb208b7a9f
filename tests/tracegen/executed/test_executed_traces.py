"""Traces of executed machine code: counts by hand, other tracers, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracegen
from experiments.kernels import common_kernels, transpose
from memsim.errors import KernelError
from memsim.machine import load_machine
from memsim.trace import Trace
from tests.support.compilers import needs_nvidia
from tracegen.executed.launches import checked
from tracegen.executed.run import sequence_starts
from tracegen.execution import columns, run
from tracegen.options import TraceOptions

MACHINE = TraceOptions(tracer="machine")


def executed(source: str, grid: int = 1, block: int = 64, **arguments: Any) -> Trace:
    given = tracegen.CudaWorkload(source=source, arguments=arguments, grid=grid, block=block)
    return tracegen.trace(given, "a100", tracer="machine")


def zeros(n: int = 64) -> Any:
    return np.zeros(n, np.float32)


def by_array(trace: Trace) -> dict[tuple[str, str], tuple[int, int]]:
    """(direction, array) -> accesses, and granules."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for number, site in enumerate(trace.sites):
        lengths = np.diff(trace.granule_offset)[trace.site == number]
        accesses, granules = found.get((site.direction, site.array), (0, 0))
        found[site.direction, site.array] = accesses + len(lengths), granules + int(lengths.sum())
    return found


@needs_nvidia
def test_a_load_that_the_compiler_moved_out_of_its_loop_is_requested_once() -> None:
    """A CSR product: both row ends before the loop, once a sub-group; each stored element once, by one lane."""
    workload = common_kernels.KERNELS["spmv_scalar"](rows=8192)
    trace = tracegen.trace(workload, "a100", tracer="machine")
    found = by_array(trace)
    assert found["load", "start"][0] == 2 * 8192 // 32
    assert found["store", "y"] == (256, 1024)
    rows = np.diff(np.asarray(dict(workload.arguments)["start"])).reshape(-1, 32)
    for array in ("column", "value", "x"):
        own = np.isin(trace.site, [k for k, one in enumerate(trace.sites) if one.array == array])
        assert trace.lanes[own].sum() == rows.sum()
        # At least as often as the longest row of each sub-group has elements; unrolled parts of a loop run apart.
        assert rows.max(axis=1).sum() <= found["load", array][0] <= 1.5 * rows.max(axis=1).sum()


@pytest.mark.weekly(3)
@needs_nvidia
@pytest.mark.parametrize(
    "name", ["vadd1", "transpose_tiled", "reduce_shuffle", "hist_shared", "bitonic_step"]
)
def test_results_are_those_that_numpy_computes(name: str) -> None:
    sizes = {"bitonic_step": {"n": 1 << 12, "distance": 1 << 6, "run": 1 << 8}}
    small = sizes.get(name, {"n": 256 if "transpose" in name else 1 << 14})
    workload = common_kernels.KERNELS[name](**small)
    assert checked(workload, load_machine("a100"), MACHINE) == "the workload's own check"


@needs_nvidia
def test_values_that_another_group_of_the_launch_stored_are_loaded() -> None:
    """Only a run with values knows the address: x[i] is written by the work-item that reads it."""
    text = """__global__ void k(int *x, int *out) {
      int i = blockIdx.x * 64 + threadIdx.x;
      x[i] = 63 - threadIdx.x; __syncthreads();
      out[x[i ^ 1]] = 1;
    }"""
    x, out = np.zeros(128, np.int32), np.zeros(64, np.int32)
    trace = executed(text, grid=2, x=x, out=out)
    base = next(one.base_bytes for one in trace.arrays if one.name == "out")
    stores = [k for k, site in enumerate(trace.sites) if site.array == "out"]
    own = np.repeat(np.isin(trace.site, stores), np.diff(trace.granule_offset))
    assert (trace.granule[own] - base // 32).tolist() == [4, 5, 6, 7, 0, 1, 2, 3] * 2


@needs_nvidia
def test_lanes_of_one_load_may_meet_several_arrays() -> None:
    text = """__global__ void k(const float *a, const float *b, float *out) {
      const float *p = threadIdx.x & 1 ? a : b;
      out[threadIdx.x] = p[threadIdx.x];
    }"""
    trace = executed(text, a=zeros(), b=zeros(), out=zeros())
    loads = [k for k, site in enumerate(trace.sites) if site.direction == "load"]
    at = np.flatnonzero(np.isin(trace.site, loads))
    assert trace.lanes[at].tolist() == [32, 32]
    assert np.diff(trace.granule_offset)[at].tolist() == [8, 8]


@needs_nvidia
def test_bank_conflicts_are_counted_where_they_happen() -> None:
    text = """__global__ void k(float *out, int stride) {
      __shared__ float s[64 * 33];
      s[threadIdx.x * stride] = threadIdx.x; __syncthreads();
      out[threadIdx.x] = s[threadIdx.x];
    }"""
    for stride, added in ((1, 0), (2, 2 * 1), (32, 2 * 31), (33, 0)):
        trace = executed(text, stride=stride, out=zeros())
        assert trace.work is not None
        counts = trace.work_table[trace.work].sum(axis=0)
        assert counts[trace.work_kinds.index("conflict")] == added


def test_a_bulk_sequence_ends_with_a_wait_for_one_of_its_accesses() -> None:
    """Three loads, a use of the first one before the fourth, a barrier."""
    offset, site = np.array([0, 6]), np.array([0, 0, 0, 0, -1, 0], np.int32)
    waits = np.array([-1, -1, -1, 0, 0, 0], np.int32)
    assert sequence_starts(offset, site, waits).tolist() == [True, False, False, True, True, True]
    late = np.array([-1, -1, -1, -1, -1, 3], np.int32)
    assert sequence_starts(offset, site, late).tolist() == [True, False, False, False, True, True]


@needs_nvidia
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("x[threadIdx.x + 1] = 0;", r"kernel.cu:1: access store x\[threadIdx.x \+ 1\] is out of bounds: index 64"),
        ("if (threadIdx.x < 40) __syncthreads(); else x[0] = x[1]; if (threadIdx.x == 63) __trap();", "__trap was called"),
        ("*(float2 *)&x[1] = make_float2(0, 0);", "misaligned"),
    ],
)  # fmt: skip
def test_what_a_kernel_must_not_do_is_one_line(body: str, reason: str) -> None:
    with pytest.raises(KernelError, match=reason) as caught:
        executed(f"__global__ void k(float *x) {{ {body} }}", x=zeros())
    assert "\n" not in str(caught.value)


@needs_nvidia
def test_a_wrong_result_is_told() -> None:
    def check(outputs: Any) -> None:
        assert outputs["x"][0] == 1, "x[0] must be 1"

    workload = tracegen.CudaWorkload(
        source="__global__ void k(float *x) { x[0] = 2; }",
        arguments={"x": zeros(4)}, grid=1, block=1, check=check,
    )  # fmt: skip
    with pytest.raises(KernelError, match=r"check expects: x\[0\] must be 1"):
        checked(workload, load_machine("a100"), MACHINE)


@needs_nvidia
def test_columns_in_files_are_those_in_memory() -> None:
    """A tiled transpose has barriers, so the columns are moved into the order of sub-groups, too."""
    in_memory, in_files = (
        tracegen.trace(transpose.tiled(), "a100", tracer="machine", groups=8, **how)
        for how in ({}, {"memory_bytes": 1})
    )
    for name in ("site", "waits", "granule", "byte_mask", "granule_offset", "lane_groups", "work"):
        np.testing.assert_array_equal(getattr(in_files, name), getattr(in_memory, name))
    assert isinstance(in_files.granule.base.base, np.memmap)


@needs_nvidia
def test_room_for_all_groups_is_taken_when_some_have_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """From room for 64 granules on to 393,216, of 96 a group: four times as much each time would be 9 times."""
    workload = common_kernels.vadd1(1 << 20)
    took = tracegen.trace(workload, "a100", tracer="machine")
    grown, times = run.grown, []
    monkeypatch.setattr(columns, "FIRST_GRANULES", 64)
    monkeypatch.setattr(columns, "FIRST_ACCESSES", 64)
    monkeypatch.setattr(run, "grown", lambda *given: times.append(1) or grown(*given))
    again = tracegen.trace(workload, "a100", tracer="machine")
    np.testing.assert_array_equal(again.granule, took.granule)
    assert took.n_granule == 393_216
    assert len(times) <= 6


@needs_nvidia
def test_streaming_stores_are_nontemporal() -> None:
    source = """__global__ void k(float *x, float *y) {
        __stcs(x + threadIdx.x, 1.0f);
        y[threadIdx.x] = 2.0f; }"""
    sites = executed(source, block=32, x=zeros(32), y=zeros(32)).sites
    assert [(site.array, site.nontemporal) for site in sites] == [("x", True), ("y", False)]
