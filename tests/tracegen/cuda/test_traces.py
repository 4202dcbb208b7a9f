"""Traces of CUDA C++: equal to those of the same kernels in other languages, and counted by hand."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest

import memsim
import tracegen
from experiments.kernels.cuda_twins import TWINS
from memsim.trace import Trace
from tests.support.compilers import needs_nvidia
from tests.support.cuda_kernels import floats, needs_clang, rows, run, workload
from tracegen.cuda.run import SAMPLED_GROUPS, CudaRun
from tracegen.options import TraceOptions
from tracegen.recording import snapshot

pytestmark = needs_clang

COLUMNS = (
    *("workgroup", "subgroup_offset", "lanes", "granule_offset", "granule", "byte_mask"),
    *("lane_groups", "starts_sequence", "waits"),
)


def differing(one: Trace, other: Trace) -> set[str]:
    """The columns in which two traces differ; sites are compared by what they access."""
    found = set()
    for column in COLUMNS:
        if not np.array_equal(getattr(one, column), getattr(other, column)):
            found.add(column)
    accessed = [
        [("", "", 0) if k < 0 else of[k] for k in trace.site]
        for trace in (one, other)
        for of in [[(s.array, s.direction, s.itemsize_bytes) for s in trace.sites]]
    ]
    return found if accessed[0] == accessed[1] else found | {"site"}


@pytest.mark.parametrize("name", TWINS)
def test_a_trace_equals_that_of_its_twin(name: str) -> None:
    twin = TWINS[name]
    original = twin.original()
    expected = tracegen.trace(original)
    given = twin.in_cuda(original, expected.launch)
    trace = tracegen.trace(given)
    assert trace.arrays == expected.arrays
    # In OpenCL C, a variable depends on all that is ever assigned to it; here, on what it holds.
    assert differing(trace, expected) == (
        {"starts_sequence", "waits"} if name == "merge_global" else set()
    )
    if given.check is not None:
        given.check(run(given))


def test_a_changed_kernel_differs_from_its_twin() -> None:
    twin = TWINS["stream_triad"]
    original = twin.original()
    expected = tracegen.trace(original)
    given = twin.in_cuda(original, expected.launch)
    text = re.sub(r"b\[i\] \+ 0.5f \* c\[i\]", "c[i] + 0.5f * b[i]", given.path.read_text())  # type: ignore[union-attr]
    changed = tracegen.CudaWorkload(
        source=text,
        kernel=given.kernel,
        arguments=given.arguments,
        grid=given.grid,
        block=given.block,
    )
    assert differing(tracegen.trace(changed), expected) == {"site", "granule"}


def test_lanes_are_lined_up_again_behind_branches_and_loops() -> None:
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
    given = workload(source, np.zeros(256, np.int32), np.zeros(32, np.int32))
    trace = tracegen.trace(given)
    assert rows(trace) == [
        *("x[32 * j + i] (24)", "x[32 * j + i] (16)", "x[32 * j + i] (8)"),
        *("x[200 + i] (8)", "store y[i] (30)"),
    ]
    assert list(trace.waits) == [-1, -1, -1, -1, 3]


def test_iterations_are_not_mixed() -> None:
    """Lanes that skip the load in one turn of a loop do not catch up with the next turn."""
    source = """
    __global__ void k(const int *x, int *y) {
      int i = threadIdx.x, sum = 0;
      for (int j = 0; j < 2; ++j)
        if (i % 2 == j)
          sum += x[i];
      y[i] = sum;
    }
    """
    trace = tracegen.trace(workload(source, np.zeros(32, np.int32), np.zeros(32, np.int32)))
    assert rows(trace) == ["x[i] (16)", "x[i] (16)", "store y[i] (32)"]


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
    given = workload(
        source.replace("float *z", "float *__restrict__ z"), floats(32), floats(32), floats(32)
    )
    assert len(rows(tracegen.trace(given))) == 1 + 4 + 4 + 1


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


@pytest.mark.parametrize("longer", [None, 150])
def test_groups_recorded_with_the_room_of_a_few_give_the_trace_of_groups_counted_first(
    longer: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One group in 200 takes more turns than those that were looked at: it and those behind are counted."""
    source = """
    __global__ void k(const int *turns, const float *x, float *y) {
      __shared__ float s[64];
      int t = threadIdx.x, i = blockIdx.x * 64 + t;
      for (int j = 0; j < turns[blockIdx.x] + t % 3; ++j) y[i] += x[i + j];
      for (int j = 0; j < turns[blockIdx.x]; ++j) {
        s[t] = y[i];
        __syncthreads();
        y[i] += s[63 - t];
        __syncthreads();
      }
    }
    """
    turns = np.full(200, 20, np.int32)
    if longer is not None:
        turns[longer] = 29
    given = workload(source, turns, floats(20000), np.zeros(12800, np.float32), grid=200, block=64)
    counted: list[int] = []
    count = CudaRun._count
    monkeypatch.setattr(CudaRun, "_count", lambda r, g: counted.append(len(g)) or count(r, g))
    trace, results = tracegen.trace(given, memory_bytes=1 << 24), run(given)
    rest = sum(counted) - 200 - SAMPLED_GROUPS  # `run` counts all
    assert rest == 0 if longer is None else 0 < rest < 200
    monkeypatch.setattr("tracegen.cuda.run.WORTH_A_SAMPLE", 1 << 30)
    again = tracegen.trace(given, memory_bytes=1 << 24)
    assert differing(trace, again) == set()
    expected = np.zeros((200, 64), np.float32)
    for block, t in np.ndindex(expected.shape):
        for j in range(turns[block] + t % 3):
            expected[block, t] += given.arguments[1][64 * block + t + j]  # type: ignore[index]
    for block in range(200):
        for _ in range(turns[block]):
            expected[block] += expected[block, ::-1]
    np.testing.assert_allclose(results["y"].reshape(200, 64), expected, rtol=1e-5)


