"""The cost of counting basic blocks: the time of a counting launch over that of the plain one, warm."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

from experiments.kernels import graphs
from experiments.kernels.polybench import products, vectors
from tracegen.blocks.counter import BlockCounter
from tracegen.blocks.run import CountingRun
from tracegen.instrumented.launch import LoopyLaunch

pytestmark = pytest.mark.bench

MOST_OF_PLAIN = 2.0
REPEATS = 9

CASES: list[tuple[str, Callable[[], Any]]] = [
    ("gemm", lambda: products.gemm(384, 384, 384)),
    ("atax", lambda: vectors.atax(2048, 2048)),
    ("SpMV", lambda: graphs.spmv(60_000, 24)),
]


@pytest.mark.parametrize(("name", "make"), CASES)
def test_counting_against_the_plain_launch(name: str, make: Callable[[], Any]) -> None:
    workload = make()
    counter = BlockCounter(workload)
    plain, counting, both = [], [], []

    def observer(launch: LoopyLaunch) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = cl.Program(counter.context, counter.prepared.source).build()
        kernel = cl.Kernel(program, launch.name)
        kernels = {
            "counting": counter.counting[launch.name],
            "recording": counter.recording[launch.name],
        }
        run = CountingRun(counter.buffers, launch, counter.cuts[launch.name], kernels, True)
        launch.set_arguments(kernel)
        shape = launch.group_shape
        items = tuple(a * b for a, b in zip(launch.grid, shape, strict=False))
        times: list[list[float]] = [[], [], []]
        for _ in range(REPEATS):
            begin = time.perf_counter()
            cl.enqueue_nd_range_kernel(launch.queue, kernel, items, shape)
            launch.queue.finish()
            times[0].append(time.perf_counter() - begin)
            for k, width in ((1, None), (2, 32)):
                begin = time.perf_counter()
                run.counted(width)
                times[k].append(time.perf_counter() - begin)
        for column, values in zip((plain, counting, both), times, strict=True):
            column.append(float(np.median(values)))

    counter.prepared.run(observer)
    ratio = sum(counting) / sum(plain)
    print(
        f"\n{name}: plain {1e3 * sum(plain):.1f} ms, counting work-items {ratio:.2f} times that,"
        f" and sub-groups {sum(both) / sum(plain):.1f} times"
    )
    assert ratio < MOST_OF_PLAIN
