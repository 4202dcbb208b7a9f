"""Chooses the tracer of a workload: its machine code is run; Loopy kernels can be traced in their source's order, too.

What a tracer needs is imported when it is chosen: CUDA C++ is traced without Loopy and OpenCL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memsim.errors import KernelError
from memsim.machine import Machine, load_machine
from memsim.trace import Trace
from tracegen.executed.launches import executed_all, executed_one
from tracegen.options import TraceOptions
from tracegen.record import AnyWorkload, chosen_context, trace_all, trace_one
from tracegen.recording.traces import GroupsOf
from tracegen.tools.toolchain import CompilerMissing
from tracegen.workloads.workload import Workload

if TYPE_CHECKING:
    from tracegen.instrumented.host import PreparedLoopy
    from tracegen.instrumented.source_run import SourceRun


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
    missing = ""
    if not _from_source(workload, machine, options, context):
        try:
            return executed_one(workload, machine, options, n_snapshots, groups_of)
        except CompilerMissing as error:
            missing = _without_compiler(workload, options, error)
    assert isinstance(workload, Workload)
    prepared, run = _chosen(workload, options, context, every_launch=False)
    return trace_one(prepared, options, run, machine, n_snapshots, groups_of, missing)


def traces_of_all(
    workload: AnyWorkload, machine: Machine | str | None, options: TraceOptions, context: Any
) -> list[list[Trace]]:
    """One snapshot of every launch, launch by launch."""
    machine = load_machine(machine) if isinstance(machine, str) else machine
    missing = ""
    if not _from_source(workload, machine, options, context):
        try:
            return executed_all(workload, machine, options)
        except CompilerMissing as error:
            missing = _without_compiler(workload, options, error)
    assert isinstance(workload, Workload)
    prepared, run = _chosen(workload, options, context, every_launch=True)
    return trace_all(prepared, options, run, machine, missing)


def _from_source(
    workload: AnyWorkload, machine: Machine | None, options: TraceOptions, context: Any
) -> bool:
    """Whether a kernel is traced in the order of its source."""
    if isinstance(workload, Workload):
        # A user who names a context wants the kernel to run there.
        by_default = machine is None or context is not None
        return options.tracer in ("instrumented", "polyhedral") or (
            options.tracer == "auto" and by_default
        )
    if options.tracer in ("instrumented", "polyhedral"):
        raise KernelError(
            f"tracer '{options.tracer}' reads Loopy kernels; of CUDA C++, HIP and OpenCL C the machine code is run"
        )
    return False


def _without_compiler(workload: AnyWorkload, options: TraceOptions, error: CompilerMissing) -> str:
    """Why a Loopy kernel is traced in its source's order. Raises the error where that is no way out."""
    if options.tracer == "machine" or not isinstance(workload, Workload):
        raise error
    return str(error)


def _chosen(
    workload: Workload, options: TraceOptions, context: Any, *, every_launch: bool
) -> tuple[PreparedLoopy, type[SourceRun]]:
    from tracegen.instrumented.host import prepare
    from tracegen.instrumented.run import DeviceRun
    from tracegen.polyhedral.conditions import NotStatic
    from tracegen.polyhedral.host import static
    from tracegen.polyhedral.run import PolyhedralRun

    tracer = options.tracer
    if tracer == "instrumented" or (tracer == "auto" and context is not None):
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
