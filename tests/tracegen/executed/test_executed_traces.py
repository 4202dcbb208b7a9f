"""Traces of executed machine code: counts by hand, other tracers, errors."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import tracegen
from experiments.kernels import common_kernels, transpose
from memsim.errors import KernelError
from memsim.trace import Trace
from tests.support.compilers import needs_nvidia
from tracegen.executed.launches import checked
from tracegen.executed.run import sequence_starts
from tracegen.options import TraceOptions

MACHINE = TraceOptions(tracer="machine")


def executed(workload: Any, machine: str = "a100", **options: Any) -> Trace:
    return tracegen.trace(workload, machine, tracer="machine", **options)


def cuda(text: str, grid: int = 1, block: int = 64, **arguments: Any) -> tracegen.CudaWorkload:
    return tracegen.CudaWorkload(source=text, arguments=arguments, grid=grid, block=block)


def by_array(trace: Trace) -> dict[tuple[str, str], tuple[int, int]]:
    """(direction, array) -> accesses, and granules."""
    accesses: Counter[tuple[str, str]] = Counter()
    granules: Counter[tuple[str, str]] = Counter()
    lengths = np.diff(trace.granule_offset)
    for site, length in zip(trace.site.tolist(), lengths.tolist(), strict=True):
        if site >= 0:
            key = trace.sites[site].direction, trace.sites[site].array
            accesses[key] += 1
            granules[key] += length
    return {key: (accesses[key], granules[key]) for key in accesses}


@needs_nvidia
def test_a_load_that_the_compiler_moved_out_of_its_loop_is_requested_once() -> None:
    """A CSR product: both row ends before the loop, once a sub-group; each stored element once, by one lane."""
    workload = common_kernels.KERNELS["spmv_scalar"](rows=8192)
    trace = executed(workload)
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
    from memsim.machine import load_machine

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
    trace = executed(cuda(text, grid=2, x=x, out=out))
    stores = [k for k, site in enumerate(trace.sites) if site.array == "out"]
    at = np.flatnonzero(np.isin(trace.site, stores))
    assert len(at) == 4
    base = next(one.base_bytes for one in trace.arrays if one.name == "out")
    granules = [
        trace.granule[trace.granule_offset[k] : trace.granule_offset[k + 1]] - base // 32
        for k in at
    ]
    assert [one.tolist() for one in granules] == [[4, 5, 6, 7], [0, 1, 2, 3]] * 2


@needs_nvidia
def test_lanes_of_one_load_may_meet_several_arrays() -> None:
    text = """__global__ void k(const float *a, const float *b, float *out) {
      const float *p = threadIdx.x & 1 ? a : b;
      out[threadIdx.x] = p[threadIdx.x];
    }"""
    a, b, out = (np.zeros(64, np.float32) for _ in range(3))
    trace = executed(cuda(text, a=a, b=b, out=out))
    loads = [k for k, site in enumerate(trace.sites) if site.direction == "load"]
    at = np.flatnonzero(np.isin(trace.site, loads))
    assert trace.lanes[at].tolist() == [32, 32]
    assert np.diff(trace.granule_offset)[at].tolist() == [8, 8]


@needs_nvidia
def test_bank_conflicts_are_counted_where_they_happen() -> None:
    text = """__global__ void k(float *out) {
      __shared__ float s[64 * 33];
      s[threadIdx.x * %d] = threadIdx.x; __syncthreads();
      out[threadIdx.x] = s[threadIdx.x];
    }"""
    added = {}
    for stride in (1, 2, 32, 33):
        trace = executed(cuda(text % stride, out=np.zeros(64, np.float32)))
        assert trace.work is not None
        counts = trace.work_table[trace.work].sum(axis=0)
        added[stride] = counts[trace.work_kinds.index("conflict")]
    assert added == {1: 0, 2: 2 * 1, 32: 2 * 31, 33: 0}


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
    workload = cuda(f"__global__ void k(float *x) {{ {body} }}", x=np.zeros(64, np.float32))
    with pytest.raises(KernelError, match=reason) as caught:
        executed(workload)
    assert "\n" not in str(caught.value)


@needs_nvidia
def test_a_wrong_result_is_told() -> None:
    def check(outputs: Any) -> None:
        assert outputs["x"][0] == 1, "x[0] must be 1"

    workload = tracegen.CudaWorkload(
        source="__global__ void k(float *x) { x[0] = 2; }",
        arguments={"x": np.zeros(4, np.float32)},
        grid=1,
        block=1,
        check=check,
    )
    from memsim.machine import load_machine

    with pytest.raises(KernelError, match=r"check expects: x\[0\] must be 1"):
        checked(workload, load_machine("a100"), MACHINE)


@needs_nvidia
def test_columns_in_files_are_those_in_memory() -> None:
    """A tiled transpose has barriers, so the columns are moved into the order of sub-groups, too."""
    in_memory = executed(transpose.tiled(), groups=8)
    in_files = executed(transpose.tiled(), groups=8, memory_bytes=1)
    for name in ("site", "waits", "granule", "byte_mask", "granule_offset", "lane_groups", "work"):
        np.testing.assert_array_equal(getattr(in_files, name), getattr(in_memory, name))
    assert isinstance(in_files.granule.base.base, np.memmap)


@needs_nvidia
def test_streaming_stores_are_nontemporal() -> None:
    source = """__global__ void k(float *x, float *y) {
        __stcs(x + threadIdx.x, 1.0f);
        y[threadIdx.x] = 2.0f; }"""
    x, y = np.zeros(32, np.float32), np.zeros(32, np.float32)
    sites = tracegen.trace(cuda(source, block=32, x=x, y=y), "v100").sites
    assert [(site.array, site.nontemporal) for site in sites] == [("x", True), ("y", False)]
