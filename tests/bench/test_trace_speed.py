"""The speed of tracing kernels, from launch to a finished Trace, warm, on one core.

Run alone, pinned to one core: `taskset -c 0 pytest -m bench tests/bench/test_trace_speed.py`.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array
import pytest

from experiments.kernels import matmul, spmv, stencil
from memsim.trace.model import Trace
from tracegen.devices.choice import choose
from tracegen.instrumented.host import prepare
from tracegen.instrumented.launch import LoopyLaunch
from tracegen.instrumented.run import DeviceRun
from tracegen.options import TraceOptions
from tracegen.workloads.workload import Workload

pytestmark = pytest.mark.bench

LANE_ACCESSES_PER_SECOND = 20e6
MOST_OF_PLAIN = 10
REPEATS = 7

KERNELS: dict[str, Callable[[], Workload]] = {
    "spmv": lambda: spmv.spmv(n=80_000),
    "matmul": lambda: matmul.naive(192),
    "stencil": lambda: stencil.stencil7(104, 104, 104),
}


def plain_seconds(workload: Workload, context: Any) -> float:
    """The best profiled time of the plain kernel, on arrays that are already on the device."""
    queue = cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)
    arguments = {
        name: cl.array.to_device(queue, value) if isinstance(value, np.ndarray) else value
        for name, value in workload.arguments.items()
    }
    executor = workload.kernel.executor(context)
    best = np.inf
    for _ in range(REPEATS):
        event, _ = executor(queue, **arguments)
        event.wait()
        best = min(best, (event.profile.end - event.profile.start) * 1e-9)
    return float(best)


@pytest.mark.parametrize("kernel", KERNELS)
def test_trace_speed(kernel: str) -> None:
    context = choose()
    workload = KERNELS[kernel]()
    prepared = prepare(workload, context)
    seconds: list[float] = []
    passes: list[float] = []
    lanes = 0

    def observer(launch: LoopyLaunch) -> None:
        nonlocal lanes
        run = DeviceRun(prepared, launch, TraceOptions())
        begin = time.perf_counter()
        traced: Trace = run.traces()[0]
        seconds.append(time.perf_counter() - begin)
        lanes = int(traced.lanes.sum(dtype=np.int64))
        begin = time.perf_counter()
        for _ in run.recorded(np.arange(launch.n_groups)):
            pass
        passes.append(time.perf_counter() - begin)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(REPEATS):
            prepared.run(observer)
        plain = plain_seconds(workload, context)
    rate, slowdown = lanes / min(seconds), min(passes) / plain
    print(
        f"\n{kernel}: {lanes / 1e6:.1f} M lane-accesses traced at {rate / 1e6:.0f} M/s;"
        f" both passes {min(passes) * 1e3:.1f} ms, {slowdown:.1f}x the plain launch"
    )
    assert rate >= LANE_ACCESSES_PER_SECOND
    if kernel == "spmv":
        assert slowdown <= MOST_OF_PLAIN
