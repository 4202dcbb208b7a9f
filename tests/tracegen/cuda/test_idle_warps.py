"""Passes of shared memory where warps have no active lane, against a count by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import memsim
import tracegen
from memsim.trace import Trace
from tests.support.compilers import needs_nvidia
from tests.support.cuda_kernels import needs_clang, workload

pytestmark = [needs_clang, needs_nvidia]

# A scan in a block of 256 threads: the first loop has fewer active threads in each turn, the second one more.
SCAN = """
__global__ void k(const int *x, int *y, int n) {
  __shared__ int s[512];
  int t = threadIdx.x, step = 1;
  s[t] = x[t];
  s[t + 256] = x[t + 256];
  for (int d = n / 2; d > 0; d /= 2) {
    __syncthreads();
    if (ACTIVE) {
      int a = s[(step * (2 * t + 1) - 1) & 511], b = s[(step * (2 * t + 2) - 1) & 511];
      s[(step * (2 * t + 2) - 1) & 511] = a + b;
    }
    step *= 2;
  }
  for (int d = 1; d < n; d *= 2) {
    step /= 2;
    __syncthreads();
    if (ACTIVE) {
      int a = s[(step * (2 * t + 1) - 1) & 511], b = s[(step * (2 * t + 2) - 1) & 511];
      s[(step * (2 * t + 1) - 1) & 511] = b;
      s[(step * (2 * t + 2) - 1) & 511] = a + b;
    }
  }
  __syncthreads();
  y[t] = s[t];
  y[t + 256] = s[t + 256];
}
"""
N_WARP, TURNS = 8, [(256 >> k, 1 << k) for k in range(9)]
"""How many threads are active, and the step: of the first loop; the second one has the same in reverse."""


def passes(word: Callable[[int], int], is_active: Callable[[int], bool]) -> list[int]:
    """Of each warp: the different words in the bank that has most."""
    found = []
    for warp in range(N_WARP):
        lanes = [t for t in range(32 * warp, 32 * warp + 32) if is_active(t)]
        words = {word(t) for t in lanes}
        found.append(max((sum(w % 32 == bank for w in words) for bank in range(32)), default=0))
    return found


def by_hand(all_active: bool) -> tuple[int, int]:
    """(passes that conflicts add, accesses of warps with an active lane) in both loops."""
    added = accesses = 0
    for d, step in TURNS:
        for neighbour, times in ((1, 1 + 2), (2, 2 + 2)):  # loads and stores of either word
            each = passes(
                lambda t, step=step, k=neighbour: (step * (2 * t + k) - 1) & 511,
                lambda t, d=d: all_active or t < d,
            )
            added += times * sum(n - 1 for n in each if n)
            accesses += times * sum(n > 0 for n in each)
    return added, accesses


def counted(machine: str, active: str) -> dict[str, float]:
    """Kind -> what all warps issue."""
    made = workload(
        *(SCAN.replace("ACTIVE", active), np.ones(512, np.int32), np.zeros(512, np.int32), 512),
        block=256,
    )
    trace = tracegen.trace(made, memsim.load_machine(machine))
    return totals(trace)


def totals(trace: Trace) -> dict[str, float]:
    assert trace.work is not None
    assert trace.work_table is not None
    sums = np.asarray(trace.work_table)[np.asarray(trace.work)].sum(axis=0)
    return dict(zip(trace.work_kinds, sums.tolist(), strict=True))


@pytest.mark.parametrize("machine", ["a100", "h200"])
def test_idle_warps_have_no_conflicts(machine: str) -> None:
    """Between 20 and 72 warps in nine turns issue an access: as many as have a lane, or all by a predicate."""
    added, accesses = by_hand(all_active=False)
    assert (added, accesses) == (7 * 75, 7 * 20)
    found = counted(machine, "t < d")
    assert found["conflict"] == pytest.approx(added)
    outside = 4 * N_WARP  # behind and before the loops
    assert accesses - 1e-6 <= found["local_32"] - outside <= 7 * 9 * N_WARP


def test_where_all_lanes_are_active_nothing_is_left_out() -> None:
    added, accesses = by_hand(all_active=True)
    assert accesses == 7 * 9 * N_WARP
    found = counted("h200", "t >= 0")
    assert found["conflict"] == pytest.approx(added)
    assert found["local_32"] == accesses + 4 * N_WARP
