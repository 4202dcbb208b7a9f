"""How fast basic blocks are counted: turns of a loop of work-items each second, and beside a trace of everything."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from experiments.kernels import graphs
from experiments.kernels.polybench import products, vectors
from tracegen import count_blocks
from tracegen.executed.targets import lowered
from tracegen.execution.run import Execution
from tracegen.machine_code.binding import bind

pytestmark = pytest.mark.bench

REPEATS = 5

CASES: list[tuple[str, Callable[[], Any]]] = [
    ("gemm", lambda: products.gemm(384, 384, 384)),
    ("atax", lambda: vectors.atax(2048, 2048)),
    ("SpMV", lambda: graphs.spmv(60_000, 24)),
]


def median_s(call: Callable[[], Any]) -> float:
    call()
    times = []
    for _ in range(REPEATS):
        begin = time.process_time()
        call()
        times.append(time.process_time() - begin)
    return float(np.median(times))


@pytest.mark.parametrize(("name", "make"), CASES)
def test_counting_against_a_run_with_all_values(name: str, make: Callable[[], Any]) -> None:
    workload = make()
    counting_s = median_s(lambda: count_blocks(workload))

    def everything() -> None:
        for bound in bind(workload, "sm_75"):
            groups = np.arange(np.prod(bound.grid))
            Execution(lowered(bound.code, 32), bound.launch).run(groups, record=False)

    everything_s = median_s(everything)
    counts = count_blocks(workload)
    steps = counts.by_subgroups.sum() / counting_s
    print(
        f"\n{name}: counted in {1e3 * counting_s:.1f} ms, {steps / 1e6:.1f} M blocks of sub-groups/s;"
        f" a run with all values takes {everything_s / counting_s:.1f} times as long"
    )
    assert counting_s < everything_s
