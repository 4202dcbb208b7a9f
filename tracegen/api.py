"""The functions that users call: a workload in, traces out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memsim.machine import Machine
from memsim.trace import Trace
from tracegen.recording.passes import MEMORY_BYTES, Options
from tracegen.tracer import Tracer, traces_of_all, traces_of_one
from tracegen.workloads.opencl import OpenCLWorkload
from tracegen.workloads.workload import Workload


def trace(
    workload: Workload | OpenCLWorkload,
    machine: Machine | None = None,
    *,
    subgroup_size: int | None = None,
    groups: int | Sequence[int] | None = None,
    launch: int | None = None,
    reduced: bool = True,
    tracer: Tracer = "auto",
    context: Any = None,
    memory_bytes: int = MEMORY_BYTES,
) -> Trace:
    """The trace of one launch of a workload: a snapshot from its middle, or all of it.

    machine : gives the sub-group width and how many groups are resident, hence the snapshot.
        Without it every group is traced, in sub-groups of 32
    groups : overrides the snapshot: a number of consecutive groups, or the ids
    launch : which launch of a kernel that has several
    reduced : leave out redundant accesses, which a compiler would drop
    tracer : "polyhedral" derives addresses from the schedule and runs nothing, "opencl" runs an
        instrumented copy; "auto" takes the first where it applies and no context is given. Their
        traces are equal, apart from the provenance
    context : the pyopencl.Context to run on; chosen by test build where None
    memory_bytes : what recording may hold at a time; larger traces go to disk in pieces

    Raises KernelError where the kernel does not build, asks for what an array does not hold, or
    has several launches and none was named; with the polyhedral tracer also where an access needs
    a run.
    """
    options = Options(
        machine=machine,
        subgroup_size=subgroup_size,
        groups=groups,
        launch=launch,
        reduced=reduced,
        memory_bytes=memory_bytes,
    )
    return traces_of_one(workload, options, tracer, context)[0]


def trace_snapshots(
    workload: Workload | OpenCLWorkload,
    machine: Machine | None = None,
    *,
    snapshots: int,
    subgroup_size: int | None = None,
    groups: int | None = None,
    launch: int | None = None,
    reduced: bool = True,
    tracer: Tracer = "auto",
    context: Any = None,
    memory_bytes: int = MEMORY_BYTES,
) -> list[Trace]:
    """As `trace`, at several places spread evenly over the launch."""
    options = Options(
        machine=machine,
        subgroup_size=subgroup_size,
        groups=groups,
        snapshots=snapshots,
        launch=launch,
        reduced=reduced,
        memory_bytes=memory_bytes,
    )
    return traces_of_one(workload, options, tracer, context)


def trace_launches(
    workload: Workload | OpenCLWorkload,
    machine: Machine | None = None,
    *,
    subgroup_size: int | None = None,
    groups: int | Sequence[int] | None = None,
    reduced: bool = True,
    tracer: Tracer = "auto",
    context: Any = None,
    memory_bytes: int = MEMORY_BYTES,
) -> list[Trace]:
    """As `trace`, of every launch in order; they share one address map."""
    options = Options(
        machine=machine,
        subgroup_size=subgroup_size,
        groups=groups,
        reduced=reduced,
        memory_bytes=memory_bytes,
    )
    return [traces[0] for traces in traces_of_all(workload, options, tracer, context)]
