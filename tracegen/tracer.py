"""Chooses the tracer of a workload: the polyhedral one where it applies, else the instrumented one.

What a tracer needs is imported when it is chosen: CUDA C++ is traced without Loopy and OpenCL.
"""

from __future__ import annotations

from typing import Any

from memsim.errors import KernelError
from memsim.machine import Machine, load_machine
from memsim.trace import Trace
from tracegen.options import TraceOptions
from tracegen.record import AnyWorkload, chosen_context, instrumented, trace_all, trace_one
from tracegen.recording.launch import Prepared
from tracegen.recording.passes import LaunchRun
from tracegen.recording.traces import GroupsOf
from tracegen.workloads.cuda import CudaWorkload
from tracegen.workloads.opencl import OpenCLWorkload


def traces_of_one(
    workload: AnyWorkload,
    machine: Machine | str | None,
    options: TraceOptions,
    context: Any,
    n_snapshots: int = 1,
    groups_of: GroupsOf | None = None,
) -> list[Trace]:
    """The snapshots of one launch.

    Raises KernelError; with the polyhedral tracer also where an access needs a run.
    """
    machine = load_machine(machine) if isinstance(machine, str) else machine
    if options.tracer == "machine":
        from tracegen.executed.launches import executed_one

        return executed_one(workload, machine, options, n_snapshots, groups_of)
    prepared, run = _chosen(workload, machine, options, context, every_launch=False)
    return trace_one(prepared, options, run, machine, n_snapshots, groups_of)


def traces_of_all(
    workload: AnyWorkload, machine: Machine | str | None, options: TraceOptions, context: Any
) -> list[list[Trace]]:
    """One snapshot of every launch, launch by launch."""
    machine = load_machine(machine) if isinstance(machine, str) else machine
    if options.tracer == "machine":
        from tracegen.executed.launches import executed_all

        return executed_all(workload, machine, options)
    prepared, run = _chosen(workload, machine, options, context, every_launch=True)
    return trace_all(prepared, options, run, machine)


def _chosen(
    workload: AnyWorkload,
    machine: Machine | None,
    options: TraceOptions,
    context: Any,
    *,
    every_launch: bool,
) -> tuple[Prepared, type[LaunchRun]]:
    tracer = options.tracer
    if isinstance(workload, CudaWorkload):
        from tracegen import cuda

        if tracer == "polyhedral":
            raise KernelError("the polyhedral tracer reads Loopy kernels; CUDA C++ must be run")
        return cuda.prepare(workload, options.lanes(machine)), cuda.CudaRun
    from tracegen.recording.device_run import DeviceRun

    if isinstance(workload, OpenCLWorkload):
        if tracer == "polyhedral":
            raise KernelError("the polyhedral tracer reads Loopy kernels; OpenCL C must be run")
        return instrumented(workload, context), DeviceRun
    from tracegen.instrumented.host import prepare
    from tracegen.polyhedral.conditions import NotStatic
    from tracegen.polyhedral.host import static
    from tracegen.polyhedral.run import PolyhedralRun

    if tracer == "instrumented" or (tracer == "auto" and context is not None):
        # A user who names a context wants the kernel to run there.
        return prepare(workload, chosen_context(context)), DeviceRun
    prepared = static(prepare(workload, None))
    if tracer == "polyhedral":
        return prepared, PolyhedralRun
    try:
        for launch in prepared.launches:
            if every_launch or launch.index == (options.launch or 0):
                _ = PolyhedralRun(prepared, launch, options).program
    except NotStatic:
        return prepared.on(chosen_context(None)), DeviceRun
    return prepared, PolyhedralRun
