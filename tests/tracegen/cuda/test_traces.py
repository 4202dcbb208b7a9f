"""Traces of CUDA C++: the same kernels in other languages, and counts by hand."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

import tracegen
from memsim.trace import Trace
from tests.support.cuda_kernels import floats, needs_clang, rows, run, workload
from tests.support.cuda_twins import TWINS

pytestmark = needs_clang

COLUMNS = (
    *("workgroup", "subgroup_offset", "lanes", "granule_offset", "granule", "byte_mask"),
    *("lane_groups", "starts_sequence", "waits"),
)


def differing(one: Trace, other: Trace) -> set[str]:
    """The columns in which two traces differ."""
    return {
        name for name in COLUMNS if not np.array_equal(getattr(one, name), getattr(other, name))
    }


def lanes_by_array(trace: Trace) -> Counter[tuple[str, str]]:
    """(direction, array) -> lanes of all its accesses."""
    found: Counter[tuple[str, str]] = Counter()
    for site, lanes in zip(trace.site.tolist(), trace.lanes.tolist(), strict=True):
        if site >= 0:
            found[trace.sites[site].direction, trace.sites[site].array] += lanes
    return found


@pytest.mark.weekly(6)
@pytest.mark.parametrize("name", TWINS)
def test_a_twin_computes_the_same(name: str) -> None:
    original = TWINS[name].original()
    if original.check is None:
        pytest.skip("nothing is known of its results")
    launch = tracegen.trace(original, "a100", groups=1).launch
    original.check(run(TWINS[name].in_cuda(original, launch)))


@pytest.mark.weekly(3)
@pytest.mark.parametrize("name", ["stream_triad", "spmv", "transpose_tiled"])
def test_machine_code_of_twins_performs_the_same_accesses(name: str) -> None:
    original = TWINS[name].original()
    expected = tracegen.trace(original, "v100")
    trace = tracegen.trace(TWINS[name].in_cuda(original, expected.launch), "v100")
    assert trace.launch.registers_per_item == trace.provenance["compiler"]["registers_per_item"]
    assert lanes_by_array(trace) == lanes_by_array(expected)
    np.testing.assert_array_equal(np.unique(trace.granule), np.unique(expected.granule))


def test_lanes_that_skip_an_access_do_not_count() -> None:
    """Lane i loads i % 4 times; lanes below 8 once more; the last two leave."""
    source = """
    __global__ void k(const int *x, int *y) {
      int i = threadIdx.x, n = i % 4, sum = 0;
      for (int j = 0; j < n; ++j)
        sum += x[32 * j + i];
      if (i < 8)
        sum += x[200 + i];
      else if (i >= 30)
        return;
      y[i] = sum;
    }
    """
    given = workload(source, np.arange(256, dtype=np.int32), np.zeros(32, np.int32))
    trace = tracegen.trace(given)
    assert lanes_by_array(trace) == {("load", "x"): 8 * (1 + 2 + 3) + 8, ("store", "y"): 30}
    i = np.arange(30)
    sums = sum(np.where(i % 4 > j, 32 * j + i, 0) for j in range(3))
    np.testing.assert_array_equal(run(given)["y"][:30], sums + np.where(i < 8, 200 + i, 0))


def test_lanes_of_a_long_loop_leave_it_one_after_another() -> None:
    source = """
    __global__ void k(const int *x, int *y) {
      int i = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;
      for (int j = 0; j < 500 + 13 * i; ++j) sum += x[64 * (j % 7) + i];
      y[i] = sum;
    }"""
    x = np.random.default_rng(0).integers(0, 99, (7, 64)).astype(np.int32)
    made = workload(source, x, np.zeros(64, np.int32), block=32, grid=2)
    turns = 500 + 13 * np.arange(64)
    expected = [x[np.arange(n) % 7, i].sum() for i, n in enumerate(turns)]
    np.testing.assert_array_equal(run(made)["y"], expected)
    assert lanes_by_array(tracegen.trace(made)) == {("load", "x"): turns.sum(), ("store", "y"): 64}


def test_loads_that_are_known_are_left_out() -> None:
    source = """
    __global__ void k(const float *x, float *y, float *z) {
      int i = threadIdx.x;
      float sum = 0;
      for (int j = 0; j < 4; ++j) {
        sum += x[i] + y[j];
        z[i] = sum;
      }
      y[i] = sum;
    }
    """
    given = workload(source, floats(32), floats(32), np.zeros(32, np.float32))
    # z may be the same memory as x and y, which are therefore loaded again after each store.
    assert len(rows(tracegen.trace(given))) == 13
    own = source.replace("float *z", "float *__restrict__ z").replace("*x", "*__restrict__ x")
    given = workload(own, floats(32), floats(32), floats(32))
    # Only the last of the four stores to z[i] can be seen.
    assert len(rows(tracegen.trace(given))) == 1 + 4 + 1 + 1


def test_snapshots_run_only_their_groups() -> None:
    """A block in front of the snapshot would be out of bounds."""
    source = "__global__ void k(float *y) { y[128 * (blockIdx.x - 2) + threadIdx.x] = 1; }"
    given = workload(source, np.zeros(256, np.float32), grid=4, block=128)
    trace = tracegen.trace(given, groups=[2, 3])
    assert list(trace.workgroup[::4]) == [2, 3]
    assert not trace.whole


def test_batches_and_pieces_give_the_same_trace() -> None:
    source = """
    __global__ void k(const float *x, float *y, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      float sum = y[i];
      for (int j = 0; j < n + i % 5; ++j) {
        sum += x[i + j];
        __syncwarp();
      }
      y[i] = sum;
    }
    """
    given = workload(source, floats(320), np.zeros(256, np.float32), 60, grid=4, block=64)
    whole = tracegen.trace(given)
    for memory_bytes in (1 << 16, 1 << 12):
        assert differing(tracegen.trace(given, memory_bytes=memory_bytes), whole) == set()


def test_a_queue_is_claimed_in_the_order_of_groups() -> None:
    """Each run begins with the same memory. The compiler sums up what the lanes of a warp add."""
    source = """
    __global__ void k(int *head, const float *x, float *y) {
      int i = atomicAdd(head, 1);
      y[i] = x[i];
    }
    """
    given = workload(source, np.zeros(1, np.int32), floats(64), np.zeros(64, np.float32), grid=2)
    trace = tracegen.trace(given)
    expected = ["atomic of head (1)", "x[i] (32)", "store y[i] (32)"]
    assert rows(trace, 0) == rows(trace, 1) == expected
    assert len(np.unique(trace.granule)) == 1 + 8 + 8


def test_cuda_is_traced_without_loopy_and_opencl() -> None:
    """What a process imports before it forks for each kernel must not contain an OpenCL driver's loader."""
    script = (
        "import sys, numpy as np, tracegen, tracegen.commands.kernel as kernel\n"
        "from tracegen import CudaWorkload\n"
        "kernel._import_compilers(None)\n"
        "text = '__global__ void f(float *x) { x[threadIdx.x] = 1; }'\n"
        "workload = CudaWorkload(source=text, arguments={'x': np.zeros(32, np.float32)}, grid=1, block=32)\n"
        "assert tracegen.trace(workload).n_granule == 4\n"
        "assert not {'loopy', 'pyopencl'} & sys.modules.keys()\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


LOOK_BACK = """
__global__ void scan(const int *x, volatile int *flag, volatile int *sum, int *y) {
  int b = blockIdx.x;
  if (threadIdx.x == 0) {
    int before = 0;
    if (b) { while (!flag[b - 1]); before = sum[b - 1]; }
    sum[b] = before + x[b * 64];
    __threadfence();
    flag[b] = 1;
  }
  __syncthreads();
  y[b * 64 + threadIdx.x] = sum[b];
}"""


@pytest.mark.filterwarnings("ignore::memsim.errors.PathsWarning")
@pytest.mark.parametrize("machine", ["a100", "mi250x"])
def test_a_group_that_waits_for_an_earlier_one(machine: str) -> None:
    """Groups run one after another, so none waits for long; which order a GPU takes is not known, as the first line says."""
    arrays = [np.ones(64 * 8, np.int32), *(np.zeros(n, np.int32) for n in (8, 8, 64 * 8))]
    given = workload(LOOK_BACK, *arrays, grid=8, block=64)
    np.testing.assert_array_equal(run(given, machine)["y"].reshape(8, 64)[:, 0], np.arange(1, 9))
    trace = tracegen.trace(given, machine)
    loads = [trace.sites[k].array for k in trace.site[trace.site >= 0]]
    assert loads.count("flag") == 7 + 8  # seven groups read the one before, and each stores its own
    assert "waits for values that other groups store" in trace.provenance["one_of_many"]


@pytest.mark.parametrize(("machine", "n_groups"), [("a100", 1), ("a100", 2), ("mi250x", 2)])
def test_a_flag_in_shared_or_private_memory_waits_for_no_group(machine: str, n_groups: int) -> None:
    """Code reads it through generic pointers, past the first level; and a group that is alone has no other."""
    source = """__global__ void k(volatile int *x, int *y) {
  volatile __shared__ int found;
  volatile int until = 5;
  if (threadIdx.x == 0) found = 0;
  __syncthreads();
  for (int k = 0; !found; k++) { __syncthreads(); if (threadIdx.x == k) found = k == until; __syncthreads(); }
  if (gridDim.x == 1) while (x[threadIdx.x] < 3) x[threadIdx.x]++;
  y[threadIdx.x] = found;
}"""
    arrays = [np.zeros(64, np.int32), np.zeros(64, np.int32)]
    if n_groups > 1:
        source = source.replace(
            "if (gridDim.x == 1) while (x[threadIdx.x] < 3) x[threadIdx.x]++;", ""
        )
    trace = tracegen.trace(workload(source, *arrays, grid=n_groups, block=64), machine)
    assert "one_of_many" not in trace.provenance


@pytest.mark.parametrize("machine", ["a100", "h100", "rtx5090"])
def test_every_parameter_has_its_value(machine: str) -> None:
    """None is at a place in the constant bank that the driver fills."""
    names = [f"a{k}" for k in range(90)]
    parameters = ", ".join(f"long long {name}" for name in names)
    stores = " ".join(f"y[{k}] = {name};" for k, name in enumerate(names))
    given = workload(
        f"__global__ void k({parameters}, long long *y) {{ {stores} }}",
        *(1000 + k for k in range(90)),
        np.zeros(90, np.int64),
    )
    np.testing.assert_array_equal(run(given, machine)["y"], 1000 + np.arange(90))