def test_paths_that_depend_on_the_order_of_atomics_are_repeated() -> None:
    """Both runs begin with the same memory: the queue is claimed from its beginning."""
    source = """
    __global__ void k(int *head, const float *x, float *y) {
      int i = atomicAdd(head, 1);
      y[i] = x[i];
    }
    """
    given = workload(source, np.zeros(1, np.int32), floats(64), np.zeros(64, np.float32), grid=2)
    trace = tracegen.trace(given)
    assert rows(trace) == ["atomicAdd(head, 1) (32)", "x[i] (32)", "store y[i] (32)"]
    assert "one_of_many" not in trace.provenance


@needs_nvidia
@pytest.mark.parametrize("name", ["stream_triad", "spmm", "histogram", "transpose_tiled"])
def test_machine_code_of_twins_performs_the_same_accesses(name: str) -> None:
    twin, machine = TWINS[name], memsim.load_machine("v100")
    original = twin.original()
    expected = tracegen.trace(original, machine)
    trace = tracegen.trace(twin.in_cuda(original, expected.launch), machine)
    compiler = trace.provenance["compiler"]
    assert compiler["unmatched_percent"] == 0
    assert compiler["registers_per_item"] > 4
    np.testing.assert_array_equal(trace.lanes, expected.lanes)
    np.testing.assert_array_equal(np.sort(trace.granule), np.sort(expected.granule))
    assert trace.launch.registers_per_item == compiler["registers_per_item"]


@needs_nvidia
def test_much_work_between_accesses_is_traced_within_a_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same accesses are traced in all 6.4 waves of the launch where next to nothing is between them."""
    source = """
    __global__ void k(const float *x, float *y, int turns) {
      __shared__ float s[256];
      int i = blockIdx.x * 256 + threadIdx.x;
      float value = s[threadIdx.x] = x[i];
      __syncthreads();
      for (int j = 0; j < turns; ++j) value = value * s[j] + 0.5f;
      y[i] = value;
    }
    """
    v100 = memsim.load_machine("v100")
    monkeypatch.setattr(snapshot, "BUDGET_INSTRUCTIONS", 6e7)
    counted: list[int] = []
    count = CudaRun._count
    monkeypatch.setattr(CudaRun, "_count", lambda r, g: counted.append(len(g)) or count(r, g))
    n_groups, wave = {}, 80 * 8
    for turns in (0, 200):
        counted.clear()
        given = workload(
            source, floats(1 << 20), np.zeros(1 << 20, np.float32), turns, grid=4096, block=256
        )
        options = TraceOptions(start=True)
        traces = tracegen.trace_snapshots(given, v100, snapshots=3, options=options)
        assert len(traces) == 1
        n_groups[turns] = traces[0].n_groups
        assert sum(counted) < 100  # groups are alike: samples are enough
    assert n_groups[0] == 4096
    assert 2 * wave <= n_groups[200] < 3 * wave


def test_groups_that_access_nothing_are_counted_in_few_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is known of the density of a launch whose first accesses are far from its beginning."""
    source = """
    __global__ void k(float *y) {
      if (blockIdx.x >= 25000) y[blockIdx.x] = 1;
    }
    """
    runs: list[int] = []
    count = CudaRun._count
    monkeypatch.setattr(CudaRun, "_count", lambda r, g: runs.append(len(g)) or count(r, g))
    given = workload(source, np.zeros(30000, np.float32), grid=30000)
    (trace,) = tracegen.trace_snapshots(given, memsim.load_machine("v100"), snapshots=1)
    assert trace.n_groups == 30000
    assert trace.lanes.sum() == 32 * 5000
    assert len(runs) < 60


@needs_nvidia
def test_machine_code_decides_what_is_loaded() -> None:
    source = """
    __global__ void k(const float *__restrict__ x, float *__restrict__ y, int n) {
      int i = threadIdx.x;
      float sum = 0, unused = x[2 * i];
      for (int j = 0; j < n; ++j) sum += x[i];
      y[i] = sum + 0 * (unused > 3);
    }
    """
    given = workload(source, floats(64), np.zeros(32, np.float32), 7)
    trace = tracegen.trace(given, memsim.load_machine("v100"))
    assert rows(trace) == ["x[i] (32)", "store y[i] (32)"]


def test_cuda_is_traced_without_loopy_and_opencl() -> None:
    """What a process imports before it forks for each kernel must not contain an OpenCL driver's loader."""
    script = (
        "import sys, numpy as np, tracegen, tracegen.commands.kernel as kernel\n"
        "from tracegen import CudaWorkload\n"
        "kernel._import_compilers()\n"
        "text = '__global__ void f(float *x) { x[threadIdx.x] = 1; }'\n"
        "workload = CudaWorkload(source=text, arguments={'x': np.zeros(32, np.float32)}, grid=1, block=32)\n"
        "assert tracegen.trace(workload).n_granule == 4\n"
        "assert not {'loopy', 'pyopencl'} & sys.modules.keys()\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
