"""The speed of running machine code on one core, warm.

Run alone, pinned to one core: `taskset -c 0 pytest -m bench -s tests/bench/test_execution_speed.py`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegen
from experiments.kernels import common_kernels, convolution, matmul_steps
from tracegen.executed.targets import lowered
from tracegen.execution.run import Execution
from tracegen.execution.slicing import sliced
from tracegen.machine_code.binding import bind

pytestmark = pytest.mark.bench

LANE_ACCESSES_PER_SECOND = 300e6
LANE_ACCESSES_OF_GATHERS_PER_SECOND = 60e6
SUBGROUP_INSTRUCTIONS_PER_SECOND = 40e6
FIRST_ACCESS_SECONDS = 0.3
"""Goals: addresses of stencils, products and transposes; of kernels whose addresses depend on data; all values; from the machine
code and the arguments to the first access."""
REPEATS = 5

_COMMON: dict[str, dict[str, Any]] = {
    "vadd1": {"n": 1 << 21},
    "transpose_tiled": {"n": 1024},
    "jacobi7": {"nx": 128, "ny": 128, "nz": 64},
    "spmv_scalar": {"rows": 1 << 15},
    "gather_small": {"n": 1 << 20},
    "softmax_row": {"rows": 512, "columns": 2048},
}
KERNELS: dict[str, Callable[[], tracegen.CudaWorkload]] = {
    name: (lambda name=name, sizes=sizes: common_kernels.KERNELS[name](**sizes))  # type: ignore[misc]
    for name, sizes in _COMMON.items()
}
KERNELS["matmul_coalesced"] = lambda: matmul_steps.product(step="coalesced", n=256)


def _seconds(run: Callable[[], Any]) -> tuple[float, float]:
    """The median and the least, which other programs on the computer disturb less."""
    run()
    seconds = []
    for _ in range(REPEATS):
        begin = time.thread_time()
        run()
        seconds.append(time.thread_time() - begin)
    return statistics.median(seconds), min(seconds)


@pytest.mark.parametrize("kernel", KERNELS)
def test_execution_speed(kernel: str) -> None:
    (bound,) = bind(KERNELS[kernel](), "sm_80")
    code, groups = lowered(bound.code, 32), np.arange(int(np.prod(bound.grid)))
    addresses, values = Execution(sliced(code), bound.launch), Execution(code, bound.launch)
    addresses.run(np.arange(8))
    if addresses.needs_values:  # what is staged in local memory: then a trace is run so
        addresses = Execution(sliced(code, products=True), bound.launch)
    recorded = addresses.run(groups)
    rates = [recorded.lane_accesses / one / 1e6 for one in _seconds(lambda: addresses.run(groups))]
    print(
        f"\n{kernel}: addresses {rates[0]:.0f} (best {rates[1]:.0f}) M lane-accesses/s"
        f" ({recorded.lane_accesses} of them)",
        end="",
    )
    run = values.run(groups, record=False)
    issued = sum(
        int(n) * (segment.end - segment.first)
        for n, segment in zip(run.segment_count, code.segments, strict=True)
    )
    rates = [issued / one / 1e6 for one in _seconds(lambda: values.run(groups, record=False))]
    print(f"; values {rates[0]:.1f} (best {rates[1]:.1f}) M sub-group instructions/s")
    assert recorded.lane_accesses > 0


LARGEST = {
    "jacobi7": KERNELS["jacobi7"],
    "layernorm_warp": lambda: common_kernels.KERNELS["layernorm_warp"](),
    "matmul_blocks": lambda: matmul_steps.product(step="blocks", n=1024),
    "convolution": lambda: convolution.convolution(),
}


@pytest.mark.parametrize("kernel", LARGEST)
def test_first_access(kernel: str) -> None:
    """Lowering, slicing and a group in the middle of the grid, of a typical kernel and of the largest."""
    (bound,) = bind(LARGEST[kernel](), "sm_80")
    group = np.array([int(np.prod(bound.grid)) // 2])

    def first() -> int:
        execution = Execution(sliced(lowered(bound.code, 32)), bound.launch)
        return execution.run(group).lane_accesses

    seconds, best = _seconds(first)
    count = sum(len(block.instructions) for block in bound.code.blocks)
    print(
        f"\n{kernel}: {count} instructions, {seconds:.3f} (best {best:.3f}) s to the end of a group"
    )
    assert first() > 0
