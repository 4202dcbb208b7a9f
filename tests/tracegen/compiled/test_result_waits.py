"""Waits for results that take no fixed time, by hand, and in what ptxas writes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.compilers import needs_nvidia
from tests.support.cuda_kernels import workload
from tracegen.compiled.model import MemoryOperation
from tracegen.compiled.nvidia.result_waits import ResultWaits
from tracegen.machine_code.binding import bind

LOCAL = MemoryOperation(space="local", direction="load", bytes_per_item=4)
GLOBAL = MemoryOperation(space="global", direction="load", bytes_per_item=4)
NONE = 7


def encoded(stall: int, *, sets: int = NONE, waits: tuple[int, ...] = ()) -> int:
    """The upper half of an encoding."""
    return stall << 41 | sets << 46 | sum(1 << barrier for barrier in waits) << 52


def test_what_waits_for_a_load_of_local_memory_begins_when_it_has_arrived() -> None:
    """The load is issued at 0, another instruction at 2, and the one that needs it at 29 (19 on a V100)."""
    for capability, latency in ((90, 29), (80, 29), (70, 19)):
        waits = ResultWaits(capability)
        assert waits.cycles("LDS", "load_store", LOCAL, encoded(2, sets=0)) == 2
        assert waits.cycles("IADD3", "alu", None, encoded(5)) == 5
        assert waits.cycles("FADD", "fma", None, encoded(4, waits=(0,))) == latency - 7 + 4
        # It has arrived: nothing waits again.
        assert waits.cycles("FADD", "fma", None, encoded(4, waits=(0,))) == 4


def test_another_barrier_and_a_load_of_global_memory_are_not_waited_for() -> None:
    waits = ResultWaits(90)
    waits.cycles("MUFU", "special", None, encoded(1, sets=1))
    waits.cycles("LDG", "load_store", GLOBAL, encoded(1, sets=2))
    assert waits.cycles("FADD", "fma", None, encoded(4, waits=(0, 2))) == 4
    assert waits.cycles("FADD", "fma", None, encoded(4, waits=(1,))) == 20 - 6 + 4


def test_the_later_of_two_results_counts() -> None:
    waits = ResultWaits(90)
    waits.cycles("SHFL", "load_store", None, encoded(10, sets=3))
    waits.cycles("SHFL", "load_store", None, encoded(1, sets=3))
    assert waits.cycles("FADD", "fma", None, encoded(1, waits=(3,))) == 29 - 1 + 1


@needs_nvidia
@pytest.mark.parametrize(("target", "latency"), [("sm_90", 29), ("sm_70", 19)])
def test_a_chain_through_local_memory(target: str, latency: int) -> None:
    """Each load gives the address of the next, so each but the first waits for one."""
    source = """
__global__ void chase(int* out) {
    __shared__ int next[64];
    next[threadIdx.x] = out[threadIdx.x];
    __syncthreads();
    int at = threadIdx.x;
#pragma unroll
    for (int k = 0; k < 32; ++k) at = next[at];
    out[threadIdx.x] = at;
}"""
    made = workload(source, np.zeros(64, np.int32), kernel="chase", grid=1, block=64)
    code = next(bind(made, target)).code
    cycles = sum(one.stall_cycles for block in code.blocks for one in block.instructions)
    n_other = sum(len(block.instructions) for block in code.blocks)
    assert 32 * latency < cycles < 32 * (latency + 8) + 20 * n_other / 2
