"""Instructions of a sub-group wait for each other: what the compiler's stall counts do to predicted times."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from calib.prediction import PredictOptions, predict
from calib.prediction.time_model import Timing
from memsim.machine import Machine, load_machine
from memsim.report import DEPENDENT
from tests.support.compilers import needs_nvidia
from tests.support.cuda_kernels import workload
from tracegen import CudaWorkload, trace_snapshots
from tracegen.machine_code.binding import bind

STEPS, SUMS = 2000, 16
SOURCE = """
template <int INDEPENDENT, int STEPS>
__global__ void sums(float* a, float x, float y) {
    float s[INDEPENDENT];
    for (int k = 0; k < INDEPENDENT; ++k) s[k] = a[threadIdx.x] + k;
    for (int n = 0; n < STEPS; ++n)
#pragma unroll
        for (int k = 0; k < 16; ++k)
            s[k % INDEPENDENT] = s[k % INDEPENDENT] * x + y;
    float total = 0;
    for (int k = 0; k < INDEPENDENT; ++k) total += s[k];
    a[blockIdx.x * blockDim.x + threadIdx.x] = total;
}
"""
DEPENDENT_CYCLES = 4
"""Of an FFMA, until another can use its result: Jia et al., arXiv 1804.06826, table 4.1 (Volta); A100 and V100 alike."""


def sums(independent: int, groups: int = 1, threads: int = 32, steps: int = STEPS) -> CudaWorkload:
    a, kernel = np.zeros(groups * threads, np.float32), f"sums<{independent}, {steps}>"
    return workload(SOURCE, a, 0.5, 0.25, kernel=kernel, grid=groups, block=threads)


pytestmark = needs_nvidia


def timing(machine: Machine, made: CudaWorkload) -> Timing:
    traces = trace_snapshots(made, machine, snapshots=1)
    return predict(traces, machine, PredictOptions(trials=1)).timing


@pytest.mark.parametrize("machine_name", ["v100", "a100"])
def test_a_chain_of_operations_takes_its_latency_and_independent_ones_do_not(
    machine_name: str,
) -> None:
    """A sub-core has 16 lanes, so a warp's operation occupies it for two cycles. Other warps hide it: eight on each scheduler do 64
    operations a cycle, whatever depends on what."""
    machine = load_machine(machine_name)
    for independent, each_cycles in ((1, DEPENDENT_CYCLES), (SUMS, 2)):
        alone = timing(machine, sums(independent)).estimate.mean
        cycles = alone * machine.clock_hz / (STEPS * SUMS)
        assert cycles == pytest.approx(each_cycles, rel=0.15)
        full = timing(machine, sums(independent, machine.n_cores, 1024, 250)).estimate.mean
        assert full * machine.clock_hz / (250 * SUMS) == pytest.approx(1024 / 64, rel=0.1)


def test_a_chain_is_what_binds_and_few_sub_groups_without_chains_are_no_dependence() -> None:
    machine = load_machine("v100")
    found = timing(machine, sums(1, machine.n_cores, 128))
    assert found.binds == DEPENDENT
    # Without the chain, the four warps would occupy their sub-cores half of the time.
    assert found.parts_s[DEPENDENT] == pytest.approx(0.5 * found.estimate.mean, rel=0.1)
    assert found.parts_s["latency"] < 0.01 * found.estimate.mean
    # One warp keeps one of four schedulers busy: three quarters of the core idle, but nothing waits for a result.
    found = timing(machine, sums(SUMS, machine.n_cores, 32))
    assert found.parts_s[DEPENDENT] < 0.1 * found.estimate.mean
    assert found.binds != DEPENDENT


def test_stalls_are_read_from_the_encoding_and_left_out_of_the_listing() -> None:
    """Older GPUs have none: nvdisasm shows their code as that of a later one."""
    old = next(bind(sums(1), "sm_61")).code
    assert {i.stall_cycles for block in old.blocks for i in block.instructions} == {0}
    code = next(bind(sums(1), "sm_80")).code
    body = max(code.blocks, key=lambda block: len(block.instructions))
    chain = [i for i in body.instructions if i.opcode.startswith("FFMA")]
    assert len(chain) >= SUMS
    # A few are followed by an instruction of the loop itself, which waits in the place of the next one.
    assert Counter(i.stall_cycles for i in chain)[DEPENDENT_CYCLES] >= 0.95 * len(chain)
    assert sum(i.stall_cycles for i in body.instructions) >= DEPENDENT_CYCLES * len(chain)
    cycles = {i.opcode: i.stall_cycles for block in code.blocks for i in block.instructions}
    assert all(1 <= each <= 15 for opcode, each in cycles.items() if opcode.startswith("FFMA"))
    assert "0x000" not in code.listing
