"""Traces of workloads: which launches are recorded, and which only run."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from memsim.errors import KernelError, PathsWarning
from memsim.machine import Machine
from memsim.trace import Trace
from tracegen.options import TraceOptions
from tracegen.recording.traces import GroupsOf
from tracegen.workloads.cuda import CudaWorkload
from tracegen.workloads.opencl import OpenCLWorkload
from tracegen.workloads.workload import Workload

if TYPE_CHECKING:
    from tracegen.instrumented.host import PreparedLoopy
    from tracegen.instrumented.launch import LoopyLaunch
    from tracegen.instrumented.source_run import SourceRun

AnyWorkload = Workload | OpenCLWorkload | CudaWorkload


@dataclass
class _Recording:
    """An observer that traces one launch, or every launch, and runs the others as they are needed.

    missing : why the machine code is not run, where it would have been
    """

    prepared: PreparedLoopy
    machine: Machine | None
    options: TraceOptions
    every_launch: bool
    tracer: type[SourceRun]
    n_snapshots: int = 1
    groups_of: GroupsOf | None = None
    missing: str = ""
    traces: list[list[Trace]] = field(default_factory=list)

    def __call__(self, launch: LoopyLaunch) -> None:
        chosen = self.options.launch
        if not self.every_launch:
            if chosen is None and launch.index > 0:
                raise _several(self.prepared)
            if chosen is not None and launch.index > chosen:
                return
        traced = self.every_launch or chosen in (None, launch.index)
        run = self.tracer(self.prepared, launch, self.options, self.machine, self.missing)
        if not traced:
            run.whole()
            return
        self.traces.append(run.traces(self.n_snapshots, self.groups_of))
        if self.every_launch:
            run.complete()


def trace_all(
    prepared: PreparedLoopy,
    options: TraceOptions,
    tracer: type[SourceRun],
    machine: Machine | None = None,
    missing: str = "",
) -> list[list[Trace]]:
    """One snapshot of every launch, launch by launch."""
    recording = _Recording(prepared, machine, options, True, tracer, missing=missing)
    prepared.run(recording)
    _warn_of_chance(recording.traces)
    return recording.traces


def trace_one(
    prepared: PreparedLoopy,
    options: TraceOptions,
    tracer: type[SourceRun],
    machine: Machine | None = None,
    n_snapshots: int = 1,
    groups_of: GroupsOf | None = None,
    missing: str = "",
) -> list[Trace]:
    """The snapshots of one launch. Raises KernelError where there are several and none is named."""
    names = prepared.launch_names
    if options.launch is None and len(names) > 1:
        raise _several(prepared)
    recording = _Recording(
        prepared, machine, options, False, tracer, n_snapshots, groups_of, missing
    )
    prepared.run(recording)
    if not recording.traces:
        raise KernelError(
            f"kernel {prepared.name} has no launch {options.launch}; it has"
            f" {', '.join(f'{k} ({name})' for k, name in enumerate(names)) or 'none'}"
        )
    _warn_of_chance(recording.traces)
    return recording.traces[0]


def _warn_of_chance(traces: list[list[Trace]]) -> None:
    """Warns of launches whose traces are one of many."""
    for reason in dict.fromkeys(
        trace.provenance.get("one_of_many") for of in traces for trace in of
    ):
        if reason:
            warnings.warn(f"{reason}, so its trace is one of many", PathsWarning, stacklevel=4)


def instrumented(workload: AnyWorkload, context: Any) -> PreparedLoopy:
    """A Loopy workload whose kernel has probes, on a context. Raises KernelError for other languages."""
    if not isinstance(workload, Workload):
        raise KernelError(
            "the basic blocks of CUDA C++, HIP and OpenCL C are not counted: their texts are not divided into"
            " blocks; 'memsim compile' lists the blocks of the machine code, 'memsim predict' counts their instructions"
        )
    from tracegen.instrumented.host import prepare

    return prepare(workload, chosen_context(context))


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
