"""The functions that users call: a workload in, traces out."""

from __future__ import annotations

from typing import Any

from memsim.errors import KernelError
from memsim.machine import Machine
from memsim.trace import Trace
from tracegen.options import TraceOptions
from tracegen.tracer import traces_of
from tracegen.workloads.load import AnyWorkload


def trace(
    workload: AnyWorkload,
    machine: Machine | str | None = None,
    *,
    options: TraceOptions | None = None,
    context: Any = None,
    **changes: Any,
) -> Trace:
    """The trace of one launch of a workload: a snapshot from amid it, or all of it.

    machine : or its name; gives the sub-group size and the number of resident groups, hence the snapshot.
        Without it every group is traced, in sub-groups of 32
    options, changes : a TraceOptions, and keywords of it that differ
    context : the pyopencl.Context to run on; by default, that of the first device that passes a test build

    Raises KernelError where the kernel does not build, an access is out of bounds, or the kernel has
    several launches and none was named; with the polyhedral tracer also where an access needs a run.
    """
    return trace_snapshots(
        workload, machine, snapshots=1, options=options, context=context, **changes
    )[0]


def trace_snapshots(
    workload: AnyWorkload,
    machine: Machine | str | None = None,
    *,
    snapshots: int,
    options: TraceOptions | None = None,
    context: Any = None,
    **changes: Any,
) -> list[Trace]:
    """As `trace`, several snapshots spread over the launch; one trace of all of it if it is no longer."""
    chosen = (options or TraceOptions()).replace(**changes)
    return traces_of(workload, machine, chosen, context, snapshots)[0]


def trace_launches(
    workload: AnyWorkload,
    machine: Machine | str | None = None,
    *,
    options: TraceOptions | None = None,
    context: Any = None,
    **changes: Any,
) -> list[Trace]:
    """As `trace`, of every launch in order; they share one address map.

    Raises KernelError where one launch is named.
    """
    chosen = (options or TraceOptions()).replace(**changes)
    if chosen.launch is not None:
        raise KernelError(f"every launch is traced: leave out launch={chosen.launch}")
    return [traces[0] for traces in traces_of(workload, machine, chosen, context, every=True)]
