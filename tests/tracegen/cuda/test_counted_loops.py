"""Turns of loops without accesses, as a run counts them, against counts by hand."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import memsim
import tracegen
from tests.support.compilers import needs_nvidia
from tests.support.cuda_kernels import needs_clang, workload
from tracegen import cuda
from tracegen.cuda.quiet_loops import Position, Turns
from tracegen.options import TraceOptions

pytestmark = needs_clang

KERNEL = """
__device__ int steps(int n, int v) {
  while (v < n) {
    v += 1 + (v >> 30);
  }
  return v;
}
__global__ void k(int *y, int n) {
  int t = threadIdx.x, v = 0;
  BODY
  y[t] = v;
}
"""
FUNCTION = (3, 3)
"""Where the loop of `steps` begins."""


def counted(body: str, block: int = 64, n: int = 7, **launch: Any) -> Mapping[Position, Turns]:
    """By line and column of KERNEL; the body's first line is the tenth."""
    source = KERNEL.replace("BODY", body)
    prepared = cuda.prepare(
        workload(source, np.zeros(block, np.int32), n, block=block, **launch), 32
    )
    found: dict[Position, Turns] = {}

    def observe(launch: cuda.CudaLaunch) -> None:
        every = frozenset(loop.at for loop in launch.probed.loops)
        code = cast(Any, SimpleNamespace(unknown_loops=every))
        options = TraceOptions(subgroup_size=32)
        cuda.CudaRun(prepared, launch, options, None, code).count_turns()
        found.update(launch.turns)

    prepared.run(observe)
    return found


def test_a_warp_waits_for_its_slowest_lane() -> None:
    """Thread t repeats t times: 31 of the first warp, 63 of the second one."""
    assert counted("v = steps(t, 0);") == {FUNCTION: Turns((31 + 63) / 2, FUNCTION)}


def test_warps_that_do_not_reach_a_loop_do_not_count() -> None:
    assert counted("if (t < 32) v = steps(t, 0);") == {FUNCTION: Turns(31, FUNCTION)}
    assert counted("if (t < 0) v = steps(t, 0);") == {}


def test_each_time_has_a_slowest_lane_of_its_own() -> None:
    """At step s, lane s repeats ten times and the others s times: a sum of one lane would be 10 + 0 + 1."""
    body = "for (int s = 0; s < 3; ++s) { y[t] = s; v += steps(t % 32 == s ? 10 : s, 0); }"
    assert counted(body) == {FUNCTION: Turns(10, FUNCTION)}


@pytest.mark.parametrize("times", [31, 32, 33, 150])
def test_a_loop_that_is_reached_often(times: int) -> None:
    """At step s all lanes repeat s times. Threads give way to others after 128 accesses."""
    body = f"for (int s = 0; s < {times}; ++s) {{ y[t] = s; v += steps(s, 0); }}"
    assert counted(body) == {FUNCTION: Turns((times - 1) / 2, FUNCTION)}


def test_loops_in_a_loop() -> None:
    """The outer loop repeats 4 times in the slowest lane, each with 7 turns of `steps` and 3 from 7 to 10, 17 to 20, ..."""
    body = """for (int s = 0; s <= t % 4; ++s) {
    v += steps(n, 0);
    do {
      ++v;
    } while (v % 5);
  }"""
    outer = (10, 3)
    assert counted(body) == {
        outer: Turns(4, outer),
        FUNCTION: Turns(28, outer),
        (12, 5): Turns(12, outer),
    }


def test_the_mean_of_two_calls() -> None:
    assert counted("v = steps(n, 0); y[t] = v; v = steps(3 * n, 0);") == {
        FUNCTION: Turns(14, FUNCTION)
    }


def test_lanes_that_wait_for_each_other_in_a_loop() -> None:
    """A sum by shuffles: 16, 8, 4, 2 and 1 lanes apart."""
    body = "for (int d = n; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d);"
    assert counted(body, n=16) == {(10, 3): Turns(5, (10, 3))}


def test_loops_with_accesses_or_barriers_are_not_counted() -> None:
    assert counted("for (int s = 0; s < n; ++s) v += y[s];") == {}
    assert counted("for (int s = 0; s < n; ++s) __syncthreads();") == {}


def test_groups_of_a_large_launch_stand_for_all() -> None:
    """Block b repeats b times: the mean of 1000 blocks is 499.5, and no block but a few hundred is run."""
    found = counted("v = steps(blockIdx.x, 0);", grid=1000)
    assert found[FUNCTION].mean == pytest.approx(499.5, rel=0.01)


MACHINES = [pytest.param("h200", marks=needs_nvidia), "mi250x"]
SPIN = """
__global__ void k(float *y, int n) {
  int bound = n * (1 + threadIdx.x / 64 % 2);
  float v = threadIdx.x;
  for (int j = 0; j < BOUND; ++j)
    v = v * v + 0.25f;
  y[blockIdx.x * blockDim.x + threadIdx.x] = v;
}
"""


def instructions(machine: str, bound: str, n: int) -> tuple[float, list[str]]:
    """Multiplications of a sub-group, in the mean, and the compiler's notes."""
    source = SPIN.replace("BOUND", bound)
    made = workload(source, np.zeros(512, np.float32), n, grid=4, block=128)
    trace = tracegen.trace(made, memsim.load_machine(machine))
    assert trace.work is not None
    assert trace.work_table is not None
    total = float(trace.work_table[trace.work][:, trace.work_kinds.index("fma")].sum()) / (
        len(trace.subgroup_offset) - 1
    )
    return total, trace.provenance["compiler"]["notes"]


@pytest.mark.parametrize("machine", MACHINES)
def test_turns_count_as_those_of_a_header_that_determines_them(machine: str) -> None:
    """One multiplication a turn. Half of the sub-groups iterate twice as often, the mean is 1.5 n."""
    few, notes = instructions(machine, "bound", 64)
    many, _ = instructions(machine, "bound", 192)
    known = [instructions(machine, "n", n)[0] for n in (96, 288)]
    assert many - few == known[1] - known[0] == 1.5 * (192 - 64)
    (note,) = (one for one in notes if "iterations are taken of the loop" in one)
    assert note.startswith("96 iterations are taken of the loop at kernel.cu:5,")


@pytest.mark.parametrize("machine", MACHINES)
def test_a_header_is_believed_without_a_run(machine: str) -> None:
    _, notes = instructions(machine, "n", 96)
    assert not any("iteration" in note for note in notes)
