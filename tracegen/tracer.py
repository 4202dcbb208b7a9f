"""Chooses the tracer of a workload: its machine code is run; Loopy kernels can be traced in their source's order, too.

What a tracer needs is imported when it is chosen: CUDA C++ is traced without Loopy and OpenCL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memsim.errors import KernelError
from memsim.machine import Machine, load_machine
from memsim.trace import Trace
from tracegen.executed.launches import executed
from tracegen.options import TraceOptions
from tracegen.record import record
from tracegen.recording.traces import GroupsOf
from tracegen.tools.toolchain import CompilerMissing
from tracegen.workloads.load import AnyWorkload
from tracegen.workloads.workload import Workload

if TYPE_CHECKING:
    from tracegen.instrumented.host import PreparedLoopy
    from tracegen.instrumented.source_run import SourceRun


def traces_of(
    workload: AnyWorkload,
    machine: Machine | str | None,
    options: TraceOptions,
    context: Any,
    n_snapshots: int = 1,
    groups_of: GroupsOf | None = None,
    *,
    every: bool = False,
) -> list[list[Trace]]:
    """The snapshots of one launch; or one of `every` launch, launch by launch.

    Raises KernelError; with the polyhedral tracer also where an access needs a run.
    """
    machine = machine if machine is None else load_machine(machine)
    missing = ""
    if not _from_source(workload, machine, options, context):
        try:
            launches = executed(workload, machine, options)
            return record(launches, options, n_snapshots, groups_of, every=every)
        except CompilerMissing as error:
            # A Loopy kernel is then traced in its source's order.
            if options.tracer == "machine" or not isinstance(workload, Workload):
                raise
            missing = str(error)
    assert isinstance(workload, Workload)
    prepared, run = _chosen(workload, options, context, every_launch=every)
    from tracegen.instrumented.source_run import launches as source_launches

    launches = source_launches(prepared, options, run, machine, missing)
    return record(launches, options, n_snapshots, groups_of, every=every)


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


def _chosen(
    workload: Workload, options: TraceOptions, context: Any, *, every_launch: bool
) -> tuple[PreparedLoopy, type[SourceRun]]:
    from tracegen.devices.choice import choose
    from tracegen.instrumented.host import prepare
    from tracegen.instrumented.run import DeviceRun
    from tracegen.polyhedral.conditions import NotStatic
    from tracegen.polyhedral.host import static
    from tracegen.polyhedral.run import PolyhedralRun

    tracer = options.tracer
    if tracer == "instrumented" or (tracer == "auto" and context is not None):
        return prepare(workload, choose() if context is None else context), DeviceRun
    prepared = static(prepare(workload, None))
    if tracer == "polyhedral":
        return prepared, PolyhedralRun
    try:
        for launch in prepared.launches:
            if every_launch or launch.index == (options.launch or 0):
                _ = PolyhedralRun(prepared, launch, options).program
    except NotStatic:
        return prepared.on(choose()), DeviceRun
    return prepared, PolyhedralRun
