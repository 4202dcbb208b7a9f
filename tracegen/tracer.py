"""Which tracer takes a workload: the one that runs nothing where it applies, else OpenCL."""

from __future__ import annotations

from typing import Any, Literal

from memsim.errors import KernelError
from memsim.trace import Trace
from tracegen.instrumented.host import prepare
from tracegen.polyhedral.conditions import NotStatic
from tracegen.polyhedral.host import static
from tracegen.polyhedral.run import PolyhedralRun
from tracegen.record import AnyWorkload, chosen_context, instrumented, trace_all, trace_one
from tracegen.recording.launch import Prepared
from tracegen.recording.passes import LaunchRun, Options
from tracegen.workloads.opencl import OpenCLWorkload

Tracer = Literal["auto", "polyhedral", "opencl"]
TRACERS: tuple[Tracer, ...] = ("auto", "polyhedral", "opencl")


def traces_of_one(
    workload: AnyWorkload, options: Options, tracer: Tracer, context: Any
) -> list[Trace]:
    """The snapshots of one launch.

    Raises KernelError; with the polyhedral tracer also where an access needs a run.
    """
    prepared, run = _chosen(workload, options, tracer, context, every_launch=False)
    return trace_one(prepared, options, run)


def traces_of_all(
    workload: AnyWorkload, options: Options, tracer: Tracer, context: Any
) -> list[list[Trace]]:
    """The snapshots of every launch, launch by launch."""
    prepared, run = _chosen(workload, options, tracer, context, every_launch=True)
    return trace_all(prepared, options, run)


def _chosen(
    workload: AnyWorkload, options: Options, tracer: Tracer, context: Any, *, every_launch: bool
) -> tuple[Prepared, type[LaunchRun]]:
    if tracer not in TRACERS:
        raise KernelError(f"tracer must be one of {', '.join(TRACERS)}, got {tracer!r}")
    if isinstance(workload, OpenCLWorkload):
        if tracer == "polyhedral":
            raise KernelError("the polyhedral tracer reads Loopy kernels; OpenCL C must be run")
        return instrumented(workload, context), LaunchRun
    if tracer == "opencl" or (tracer == "auto" and context is not None):
        # Who names a context wants the kernel run there.
        return prepare(workload, chosen_context(context)), LaunchRun
    prepared = static(prepare(workload, None))
    if tracer == "polyhedral":
        return prepared, PolyhedralRun
    try:
        for launch in prepared.launches:
            if every_launch or launch.index == (options.launch or 0):
                _ = PolyhedralRun(prepared, launch, options).program
    except NotStatic:
        return prepared.on(chosen_context(None)), LaunchRun
    return prepared, PolyhedralRun
