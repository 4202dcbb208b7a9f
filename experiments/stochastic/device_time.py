"""Times of kernels on the OpenCL device at hand, with their arrays already on the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array

from tracegen import OpenCLWorkload
from tracegen.devices import choose

RUNS = 25

Launch = Callable[[], Any]
"""Launches a kernel and returns its event."""


def device_name() -> str:
    """The name that the driver gives to the device."""
    return str(choose().devices[0].name).strip()


def fastest_s(workloads: Sequence[Any], runs: int = RUNS) -> list[float]:
    """Seconds of the fastest of `runs` launches of each workload, by the device's own clock.

    Other programs only lengthen a launch, so the fastest is the least disturbed one. Workloads take
    turns, so that the disturbance is the same for all.
    """
    queue = cl.CommandQueue(choose(), properties=cl.command_queue_properties.PROFILING_ENABLE)
    launches = [_launch(workload, queue) for workload in workloads]
    fastest = [float("inf")] * len(launches)
    for run in range(runs + 1):
        for k, launch in enumerate(launches):
            event = launch()
            event.wait()
            if run:  # the first run builds the program and touches the memory
                fastest[k] = min(fastest[k], 1e-9 * (event.profile.end - event.profile.start))
    return fastest


def _launch(workload: Any, queue: Any) -> Launch:
    on_device = {
        name: cl.array.to_device(queue, value) if isinstance(value, np.ndarray) else value
        for name, value in workload.arguments.items()
    }
    if not isinstance(workload, OpenCLWorkload):
        executor = workload.kernel.executor(queue.context)
        return lambda: executor(queue, **on_device)[0]
    text = Path(str(workload.path)).read_text(encoding="utf-8")
    program = cl.Program(queue.context, text).build(options=list(workload.build_options))
    kernel = cl.Kernel(program, workload.kernel)
    kernel.set_args(*(getattr(value, "data", value) for value in on_device.values()))

    def launch(_kept: Any = on_device) -> Any:
        """`_kept` keeps the buffers alive, which the kernel does not."""
        size, group = (workload.global_size,), (workload.local_size,)
        return cl.enqueue_nd_range_kernel(queue, kernel, size, group)

    return launch
