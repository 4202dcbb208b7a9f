"""How fast kernels are traced: from launch to a finished Trace, warm, on one core.

Run alone, pinned to one core: `taskset -c 0 pytest -m bench tests/bench/test_trace_speed.py -s`.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import loopy as lp
import numpy as np
import pyopencl as cl
import pyopencl.array
import pytest

from memsim.trace.model import Trace
from tracegen.devices.choice import choose
from tracegen.instrumented.host import prepare
from tracegen.options import TraceOptions
from tracegen.recording.launch import BoundLaunch
from tracegen.recording.passes import LaunchRun
from tracegen.workloads.workload import Workload

pytestmark = pytest.mark.bench

LANE_ACCESSES_PER_SECOND = 40e6
MOST_OF_PLAIN = 10
REPEATS = 7


def spmv() -> Workload:
    """CSR, about 32 nonzeros a row, columns near the diagonal."""
    kernel = lp.make_kernel(
        ["{[i]: 0 <= i < n}", "[begin, end] -> {[j]: begin <= j < end}"],
        """
        for i
            <> begin = start[i]
            <> end = start[i + 1]
            y[i] = sum(j, a[j] * x[ind[j]])
        end
        """,
        [
            lp.GlobalArg("start", np.int32, shape="n + 1"),
            lp.GlobalArg("ind", np.int32, shape="m"),
            lp.GlobalArg("a", np.float32, shape="m"),
            lp.GlobalArg("x", np.float32, shape="n"),
            lp.GlobalArg("y", np.float32, shape="n", is_input=False),
            lp.ValueArg("n, m", np.int32),
        ],
        lang_version=(2018, 2),
    )
    kernel = lp.split_iname(kernel, "i", 128, inner_tag="l.0", outer_tag="g.0")
    rng = np.random.default_rng(0)
    n = 80_000
    lengths = rng.integers(28, 37, n)
    m = int(lengths.sum())
    near = np.repeat(np.arange(n), lengths) + rng.integers(-500, 500, m)
    return Workload(
        kernel,
        {
            "start": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
            "ind": np.clip(near, 0, n - 1).astype(np.int32),
            "a": rng.random(m, np.float32),
            "x": rng.random(n, np.float32),
            "m": m,
        },
    )


def matmul() -> Workload:
    kernel = lp.make_kernel(
        "{[i, j, k]: 0 <= i, j, k < n}",
        "c[i, j] = sum(k, a[i, k] * b[k, j])",
        [
            lp.GlobalArg("a, b", np.float32, shape="n, n"),
            lp.GlobalArg("c", np.float32, shape="n, n", is_input=False),
            lp.ValueArg("n", np.int32),
        ],
        assumptions="n >= 1",
        lang_version=(2018, 2),
    )
    kernel = lp.split_iname(kernel, "i", 16, inner_tag="l.1", outer_tag="g.1")
    kernel = lp.split_iname(kernel, "j", 16, inner_tag="l.0", outer_tag="g.0")
    rng = np.random.default_rng(0)
    return Workload(kernel, {name: rng.random((192, 192), np.float32) for name in "ab"})


def stencil() -> Workload:
    sides = ("i-1,j,k", "i+1,j,k", "i,j-1,k", "i,j+1,k", "i,j,k-1", "i,j,k+1")
    kernel = lp.make_kernel(
        "{[i, j, k]: 1 <= i, j, k < n - 1}",
        "v[i,j,k] = " + " + ".join(f"u[{side}]" for side in sides) + " - 6 * u[i,j,k]",
        [
            lp.GlobalArg("u, v", np.float32, shape="n, n, n"),
            lp.ValueArg("n", np.int32),
        ],
        assumptions="n >= 3",
        lang_version=(2018, 2),
    )
    kernel = lp.split_iname(kernel, "k", 64, inner_tag="l.0", outer_tag="g.0")
    kernel = lp.split_iname(kernel, "j", 4, inner_tag="l.1", outer_tag="g.1")
    kernel = lp.tag_inames(kernel, {"i": "g.2"})
    u = np.random.default_rng(0).random((104, 104, 104), np.float32)
    return Workload(kernel, {"u": u, "v": np.zeros_like(u)})


def plain_seconds(workload: Workload, context: Any) -> float:
    """The plain kernel alone, by its event's profile, on arrays that are already there."""
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


@pytest.mark.parametrize("make", [spmv, matmul, stencil])
def test_trace_speed(make: Callable[[], Workload], capsys: pytest.CaptureFixture[str]) -> None:
    context = choose()
    workload = make()
    prepared = prepare(workload, context)
    seconds: list[float] = []
    passes: list[float] = []
    lanes = 0

    def observer(launch: BoundLaunch) -> None:
        nonlocal lanes
        run = LaunchRun(prepared, launch, TraceOptions())
        begin = time.perf_counter()
        traced: Trace = run.traces()[0]
        seconds.append(time.perf_counter() - begin)
        lanes = int(traced.lanes.sum(dtype=np.int64))
        begin = time.perf_counter()
        with run.recorded(np.arange(launch.n_groups)) as batches:
            for _ in batches:
                pass
        passes.append(time.perf_counter() - begin)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(REPEATS):
            prepared.run(observer)
        plain = plain_seconds(workload, context)
    rate, slowdown = lanes / min(seconds), min(passes) / plain
    with capsys.disabled():
        print(
            f"\n{make.__name__}: {lanes / 1e6:.1f} M lane-accesses traced at {rate / 1e6:.0f} M/s;"
            f" both passes {min(passes) * 1e3:.1f} ms, {slowdown:.1f}x the plain launch"
        )
    assert rate >= LANE_ACCESSES_PER_SECOND
    if make is spmv:
        assert slowdown <= MOST_OF_PLAIN
