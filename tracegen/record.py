"""Loopy kernels traced in the order of their source: which launches are recorded, and which only run."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from memsim.errors import KernelError, PathsWarning
from memsim.machine import Machine
from memsim.trace import Trace
from tracegen.options import TraceOptions
from tracegen.recording.traces import GroupsOf
from tracegen.workloads.load import AnyWorkload as AnyWorkload

if TYPE_CHECKING:
    from tracegen.instrumented.host import PreparedLoopy
    from tracegen.instrumented.launch import LoopyLaunch
    from tracegen.instrumented.source_run import SourceRun


def trace_all(
    prepared: PreparedLoopy,
    options: TraceOptions,
    tracer: type[SourceRun],
    machine: Machine | None = None,
    missing: str = "",
) -> list[list[Trace]]:
    """One snapshot of every launch, launch by launch. missing : see SourceRun"""
    traces: list[list[Trace]] = []

    def observer(launch: LoopyLaunch) -> None:
        run = tracer(prepared, launch, options, machine, missing)
        traces.append(run.traces())
        run.complete()

    prepared.run(observer)
    return _warned_of_chance(traces)


def trace_one(
    prepared: PreparedLoopy,
    options: TraceOptions,
    tracer: type[SourceRun],
    machine: Machine | None = None,
    n_snapshots: int = 1,
    groups_of: GroupsOf | None = None,
    missing: str = "",
) -> list[Trace]:
    """The snapshots of one launch, before which the launches before it run.

    Raises KernelError where there are several launches and none is named.
    """
    names, chosen = prepared.launch_names, options.launch
    traces: list[list[Trace]] = []
    if chosen is None and len(names) > 1:
        raise _several(prepared)

    def observer(launch: LoopyLaunch) -> None:
        if chosen is None and launch.index > 0:
            raise _several(prepared)
        run = tracer(prepared, launch, options, machine, missing)
        if chosen in (None, launch.index):
            traces.append(run.traces(n_snapshots, groups_of))
        elif launch.index < chosen:
            run.whole()

    prepared.run(observer)
    if not traces:
        raise KernelError(
            f"kernel {prepared.name} has no launch {options.launch}; it has"
            f" {', '.join(f'{k} ({name})' for k, name in enumerate(names)) or 'none'}"
        )
    return _warned_of_chance(traces)[0]


def _warned_of_chance(traces: list[list[Trace]]) -> list[list[Trace]]:
    """The traces, with a warning for launches whose traces are one of many."""
    found = (trace.provenance.get("one_of_many") for of in traces for trace in of)
    for reason in dict.fromkeys(found):
        if reason:
            warnings.warn(f"{reason}, so its trace is one of many", PathsWarning, stacklevel=4)
    return traces


def chosen_context(context: Any) -> Any:
    """The given OpenCL context, or one of the first device that passes a test build."""
    if context is not None:
        return context
    from tracegen.devices.choice import choose

    return choose()


def _several(prepared: PreparedLoopy) -> KernelError:
    names = ", ".join(f"{k} ({name})" for k, name in enumerate(prepared.launch_names))
    return KernelError(
        f"kernel {prepared.name} has several launches: {names}; choose one with --launch, in Python launch=;"
        " tracegen.trace_launches traces them all"
    )
